/** Use of the fleet over time: a chart of one region and SKU, and a table that compares them all. */
import { Suspense, lazy, useMemo } from "react";
import { useCapacityHistory } from "../../api/capacity";
import { zone } from "../../lib/time";
import { Card, Empty, Skeleton } from "../../ui/basics";
import { Segments } from "../../ui/form";
import { ChartColumn } from "../../ui/icons";
import { ProblemNote } from "../../ui/problem";
import { type Column, TableCard } from "../../ui/table";
import { useQueryState } from "../../ui/use-query-state";
import { RANGES, type Series, seriesOf, summaryOf } from "./history";

const HistoryChart = lazy(() => import("./history-chart"));
const COLUMNS: Column[] = ["SKU", "Region", ["Total GPUs", "number"], ["In use", "number"], ["Free", "number"], ["Peak in use", "number"], ["Lowest free", "number"], ["Mean utilization", "number"]];
const FIRST_RANGE = RANGES[1]!;

const nameOf = ({ region, sku }: Series) => `${sku} in ${region}`;
const percent = (share: number | undefined) => (share === undefined ? "–" : `${Math.round(share)} %`);

function Row({ series, chosen, choose }: { series: Series; chosen: boolean; choose: () => void }) {
  const { gpus, inUse, free, peakInUse, lowestFree, used } = summaryOf(series.buckets);
  return (
    <tr data-chosen={chosen || undefined} onClick={choose}>
      <td>
        <button type="button" className="row-name as-link" aria-pressed={chosen} onClick={choose}>
          {series.sku}
        </button>
      </td>
      <td>{series.region}</td>
      <td className="number">{gpus}</td>
      <td className="number">{inUse}</td>
      <td className="number">{free}</td>
      <td className="number">{peakInUse}</td>
      <td className="number">{lowestFree}</td>
      <td className="number">{percent(used)}</td>
    </tr>
  );
}

export function HistoryTab() {
  const [rangeText, setRange] = useQueryState("range", FIRST_RANGE.label);
  const [wanted, setWanted] = useQueryState("series");
  const { value: range, label } = RANGES.find((one) => one.label === rangeText) ?? FIRST_RANGE;
  const history = useCapacityHistory(range);
  const all = useMemo(() => seriesOf(history.data?.buckets ?? []), [history.data]);
  const series = all.find((one) => nameOf(one) === wanted) ?? all[0];
  const ranges = <Segments label="Range" options={RANGES.map((one) => ({ value: one.label, label: one.label }))} value={label} onChoose={setRange} />;
  if (history.error) return <ProblemNote error={history.error} retry={() => history.refetch()} />;
  if (history.isPending) return <Skeleton lines={8} label="Loading the history" />;
  if (!series) {
    return (
      <Card title="GPUs over time" aside={ranges}>
        <Empty icon={<ChartColumn size={28} />} title={`No samples in the last ${label}`}>
          The scheduler takes a sample every minute once slots are approved. Approve the slots of a node, or choose a longer range.
        </Empty>
      </Card>
    );
  }
  const now = summaryOf(series.buckets);
  return (
    <>
      <Card title={nameOf(series)} aside={ranges}>
        <Suspense fallback={<Skeleton lines={5} label="Loading the chart" />}>
          <HistoryChart
            series={series}
            step={history.data.step}
            from={history.data.from}
            to={history.data.to}
            label={`GPUs of ${nameOf(series)} over ${label}: ${now.inUse} of ${now.gpus} in use now, ${now.free} free; peak in use ${now.peakInUse}, lowest free ${now.lowestFree}. The table below has the values.`}
          />
        </Suspense>
        <ul className="legend" aria-label="Chart legend">
          <li>
            <span className="swatch busy" aria-hidden="true" /> Peak in use
          </li>
          <li>
            <span className="swatch good" aria-hidden="true" /> Lowest free
          </li>
          <li>
            <span className="swatch dashed" aria-hidden="true" /> Total
          </li>
        </ul>
      </Card>
      <TableCard
        label="Capacity by SKU and region"
        columns={COLUMNS}
        rowsAct
        foot={
          <span className="muted">
            Last {label}; times in {zone}. SKUs of the same slot class share their free GPUs. Reserved and unschedulable GPUs count as neither in use nor free. Each point is the
            maximum (in use) or minimum (free) of its interval; mean utilization is the mean over all samples.
          </span>
        }
      >
        {all.map((one) => (
          <Row key={nameOf(one)} series={one} chosen={one === series} choose={() => setWanted(nameOf(one))} />
        ))}
      </TableCard>
    </>
  );
}
