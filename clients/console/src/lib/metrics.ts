/** What a VM uses, as charts and a table: pure. */
import type { MetricSeries } from "../api/types";

const MINUTE = 60_000;

/** Length of the time range, in milliseconds. */
export const RANGES: { value: number; label: string }[] = [
  { value: 15 * MINUTE, label: "15 minutes" },
  { value: 60 * MINUTE, label: "1 hour" },
  { value: 24 * 60 * MINUTE, label: "24 hours" },
];

/** Steps without a value until a line is broken: a measurement may be a little late. */
const GAP_STEPS = 3;
const MIB = 1024 ** 2;
const GIB = 1024 ** 3;

/** One line of a chart, in the unit of the chart. */
export interface Line {
  name: string;
  /** What it could be at most; drawn dashed. */
  limit?: boolean;
  points: [time: number, value: number][];
}

export interface ChartOf {
  title: string;
  unit: string;
  /** The highest of the axis; without it the highest value. */
  most?: number;
  lines: Line[];
}

interface Group {
  title: string;
  unit: string;
  /** How much of the metric's own unit is one of the chart's. */
  size: number;
  most?: number;
  metrics: [metric: NonNullable<MetricSeries["metric"]>, name: string, limit?: true][];
}

const GROUPS: Group[] = [
  { title: "CPU", unit: "%", size: 1, most: 100, metrics: [["cpu_percent", "CPU"]] },
  { title: "Memory", unit: "GiB", size: GIB, metrics: [["memory_used_bytes", "Used"], ["memory_total_bytes", "Total", true]] },
  { title: "Network", unit: "MiB/s", size: MIB, metrics: [["network_received_bytes_per_second", "Received"], ["network_sent_bytes_per_second", "Sent"]] },
  { title: "Disk", unit: "MiB/s", size: MIB, metrics: [["disk_read_bytes_per_second", "Read"], ["disk_written_bytes_per_second", "Written"]] },
  { title: "GPU utilization", unit: "%", size: 1, most: 100, metrics: [["gpu_utilization_percent", "GPU"]] },
  { title: "GPU memory", unit: "GiB", size: GIB, metrics: [["gpu_memory_used_bytes", "GPU"]] },
  { title: "GPU temperature", unit: "°C", size: 1, metrics: [["gpu_temperature_celsius", "GPU"]] },
  { title: "GPU power", unit: "W", size: 1, metrics: [["gpu_power_watts", "GPU"]] },
];

/** The charts that there is something for. */
export function chartsOf(series: MetricSeries[]): ChartOf[] {
  return GROUPS.flatMap(({ title, unit, size, most, metrics }) => {
    const lines = metrics.flatMap(([metric, name, limit]) =>
      series
        .filter((one) => one.metric === metric)
        .map((one): Line => ({
          name: one.gpu === undefined ? name : `${name} ${one.gpu}`,
          ...(limit && { limit }),
          points: (one.points ?? []).map(({ time = "", value = 0 }) => [Date.parse(time), value / size]),
        })),
    );
    return lines.length > 0 ? [{ title, unit, ...(most !== undefined && { most }), lines }] : [];
  });
}

export interface Columns {
  /** Seconds since the epoch. */
  times: number[];
  /** One for each line. */
  values: (number | null)[][];
}

/** Columns of a chart, with a gap where nothing was measured. */
export function columnsOf(lines: Line[], stepSeconds: number): Columns {
  const found = [...new Set(lines.flatMap(({ points }) => points.map(([time]) => time)))].sort((a, b) => a - b);
  const step = stepSeconds * 1000;
  const times = found.flatMap((time, index) => {
    const before = found[index - 1];
    return before !== undefined && time - before > GAP_STEPS * step ? [before + step, time] : [time];
  });
  const values = lines.map(({ points }) => {
    const at = new Map(points);
    return times.map((time) => at.get(time) ?? null);
  });
  return { times: times.map((time) => time / 1000), values };
}

/** "< 0.01", "0.04", "3.2", "120". */
export function figure(value: number): string {
  if (value > 0 && value < 0.01) return "< 0.01";
  if (value === 0 || value >= 100) return String(Math.round(value));
  return value >= 10 ? value.toFixed(1).replace(/\.0$/, "") : String(Number(value.toPrecision(2)));
}

/** The top of an axis that has no fixed one: above the highest value, and high enough for ticks that `figure` tells apart. */
export function topOf(highest: number): number {
  return highest > 0 ? Math.max(highest * 1.1, 0.05) : 1;
}

export interface Summary {
  last: number;
  mean: number;
  most: number;
}

export function summaryOf({ points }: Line): Summary | undefined {
  const last = points.at(-1);
  if (!last) return undefined;
  const values = points.map(([, value]) => value);
  return { last: last[1], mean: values.reduce((sum, value) => sum + value, 0) / values.length, most: Math.max(...values) };
}

/** A chart in words, for who does not see it. */
export function described({ title, unit, lines }: ChartOf, range: string): string {
  const said = lines.flatMap((line) => {
    const summary = summaryOf(line);
    return summary ? [`${line.name} ${figure(summary.last)} ${unit} now, ${figure(summary.most)} ${unit} at most`] : [];
  });
  return `${title} over ${range}: ${said.join("; ")}. The table below has the values.`;
}
