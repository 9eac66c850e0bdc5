/** Bars of money over time. */
import { useMemo } from "react";
import uPlot from "uplot";
import { approximate, exact, symbol } from "../../lib/money";
import { dayText, hourText, minuteText } from "../../lib/time";
import type { Bucket, BucketSize } from "../../lib/usage";
import { type Drawing, Plot, axesOf } from "../../ui/plot";
import { colour } from "../../ui/theme";

function drawingOf(size: BucketSize, currency: string, font: string): Drawing {
  const accent = colour("--accent");
  const when = size === "day" ? dayText : hourText;
  return {
    scales: { x: { range: (_, min, max) => [min - (max - min) / 48, max + (max - min) / 48] }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: axesOf((ticks) => ticks.map((tick) => when(tick * 1000)), font, { values: (_, ticks) => ticks.map((tick) => `${symbol(currency)}${Number(tick.toPrecision(3))}`) }),
    series: [{}, { fill: accent, stroke: accent, width: 0, paths: uPlot.paths.bars?.({ size: [0.62, 44], radius: 0.18 }), points: { show: false } }],
  };
}

export default function Chart({ data, size, currency, label }: { data: Bucket[]; size: BucketSize; currency: string; label: string }) {
  const columns = useMemo((): uPlot.AlignedData => [data.map(({ start }) => start / 1000), data.map(({ nanos }) => approximate({ currency, nanos }))], [data, currency]);
  const tip = (index: number) => {
    const bucket = data[index];
    return bucket && `${(size === "day" ? dayText : minuteText)(bucket.start)}  ${exact({ currency, nanos: bucket.nanos })}`;
  };
  return <Plot columns={columns} draw={(font) => drawingOf(size, currency, font)} drawing={`${size} ${currency}`} tip={tip} label={label} />;
}
