import { describe, expect, it } from "vitest";
import type { MetricSeries } from "../api/types";
import { chartsOf, columnsOf, described, figure, summaryOf, topOf } from "./metrics";

const at = (second: number) => new Date(Date.UTC(2026, 0, 31, 12, 0, second)).toISOString();
const series = (metric: MetricSeries["metric"], values: [number, number][], gpu?: number): MetricSeries => ({
  ...(metric && { metric }),
  ...(gpu !== undefined && { gpu }),
  points: values.map(([second, value]) => ({ time: at(second), value })),
});

describe("d_90 the charts of a VM", () => {
  it("are those that something was measured of, in units that people read", () => {
    const charts = chartsOf([
      series("gpu_utilization_percent", [[0, 97]], 0),
      series("gpu_utilization_percent", [[0, 3]], 1),
      series("network_sent_bytes_per_second", [[0, 3 * 1024 ** 2]]),
      series("memory_used_bytes", [[0, 2 * 1024 ** 3]]),
      series("memory_total_bytes", [[0, 8 * 1024 ** 3]]),
    ]);
    expect(charts.map(({ title, unit }) => `${title} ${unit}`)).toEqual(["Memory GiB", "Network MiB/s", "GPU utilization %"]);
    expect(charts[0]?.lines.map(({ name, limit, points }) => [name, limit ?? false, points[0]?.[1]])).toEqual([["Used", false, 2], ["Total", true, 8]]);
    expect(charts[1]?.lines[0]?.points[0]?.[1]).toBe(3);
    expect(charts[2]?.lines.map(({ name }) => name)).toEqual(["GPU 0", "GPU 1"]);
    expect(chartsOf([])).toEqual([]);
  });

  it("have a gap where nothing was measured, and none where a value is late", () => {
    const [chart] = chartsOf([series("cpu_percent", [[0, 10], [15, 20], [45, 30], [180, 40]])]);
    const { times, values } = columnsOf(chart!.lines, 15);
    const first = Date.parse(at(0)) / 1000;
    expect(times.map((time) => time - first)).toEqual([0, 15, 45, 60, 180]);
    expect(values).toEqual([[10, 20, 30, null, 40]]);
  });

  it("are said in words", () => {
    const [chart] = chartsOf([series("cpu_percent", [[0, 50], [15, 12.25]])]);
    expect(described(chart!, "1 hour")).toBe("CPU over 1 hour: CPU 12.3 % now, 50 % at most. The table below has the values.");
    expect(summaryOf(chart!.lines[0]!)).toEqual({ last: 12.25, mean: 31.125, most: 50 });
    expect(summaryOf({ name: "none", points: [] })).toBeUndefined();
  });

  it("have an axis whose ticks are told apart, whatever little was measured", () => {
    expect([0, 0.0008, 0.2, 40].map(topOf)).toEqual([1, 0.05, 0.22000000000000003, 44]);
  });

  it("have figures with as many digits as matter", () => {
    expect([0, 2.9e-7, 0.0412, 3.24, 12, 12.34, 99.96, 120.5, 4096].map(figure)).toEqual(["0", "< 0.01", "0.041", "3.2", "12", "12.3", "100", "121", "4096"]);
  });
});
