/** Usage and its exact cost. */
import { Suspense, lazy, useMemo, useState } from "react";
import { Link } from "wouter";
import { useNamesOf, useTotalsOf, useUsageOf } from "../../api/usage";
import type { UsageInterval } from "../../api/types";
import { amountOf, exact, placesFor } from "../../lib/money";
import { dayText, duration, fullTime, minuteText, shortTime, zone } from "../../lib/time";
import { bucketStart, buckets, creditText } from "../../lib/usage";
import { csvOf, download } from "../../lib/csv";
import { projectNames } from "../../lib/project-name";
import { projectOf, useProjectMay } from "../../session/roles";
import { useSession } from "../../session/session";
import { plural, shortId } from "../../lib/text";
import { Badge, Button, Card, Empty, MoneyText, Skeleton } from "../../ui/basics";
import { Segments, Select } from "../../ui/form";
import { Download, ReceiptText } from "../../ui/icons";
import { ProblemNote } from "../../ui/problem";
import { Page } from "../../ui/shell";
import { type Column, Table, TableCard } from "../../ui/table";
import { useNow } from "../../ui/use-now";
import { useQueryState } from "../../ui/use-query-state";
import { Breakdown } from "./breakdown";
import { Quotas } from "./quotas";
import { type By, grouped } from "./groups";
import { CSV_HEADER, RANGES, type Range, costHeader, costRow, costRows, csvRow, fieldOf, rangeOf, within } from "./range";

const Chart = lazy(() => import("./chart"));

const DAY_MS = 86_400_000;
const COLUMNS: Column[] = ["Allocation", "SKU", "From", "To", ["Time", "number optional"], ["Per GPU-hour", "number optional"], ["Amount", "number"]];
const FIRST_ROWS = 25;

function Row({ interval, name, places }: { interval: UsageInterval; name: string; /** Decimals of price and amount. */ places: [number, number] }) {
  const { start_time = "", end_time, gpu_count, sku, price_per_gpu_hour, amount, microseconds, credited_microseconds } = interval;
  const credited = Number(credited_microseconds ?? 0);
  return (
    <tr>
      <td className="tight">
        <Link href={`/allocations/${interval.allocation_id}`} className="row-name">
          {name}
        </Link>
      </td>
      <td className="tight">
        {sku} <span className="muted">× {gpu_count}</span>
      </td>
      <td className="tight" title={fullTime(start_time)}>{shortTime(start_time)}</td>
      <td className="tight" title={end_time && fullTime(end_time)}>{end_time ? shortTime(end_time) : <Badge tone="good">Running</Badge>}</td>
      <td className="number optional" title={`${microseconds} µs${credited > 0 ? `, ${credited} µs of them credited` : ""}`}>
        {duration(Number(microseconds ?? 0) / 1000)}
        {credited > 0 && <small className="muted"> − {duration(credited / 1000)} credited</small>}
      </td>
      <td className="number optional">
        <MoneyText amount={amountOf(price_per_gpu_hour)} places={places[0]} />
      </td>
      <td className="number">
        <MoneyText amount={amountOf(amount)} places={places[1]} />
      </td>
    </tr>
  );
}

function Spend({ intervals, currency, range }: { intervals: UsageInterval[]; currency: string; range: Range }) {
  const { from, to, size } = range;
  const data = useMemo(() => buckets(intervals, currency, size, from, to), [intervals, currency, size, from, to]);
  const total = data.reduce((sum, bucket) => sum + bucket.nanos, 0n);
  const rows = costRows(data);
  const amounts = rows.map(({ nanos }) => ({ currency, nanos }));
  const places = placesFor(amounts);
  const save = () => download(`cost-by-${size}-${currency}-${fieldOf(from)}-${fieldOf(to - 1)}.csv`, csvOf(costHeader(size), data.map((bucket) => costRow(bucket, size, currency))));
  return (
    <Card title={`Cost by ${size}`} aside={<strong><MoneyText amount={{ currency, nanos: total }} /></strong>}>
      <Suspense fallback={<Skeleton lines={5} label="Loading the chart" />}>
        <Chart data={data} size={size} currency={currency} label={`Cost by ${size}, ${exact({ currency, nanos: total })} in total. The table below has the same values.`} />
      </Suspense>
      <details>
        <summary>Show as a table</summary>
        <Table label={`Cost by ${size} in ${currency}`} columns={[size === "day" ? "Day" : "Hour", ["GPU time", "number"], ["Amount", "number"]]}>
          {rows.map(({ start, gpuMicroseconds }, index) => (
            <tr key={start}>
              <td className="tight">{(size === "day" ? dayText : minuteText)(start)}</td>
              <td className="number">{duration(Number(gpuMicroseconds) / 1000)}</td>
              <td className="number">
                <MoneyText amount={amounts[index] ?? { currency, nanos: 0n }} places={places} />
              </td>
            </tr>
          ))}
        </Table>
        {rows.length < data.length && <p className="muted">{size === "day" ? "Days" : "Hours"} without cost are not shown.</p>}
      </details>
      <p className="more">
        <Button small onClick={save}>
          <Download size={14} aria-hidden="true" /> Export cost by {size}
        </Button>
      </p>
    </Card>
  );
}

export default function Usage() {
  const session = useSession();
  const projects = session?.projects ?? [];
  const [scope, setScope] = useQueryState("projects");
  const everywhere = scope === "all" && projects.length > 1;
  const own = session && projectOf(session);
  const mayLaunch = useProjectMay("write");
  const [choice, setChoice] = useQueryState("range", RANGES[0]!.value);
  const [by, setBy] = useQueryState("by", "sku");
  const now = useNow(60_000);
  const [first, setFirst] = useQueryState("from", fieldOf(now - 7 * DAY_MS));
  const [last, setLast] = useQueryState("to", fieldOf(now));
  const [all, setAll] = useState(false);
  const range = rangeOf(choice, first, last, now);
  const ids = everywhere ? projects.map(({ id }) => id) : [session?.project ?? ""];
  const ever = useTotalsOf(ids);
  // by day: it changes once a day while the range moves on
  const { intervals, ...usage } = useUsageOf(ids, range && bucketStart(range.from, "day"));
  const { names, isLoading: areNamesLoading } = useNamesOf(everywhere ? projects : own ? [own] : [], intervals);
  const nameOf = ({ allocation_id = "" }: UsageInterval) => names.get(allocation_id) || shortId(allocation_id);
  const known = projectNames(projects);
  const projectName = ({ project_id = "" }: UsageInterval) => known.get(project_id) ?? shortId(project_id);
  const isUsed = ever.totals.length > 0 || intervals.length > 0;
  // that they could not be read is not that there are none
  const isCounted = range && !usage.isLoading && (!usage.error || intervals.length > 0);
  const error = ever.error ?? usage.error;
  const refetch = () => [ever, usage].forEach((one) => one.refetch());
  const parts = useMemo(() => (range ? within(intervals, range) : []), [intervals, choice, first, last, now]);
  const shown = all ? parts : parts.slice(0, FIRST_ROWS);
  const places: [number, number] = [placesFor(shown.map(({ interval }) => amountOf(interval.price_per_gpu_hour))), placesFor(shown.map(({ interval }) => amountOf(interval.amount)))];
  const isCredited = parts.some(({ interval }) => Number(interval.credited_microseconds ?? 0) > 0);
  const bySku = ({ sku = "" }: UsageInterval) => sku;
  const ways: Record<string, By> = {
    sku: { idOf: bySku, nameOf: bySku },
    allocation: { idOf: ({ allocation_id = "" }) => allocation_id, nameOf },
    project: { idOf: ({ project_id = "" }) => project_id, nameOf: projectName },
  };
  const currencies = [...new Set(parts.map(({ amount }) => amount.currency))];
  const save = () => download(`usage-${fieldOf(range?.from ?? now)}-${fieldOf((range?.to ?? now) - 1)}.csv`, csvOf(CSV_HEADER, parts.map((part) => csvRow(part, projectName(part.interval), nameOf(part.interval)))));
  return (
    <Page
      title="Usage"
      actions={
        isUsed && (
          <Button onClick={save} busy={areNamesLoading || usage.isLoading} disabled={parts.length === 0}>
            <Download size={15} aria-hidden="true" /> Export CSV
          </Button>
        )
      }
    >
      {error && <ProblemNote error={error} retry={refetch} />}
      {(ever.isLoading || usage.isLoading) && !isUsed && <Skeleton lines={8} label="Loading usage" />}
      {!ever.isLoading && !usage.isLoading && !error && !isUsed && (
        <Empty icon={<ReceiptText size={28} />} title="No usage yet">
          Billing starts when you can log in to an allocation and ends when you release it. {mayLaunch && <><Link href="/launch">Launch one</Link> to begin.</>}
        </Empty>
      )}
      {isUsed && (
        <>
          <div className="tiles">
            {ever.totals.map(({ amount, gpuMicroseconds, creditedGpuMicroseconds }) => (
              <Card key={amount.currency} title={`Total in ${amount.currency}`}>
                <p className="big">
                  <MoneyText amount={amount} />
                </p>
                <p className="muted">
                  {duration(gpuMicroseconds / 1000)} of GPU time{creditText(creditedGpuMicroseconds)}
                </p>
              </Card>
            ))}
            <Card title="Running now">
              <p className="big">{isCounted ? intervals.filter(({ end_time }) => !end_time).length : "–"}</p>
              {isCounted && <p className="muted">{plural(parts.length, "billed interval")} in the period</p>}
            </Card>
          </div>
          <div className="filters">
            <Segments label="Range" options={RANGES} value={choice} onChoose={setChoice} />
            {choice === "custom" && (
              <span className="dates">
                <label>
                  From <input type="date" value={first} max={last} onChange={(event) => setFirst(event.target.value)} />
                </label>
                <label>
                  To <input type="date" value={last} min={first} onChange={(event) => setLast(event.target.value)} />
                </label>
              </span>
            )}
            {projects.length > 1 && <Select label="Projects" value={scope} onChoose={setScope} options={[{ value: "", label: "This one" }, { value: "all", label: "All of mine" }]} />}
          </div>
          {!range && <p className="field-problem">Choose two dates, the first not after the last.</p>}
          {usage.isLoading && <Skeleton lines={8} label="Loading the intervals" />}
          {range && !usage.isLoading && !error && currencies.length === 0 && <p className="notice">Nothing was billed in this period. Choose a longer one.</p>}
          {range && currencies.map((currency) => <Spend key={currency} intervals={intervals} currency={currency} range={range} />)}
          {parts.length > 0 && <Breakdown groups={grouped(parts, ways[by] ?? { idOf: bySku, nameOf: bySku })} by={by} setBy={setBy} projects={projects.length > 1} />}
          {parts.length > 0 && (
            <>
              <h2 className="list-title">Billed intervals</h2>
              <TableCard
                label="Billed intervals"
                columns={COLUMNS}
                foot={
                  <>
                    <span className="muted">Times in {zone}. Each amount is GPUs × time × price, rounded once to nine decimal places; point at an amount to see all of them.{isCredited && " Credited time is not charged; by hour, day and period, its credit is spread evenly over the interval."}</span>
                    {!all && parts.length > shown.length && (
                      <Button small onClick={() => setAll(true)}>
                        Show all {parts.length}
                      </Button>
                    )}
                  </>
                }
              >
                {shown.map(({ interval }) => (
                  <Row key={interval.id} places={places} interval={interval} name={nameOf(interval)} />
                ))}
              </TableCard>
            </>
          )}
        </>
      )}
      <Quotas />
    </Page>
  );
}
