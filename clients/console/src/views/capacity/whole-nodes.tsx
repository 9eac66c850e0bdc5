/** How many nodes could be sold whole, and which could be again. Nothing is moved by asking. */
import { Link } from "wouter";
import { usePreservation } from "../../api/capacity";
import type { NodePreservation } from "../../api/types";
import { plural } from "../../lib/words";
import { Button, Card, Empty, Skeleton } from "../../ui/basics";
import { RotateCw, Server } from "../../ui/icons";
import { Meter, type Part } from "../../ui/meter";
import { ProblemNote } from "../../ui/problem";
import { Moves, movesText } from "./moves";

/** Each node is in exactly one part. */
export function nodeParts({ baremetal_free = 0, baremetal_allocated = 0, clean = 0, sliced = 0 }: NodePreservation): Part[] {
  return [
    { label: "whole and free", value: baremetal_free, tone: "good" },
    { label: "held whole", value: baremetal_allocated, tone: "busy" },
    { label: "empty, not sellable", value: clean, tone: "warn" },
    { label: "sliced", value: sliced, tone: "idle" },
  ];
}

/** What it would take to have more whole nodes. */
export function recoveryText({ recoverable = 0, moves = 0, gpus_moved = 0, sliced = 0, nodes = 0 }: NodePreservation): string {
  if (sliced === 0) return "No node is sliced.";
  if (recoverable === 0 && nodes === 1) return "It is the only node, so there is no room elsewhere for what is on it.";
  if (recoverable === 0) return "None of the sliced nodes could be whole: the others have no room for what is on them.";
  return `${recoverable} of the sliced nodes could be whole after ${plural(moves, "move")} with ${plural(gpus_moved, "GPU")}.`;
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
            <Link href={`/admin/nodes/${node_id}`}>To the node</Link>
          </p>
        </details>
      ))}
    </Card>
  );
}

export function WholeNodes() {
  const report = usePreservation();
  if (report.isPending) return <Skeleton lines={5} label="Counting whole nodes" />;
  if (report.error) return <ProblemNote error={report.error} retry={() => report.refetch()} />;
  const { nodes = [], notice } = report.data;
  if (nodes.length === 0) {
    return (
      <Empty icon={<Server size={28} />} title="No node has approved slots yet">
        Approve the slots of a host; it is counted here from then on.
      </Empty>
    );
  }
  return (
    <>
      <p className="lead">
        <span className="muted">A bare-metal product needs a node that nobody has any part of. Nodes are counted as they are now.</span>
        <Button small busy={report.isFetching} onClick={() => report.refetch()}>
          <RotateCw size={14} aria-hidden="true" /> Count again
        </Button>
      </p>
      {nodes.map((one) => (
        <Class key={`${one.region_code} ${one.slot_class}`} nodes={one} />
      ))}
      <p className="muted">{notice}</p>
    </>
  );
}
