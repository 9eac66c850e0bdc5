/** Bars of money over time. */
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { approximate, exact, symbol } from "../../lib/money";
import type { Bucket, BucketSize } from "../../lib/usage";
import { colour, useIsDark } from "../../ui/theme";

const HEIGHT = 220;
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const dayAndHour = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });

/** Shows the exact amount of the bar under the pointer. */
function tooltip(host: HTMLElement, data: () => Bucket[], size: BucketSize, currency: string): uPlot.Plugin {
  const box = document.createElement("div");
  box.className = "chart-tip";
  box.hidden = true;
  return {
    hooks: {
      init: () => host.append(box),
      destroy: () => box.remove(),
      setCursor: (plot) => {
        const bucket = plot.cursor.idx == null ? undefined : data()[plot.cursor.idx];
        box.hidden = !bucket || (plot.cursor.left ?? -1) < 0;
        if (!bucket || box.hidden) return;
        const when = (size === "day" ? day : dayAndHour).format(bucket.start);
        box.textContent = `${when}  ${exact({ currency, nanos: bucket.nanos })}`;
        const left = plot.valToPos(bucket.start / 1000, "x") + plot.bbox.left / devicePixelRatio;
        box.style.left = `${Math.min(Math.max(left, 80), host.clientWidth - 80)}px`;
      },
    },
  };
}

export default function Chart({ data, size, currency, label }: { data: Bucket[]; size: BucketSize; currency: string; label: string }) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const latest = useRef(data);
  latest.current = data;
  const dark = useIsDark();
  const columns = (): uPlot.AlignedData => [latest.current.map(({ start }) => start / 1000), latest.current.map(({ nanos }) => approximate({ currency, nanos }))];

  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const muted = colour("--muted");
    const font = `12px ${getComputedStyle(element).fontFamily}`;
    const axis: uPlot.Axis = { stroke: muted, font, ticks: { show: false } };
    const made = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
        scales: { x: { range: (_, min, max) => [min - (max - min) / 48, max + (max - min) / 48] }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
        axes: [
          { ...axis, size: 32, grid: { show: false }, space: 72, values: (_, ticks) => ticks.map((tick) => (size === "day" ? day : hour).format(tick * 1000)) },
          { ...axis, size: 64, grid: { stroke: colour("--line"), width: 1 }, values: (_, ticks) => ticks.map((tick) => `${symbol(currency)}${Number(tick.toPrecision(3))}`) },
        ],
        series: [{}, { fill: colour("--accent"), stroke: colour("--accent"), width: 0, paths: uPlot.paths.bars?.({ size: [0.62, 44], radius: 0.18 }), points: { show: false } }],
        plugins: [tooltip(element, () => latest.current, size, currency)],
      },
      columns(),
      element,
    );
    plot.current = made;
    const watcher = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      made.destroy();
    };
  }, [dark, size, currency]);

  useEffect(() => {
    plot.current?.setData(columns());
  }, [data]);

  return <div ref={host} className="chart" role="img" aria-label={label} />;
}
