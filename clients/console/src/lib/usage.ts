/** Usage by day and by allocation, exact to the billionth. */
import type { UsageInterval } from "../api/types";
import { type Amount, amountOf } from "./money";
import { duration } from "./time";

export interface Bucket {
  /** Start of the hour or day in the reader's zone, milliseconds since the epoch; it may lie before the range. */
  start: number;
  nanos: bigint;
  gpuMicroseconds: bigint;
}

export type BucketSize = "hour" | "day";

const HOUR_MS = 3_600_000;

/** Milliseconds since the full hour of the reader's zone, whose hours may begin at another minute than those of UTC. */
const sinceHour = (time: number) => (time - new Date(time).getTimezoneOffset() * 60_000) % HOUR_MS;

/** Start of the hour or day that a moment lies in. A day begins at midnight, or after it where clocks go forward at midnight. */
export function bucketStart(time: number, size: BucketSize): number {
  if (size === "day") return new Date(time).setHours(0, 0, 0, 0);
  let start = time - sinceHour(time);
  // where clocks change by half an hour, an hour is cut in two
  for (let next = nextBucket(start, size); next <= time; next = nextBucket(start, size)) start = next;
  return start;
}

/** The first start of an hour or day after a moment. */
export function nextBucket(after: number, size: BucketSize): number {
  // not by the reader's clock, which shows some hours twice
  if (size === "hour") return after + HOUR_MS - sinceHour(after);
  const date = new Date(after);
  // by calendar, not by 24 hours: days change their length twice a year, and not all begin at midnight
  date.setDate(date.getDate() + 1);
  return date.setHours(0, 0, 0, 0);
}

/** First and last moment of an interval so far; no numbers when it has no start. */
export function spanOf({ start_time, microseconds }: UsageInterval): [number, number] {
  const start = Date.parse(start_time ?? "");
  return [start, start + Number(microseconds ?? 0) / 1000];
}

/**
 * What of an interval lies between two moments, its money by time. Parts without a gap add up to exactly the whole: each is the
 * difference of two rounded running totals.
 */
export function partOf(interval: UsageInterval, from: number, to: number): { nanos: bigint; gpuMicroseconds: bigint } {
  const [start] = spanOf(interval);
  const length = BigInt(interval.microseconds ?? "0");
  const { nanos } = amountOf(interval.amount);
  const until = (moment: number): [time: bigint, owed: bigint] => {
    if (!(moment > start)) return [0n, 0n];
    const time = BigInt(moment - start) * 1000n;
    return time < length ? [time, (nanos * time) / length] : [length, nanos];
  };
  const [[used, paid], [time, owed]] = [until(from), until(to)];
  return { nanos: owed - paid, gpuMicroseconds: (time - used) * BigInt(interval.gpu_count ?? 0) };
}

/** What lies between two moments, by the hours or days there: of the first and the last one only what is between them. */
export function buckets(intervals: UsageInterval[], currency: string, size: BucketSize, from: number, to: number): Bucket[] {
  const spans: { bucket: Bucket; first: number; end: number }[] = [];
  for (let start = bucketStart(from, size); start < to; ) {
    const next = nextBucket(start, size);
    spans.push({ bucket: { start, nanos: 0n, gpuMicroseconds: 0n }, first: Math.max(start, from), end: Math.min(next, to) });
    start = next;
  }
  for (const interval of intervals) {
    if (amountOf(interval.amount).currency !== currency) continue;
    const [start, last] = spanOf(interval);
    for (const { bucket, first, end } of spans) {
      if (!(start < end) || last < first) continue;
      const part = partOf(interval, first, end);
      bucket.nanos += part.nanos;
      bucket.gpuMicroseconds += part.gpuMicroseconds;
    }
  }
  return spans.map(({ bucket }) => bucket);
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

/** What of GPU time is credited, as the end of a sentence about that time; empty: nothing. */
export function creditText(gpuMicroseconds: number): string {
  return gpuMicroseconds > 0 ? `, ${duration(gpuMicroseconds / 1000)} of it credited` : "";
}
