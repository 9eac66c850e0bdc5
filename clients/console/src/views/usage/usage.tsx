/** Usage and its exact cost. */
import { Suspense, lazy, useMemo, useState } from "react";
import { Link } from "wouter";
import { useAllAllocations, useUsage } from "../../api/queries";
import type { UsageInterval } from "../../api/types";
import { amountOf, exact, placesFor } from "../../lib/money";
import { duration, fullTime, shortTime, zone } from "../../lib/time";
import { type BucketSize, buckets } from "../../lib/usage";
import { plural, shortId } from "../../lib/text";
import { Badge, Button, Card, Empty, MoneyText, Skeleton } from "../../ui/basics";
import { Segments } from "../../ui/form";
import { ReceiptText } from "../../ui/icons";
import { ProblemNote } from "../../ui/problem";
import { Page } from "../../ui/shell";
import { type Column, TableCard } from "../../ui/table";
import { useNow } from "../../ui/use-now";
import { useQueryState } from "../../ui/use-query-state";
import { Quotas } from "./quotas";

const Chart = lazy(() => import("./chart"));

const DAY_MS = 86_400_000;
const RANGES: [string, number, BucketSize][] = [
  ["24 hours", DAY_MS, "hour"],
  ["7 days", 7 * DAY_MS, "day"],
  ["30 days", 30 * DAY_MS, "day"],
];
const FIRST_RANGE = RANGES[0]!;
const COLUMNS: Column[] = ["Allocation", "SKU", "From", "To", ["Time", "number"], ["Per GPU-hour", "number optional"], ["Amount", "number"]];
const FIRST_ROWS = 25;

function Row({ interval, name, places }: { interval: UsageInterval; name: string; /** Decimals of price and amount. */ places: [number, number] }) {
  const { start_time = "", end_time, gpu_count, sku, price_per_gpu_hour, amount, microseconds } = interval;
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
      <td className="number" title={`${microseconds} µs`}>
        {duration(Number(microseconds ?? 0) / 1000)}
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

function Spend({ intervals, currency }: { intervals: UsageInterval[]; currency: string }) {
  const [rangeText, setRange] = useQueryState("range", FIRST_RANGE[0]);
  const [label, length, size] = RANGES.find(([text]) => text === rangeText) ?? FIRST_RANGE;
  const now = useNow(60_000);
  const data = useMemo(() => buckets(intervals, currency, size, now - length, now), [intervals, currency, size, length, now]);
  const total = data.reduce((sum, bucket) => sum + bucket.nanos, 0n);
  return (
    <Card
      title={`Cost by ${size}`}
      aside={
        <Segments label="Range" options={RANGES.map(([text]) => ({ value: text, label: text }))} value={label} onChoose={setRange} />
      }
    >
      <Suspense fallback={<Skeleton lines={5} label="Loading the chart" />}>
        <Chart data={data} size={size} currency={currency} label={`Cost by ${size} over ${label}, ${exact({ currency, nanos: total })} in total. The table below has the values.`} />
      </Suspense>
    </Card>
  );
}

export default function Usage() {
  const usage = useUsage();
  const allocations = useAllAllocations(true);
  const [all, setAll] = useState(false);
  const names = useMemo(() => {
    const rows = allocations.data?.pages.flatMap((page) => page.allocations ?? []) ?? [];
    return new Map(rows.map(({ id, config }) => [id ?? "", config?.name ?? ""]));
  }, [allocations.data]);
  const { intervals = [], totals = [] } = usage.data ?? {};
  const open = intervals.filter(({ end_time }) => !end_time).length;
  const shown = all ? intervals : intervals.slice(0, FIRST_ROWS);
  const places: [number, number] = [placesFor(shown.map(({ price_per_gpu_hour }) => amountOf(price_per_gpu_hour))), placesFor(shown.map(({ amount }) => amountOf(amount)))];
  return (
    <Page title="Usage">
      {usage.error && <ProblemNote error={usage.error} retry={() => usage.refetch()} />}
      {usage.isPending && <Skeleton lines={8} label="Loading usage" />}
      {usage.data && intervals.length === 0 && (
        <Empty icon={<ReceiptText size={28} />} title="No usage yet">
          Billing starts when you can log in to an allocation and ends when you release it. <Link href="/launch">Launch one</Link> to begin.
        </Empty>
      )}
      {intervals.length > 0 && (
        <>
          <div className="tiles">
            {totals.map(({ amount, gpu_microseconds }) => (
              <Card key={amount?.currency_code} title={`Total in ${amount?.currency_code}`}>
                <p className="big">
                  <MoneyText amount={amountOf(amount)} />
                </p>
                <p className="muted">{duration(Number(gpu_microseconds ?? 0) / 1000)} of GPU time</p>
              </Card>
            ))}
            <Card title="Running now">
              <p className="big">{open}</p>
              <p className="muted">{plural(intervals.length, "billed interval")} in total</p>
            </Card>
          </div>
          {totals.map(({ amount }) => (
            <Spend key={amount?.currency_code} intervals={intervals} currency={amount?.currency_code ?? ""} />
          ))}
          <TableCard
            label="Billed intervals"
            columns={COLUMNS}
            foot={
              <>
                <span className="muted">Times in {zone}. Each amount is GPUs × time × price, rounded once to nine decimal places; point at an amount to see all of them.</span>
                {!all && intervals.length > shown.length && (
                  <Button small onClick={() => setAll(true)}>
                    Show all {intervals.length}
                  </Button>
                )}
              </>
            }
          >
            {shown.map((interval) => (
              <Row key={interval.id} places={places} interval={interval} name={names.get(interval.allocation_id ?? "") || shortId(interval.allocation_id ?? "")} />
            ))}
          </TableCard>
        </>
      )}
      <Quotas />
    </Page>
  );
}
