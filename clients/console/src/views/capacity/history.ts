/** The fleet's capacity over time, as chart columns and table rows: pure. */
import type { CapacityBucket } from "../../api/types";

export interface Series {
  region: string;
  sku: string;
  buckets: CapacityBucket[];
}

const HOUR = 3_600_000;

/** Length of the time range, in milliseconds. */
export const RANGES: { value: number; label: string }[] = [
  { value: HOUR, label: "1 hour" },
  { value: 24 * HOUR, label: "24 hours" },
  { value: 7 * 24 * HOUR, label: "7 days" },
  { value: 30 * 24 * HOUR, label: "30 days" },
];

/** One series for each region and SKU, in the order of their names. */
export function seriesOf(buckets: CapacityBucket[]): Series[] {
  const found = new Map<string, Series>();
  for (const bucket of buckets) {
    const { region_code: region = "", sku = "" } = bucket;
    const key = `${region} ${sku}`;
    const series = found.get(key) ?? { region, sku, buckets: [] };
    series.buckets.push(bucket);
    found.set(key, series);
  }
  return [...found.values()].sort((a, b) => a.region.localeCompare(b.region) || a.sku.localeCompare(b.sku));
}

export interface Columns {
  /** Seconds since the epoch. */
  times: number[];
  gpus: (number | null)[];
  inUse: (number | null)[];
  free: (number | null)[];
}

/** Columns of the chart, with a gap where the scheduler took no samples. */
export function columnsOf(buckets: CapacityBucket[], step: number): Columns {
  const columns: Columns = { times: [], gpus: [], inUse: [], free: [] };
  const put = (time: number, bucket?: CapacityBucket) => {
    columns.times.push(time / 1000);
    columns.gpus.push(bucket ? (bucket.gpus ?? 0) : null);
    columns.inUse.push(bucket ? (bucket.gpus_in_use ?? 0) : null);
    columns.free.push(bucket ? (bucket.gpus_free ?? 0) : null);
  };
  let last: number | undefined;
  for (const bucket of buckets) {
    const time = Date.parse(bucket.start_time ?? "");
    if (last !== undefined && time - last > step) put(last + step);
    put(time, bucket);
    last = time;
  }
  return columns;
}

export interface Summary {
  gpus: number;
  inUse: number;
  free: number;
  peakInUse: number;
  lowestFree: number;
  /** Share of all GPUs in use over the time range, in per cent. */
  used: number | undefined;
}

/** The latest values, the extremes, and the mean utilization. */
export function summaryOf(buckets: CapacityBucket[]): Summary {
  const latest = buckets.at(-1);
  const of = (figure: "gpus" | "gpus_in_use" | "gpus_free") => buckets.map((bucket) => bucket[figure] ?? 0);
  const total = (figures: number[]) => figures.reduce((sum, figure) => sum + figure, 0);
  const means = (figure: "mean_gpus" | "mean_gpus_in_use") => total(buckets.map((bucket) => bucket[figure] ?? 0));
  const all = means("mean_gpus");
  return {
    gpus: latest?.gpus ?? 0,
    inUse: latest?.gpus_in_use ?? 0,
    free: latest?.gpus_free ?? 0,
    peakInUse: Math.max(0, ...of("gpus_in_use")),
    lowestFree: buckets.length > 0 ? Math.min(...of("gpus_free")) : 0,
    used: all > 0 ? (means("mean_gpus_in_use") / all) * 100 : undefined,
  };
}
