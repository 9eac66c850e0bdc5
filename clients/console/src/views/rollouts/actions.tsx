/** What an operator makes of a rollout. */
import { useState } from "react";
import { useLocation } from "wouter";
import { useChangeRollout } from "../../api/rollouts";
import type { AgentRollout } from "../../api/types";
import { Button } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { TextField } from "../catalog/parts";
import { actionsOf } from "./parts";

export function Actions({ rollout }: { rollout: AgentRollout }) {
  const change = useChangeRollout(rollout);
  const [, go] = useLocation();
  const [reason, setReason] = useState("");
  const [retry, setRetry] = useState(true);
  const actions = actionsOf(rollout);
  const why = <TextField label="Reason" value={reason} onChange={setReason} />;
  const text = reason.trim();
  return (
    <>
      {actions.includes("pause") && (
        <Confirm needs="operate" trigger={<Button>Pause</Button>} title="Pause the rollout" action="Pause" run={() => change.pause.mutateAsync(text)}>
          <p>No further node is updated. Updates already running finish.</p>
          {why}
        </Confirm>
      )}
      {actions.includes("resume") && (
        <Confirm needs="operate" trigger={<Button kind="primary">Resume</Button>} title="Resume the rollout" action="Resume" run={() => change.resume.mutateAsync({ reason: text, retry_failed: retry })}>
          <p>Earlier failures no longer count against the limit. Unless you try them again, skipped nodes stay on their old version.</p>
          <label className="check">
            <input type="checkbox" checked={retry} onChange={(event) => setRetry(event.target.checked)} /> <span>Try failed and skipped nodes again</span>
          </label>
          {why}
        </Confirm>
      )}
      {actions.includes("abort") && (
        <Confirm needs="operate" trigger={<Button>Abort</Button>} title="Abort the rollout" action="Abort" danger run={() => change.abort.mutateAsync(text)}>
          <p>The rollout ends. Nodes that have the version keep it.</p>
          {why}
        </Confirm>
      )}
      {actions.includes("rollback") && (
        <Confirm
      needs="operate"
          trigger={<Button>Roll back</Button>}
          title="Roll back"
          action="Roll back"
          danger
          run={async () => go(`/admin/agent-rollouts/${(await change.rollback.mutateAsync(text)).id}`)}
        >
          <p>A new rollout returns every changed node to its previous version, in the same waves.</p>
          {why}
        </Confirm>
      )}
    </>
  );
}
