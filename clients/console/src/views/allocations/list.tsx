/** The project's allocations, live. */
import { useRef } from "react";
import { Link } from "wouter";
import { useAllAllocations, useUsage } from "../../api/queries";
import type { Allocation } from "../../api/types";
import { useAllocationsWatch } from "../../api/watches";
import { nameOf } from "../../lib/allocation-name";
import { type Amount, placesFor } from "../../lib/money";
import { costByAllocation } from "../../lib/usage";
import { plural, sentence } from "../../lib/text";
import { useProjectMay } from "../../session/roles";
import { Empty, LabMark, MoneyText, Progress, Skeleton, Time } from "../../ui/basics";
import { Chooser, useChosen } from "../../ui/bulk";
import { SearchBox, Select } from "../../ui/form";
import { Cpu, Plus } from "../../ui/icons";
import { NoMatch, ShowMore } from "../../ui/no-match";
import { ProblemNote } from "../../ui/problem";
import { Page } from "../../ui/shell";
import { type Column, LinkRow, TableCard } from "../../ui/table";
import { useQueryReset, useQueryState, useQuerySwitch } from "../../ui/use-query-state";
import { LiveMark, WatchProblem } from "../../watch/live";
import { BulkActions } from "./bulk";
import { partsOfFailure } from "./failure-message";
import { insteadOfRows, rowsOf } from "./rows";
import { filtered } from "./selection";
import { StateBadge, overallPercent } from "./state";

const STATES = ["requested", "reserved", "provisioning", "active", "releasing", "released", "failed"];
const COLUMNS: Column[] = ["Name", "State", "SKU", ["Image", "optional"], ["Region", "optional"], ["Cost so far", "number"], ["Created", "number"]];

function Row({ allocation, cost, places, chosen, choose }: { allocation: Allocation; cost: Amount | undefined; /** Decimals of the costs. */ places: number; chosen: boolean; /** Missing for who may change nothing. */ choose: ((chosen: boolean) => void) | undefined }) {
  const { config, status, metadata } = allocation;
  const percent = overallPercent(allocation);
  return (
    <LinkRow to={`/allocations/${allocation.id}`} name={nameOf(allocation)} mark={status?.lab && <LabMark />} before={choose && <Chooser name={nameOf(allocation)} checked={chosen} choose={choose} />}>
      <td className="state-cell">
        <StateBadge allocation={allocation} />
        {percent !== undefined && (
          <span className="row-progress">
            <Progress value={percent} label={`Progress of ${nameOf(allocation)}`} />
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
        {status?.failure && <small className="muted">{partsOfFailure(status.failure.message ?? "").text}</small>}
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

export default function AllocationList() {
  const [ended, setEnded] = useQuerySwitch("ended");
  const watched = useAllocationsWatch();
  const mayChange = useProjectMay("write");
  const history = useAllAllocations(ended);
  const usage = useUsage();
  const costs = costByAllocation(usage.data?.intervals ?? []);
  // what ends while the list is shown stays in it
  const seen = useRef(new Set<string>());
  const listed = ended ? (history.data?.pages.flatMap((page) => page.allocations ?? []) ?? []) : [];
  const [search, setSearch] = useQueryState("search");
  const [state, setState] = useQueryState("state");
  const clear = useQueryReset(["search", "state"]);
  const { chosen, choose, keep } = useChosen();
  const every = rowsOf(watched.view ?? {}, listed, ended, seen.current);
  const rows = filtered(every, { search, state });
  const selected = rows.filter(({ id = "" }) => chosen.has(id));
  const places = placesFor(rows.flatMap(({ id }) => costs.get(id ?? "") ?? []));
  const parts = [{ loaded: !!watched.view, failed: !!watched.problem }, ...(ended ? [{ loaded: !!history.data, failed: !!history.error }] : [])];
  const instead = every.length === 0 ? insteadOfRows(parts) : undefined;
  const more = { ...history, hasNextPage: ended && history.hasNextPage };
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
          {mayChange && (
            <Link href="/launch" className="button primary">
              <Plus size={16} aria-hidden="true" /> Launch
            </Link>
          )}
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
            mayChange && (
              <Link href="/launch" className="button primary">
                Launch an allocation
              </Link>
            )
          }
        >
          An allocation is a virtual machine with dedicated GPUs. It is billed from the moment you can log in until you
          release it.
        </Empty>
      )}
      {every.length > 0 && (
        <>
          <div className="filters" role="search" aria-label="Allocations">
            <SearchBox label="Search by name, id, SKU, image, region or label" placeholder="Name, SKU, image, region or label" value={search} onChange={setSearch} />
            <Select label="State" value={state} onChoose={setState} options={[{ value: "", label: "All" }, ...STATES.map((value) => ({ value, label: sentence(value) }))]} />
          </div>
          <BulkActions selected={selected} chosen={chosen} keep={keep} />
          {rows.length === 0 && (
            <NoMatch title="No allocation matches" noun="allocation" loaded={every.length} more={more} clear={clear}>
              Change the search or the state to see others.
            </NoMatch>
          )}
        </>
      )}
      {rows.length > 0 && (
        <TableCard
          label="Allocations"
          columns={COLUMNS}
          rowsAct
          foot={
            <>
              <span className="muted" role="status">
                {rows.length < every.length && `${rows.length} of `}
                {plural(every.length, "allocation")}
                {more.hasNextPage ? ", and more" : ""}
              </span>
              <ShowMore of={more} />
            </>
          }
        >
          {rows.map((allocation) => (
            <Row key={allocation.id} chosen={chosen.has(allocation.id ?? "")} choose={mayChange ? (on) => choose(allocation.id ?? "", on) : undefined} places={places} allocation={allocation} cost={costs.get(allocation.id ?? "")} />
          ))}
        </TableCard>
      )}
    </Page>
  );
}
