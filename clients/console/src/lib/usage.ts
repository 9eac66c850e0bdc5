/** Usage by day and by allocation, exact to the billionth. */
import type { UsageInterval } from "../api/types";
import { type Amount, amountOf } from "./money";

export interface Bucket {
  /** Start of the hour or day in the reader's zone, milliseconds since the epoch. */
  start: number;
  nanos: bigint;
  gpuMicroseconds: bigint;
}

export type BucketSize = "hour" | "day";

export function bucketStart(time: number, size: BucketSize): number {
  const date = new Date(time);
  if (size === "day") date.setHours(0, 0, 0, 0);
  else date.setMinutes(0, 0, 0);
  return date.getTime();
}

export function nextBucket(start: number, size: BucketSize): number {
  const date = new Date(start);
  // by calendar, not by 24 hours: days change their length twice a year
  if (size === "day") date.setDate(date.getDate() + 1);
  else date.setTime(start + 3_600_000);
  return date.getTime();
}

/**
 * The money of each interval, laid out over the hours or days that it spans, by time. The parts of an interval
 * add up to exactly its amount: each part is the difference of two rounded running totals.
 */
export function buckets(intervals: UsageInterval[], currency: string, size: BucketSize, from: number, to: number): Bucket[] {
  const found = new Map<number, Bucket>();
  for (let at = bucketStart(from, size); at < to; at = nextBucket(at, size)) {
    found.set(at, { start: at, nanos: 0n, gpuMicroseconds: 0n });
  }
  for (const interval of intervals) {
    const amount = amountOf(interval.amount);
    if (amount.currency !== currency || !interval.start_time) continue;
    const start = Date.parse(interval.start_time);
    const length = BigInt(interval.microseconds ?? "0");
    const end = start + Number(length / 1000n);
    let used = 0n;
    let paid = 0n;
    for (let at = bucketStart(start, size); used < length || at <= start; at = nextBucket(at, size)) {
      const boundary = nextBucket(at, size);
      const until = boundary >= end ? length : BigInt(boundary - start) * 1000n;
      const owed = length === 0n ? amount.nanos : (amount.nanos * until) / length;
      const bucket = found.get(at);
      if (bucket) {
        bucket.nanos += owed - paid;
        bucket.gpuMicroseconds += (until - used) * BigInt(interval.gpu_count ?? 0);
      }
      [used, paid] = [until, owed];
    }
  }
  return [...found.values()].sort((a, b) => a.start - b.start);
}

/** What each allocation has cost so far. An allocation may have several intervals. */
export function costByAllocation(intervals: UsageInterval[]): Map<string, Amount> {
  const costs = new Map<string, Amount>();
  for (const interval of intervals) {
    const amount = amountOf(interval.amount);
    const id = interval.allocation_id ?? "";
    const sofar = costs.get(id);
    // one allocation is billed in one currency
    costs.set(id, sofar ? { ...sofar, nanos: sofar.nanos + amount.nanos } : amount);
  }
  return costs;
}
