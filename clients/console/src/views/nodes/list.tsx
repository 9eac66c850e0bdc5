/** The nodes with their readiness, slots and blockers. */
import type { ReactNode } from "react";
import { Link } from "wouter";
import { usePlacements } from "../../api/queries";
import type { InventoryNode, NodePlacement, Slot } from "../../api/types";
import { nodesOf, slotsOf, useFleetWatch } from "../../api/watches";
import { plural } from "../../lib/text";
import { Empty, Facts, LabMark, Skeleton, Time } from "../../ui/basics";
import { Server } from "../../ui/icons";
import { ProblemNote } from "../../ui/problem";
import { Page } from "../../ui/shell";
import { LiveMark, WatchProblem } from "../../watch/live";
import { SlotMap, evidenceCounts } from "./parts";
import { NodeState, isSchedulable } from "./placement";

function NodeCard({ node, slots, placement }: { node: InventoryNode; slots: Slot[]; placement: NodePlacement | undefined }) {
  const { config, status, id = "" } = node;
  const counts = evidenceCounts(status?.evidence ?? []);
  return (
    <article className="card node-card">
      <header>
        <h2>
          <Link href={`/admin/nodes/${id}`} className="row-name">
            {config?.hostname}
          </Link>
          {status?.lab && <LabMark />}
        </h2>
        <span className="badges">
          <NodeState node={node} placement={placement} />
        </span>
      </header>
      {slots.length > 0 ? <SlotMap slots={slots} /> : <p className="muted">No approved slots.</p>}
      <Facts
        rows={[
          ["Region", config?.region_code],
          ["Mode", config?.mode],
          // the watch carries no heartbeats, so the time would be stale for a healthy node
          ...(status?.state === "lost" ? ([["Last heartbeat", <Time value={status.last_heartbeat_time} />]] as [string, ReactNode][]) : []),
          ["Slots", Object.entries(status?.slots ?? {}).map(([word, count]) => `${count} ${word.replaceAll("_", " ")}`).join(", ") || "–"],
          ["Checks", `${counts.pass} pass${counts.fail ? `, ${counts.fail} fail` : ""}${counts.warn ? `, ${counts.warn} warn` : ""}`],
        ]}
      />
      {status?.blockers?.map((blocker) => (
        <p key={blocker} className="blocker">
          {blocker}
        </p>
      ))}
    </article>
  );
}

export default function NodeList() {
  const watched = useFleetWatch();
  const placements = usePlacements();
  const fleet = watched.view;
  const nodes = fleet && nodesOf(fleet);
  const ready = nodes?.filter((node) => isSchedulable(node, placements.data?.get(node.id ?? ""))).length ?? 0;
  return (
    <Page title="Nodes" actions={<LiveMark watched={watched} />}>
      <WatchProblem watched={watched} />
      {placements.error && <ProblemNote error={placements.error} retry={() => placements.refetch()} />}
      {!nodes && !watched.problem && <Skeleton lines={6} label="Loading nodes" />}
      {nodes?.length === 0 && (
        <Empty icon={<Server size={28} />} title="No nodes registered">
          Register a node with the API, then start its agent with the enrolment token.
        </Empty>
      )}
      {nodes && nodes.length > 0 && (
        <>
          <p className="muted" role="status">
            {plural(nodes.length, "node")}, {ready} schedulable
          </p>
          <div className="node-grid">
            {nodes.map((node) => (
              <NodeCard key={node.id} node={node} slots={slotsOf(fleet, node.id ?? "")} placement={placements.data?.get(node.id ?? "")} />
            ))}
          </div>
        </>
      )}
    </Page>
  );
}
