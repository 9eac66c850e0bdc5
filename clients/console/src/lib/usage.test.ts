import { describe, expect, it } from "vitest";
import type { UsageInterval } from "../api/types";
import { bucketStart, buckets, costByAllocation, nextBucket } from "./usage";

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

it("an allocation's intervals are added up", () => {
  const costs = costByAllocation([interval(day, 1, 5), interval(day + 5000, 1, 6), interval(day, 1, 9, "b")]);
  expect(costs.get("a")?.nanos).toBe(11n);
  expect(costs.get("b")?.nanos).toBe(9n);
});
