/** Who did what, from where, and what was denied: the audit trail of the whole cell. */
import { type AuditFilter, useAudit } from "../../api/audit";
import { usePlacements, useProjects } from "../../api/queries";
import { projectNames } from "../../lib/project-name";
import { Button, Empty, Skeleton } from "../../ui/basics";
import { Select } from "../../ui/form";
import { Search } from "../../ui/icons";
import { ProblemNote } from "../../ui/problem";
import { Page } from "../../ui/shell";
import { TableCard } from "../../ui/table";
import { TextFilter } from "../../ui/text-filter";
import { TrailFilters, TrailFoot, useTrail } from "../../ui/trail";
import { useQueryState } from "../../ui/use-query-state";
import { Chains, Export, Verify } from "./chains";
import { COLUMNS, Row, type Names } from "./record";
import { useTrailWork } from "./trail-work";

const SOURCES = ["placement", "inventory", "images", "terminal", "billing", "edge"];
/** The parameters of the address that only this page has. */
const KEYS = ["action", "resource", "request", "source"];

export default function Audit() {
  const [action, setAction] = useQueryState("action");
  const [resource_id, setResource] = useQueryState("resource");
  const [request_id, setRequest] = useQueryState("request");
  const [source, setSource] = useQueryState("source");
  const trail = useTrail(KEYS);
  const whole = useTrailWork();
  const filter: AuditFilter = { principal: trail.who, action, resource_id, request_id, source, ...trail.times };
  const found = useAudit(filter);
  const records = found.data?.pages.flatMap(({ records = [] }) => records) ?? [];
  const projects = useProjects();
  const { data: placements } = usePlacements();
  const names: Names = new Map([...projectNames(projects), ...[...(placements ?? [])].map(([id, { hostname = "" }]) => [id, hostname] as const)]);
  const missing = found.data?.pages.at(-1)?.unreachable_sources ?? [];
  return (
    <Page
      title="Audit"
      actions={
        <>
          <Verify of={whole} />
          <Export of={whole} sources={SOURCES} />
          <Button busy={found.isRefetching} onClick={() => found.refetch()}>
            Refresh
          </Button>
        </>
      }
    >
      <p className="intro muted">
        Every change of the platform and every denied attempt, the newest first. As <code>gpuaas admin audit verify</code> does, Verify finds out whether a record was changed or removed.
      </p>
      <Chains of={whole} />
      <TrailFilters label="Audit records" trail={trail}>
        <TextFilter label="Action" placeholder="slot.approve" value={action} onChange={setAction} />
        <TextFilter label="Resource id" placeholder="Id" value={resource_id} onChange={setResource} />
        <TextFilter label="Request" placeholder="X-Request-Id" value={request_id} onChange={setRequest} />
        <Select label="Source" value={source} onChoose={setSource} options={[{ value: "", label: "All" }, ...SOURCES.map((value) => ({ value, label: value }))]} />
      </TrailFilters>
      {found.error && <ProblemNote error={found.error} retry={() => found.refetch()} />}
      {found.isPending && <Skeleton lines={8} label="Loading audit records" />}
      {missing.length > 0 && (
        <p className="blocker" role="alert">
          {missing.join(", ")} did not answer: the records of {missing.length === 1 ? "this source" : "these sources"} are missing here.
        </p>
      )}
      {found.data && records.length === 0 && (
        <Empty icon={<Search size={28} />} title="No record matches" action={<Button onClick={trail.clear}>Clear the filters</Button>}>
          Filters match exactly. Old records are removed after their retention time.
        </Empty>
      )}
      {records.length > 0 && (
        <TableCard
          label="Audit records"
          columns={COLUMNS}
          foot={<TrailFoot count={records.length} noun="record" of={found} />}
        >
          {records.map((record) => (
            <Row key={record.id} record={record} names={names} />
          ))}
        </TableCard>
      )}
    </Page>
  );
}
