/** What the VM of an allocation uses: charts of the last minutes to the last day, and their values as a table. */
import { Suspense, lazy, useMemo } from "react";
import { useMetrics } from "../../api/metrics";
import type { Allocation } from "../../api/types";
import { type ChartOf, RANGES, chartsOf, described, figure, summaryOf } from "../../lib/metrics";
import { zone } from "../../lib/time";
import { Card, Empty, Skeleton } from "../../ui/basics";
import { Segments } from "../../ui/form";
import { ChartColumn } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { type Column, TableCard } from "../../ui/table";
import { useQueryState } from "../../ui/use-query-state";
import { isDashed, toneOf } from "./tones";

const MetricsChart = lazy(() => import("./metrics-chart"));
const COLUMNS: Column[] = ["Metric", ["Last", "number"], ["Mean", "number"], ["Maximum", "number"]];
const FIRST_RANGE = RANGES[1]!;

/** What each line of a chart is; nothing where the title says it. */
function Legend({ chart }: { chart: ChartOf }) {
  if (chart.lines.length < 2) return null;
  return (
    <ul className="legend" aria-label={`Legend of ${chart.title}`}>
      {chart.lines.map(({ name, limit }, index) => (
        <li key={name}>
          <span className={limit ? "swatch dashed" : `swatch ${toneOf(index)}${isDashed(index) ? " line-dashed" : ""}`} aria-hidden="true" /> {name}
        </li>
      ))}
    </ul>
  );
}

function Rows({ chart }: { chart: ChartOf }) {
  return chart.lines.map((line) => {
    const summary = summaryOf(line);
    if (!summary) return null;
    const shown = (value: number) => `${figure(value)} ${chart.unit}`;
    const own = chart.lines.length === 1 && line.name === chart.title;
    return (
      <tr key={line.name}>
        <td>{own ? chart.title : `${chart.title}, ${line.name.startsWith("GPU") ? line.name : line.name.toLowerCase()}`}</td>
        <td className="number">{shown(summary.last)}</td>
        <td className="number">{shown(summary.mean)}</td>
        <td className="number">{shown(summary.most)}</td>
      </tr>
    );
  });
}

/** Why there is nothing, and what to do. */
function Nothing({ allocation, range }: { allocation: Allocation; range: string }) {
  const stopped = allocation.status?.power === "stopped";
  return (
    <Card title="Metrics">
      <Empty icon={<ChartColumn size={28} />} title={`Nothing measured in the last ${range.replace(/^1 /, "")}`}>
        {stopped ? "The VM is stopped. Start it, or choose a longer range." : "The first values appear about 30 seconds after the VM starts. The host keeps them for 24 hours, and only those of the last hour when its agent restarts."}
      </Empty>
    </Card>
  );
}

export default function Metrics({ id, allocation }: { id: string; allocation: Allocation }) {
  const [rangeText, setRange] = useQueryState("range", FIRST_RANGE.label);
  const { value: range, label } = RANGES.find((one) => one.label === rangeText) ?? FIRST_RANGE;
  const isActive = allocation.status?.state === "active";
  const metrics = useMetrics(id, range, isActive);
  const charts = useMemo(() => chartsOf(metrics.data?.series ?? []), [metrics.data]);
  if (!isActive) {
    return (
      <Card title="Metrics">
        <Empty icon={<ChartColumn size={28} />} title="No VM to measure">
          CPU, memory, network, disk and GPUs are measured while the allocation is active.
        </Empty>
      </Card>
    );
  }
  return (
    <>
      <div className="metrics-bar">
        <Segments label="Range" options={RANGES.map((one) => ({ value: one.label, label: one.label }))} value={label} onChoose={setRange} />
        <small className="muted">Times in {zone}</small>
      </div>
      <Loaded of={[metrics]} lines={8} label="Loading the metrics">
        {({ step, from, to, message }) => (
          <>
            {message && <p className="notice">{message}</p>}
            {charts.length === 0 ? (
              <Nothing allocation={allocation} range={label} />
            ) : (
              <>
                <div className="metrics">
                  {charts.map((chart) => (
                    <Card key={chart.title} title={`${chart.title} (${chart.unit})`}>
                      <Suspense fallback={<Skeleton lines={5} label="Loading the chart" />}>
                        <MetricsChart chart={chart} step={step} from={from} to={to} label={described(chart, label)} />
                      </Suspense>
                      <Legend chart={chart} />
                    </Card>
                  ))}
                </div>
                <TableCard label="Metrics in figures" columns={COLUMNS} foot={<span className="muted">Last {label}. CPU, network and disk are counted by the host; memory and GPUs are what the VM says.</span>}>
                  {charts.map((chart) => (
                    <Rows key={chart.title} chart={chart} />
                  ))}
                </TableCard>
              </>
            )}
          </>
        )}
      </Loaded>
    </>
  );
}
