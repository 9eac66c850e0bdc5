/** The time that the usage page shows, in the reader's zone. Pure. */
import type { UsageInterval } from "../../api/types";
import { type Amount, amountOf } from "../../lib/money";
import { type Bucket, type BucketSize, nextBucket, partOf, spanOf } from "../../lib/usage";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

export const RANGES = [
  { value: "24 hours", label: "24 hours" },
  { value: "7 days", label: "7 days" },
  { value: "30 days", label: "30 days" },
  { value: "month", label: "This month" },
  { value: "custom", label: "Dates" },
];

export interface Range {
  from: number;
  /** The end, not included. */
  to: number;
  size: BucketSize;
}

const DATE = /^(\d{4})-(\d{2})-(\d{2})$/;

/** Midnight of a date as a date field has it; nothing when it is none. */
export function dayOf(text: string): number | undefined {
  const [, year, month, day] = DATE.exec(text) ?? [];
  if (!day) return undefined;
  const date = new Date(Number(year), Number(month) - 1, Number(day));
  return date.getDate() === Number(day) ? date.getTime() : undefined;
}

/** A day as a date field has it. */
export function fieldOf(time: number): string {
  const date = new Date(time);
  const two = (part: number) => String(part).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** The range of a choice; of dates the last day is included. Nothing while the dates are none, or in the wrong order. */
export function rangeOf(choice: string, first: string, last: string, now: number): Range | undefined {
  const until = (from: number): Range => ({ from, to: now, size: now - from <= 2 * DAY_MS ? "hour" : "day" });
  switch (choice) {
    case "7 days":
      return until(now - 7 * DAY_MS);
    case "30 days":
      return until(now - 30 * DAY_MS);
    case "month": {
      const date = new Date(now);
      return { from: new Date(date.getFullYear(), date.getMonth(), 1).getTime(), to: now, size: "day" };
    }
    case "custom": {
      const [from, end] = [dayOf(first), dayOf(last)];
      if (from === undefined || end === undefined || end < from) return undefined;
      const to = nextBucket(end, "day");
      return { from, to, size: to - from <= 2 * DAY_MS ? "hour" : "day" };
    }
    default:
      return until(now - DAY_MS);
  }
}

/** An interval with what of its money lies in the range. */
export interface Part {
  interval: UsageInterval;
  amount: Amount;
}

/** The intervals that touch a range. */
export function within(intervals: UsageInterval[], { from, to }: Range): Part[] {
  return intervals.flatMap((interval) => {
    const [start, end] = spanOf(interval);
    if (!(start < to) || end < from) return [];
    const { currency } = amountOf(interval.amount);
    return [{ interval, amount: { currency, nanos: partOf(interval, from, to).nanos } }];
  });
}

/** Money as a plain number with every digit, for files. */
export function plain({ nanos }: Amount): string {
  const sign = nanos < 0n ? "-" : "";
  const magnitude = nanos < 0n ? -nanos : nanos;
  return `${sign}${magnitude / 1_000_000_000n}.${(magnitude % 1_000_000_000n).toString().padStart(9, "0")}`;
}

/** The hours or days of a chart that cost something, the newest first: its twin for those who do not see it. */
export function costRows(data: Bucket[]): Bucket[] {
  return data.filter(({ nanos, gpuMicroseconds }) => nanos !== 0n || gpuMicroseconds !== 0n).reverse();
}

export const costHeader = (size: BucketSize) => [size, "gpu_hours", "amount", "currency"];

/** A line of the file of a chart: every hour or day of it, also those without cost. A day is one of the reader's zone, an hour in UTC. */
export function costRow({ start, nanos, gpuMicroseconds }: Bucket, size: BucketSize, currency: string): string[] {
  const hours = (Number(gpuMicroseconds) / 3_600e6).toFixed(6);
  return [size === "day" ? fieldOf(start) : new Date(start).toISOString(), hours, plain({ currency, nanos }), currency];
}

export const CSV_HEADER = ["project", "allocation", "allocation_id", "sku", "gpus", "start", "end", "seconds", "credited_seconds", "price_per_gpu_hour", "amount", "amount_in_range", "currency"];

/** A line of the file; times in UTC, as programs compare them. */
export function csvRow({ interval, amount }: Part, project: string, name: string): string[] {
  const { allocation_id = "", sku = "", gpu_count = 0, start_time = "", end_time = "", microseconds = "0", credited_microseconds = "0", price_per_gpu_hour } = interval;
  const seconds = (time: string) => (Number(time) / 1e6).toFixed(6);
  return [project, name, allocation_id, sku, String(gpu_count), start_time, end_time, seconds(microseconds), seconds(credited_microseconds), plain(amountOf(price_per_gpu_hour)), plain(amountOf(interval.amount)), plain(amount), amount.currency];
}
