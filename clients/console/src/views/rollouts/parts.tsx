/** States of rollouts, and the table of a wave. */
import { Link } from "wouter";
import type { AgentRollout, AgentRolloutNode, AgentRolloutWave } from "../../api/types";
import { plural } from "../../lib/text";
import { Badge, Card, type Tone } from "../../ui/basics";
import { type Column, Table } from "../../ui/table";

const STATES: Record<string, [Tone, string]> = {
  running: ["busy", "Running"],
  paused: ["warn", "Paused"],
  completed: ["good", "Completed"],
  aborted: ["idle", "Aborted"],
  pending: ["idle", "Pending"],
  updating: ["busy", "Updating"],
  succeeded: ["good", "Updated"],
  failed: ["bad", "Failed"],
  skipped: ["idle", "Skipped"],
};

/** The state of a rollout or of a node of one. */
export function StateBadge({ state = "" }: { state?: string | undefined }) {
  const [tone, text] = STATES[state] ?? ["idle", state];
  return <Badge tone={tone}>{text}</Badge>;
}

/** What a rollout brings its nodes to. */
export function targetOf({ version, rollback_of }: AgentRollout): string {
  return rollback_of ? "Rollback to the previous version" : (version ?? "");
}

/** What can be done with a rollout in its state. */
export function actionsOf({ state, rollback_of, waves = [] }: AgentRollout): string[] {
  const nodes = waves.flatMap((wave) => wave.nodes ?? []);
  const isUpdating = nodes.some((node) => node.state === "updating");
  const hasChanged = nodes.some((node) => node.from_version && node.agent_version === node.version);
  const actions: string[] = [];
  if (state === "running") actions.push("pause");
  if (state === "paused") actions.push("resume");
  if (state === "running" || state === "paused") actions.push("abort");
  if (!rollback_of && hasChanged && !isUpdating) actions.push("rollback");
  return actions;
}

const COLUMNS: Column[] = ["Node", ["Rack", "optional"], "State", ["Before", "optional"], "Agent now", "Reason"];

function NodeRow({ node }: { node: AgentRolloutNode }) {
  return (
    <tr>
      <td className="tight">
        <Link href={`/admin/nodes/${node.node_id}`}>{node.hostname}</Link>
      </td>
      <td className="optional tight">{node.rack || "–"}</td>
      <td>
        <StateBadge state={node.state} />
      </td>
      <td className="optional tight">{node.from_version || "–"}</td>
      <td className="tight">{node.agent_version || "–"}</td>
      <td>
        <small>{node.reason}</small>
      </td>
    </tr>
  );
}

export function Wave({ wave, isCurrent }: { wave: AgentRolloutWave; isCurrent: boolean }) {
  const nodes = wave.nodes ?? [];
  const updated = nodes.filter((node) => node.state === "succeeded").length;
  return (
    <Card title={`Wave ${wave.number}`} aside={<small className="muted">{`${updated} of ${plural(nodes.length, "node")} updated${isCurrent ? ", current" : ""}`}</small>}>
      <Table label={`Wave ${wave.number}`} columns={COLUMNS}>
        {nodes.map((node) => (
          <NodeRow key={node.node_id} node={node} />
        ))}
      </Table>
    </Card>
  );
}
