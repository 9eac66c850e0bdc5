/** One chart of what a VM uses. */
import { useMemo } from "react";
import uPlot from "uplot";
import { type ChartOf, columnsOf, figure, topOf } from "../../lib/metrics";
import { clockTime, hourText } from "../../lib/time";
import { type Drawing, Plot, axesOf } from "../../ui/plot";
import { colour } from "../../ui/theme";
import { isDashed, toneOf } from "./tones";

function drawingOf({ lines, most }: ChartOf, from: number, to: number, font: string): Drawing {
  return {
    scales: { x: { range: () => [from / 1000, to / 1000] }, y: { range: (_, __, max) => [0, most ?? topOf(max)] } },
    axes: axesOf((ticks) => ticks.map((tick) => hourText(tick * 1000)), font, { values: (_, ticks) => ticks.map(figure) }),
    series: [
      {},
      ...lines.map(({ limit, points: { length } }, index): uPlot.Series => {
        // of one value there is no line yet
        const points = { show: length === 1 };
        if (limit) return { stroke: colour("--muted"), width: 1.5, dash: [5, 4], points };
        return { stroke: colour(`--${toneOf(index)}`), width: 2, points, ...(isDashed(index) && { dash: [3, 3] }) };
      }),
    ],
  };
}

export default function MetricsChart({ chart, step, from, to, label }: { chart: ChartOf; step: number; from: number; to: number; label: string }) {
  const columns = useMemo(() => columnsOf(chart.lines, step), [chart, step]);
  const tip = (index: number) => {
    const time = columns.times[index];
    const said = chart.lines.flatMap(({ name }, line) => {
      const value = columns.values[line]?.[index];
      return value == null ? [] : [`${name} ${figure(value)} ${chart.unit}`];
    });
    return time === undefined || said.length === 0 ? undefined : [clockTime(new Date(time * 1000).toISOString()), ...said].join("\n");
  };
  const drawing = `${from} ${to} ${chart.lines.map(({ name }) => name).join()}`;
  return <Plot columns={[columns.times, ...columns.values]} draw={(font) => drawingOf(chart, from, to, font)} drawing={drawing} tip={tip} label={label} />;
}
