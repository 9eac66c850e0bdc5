/** The allocations of all projects that have capacity, for operators. */
import { Link } from "wouter";
import { useProjects } from "../../api/queries";
import type { Allocation, InventoryNode } from "../../api/types";
import { plural, sentence } from "../../lib/text";
import { Button, Empty, LabMark, Skeleton, Time } from "../../ui/basics";
import { Cpu, Search } from "../../ui/icons";
import { SearchBox, Select } from "../../ui/form";
import { ProjectName } from "../../ui/project";
import { Page } from "../../ui/shell";
import { type Column, TableCard } from "../../ui/table";
import { useQueryReset, useQueryState } from "../../ui/use-query-state";
import { LiveMark, WatchProblem } from "../../watch/live";
import { ForceRelease } from "../allocations/force-release";
import { StateBadge, isHostLost } from "../allocations/state";
import { MOST, useWork } from "./use-work";
import { workMatches } from "./work";

const COLUMNS: Column[] = ["Name", "Project", "State", "SKU", ["Node", "optional"], ["Created", "number optional"], ["Actions", "number"]];
const STATES = ["reserved", "provisioning", "active", "releasing"];

function Row({ allocation, node }: { allocation: Allocation; node: InventoryNode | undefined }) {
  const { id = "", config, status, metadata } = allocation;
  const name = config?.name ?? id;
  return (
    <tr>
      <td className="tight" title={id}>
        <strong>{name}</strong> {status?.lab && <LabMark />}
      </td>
      <td>
        <ProjectName id={config?.project_id} />
      </td>
      <td className="state-cell">
        <StateBadge allocation={allocation} />
        {status?.deadline && (
          <small className="muted">
            Times out <Time value={status.deadline} />
          </small>
        )}
      </td>
      <td className="tight">
        {config?.sku} <span className="muted">× {config?.gpu_count}</span>
      </td>
      <td className="optional">{node ? <Link href={`/admin/nodes/${node.id}`}>{node.config?.hostname}</Link> : "–"}</td>
      <td className="number optional">
        <Time value={metadata?.create_time} />
      </td>
      <td className="number">{isHostLost(allocation) ? <ForceRelease small id={id} name={name} /> : <span className="muted">–</span>}</td>
    </tr>
  );
}

export default function AllAllocations() {
  const { watched, allocations, count, nodeOf, loaded } = useWork();
  const projects = useProjects();
  const [search, setSearch] = useQueryState("search");
  const [state, setState] = useQueryState("state");
  const clear = useQueryReset(["search", "state"]);
  const textOf = (allocation: Allocation) => [
    allocation.id ?? "",
    projects.find(({ id }) => id === allocation.config?.project_id)?.slug ?? allocation.config?.project_id ?? "",
    nodeOf(allocation)?.config?.hostname ?? "",
  ];
  const shown = allocations.filter((allocation) => workMatches(textOf(allocation), allocation, { search, state }));
  return (
    <Page title="All allocations" actions={<LiveMark watched={watched} />}>
      <WatchProblem watched={watched} />
      {!loaded && !watched.problem && <Skeleton lines={6} label="Loading allocations" />}
      {loaded && count === 0 && (
        <Empty icon={<Cpu size={28} />} title="Nothing runs" action={<Link href="/admin/capacity?tab=queue">Show the queue</Link>}>
          No allocation of any project has capacity now. Requests that wait for capacity are in the queue.
        </Empty>
      )}
      {loaded && count > 0 && (
        <>
          <div className="filters" role="search" aria-label="Allocations">
            <SearchBox label="Search by name, project, SKU, node or id" placeholder="Name, project, SKU, node or id" value={search} onChange={setSearch} />
            <Select label="State" value={state} onChoose={setState} options={[{ value: "", label: "All" }, ...STATES.map((value) => ({ value, label: sentence(value) }))]} />
          </div>
          {shown.length === 0 ? (
            <Empty icon={<Search size={28} />} title="No allocation matches" action={<Button onClick={clear}>Clear the filters</Button>}>
              Change the search or the state to see others.
            </Empty>
          ) : (
            <TableCard
              label="All allocations"
              columns={COLUMNS}
              foot={
                <span className="muted" role="status">
                  {shown.length < count && `${shown.length} of `}
                  {plural(count, "allocation")} with capacity
                  {count > MOST && `; the newest ${MOST} are listed`}. Owners stop and release theirs; an operator ends one whose host is lost.
                </span>
              }
            >
              {shown.map((allocation) => (
                <Row key={allocation.id} allocation={allocation} node={nodeOf(allocation)} />
              ))}
            </TableCard>
          )}
        </>
      )}
    </Page>
  );
}
