/** How the fleet was used: a chart of one region and SKU, and a table to compare them all. */
import { Suspense, lazy, useMemo, useState } from "react";
import { useCapacityHistory } from "../../api/capacity";
import { zone } from "../../lib/time";
import { Card, Empty, Skeleton } from "../../ui/basics";
import { Segments } from "../../ui/form";
import { ChartColumn } from "../../ui/icons";
import { ProblemNote } from "../../ui/problem";
import { type Column, TableCard } from "../../ui/table";
import { RANGES, type Series, seriesOf, summaryOf } from "./history";

const HistoryChart = lazy(() => import("./history-chart"));
const COLUMNS: Column[] = ["Product", "Region", ["GPUs", "number"], ["In use", "number"], ["Free", "number"], ["Most in use", "number"], ["Fewest free", "number"], ["Mean use", "number"]];
const FIRST_RANGE = RANGES[1]?.value ?? 0;

const nameOf = ({ region, sku }: Series) => `${sku} in ${region}`;
const percent = (share: number | undefined) => (share === undefined ? "–" : `${Math.round(share)} %`);

function Row({ series, chosen, choose }: { series: Series; chosen: boolean; choose: () => void }) {
  const { gpus, held, free, mostHeld, leastFree, used } = summaryOf(series.buckets);
  return (
    <tr data-chosen={chosen || undefined} onClick={choose}>
      <td>
        <button type="button" className="row-name as-link" aria-pressed={chosen} onClick={choose}>
          {series.sku}
        </button>
      </td>
      <td>{series.region}</td>
      <td className="number">{gpus}</td>
      <td className="number">{held}</td>
      <td className="number">{free}</td>
      <td className="number">{mostHeld}</td>
      <td className="number">{leastFree}</td>
      <td className="number">{percent(used)}</td>
    </tr>
  );
}

export function OverTime() {
  const [range, setRange] = useState(FIRST_RANGE);
  const [wanted, setWanted] = useState("");
  const history = useCapacityHistory(range);
  const all = useMemo(() => seriesOf(history.data?.buckets ?? []), [history.data]);
  const series = all.find((one) => nameOf(one) === wanted) ?? all[0];
  const label = RANGES.find(({ value }) => value === range)?.label ?? "";
  const ranges = <Segments label="Range" options={RANGES} value={range} onChoose={setRange} />;
  if (history.error) return <ProblemNote error={history.error} retry={() => history.refetch()} />;
  if (history.isPending) return <Skeleton lines={8} label="Loading the history" />;
  if (!series) {
    return (
      <Card title="GPUs over time" aside={ranges}>
        <Empty icon={<ChartColumn size={28} />} title={`No samples in the last ${label}`}>
          A running scheduler takes one a minute, once slots are approved. Approve the slots of a host, or look further back.
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
            label={`GPUs of ${nameOf(series)} over ${label}: ${now.held} of ${now.gpus} in use now, ${now.free} free; at most ${now.mostHeld} in use, at least ${now.leastFree} free. The table below has the figures.`}
          />
        </Suspense>
        <ul className="legend" aria-label="Lines">
          <li>
            <span className="swatch busy" aria-hidden="true" /> in use, the most of each stretch
          </li>
          <li>
            <span className="swatch good" aria-hidden="true" /> free, the fewest of each stretch
          </li>
          <li>
            <span className="swatch dashed" aria-hidden="true" /> all there were
          </li>
        </ul>
      </Card>
      <TableCard
        label="Capacity of each product and region"
        columns={COLUMNS}
        rowsAct
        foot={
          <span className="muted">
            Over {label}; times in {zone}. Free GPUs are counted each alone, and products of one class of slots share them. What is reserved or not fit for sale is neither in use nor
            free. The mean is of the most in use of each stretch.
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
