/** Nodes available for bare metal, and nodes that moves would free for it. A simulation: nothing is moved. */
import { Link } from "wouter";
import { usePreservation } from "../../api/capacity";
import type { NodePreservation } from "../../api/types";
import { plural } from "../../lib/text";
import { Button, Card, Empty, Skeleton } from "../../ui/basics";
import { RotateCw, Server } from "../../ui/icons";
import { Meter, type Part } from "../../ui/meter";
import { ProblemNote } from "../../ui/problem";
import { Moves, movesText } from "./moves";

/** Each node is in exactly one part. */
export function nodeParts({ baremetal_free = 0, baremetal_allocated = 0, clean = 0, sliced = 0 }: NodePreservation): Part[] {
  return [
    { label: "free for bare metal", value: baremetal_free, tone: "good" },
    { label: "allocated as bare metal", value: baremetal_allocated, tone: "busy" },
    { label: "empty, unschedulable", value: clean, tone: "warn" },
    { label: "running VMs", value: sliced, tone: "idle" },
  ];
}

/** What it takes to free more nodes for bare metal. */
export function recoveryText({ recoverable = 0, moves = 0, gpus_moved = 0, sliced = 0, nodes = 0 }: NodePreservation): string {
  if (sliced === 0) return "No node runs VMs.";
  if (recoverable === 0 && nodes === 1) return "This is the only node, so its allocations cannot move elsewhere.";
  if (recoverable === 0) return "No node can be freed: the other nodes have no capacity for its allocations.";
  return `${plural(moves, "move")} of ${plural(gpus_moved, "GPU")} in total would free ${plural(recoverable, "node")} for bare metal.`;
}

function Class({ nodes }: { nodes: NodePreservation }) {
  return (
    <Card title={`${plural(nodes.nodes ?? 0, "node")} of ${nodes.slot_class} in ${nodes.region_code}`}>
      <Meter parts={nodeParts(nodes)} label={`Nodes of ${nodes.slot_class} in ${nodes.region_code}`} legend />
      <p>{recoveryText(nodes)}</p>
      {nodes.easiest?.map(({ node_id, hostname, moves = [] }) => (
        <details key={node_id}>
          <summary>
            {hostname}: {movesText(moves)}
          </summary>
          <Moves moves={moves} label={`Moves off ${hostname}`} />
          <p>
            <Link href={`/admin/nodes/${node_id}`}>Go to node</Link>
          </p>
        </details>
      ))}
    </Card>
  );
}

export function BareMetal() {
  const report = usePreservation();
  if (report.isPending) return <Skeleton lines={5} label="Counting nodes" />;
  if (report.error) return <ProblemNote error={report.error} retry={() => report.refetch()} />;
  const { nodes = [], notice } = report.data;
  if (nodes.length === 0) {
    return (
      <Empty icon={<Server size={28} />} title="No node has approved slots">
        Approve the slots of a node to see it here.
      </Empty>
    );
  }
  return (
    <>
      <p className="lead">
        <span className="muted">A bare-metal SKU needs a node without any allocation. Nodes are counted as they are now.</span>
        <Button small busy={report.isFetching} onClick={() => report.refetch()}>
          <RotateCw size={14} aria-hidden="true" /> Refresh
        </Button>
      </p>
      {nodes.map((one) => (
        <Class key={`${one.region_code} ${one.slot_class}`} nodes={one} />
      ))}
      <p className="muted">{notice}</p>
    </>
  );
}
