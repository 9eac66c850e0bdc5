/** The page of the nodes: their health, search and filters, and the nodes as cards or as a table. */
import { useState } from "react";
import { usePlacements } from "../../api/queries";
import type { InventoryNode, Slot } from "../../api/types";
import { nodesOf, slotsOf, useFleetWatch } from "../../api/watches";
import { plural } from "../../lib/text";
import { useMay } from "../../session/rights";
import { Button, Card, Empty, Skeleton } from "../../ui/basics";
import { useChosen } from "../../ui/bulk";
import { SearchBox, Segments, Select } from "../../ui/form";
import { Search, Server } from "../../ui/icons";
import { Meter } from "../../ui/meter";
import { ProblemNote } from "../../ui/problem";
import { Page } from "../../ui/shell";
import { useQueryReset, useQueryState } from "../../ui/use-query-state";
import { LiveMark, WatchProblem, isTold } from "../../watch/live";
import { NodesBulk } from "./bulk";
import { HEALTH, HEALTH_LABELS, type Placements, filtered, healthParts } from "./fleet";
import { NodeCards } from "./node-cards";
import { NodeTable } from "./node-table";
import { RegisterNode } from "./register";
import { isSchedulable } from "./placement";

const VIEWS = [
  { value: "cards", label: "Cards" },
  { value: "table", label: "Table" },
];
/** Nodes that are shown at first, and that each "Show more" adds. */
const PAGE = 60;
const NO_PLACEMENTS: Placements = new Map();

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
        <NodeCards nodes={shown.slice(0, most)} slots={slots} placements={placements} chosen={chosen} choose={mayChange ? choose : undefined} />
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
