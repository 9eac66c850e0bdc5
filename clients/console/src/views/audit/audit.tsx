/** Who did what, from where, and what was denied: the audit trail of the whole cell. */
import { type AuditFilter, useAudit } from "../../api/audit";
import { usePlacements, useProjects } from "../../api/queries";
import { zone } from "../../lib/time";
import { plural } from "../../lib/text";
import { Button, Empty, Skeleton } from "../../ui/basics";
import { Select } from "../../ui/form";
import { Search } from "../../ui/icons";
import { ProblemNote } from "../../ui/problem";
import { Page } from "../../ui/shell";
import { TableCard } from "../../ui/table";
import { TextFilter, TimeFilter, moment } from "../../ui/text-filter";
import { useQueryReset, useQueryState } from "../../ui/use-query-state";
import { COLUMNS, Row, type Names } from "./record";
import "../../styles/audit.css";

const OUTCOMES = [
  { value: "" as const, label: "All" },
  { value: "allowed" as const, label: "Allowed" },
  { value: "denied" as const, label: "Denied" },
];
const SOURCES = ["placement", "inventory", "images", "terminal", "billing", "edge"];
const KEYS = ["who", "action", "resource", "request", "outcome", "source", "from", "to"];

export default function Audit() {
  const [principal, setPrincipal] = useQueryState("who");
  const [action, setAction] = useQueryState("action");
  const [resource_id, setResource] = useQueryState("resource");
  const [request_id, setRequest] = useQueryState("request");
  const [outcome, setOutcome] = useQueryState("outcome");
  const [source, setSource] = useQueryState("source");
  const [from, setFrom] = useQueryState("from");
  const [to, setTo] = useQueryState("to");
  const clear = useQueryReset(KEYS);
  const chosen = OUTCOMES.find(({ value }) => value === outcome)?.value ?? "";
  const filter: AuditFilter = { principal, action, resource_id, request_id, outcome: chosen, source, start_time: moment(from), end_time: moment(to) };
  const found = useAudit(filter);
  const records = found.data?.pages.flatMap(({ records = [] }) => records) ?? [];
  const projects = useProjects();
  const { data: placements } = usePlacements();
  const names: Names = new Map([...projects.map(({ id, slug }) => [id, slug] as const), ...[...(placements ?? [])].map(([id, { hostname = "" }]) => [id, hostname] as const)]);
  const missing = found.data?.pages.at(-1)?.unreachable_sources ?? [];
  return (
    <Page
      title="Audit"
      actions={
        <Button busy={found.isRefetching} onClick={() => found.refetch()}>
          Refresh
        </Button>
      }
    >
      <p className="intro muted">
        Every change of the platform and every denied attempt, the newest first. Verify with <code>gpuaas admin audit verify</code> that no record was changed or removed.
      </p>
      <div className="filters audit-filters" role="search" aria-label="Audit records">
        <TextFilter label="Who" placeholder="user:alice" value={principal} onChange={setPrincipal} />
        <TextFilter label="Action" placeholder="slot.approve" value={action} onChange={setAction} />
        <TextFilter label="Resource id" placeholder="Id" value={resource_id} onChange={setResource} />
        <TextFilter label="Request" placeholder="X-Request-Id" value={request_id} onChange={setRequest} />
        <TimeFilter label="From" value={from} onChange={setFrom} />
        <TimeFilter label="To" value={to} onChange={setTo} />
        <Select label="Outcome" value={chosen} onChoose={setOutcome} options={OUTCOMES} />
        <Select label="Source" value={source} onChoose={setSource} options={[{ value: "", label: "All" }, ...SOURCES.map((value) => ({ value, label: value }))]} />
      </div>
      {found.error && <ProblemNote error={found.error} retry={() => found.refetch()} />}
      {found.isPending && <Skeleton lines={8} label="Loading audit records" />}
      {missing.length > 0 && (
        <p className="blocker" role="alert">
          {missing.join(", ")} did not answer: the records of {missing.length === 1 ? "this source" : "these sources"} are missing here.
        </p>
      )}
      {found.data && records.length === 0 && (
        <Empty icon={<Search size={28} />} title="No record matches" action={<Button onClick={clear}>Clear the filters</Button>}>
          Each filter must match exactly. Records are removed when their retention is over.
        </Empty>
      )}
      {records.length > 0 && (
        <TableCard
          label="Audit records"
          columns={COLUMNS}
          foot={
            <>
              <span className="muted" role="status">
                {plural(records.length, "record")}
                {found.hasNextPage ? ", and more" : ""}. Times in {zone}.
              </span>
              {found.hasNextPage && (
                <Button small busy={found.isFetchingNextPage} onClick={() => found.fetchNextPage()}>
                  Show more
                </Button>
              )}
            </>
          }
        >
          {records.map((record) => (
            <Row key={record.id} record={record} names={names} />
          ))}
        </TableCard>
      )}
    </Page>
  );
}
