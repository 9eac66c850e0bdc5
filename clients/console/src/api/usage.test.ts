import { expect, it } from "vitest";
import { endedSince, totalsOf } from "./usage";

const total = (currency_code: string, units: string, time: string, credited: string) => ({
  amount: { currency_code, units, nanos: 0 },
  gpu_microseconds: time,
  credited_gpu_microseconds: credited,
});

it("the totals of projects are added up per currency, with what is credited", () => {
  expect(totalsOf([total("EUR", "2", "100", "30"), total("USD", "7", "5", "0"), total("EUR", "1", "10", "1")])).toEqual([
    { amount: { currency: "EUR", nanos: 3_000_000_000n }, gpuMicroseconds: 110, creditedGpuMicroseconds: 31 },
    { amount: { currency: "USD", nanos: 7_000_000_000n }, gpuMicroseconds: 5, creditedGpuMicroseconds: 0 },
  ]);
});

it("what reaches beyond a moment is what did not end before it", () => {
  expect(endedSince(Date.UTC(2026, 0, 5))).toBe("NOT end_time < 2026-01-05T00:00:00.000Z");
});
