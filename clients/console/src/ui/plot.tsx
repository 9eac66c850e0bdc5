/** A chart over time in the page's colours, with a box that tells what is under the pointer. */
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { colour, useIsDark } from "./theme";

const HEIGHT = 220;

/** What a chart draws itself: all but its size, its pointer and its box. */
export type Drawing = Pick<uPlot.Options, "scales" | "axes" | "series" | "bands">;

/** The axes that all charts have: times below, figures at the left. */
export function axesOf(times: (ticks: number[]) => string[], font: string, figures: Partial<uPlot.Axis>): uPlot.Axis[] {
  const axis: uPlot.Axis = { stroke: colour("--muted"), font, ticks: { show: false } };
  return [
    { ...axis, size: 32, grid: { show: false }, space: 72, values: (_, ticks) => times(ticks) },
    { ...axis, size: 64, grid: { stroke: colour("--line"), width: 1 }, ...figures },
  ];
}

function tooltip(host: HTMLElement, tip: () => (index: number) => string | undefined): uPlot.Plugin {
  const box = document.createElement("div");
  box.className = "chart-tip";
  box.hidden = true;
  return {
    hooks: {
      init: () => host.append(box),
      destroy: () => box.remove(),
      setCursor: (plot) => {
        const { idx, left = -1 } = plot.cursor;
        const text = idx == null || left < 0 ? undefined : tip()(idx);
        box.hidden = text === undefined;
        if (idx == null || text === undefined) return;
        box.textContent = text;
        const at = plot.valToPos(plot.data[0][idx] ?? 0, "x") + plot.bbox.left / devicePixelRatio;
        const half = box.offsetWidth / 2;
        box.style.left = `${Math.min(Math.max(at, half), host.clientWidth - half)}px`;
      },
    },
  };
}

/** `draw` is called again when the theme or `drawing` changes; `columns` and `tip` may change at any time. */
export function Plot({ columns, draw, drawing, tip, label }: { columns: uPlot.AlignedData; draw: (font: string) => Drawing; drawing: string; tip: (index: number) => string | undefined; label: string }) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const latest = useRef({ columns, tip });
  latest.current = { columns, tip };
  const dark = useIsDark();

  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const made = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
        plugins: [tooltip(element, () => latest.current.tip)],
        ...draw(`12px ${getComputedStyle(element).fontFamily}`),
      },
      latest.current.columns,
      element,
    );
    plot.current = made;
    const watcher = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      made.destroy();
    };
  }, [dark, drawing]);

  useEffect(() => {
    plot.current?.setData(columns);
  }, [columns]);

  return <div ref={host} className="chart" role="img" aria-label={label} />;
}
