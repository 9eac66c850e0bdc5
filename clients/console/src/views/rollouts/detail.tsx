/** One rollout of the node agent: a table per wave. */
import type { ReactNode } from "react";
import { Link } from "wouter";
import { useRollout } from "../../api/rollouts";
import { Facts, Skeleton, Time } from "../../ui/basics";
import { ProblemNote } from "../../ui/problem";
import { Back, Page } from "../../ui/shell";
import { Actions } from "./actions";
import { StateBadge, Wave, targetOf } from "./parts";

export default function RolloutView({ id }: { id: string }) {
  const found = useRollout(id);
  const rollout = found.data;
  return (
    <Page title={rollout ? `Agent rollout: ${targetOf(rollout)}` : "Agent rollout"} crumb={<Back to="/admin/agent-rollouts">Agent rollouts</Back>} actions={rollout && <Actions key={rollout.state} rollout={rollout} />}>
      {found.error && <ProblemNote error={found.error} retry={() => found.refetch()} />}
      {!rollout && !found.error && <Skeleton lines={6} label="Loading the rollout" />}
      {rollout && (
        <>
          <div className="card strip">
            <Facts
              rows={[
                ["State", <StateBadge state={rollout.state} />],
                ["State reason", rollout.state_reason || "–"],
                ["Updated", `${rollout.succeeded_nodes ?? 0} of ${rollout.total_nodes ?? 0}`],
                ["Failed", `${rollout.failed_nodes ?? 0}, limit ${rollout.max_failures ?? 0}`],
                ["Started", <Time value={rollout.create_time} />],
                ["Actor", rollout.principal],
                ["Reason for the rollout", rollout.reason || "–"],
                ...(rollout.rollback_of ? ([["Rolls back", <Link href={`/admin/agent-rollouts/${rollout.rollback_of}`}>this rollout</Link>]] as [string, ReactNode][]) : []),
              ]}
            />
          </div>
          {(rollout.waves ?? []).map((wave) => (
            <Wave key={wave.number} wave={wave} isCurrent={rollout.end_time === undefined && wave.number === rollout.current_wave} />
          ))}
        </>
      )}
    </Page>
  );
}
