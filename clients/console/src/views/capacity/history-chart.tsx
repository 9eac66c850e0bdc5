/** GPUs over time: the total, the peak in use, the lowest free. */
import { useMemo } from "react";
import uPlot from "uplot";
import { dayText, hourText, minuteText } from "../../lib/time";
import { type Drawing, Plot, axesOf } from "../../ui/plot";
import { colour } from "../../ui/theme";
import { type Series, columnsOf } from "./history";

const DAY_MS = 86_400_000;
/** Steps of the axis: GPUs are counted in integers. */
const INTEGERS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000];

function drawingOf(from: number, to: number, font: string): Drawing {
  const when = to - from > DAY_MS ? dayText : hourText;
  const paths = uPlot.paths.stepped?.({ align: 1 });
  const line = (name: string, more: Partial<uPlot.Series>): uPlot.Series => ({ stroke: colour(name), width: 2, paths, points: { show: false }, ...more });
  return {
    scales: { x: { range: () => [from / 1000, to / 1000] }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: axesOf((ticks) => ticks.map((tick) => when(tick * 1000)), font, { incrs: INTEGERS }),
    series: [{}, line("--muted", { dash: [5, 4], width: 1.5 }), line("--busy", { fill: colour("--busy-bg") }), line("--good", {})],
  };
}

export default function HistoryChart({ series, step, from, to, label }: { series: Series; step: number; from: number; to: number; label: string }) {
  const columns = useMemo(() => columnsOf(series.buckets, step), [series, step]);
  const tip = (index: number) => {
    const time = columns.times[index];
    const inUse = columns.inUse[index];
    if (time === undefined || inUse == null) return undefined;
    return `${minuteText(time * 1000)}  ${inUse} in use, ${columns.free[index]} free of ${columns.gpus[index]}`;
  };
  return <Plot columns={[columns.times, columns.gpus, columns.inUse, columns.free]} draw={(font) => drawingOf(from, to, font)} drawing={`${from} ${to}`} tip={tip} label={label} />;
}
