/** The nodes with their readiness, slots and blockers. */
import { type ReactNode, useState } from "react";
import { Link } from "wouter";
import { usePlacements } from "../../api/queries";
import type { InventoryNode, NodePlacement, Slot } from "../../api/types";
import { nodesOf, slotsOf, useFleetWatch } from "../../api/watches";
import { plural } from "../../lib/text";
import { useMay } from "../../session/rights";
import { Button, Card, Empty, Facts, LabMark, Skeleton, Time } from "../../ui/basics";
import { Chooser, useChosen } from "../../ui/bulk";
import { SearchBox, Segments, Select } from "../../ui/form";
import { Search, Server } from "../../ui/icons";
import { Meter } from "../../ui/meter";
import { ProblemNote } from "../../ui/problem";
import { Page } from "../../ui/shell";
import { useQueryReset, useQueryState } from "../../ui/use-query-state";
import { LiveMark, WatchProblem, isTold } from "../../watch/live";
import { NodesBulk } from "./bulk";
import { countsText } from "./checks";
import { HEALTH, HEALTH_LABELS, type Placements, filtered, healthParts } from "./fleet";
import { NodeTable } from "./node-table";
import { SlotMap, blockerText } from "./parts";
import { RegisterNode } from "./register";
import { NodeState, isSchedulable } from "./placement";

const VIEWS = [
  { value: "cards", label: "Cards" },
  { value: "table", label: "Table" },
];
/** Nodes that are shown at first, and that each "Show more" adds. */
const PAGE = 60;
const NO_PLACEMENTS: Placements = new Map();

function NodeCard({ node, slots, placement, before }: { node: InventoryNode; slots: Slot[]; placement: NodePlacement | undefined; before: ReactNode }) {
  const { config, status, id = "" } = node;
  return (
    <article className="card node-card">
      <header>
        <h2>
          {before && <span className="row-before">{before}</span>}
          <Link href={`/admin/nodes/${id}`} className="row-name">
            {config?.hostname}
          </Link>
          {status?.lab && <LabMark />}
        </h2>
        <span className="badges">
          <NodeState node={node} placement={placement} />
        </span>
      </header>
      {slots.length > 0 ? <SlotMap slots={slots} /> : <p className="muted">No approved slots. Run a discovery on its Topology tab.</p>}
      <Facts
        rows={[
          ["Region", config?.region_code],
          ["Mode", config?.mode],
          // the watch carries no heartbeats, so the time would be stale for a healthy node
          ...(status?.state === "lost" ? ([["Last heartbeat", <Time value={status.last_heartbeat_time} />]] as [string, ReactNode][]) : []),
          ["Slots", Object.entries(status?.slots ?? {}).map(([word, count]) => `${count} ${word.replaceAll("_", " ")}`).join(", ") || "–"],
          ["Agent", status?.instance?.agent_version ?? "–"],
          ["Checks", countsText(status?.evidence ?? [])],
        ]}
      />
      {status?.blockers?.map((blocker) => (
        <p key={blocker} className="blocker">
          {blockerText(blocker)}
        </p>
      ))}
    </article>
  );
}

/** A choice among the values that there are; the empty one is all. */
function choices(all: string, values: (string | undefined)[]): { value: string; label: string }[] {
  const known = [...new Set(values.filter((value): value is string => !!value))].sort();
  return [{ value: "", label: all }, ...known.map((value) => ({ value, label: value }))];
}

function Nodes({ nodes, slots, placements }: { nodes: InventoryNode[]; slots: (node: string) => Slot[]; placements: Placements }) {
  const [search, setSearch] = useQueryState("search");
  const [region, setRegion] = useQueryState("region");
  const [mode, setMode] = useQueryState("mode");
  const [health, setHealth] = useQueryState("health");
  const [view, setView] = useQueryState("view", VIEWS[0]!.value);
  const [most, setMost] = useState(PAGE);
  const { chosen, choose, keep } = useChosen();
  const mayChange = useMay("operate");
  const shown = filtered(nodes, placements, { search, region, mode, health });
  const ready = nodes.filter((node) => isSchedulable(node, placements.get(node.id ?? ""))).length;
  const clear = useQueryReset(["search", "region", "mode", "health"]);
  return (
    <>
      <Card title="Health">
        <Meter parts={healthParts(nodes, placements)} label="Nodes by health" legend />
      </Card>
      <div className="filters" role="search" aria-label="Nodes">
        <SearchBox label="Search by hostname, id or blocker" placeholder="Hostname, id or blocker" value={search} onChange={setSearch} />
        <Select label="Health" value={health} onChoose={setHealth} options={[{ value: "", label: "All" }, ...HEALTH.map((value) => ({ value: value as string, label: HEALTH_LABELS[value] }))]} />
        <Select label="Region" value={region} onChoose={setRegion} options={choices("All", nodes.map(({ config }) => config?.region_code))} />
        <Select label="Mode" value={mode} onChoose={setMode} options={choices("All", nodes.map(({ config }) => config?.mode))} />
        <Segments label="View" options={VIEWS} value={view} onChoose={setView} />
      </div>
      <p className="muted" role="status">
        {shown.length < nodes.length && `${shown.length} of `}
        {plural(nodes.length, "node")}, {ready} schedulable
      </p>
      <NodesBulk selected={shown.filter(({ id = "" }) => chosen.has(id))} chosen={chosen} keep={keep} placements={placements} slots={slots} />
      {shown.length === 0 ? (
        <Empty icon={<Search size={28} />} title="No node matches" action={<Button onClick={clear}>Clear the filters</Button>}>
          Change the search or a filter to see other nodes.
        </Empty>
      ) : view === "table" ? (
        <NodeTable nodes={shown.slice(0, most)} slots={slots} placements={placements} chosen={chosen} choose={mayChange ? choose : undefined} />
      ) : (
        <div className="node-grid">
          {shown.slice(0, most).map((node) => (
            <NodeCard key={node.id} node={node} slots={slots(node.id ?? "")} placement={placements.get(node.id ?? "")} before={mayChange && <Chooser name={node.config?.hostname} checked={chosen.has(node.id ?? "")} choose={(on) => choose(node.id ?? "", on)} />} />
          ))}
        </div>
      )}
      {shown.length > most && (
        <p className="more">
          <Button onClick={() => setMost(most + PAGE)}>Show {Math.min(PAGE, shown.length - most)} more</Button>
        </p>
      )}
    </>
  );
}

export default function NodeList() {
  const watched = useFleetWatch();
  const placements = usePlacements();
  const fleet = watched.view;
  const nodes = fleet && nodesOf(fleet);
  return (
    <Page title="Nodes" actions={
        <>
          <LiveMark watched={watched} />
          <RegisterNode />
        </>
      }
    >
      <WatchProblem watched={watched} />
      {placements.error && !isTold(watched, placements.error) && <ProblemNote error={placements.error} retry={() => placements.refetch()} />}
      {!nodes && !watched.problem && <Skeleton lines={6} label="Loading nodes" />}
      {nodes?.length === 0 && (
        <Empty icon={<Server size={28} />} title="No nodes registered">
          Register a node, here or with <code>gpuaas admin node create</code>, then start its agent with the enrolment token.
        </Empty>
      )}
      {nodes && nodes.length > 0 && <Nodes nodes={nodes} slots={(node) => slotsOf(fleet, node)} placements={placements.data ?? NO_PLACEMENTS} />}
    </Page>
  );
}
