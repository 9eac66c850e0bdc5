import { expect, it } from "vitest";
import { spentSince, startOf } from "./spent";

const at = (day: number, hour = 0) => new Date(2026, 0, day, hour).getTime();
const interval = (start: number, hours: number, units: string) => ({
  start_time: new Date(start).toISOString(),
  microseconds: String(hours * 3_600_000_000),
  gpu_count: 1,
  amount: { currency_code: "EUR", units, nanos: 0 },
});

it("what lies before the moment does not count", () => {
  const intervals = [interval(at(1, 22), 4, "4"), interval(at(2, 10), 1, "1")];
  expect(spentSince(intervals, at(2), at(3))).toEqual([{ currency: "EUR", nanos: 3_000_000_000n }]);
  expect(spentSince(intervals, at(5), at(6))).toEqual([]);
});

it("a day and a month begin at midnight here", () => {
  expect(startOf("day", at(9, 13))).toBe(at(9));
  expect(startOf("month", at(9, 13))).toBe(at(1));
});
