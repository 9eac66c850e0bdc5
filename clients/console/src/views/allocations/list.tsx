/** The project's allocations, live. */
import { useRef } from "react";
import { Link } from "wouter";
import { useAllAllocations, useUsage } from "../../api/queries";
import type { Allocation } from "../../api/types";
import { useAllocationsWatch } from "../../api/watches";
import { type Amount, placesFor } from "../../lib/money";
import { costByAllocation } from "../../lib/usage";
import { plural } from "../../lib/text";
import { Button, Empty, LabMark, MoneyText, Progress, Skeleton, Time } from "../../ui/basics";
import { Cpu, Plus } from "../../ui/icons";
import { ProblemNote } from "../../ui/problem";
import { Page } from "../../ui/shell";
import { type Column, LinkRow, TableCard } from "../../ui/table";
import { useQuerySwitch } from "../../ui/use-query-state";
import { LiveMark, WatchProblem } from "../../watch/live";
import { insteadOfRows, rowsOf } from "./rows";
import { StateBadge, overallPercent } from "./state";

const COLUMNS: Column[] = ["Name", "State", "SKU", ["Image", "optional"], ["Region", "optional"], ["Cost so far", "number"], ["Created", "number"]];

function Row({ allocation, cost, places }: { allocation: Allocation; cost: Amount | undefined; /** Decimals of the costs. */ places: number }) {
  const { config, status, metadata } = allocation;
  const percent = overallPercent(allocation);
  return (
    <LinkRow to={`/allocations/${allocation.id}`} name={config?.name} mark={status?.lab && <LabMark />}>
      <td className="state-cell">
        <StateBadge allocation={allocation} />
        {percent !== undefined && (
          <span className="row-progress">
            <Progress value={percent} label={`Progress of ${config?.name}`} />
            <small className="muted">{status?.progress?.message}</small>
          </span>
        )}
        {status?.queue && (
          <small className="muted">
            Position {status.queue.position} in the queue. {status.queue.message}
          </small>
        )}
        {status?.conditions?.map(({ type, message }) => (
          <small key={type} className="muted">
            {message}
          </small>
        ))}
        {status?.failure && <small className="muted">{status.failure.message}</small>}
      </td>
      <td className="tight">
        {config?.sku} <span className="muted">× {config?.gpu_count}</span>
      </td>
      <td className="optional tight">{config?.image}</td>
      <td className="optional">{config?.region_code}</td>
      <td className="number">{cost ? <MoneyText amount={cost} places={places} /> : <span className="muted">–</span>}</td>
      <td className="number">
        <Time value={metadata?.create_time} />
      </td>
    </LinkRow>
  );
}

export function AllocationList() {
  const [ended, setEnded] = useQuerySwitch("ended");
  const watched = useAllocationsWatch();
  const history = useAllAllocations(ended);
  const usage = useUsage();
  const costs = costByAllocation(usage.data?.intervals ?? []);
  // what ends while the list is shown stays in it
  const seen = useRef(new Set<string>());
  const listed = ended ? (history.data?.pages.flatMap((page) => page.allocations ?? []) ?? []) : [];
  const rows = rowsOf(watched.view ?? {}, listed, ended, seen.current);
  const places = placesFor(rows.flatMap(({ id }) => costs.get(id ?? "") ?? []));
  const parts = [{ loaded: !!watched.view, failed: !!watched.problem }, ...(ended ? [{ loaded: !!history.data, failed: !!history.error }] : [])];
  const instead = rows.length === 0 ? insteadOfRows(parts) : undefined;
  return (
    <Page
      title="Allocations"
      actions={
        <>
          <LiveMark watched={watched} />
          <label className="switch">
            <input type="checkbox" role="switch" checked={ended} onChange={(event) => setEnded(event.target.checked)} />
            <span>Show ended</span>
          </label>
          <Link href="/launch" className="button primary">
            <Plus size={16} aria-hidden="true" /> Launch
          </Link>
        </>
      }
    >
      <WatchProblem watched={watched} />
      {ended && history.error && <ProblemNote error={history.error} retry={() => history.refetch()} />}
      {instead === "loading" && <Skeleton lines={5} label="Loading allocations" />}
      {instead === "empty" && (
        <Empty
          icon={<Cpu size={28} />}
          title={ended ? "No allocations yet" : "No active allocations"}
          action={
            <Link href="/launch" className="button primary">
              Launch an allocation
            </Link>
          }
        >
          An allocation is a virtual machine with dedicated GPUs. It is billed from the moment you can log in until you
          release it.
        </Empty>
      )}
      {rows.length > 0 && (
        <TableCard
          label="Allocations"
          columns={COLUMNS}
          rowsAct
          foot={
            <>
              <span className="muted" role="status">
                {plural(rows.length, "allocation")}
                {ended && history.hasNextPage ? ", and more" : ""}
              </span>
              {ended && history.hasNextPage && (
                <Button small busy={history.isFetchingNextPage} onClick={() => history.fetchNextPage()}>
                  Show more
                </Button>
              )}
            </>
          }
        >
          {rows.map((allocation) => (
            <Row key={allocation.id} places={places} allocation={allocation} cost={costs.get(allocation.id ?? "")} />
          ))}
        </TableCard>
      )}
    </Page>
  );
}
