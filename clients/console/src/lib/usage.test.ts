import { describe, expect, it } from "vitest";
import type { UsageInterval } from "../api/types";
import { duration } from "./time";
import { bucketStart, buckets, costByAllocation, creditText, nextBucket, partOf } from "./usage";

const day = bucketStart(Date.parse("2026-11-18T12:00:00Z"), "day");
const end = nextBucket(nextBucket(nextBucket(day, "day"), "day"), "day");

function interval(start: number, seconds: number, nanos: number, id = "a"): UsageInterval {
  return {
    id: `${id}-${start}`,
    allocation_id: id,
    gpu_count: 2,
    start_time: new Date(start).toISOString(),
    microseconds: String(seconds * 1_000_000),
    amount: { currency_code: "USD", units: "0", nanos },
  };
}

describe("buckets", () => {
  it("add up to exactly the amounts, however the days cut them", () => {
    const intervals = [interval(day + 3_600_000, 200_000, 999_999_999), interval(day + 80_000_000, 7, 3), interval(day, 0, 0)];
    const found = buckets(intervals, "USD", "day", day, end);
    expect(found).toHaveLength(3);
    expect(found.reduce((total, bucket) => total + bucket.nanos, 0n)).toBe(1_000_000_002n);
    expect(found.reduce((total, bucket) => total + bucket.gpuMicroseconds, 0n)).toBe(400_014_000_000n);
    expect(found.every((bucket) => bucket.nanos > 0n)).toBe(true);
  });

  it("leave out what lies before and other currencies", () => {
    const before = interval(day - 10 * 86_400_000, 60, 5);
    expect(buckets([before, interval(day, 60, 7)], "EUR", "day", day, end).every((bucket) => bucket.nanos === 0n)).toBe(true);
    expect(buckets([before], "USD", "hour", day, day + 3 * 3_600_000).map((bucket) => bucket.nanos)).toEqual([0n, 0n, 0n]);
  });
});

/** Does something as a reader in another zone. */
function inZone(zone: string, body: () => void) {
  const own = process.env.TZ;
  process.env.TZ = zone;
  try {
    body();
  } finally {
    if (own === undefined) delete process.env.TZ;
    else process.env.TZ = own;
  }
}

describe.each([
  // clocks go forward at midnight: the day begins at 1:00
  ["Africa/Cairo", "2026-04-23T22:00:00Z", 23, 23],
  ["America/Santiago", "2026-09-06T04:00:00Z", 23, 23],
  // clocks go back: 2:00 to 3:00 comes twice
  ["Europe/Berlin", "2026-10-25T01:00:00Z", 25, 25],
  // clocks change by half an hour: an hour is cut in two
  ["Australia/Lord_Howe", "2026-04-04T15:00:00Z", 24.5, 25],
  ["Australia/Lord_Howe", "2026-10-03T15:30:00Z", 23.5, 24],
])("in %s, where clocks change at %s", (zone, changed, hours, hourBuckets) => {
  const change = Date.parse(changed);

  it("every moment is in one hour and one day", () =>
    inZone(zone, () => {
      for (const size of ["hour", "day"] as const) {
        for (let time = change - 50 * 3_600_000; time < change + 50 * 3_600_000; time += 600_000) {
          const start = bucketStart(time, size);
          const next = nextBucket(start, size);
          expect([start <= time, time < next, bucketStart(start, size), bucketStart(next, size), bucketStart(next - 1, size)], new Date(time).toISOString()).toEqual([true, true, start, next, start]);
          expect(next - start <= (size === "hour" ? 3_600_000 : 25 * 3_600_000)).toBe(true);
        }
      }
    }));

  it("nothing of the cost is lost, and none is negative", () =>
    inZone(zone, () => {
      const day = bucketStart(change + 6 * 3_600_000, "day");
      const next = nextBucket(day, "day");
      expect((next - day) / 3_600_000).toBe(hours);
      expect(buckets([], "USD", "hour", day, next)).toHaveLength(hourBuckets);
      // one all the time, one from within the hour after the change, one of the day after
      const intervals = [interval(day - 86_400_000, 4 * 86_400, 999_999_999), interval(change + 1_200_000, 600, 7), interval(next + 7_200_000, 3600, 5)];
      const before = bucketStart(day - 86_400_000, "day");
      const after = nextBucket(next, "day");
      const expected = intervals.reduce((total, one) => total + partOf(one, before, after).nanos, 0n);
      expect(partOf(intervals[1]!, before, after)).toEqual({ nanos: 7n, gpuMicroseconds: 1_200_000_000n });
      expect(partOf(intervals[2]!, before, after).nanos).toBe(5n);
      for (const size of ["hour", "day"] as const) {
        const found = buckets(intervals, "USD", size, before, after);
        expect(found.reduce((total, { nanos }) => total + nanos, 0n)).toBe(expected);
        expect(found.filter(({ start }) => start >= day).every(({ nanos, gpuMicroseconds }) => nanos > 0n && gpuMicroseconds > 0n)).toBe(true);
        expect(found.every(({ nanos }) => nanos >= 0n)).toBe(true);
      }
    }));
});

it("an allocation's intervals are added up", () => {
  const costs = costByAllocation([interval(day, 1, 5), interval(day + 5000, 1, 6), interval(day, 1, 9, "b")]);
  expect(costs.get("a")?.nanos).toBe(11n);
  expect(costs.get("b")?.nanos).toBe(9n);
});

it("a sentence about time says what of it is credited", () => {
  expect(creditText(0)).toBe("");
  expect(creditText(90_000_000)).toBe(`, ${duration(90_000)} of it credited`);
});
