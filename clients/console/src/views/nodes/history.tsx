/** What became of a node, and its steps from bare machine to schedulable node. */
import { useState } from "react";
import { useAdminAllocations, useNodeHistory, useSlotHistory } from "../../api/nodes";
import type { OnboardingStep, Slot } from "../../api/types";
import { sentence } from "../../lib/text";
import { Badge, Card, Empty, Skeleton, Time, type Tone } from "../../ui/basics";
import { Check } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { ProblemNote } from "../../ui/problem";
import { ShowMore } from "../../ui/show-more";
import { type Column, TableCard } from "../../ui/table";
import { Owner, blockerText } from "./parts";

const COLUMNS: Column[] = ["State", "Reason", "Actor", ["When", "number"]];
const TONES: Record<string, Tone> = { ready: "good", enabled: "good", validating: "warn", cordoned: "warn", draining: "warn", maintenance: "warn", broken: "bad" };
const STEPS: Record<string, string> = {
  commission: "Commission the machine in MAAS",
  tag: "Tag it in MAAS with its mode",
  deploy: "Deploy its image",
  enrol: "Enrol its agent",
  discover: "Discover its devices",
  review: "Review the candidates",
  approve: "Approve the slots",
  activate: "Activate it",
};

export function stepName(name = ""): string {
  return STEPS[name] ?? sentence(name);
}

/** The steps, while one of them is not done. */
export function Onboarding({ steps, outOfService = false }: { steps: OnboardingStep[]; /** An operator has taken the node out of service, which another note says: that alone makes it no new node. */ outOfService?: boolean }) {
  const open = steps.filter(({ state }) => state !== "done" && state !== "not_needed");
  if (open.every(({ name }) => outOfService && name === "activate")) return null;
  return (
    <Card title="Onboarding" className="onboarding-card">
      <ol className="onboarding" aria-label="Onboarding">
        {steps.map(({ number, name, state = "waiting", detail }) => (
          <li key={number} className={state} aria-current={state === "current" ? "step" : undefined}>
            <span className="onboarding-mark" aria-hidden="true">
              {state === "done" ? <Check size={13} /> : number}
            </span>
            <span>
              {stepName(name)} <span className="visually-hidden">({sentence(state)})</span>
              {detail && state !== "done" && <small className="muted">{sentence(detail)}</small>}
            </span>
          </li>
        ))}
      </ol>
    </Card>
  );
}

/** Who did it, as a reader knows them: of a node's own agent the node's name. */
export function principalText(principal: string | undefined, nodeId: string, hostname: string): string | undefined {
  return principal === `node:${nodeId}` ? `host agent of ${hostname}` : principal;
}

export function History({ nodeId, hostname }: { nodeId: string; hostname: string }) {
  const found = useNodeHistory(nodeId);
  const foot = (
    <>
      <span className="muted">The newest first. Without a name, it is the host’s own report.</span>
      <ShowMore of={found} noun="change" />
    </>
  );
  return (
    <Loaded of={[found]} lines={4} label="Loading the history">
      {(entries) =>
        entries.length === 0 ? (
          <Empty title="No history yet">Each change of the node’s state appears here, with its reason and who made it.</Empty>
        ) : (
          <TableCard label="History" columns={COLUMNS} foot={foot}>
            {entries.map(({ time, state = "", reason, principal }, index) => (
              <tr key={`${time} ${state} ${index}`}>
                <td>
                  <Badge tone={TONES[state] ?? "idle"}>{sentence(state)}</Badge>
                </td>
                <td>{blockerText(reason) || "–"}</td>
                <td>{principalText(principal, nodeId, hostname) || <span className="muted">host</span>}</td>
                <td className="number">
                  <Time value={time} />
                </td>
              </tr>
            ))}
          </TableCard>
        )
      }
    </Loaded>
  );
}

/** What became of a slot: its claims, evidence and health, once somebody asks for it. */
export function SlotHistory({ slot }: { slot: Slot }) {
  const [open, setOpen] = useState(false);
  const found = useSlotHistory(slot.node_id ?? "", slot.id ?? "", open);
  const owners = useAdminAllocations(open ? [...new Set(found.data?.flatMap(({ allocation_id }) => allocation_id || []))] : []);
  return (
    <details className="slot-history" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>History</summary>
      {found.error ? <ProblemNote error={found.error} retry={() => found.refetch()} /> : null}
      {open && !found.data && !found.error && <Skeleton lines={3} label="Loading the history of the slot" />}
      {found.data?.length === 0 && <p className="muted">No history yet. Claims, evidence and health of the slot appear here.</p>}
      {found.data && found.data.length > 0 && (
        <ol aria-label={`History of slot ${slot.slot_index}`}>
          {found.data.map(({ time, kind = "", generation, detail, allocation_id, principal }, index) => (
            <li key={`${time} ${kind} ${index}`}>
              <Time value={time} />
              <span>
                <strong>{sentence(kind)}</strong> {detail} {allocation_id && <Owner id={allocation_id} allocation={owners.get(allocation_id)} />}{" "}
                <span className="muted">
                  {Number(generation ?? 0) > 0 && `generation ${generation}`} {principal && `by ${principal}`}
                </span>
              </span>
            </li>
          ))}
        </ol>
      )}
      <ShowMore of={found} noun="event" />
    </details>
  );
}
