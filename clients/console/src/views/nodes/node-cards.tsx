/** The nodes as cards: slots, facts and blockers of each. The same as a table is `node-table.tsx`. */
import type { ReactNode } from "react";
import { Link } from "wouter";
import type { InventoryNode, NodePlacement, Slot } from "../../api/types";
import { Facts, LabMark, Time } from "../../ui/basics";
import { Chooser } from "../../ui/bulk";
import { countsText } from "./checks";
import type { Placements } from "./fleet";
import { SlotMap, blockerText } from "./parts";
import { NodeState } from "./placement";

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
      {slots.length > 0 ? <SlotMap slots={slots} /> : <p className="muted">No approved slots. Run a discovery on the Topology tab of the node.</p>}
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

export function NodeCards({ nodes, slots, placements, chosen, choose }: { nodes: InventoryNode[]; slots: (node: string) => Slot[]; placements: Placements; chosen: ReadonlySet<string>; choose: ((id: string, on: boolean) => void) | undefined }) {
  return (
    <div className="node-grid">
      {nodes.map((node) => {
        const { id = "", config } = node;
        const before = choose && <Chooser name={config?.hostname} checked={chosen.has(id)} choose={(on) => choose(id, on)} />;
        return <NodeCard key={id} node={node} slots={slots(id)} placement={placements.get(id)} before={before} />;
      })}
    </div>
  );
}
