/** The allocations of all projects, for operators: found by state, project and node, stopped and released with a reason. */
import { type ReactNode, useDeferredValue } from "react";
import { Link } from "wouter";
import { useProjects } from "../../api/queries";
import { type TenantAllocation, useTenantAllocations } from "../../api/tenants";
import type { InventoryNode } from "../../api/types";
import { nodesOf, useFleetWatch } from "../../api/watches";
import { nameOf } from "../../lib/allocation-name";
import { projectNames } from "../../lib/project-name";
import { plural, sentence } from "../../lib/text";
import { useMay } from "../../session/rights";
import { Empty, LabMark, Skeleton, Time } from "../../ui/basics";
import { Cpu } from "../../ui/icons";
import { Chooser, useChosen } from "../../ui/bulk";
import { SearchBox, Select } from "../../ui/form";
import { Cut, NoMatch, ShowMore } from "../../ui/no-match";
import { ProblemNote } from "../../ui/problem";
import { ProjectName } from "../../ui/project";
import { Page } from "../../ui/shell";
import { type Column, TableCard } from "../../ui/table";
import { useQueryReset, useQueryState, useQuerySwitch } from "../../ui/use-query-state";
import { OperatorsBulk } from "../allocations/bulk";
import { ForceRelease } from "../allocations/force-release";
import { Operate } from "../allocations/operate";
import { StateBadge, isEnded, isHostLost } from "../allocations/state";
import { allocationsFilter } from "./work";

const COLUMNS: Column[] = ["Name", "Project", "State", "SKU", ["Node", "optional"], ["Created", "number optional"], ["Actions", "number"]];
const STATES = ["requested", "reserved", "provisioning", "active", "releasing", "released", "failed"];
const FILTERS = ["search", "state", "project", "node"];

function Row({ one: { allocation = {}, node_id = "" }, node, before }: { one: TenantAllocation; node: InventoryNode | undefined; before: ReactNode }) {
  const { id = "", config, status, metadata, creator, display_name } = allocation;
  const lost = isHostLost(allocation);
  return (
    <tr>
      <td className="tight" title={id}>
        {before && <span className="row-before">{before}</span>}
        <Link href={`/admin/allocations/${id}`}><strong>{nameOf(allocation)}</strong></Link> {status?.lab && <LabMark />}
        {display_name && <small className="muted block">{config?.name}</small>}
      </td>
      <td>
        <ProjectName id={config?.project_id} />
        {creator && <small className="muted block">by {creator}</small>}
      </td>
      <td className="state-cell">
        <StateBadge allocation={allocation} />
        {status?.deadline && (
          <small className="muted">
            Times out <Time value={status.deadline} />
          </small>
        )}
        {status?.conditions?.map(({ type, message }) => (
          <small key={type} className="muted">
            {message}
          </small>
        ))}
      </td>
      <td className="tight">
        {config?.sku} <span className="muted">× {config?.gpu_count}</span>
      </td>
      <td className="optional tight">{node_id ? <Link href={`/admin/nodes/${node_id}`}>{node?.config?.hostname ?? node_id.slice(0, 8)}</Link> : "–"}</td>
      <td className="number optional">
        <Time value={metadata?.create_time} />
      </td>
      <td className="number">
        {isEnded(allocation) || status?.state === "releasing" ? (
          lost ? (
            <ForceRelease small id={id} name={nameOf(allocation)} />
          ) : (
            <span className="muted">–</span>
          )
        ) : (
          <span className="page-actions">{lost ? <ForceRelease small id={id} name={nameOf(allocation)} /> : <Operate allocation={allocation} />}</span>
        )}
      </td>
    </tr>
  );
}

export default function AllAllocations() {
  const fleet = useFleetWatch().view;
  const projects = useProjects();
  const [search, setSearch] = useQueryState("search");
  const [state, setState] = useQueryState("state");
  const [project, setProject] = useQueryState("project");
  const [node, setNode] = useQueryState("node");
  const [ended, setEnded] = useQuerySwitch("ended");
  const clear = useQueryReset(FILTERS);
  const asked = useDeferredValue(search);
  const { filter, cut } = allocationsFilter(asked, projects, fleet ? nodesOf(fleet) : []);
  const found = useTenantAllocations({ project_id: project, node_id: node, state, include_ended: ended, filter });
  const listed = found.data?.pages.flatMap(({ allocations = [] }) => allocations) ?? [];
  const { chosen, choose, keep } = useChosen();
  const mayChange = useMay("operate");
  const selected = listed.flatMap(({ allocation }) => (allocation && chosen.has(allocation.id ?? "") ? [allocation] : []));
  // what was found may be of an older search than the one that is typed
  const filtered = search !== "" || asked !== "" || state !== "" || project !== "" || node !== "";
  const none = found.data !== undefined && listed.length === 0 && !filtered;
  return (
    <Page
      title="All allocations"
      actions={
        <label className="switch">
          <input type="checkbox" role="switch" checked={ended} onChange={(event) => setEnded(event.target.checked)} />
          <span>Show ended</span>
        </label>
      }
    >
      {found.error && <ProblemNote error={found.error} retry={() => found.refetch()} />}
      {found.isPending && <Skeleton lines={6} label="Loading allocations" />}
      {none && (
        <Empty icon={<Cpu size={28} />} title={ended ? "No allocations yet" : "No active allocations"} action={<Link href="/admin/nodes">Show the nodes</Link>}>
          {ended ? "No project has launched anything yet." : "No project has an active or queued allocation. Show ended ones to see earlier allocations."}
        </Empty>
      )}
      {!none && (
        <>
          <div className="filters" role="search" aria-label="Allocations">
            <SearchBox label="Search by name, project, SKU, image, creator, node or whole id" placeholder="Name, project, SKU, image, creator, node or whole id" value={search} onChange={setSearch} />
            <Select label="State" value={state} onChoose={setState} options={[{ value: "", label: "All" }, ...STATES.map((value) => ({ value, label: sentence(value) }))]} />
            <Select label="Project" value={project} onChoose={setProject} options={[{ value: "", label: "All" }, ...[...projectNames(projects)].map(([value, label]) => ({ value, label }))]} />
            <Select label="Node" value={node} onChoose={setNode} options={[{ value: "", label: "All" }, ...(fleet ? nodesOf(fleet) : []).map(({ id = "", config }) => ({ value: id, label: config?.hostname ?? id }))]} />
          </div>
          <Cut text={cut} />
          <OperatorsBulk selected={selected} chosen={chosen} keep={keep} />
          {found.data && listed.length === 0 && (
            <NoMatch title="No allocation matches" clear={clear}>
              Search for a part of a name, SKU, image or creator, or for a whole id, or choose another state, project or node.
            </NoMatch>
          )}
          {listed.length > 0 && (
            <TableCard
              label="All allocations"
              columns={COLUMNS}
              foot={
                <>
                  <span className="muted" role="status">
                    {plural(listed.length, "allocation")}
                    {found.hasNextPage ? ", and more" : ""}
                  </span>
                  <ShowMore of={found} />
                </>
              }
            >
              {listed.map((one) => (
                <Row key={one.allocation?.id} one={one} node={fleet?.nodes[one.node_id ?? ""]} before={mayChange && <Chooser name={nameOf(one.allocation ?? {})} checked={chosen.has(one.allocation?.id ?? "")} choose={(on) => choose(one.allocation?.id ?? "", on)} />} />
              ))}
            </TableCard>
          )}
        </>
      )}
    </Page>
  );
}
