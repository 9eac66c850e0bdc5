/** Shared parts of the node views. */
import { Link } from "wouter";
import type { Allocation, Evidence, InventoryNode, Slot, SlotStatus } from "../../api/types";
import { nameOf } from "../../lib/allocation-name";
import { sentence, shortId } from "../../lib/text";
import { Badge, type Tone } from "../../ui/basics";
import { ProjectName } from "../../ui/project";
import { isFirstWipe } from "./wipe";

export const SLOT_TONES: Record<SlotStatus, Tone> = {
  unspecified: "idle",
  available: "good",
  reserved: "busy",
  provisioning: "busy",
  active: "busy",
  releasing: "warn",
  cleanup: "warn",
  cleanup_blocked: "bad",
  disabled: "idle",
  retired: "idle",
};

const BLOCKERS: Record<string, string> = {
  not_enrolled: "The agent has not enrolled",
  host_lost: "No heartbeat from the agent",
  no_evidence: "No checks from the agent yet",
  evidence_stale: "The last checks are too old",
  device_drift: "The devices of a slot differ from the approval",
};

/** Why a node is not schedulable, in words; a check that fails by its name. Other text is left as it is. */
export function blockerText(blocker = ""): string {
  return BLOCKERS[blocker] ?? (/^[a-z0-9]+(_[a-z0-9]+)+$/.test(blocker) ? sentence(blocker) : blocker);
}

export function slotWord(slot: Slot): string {
  if (isFirstWipe(slot)) return "first_wipe";
  return slot.disabled && slot.status === "available" ? "disabled" : (slot.status ?? "unspecified");
}

/** Colour of a slot by its word. */
export function slotTone(slot: Slot): Tone {
  const word = slotWord(slot);
  return word === "first_wipe" ? "busy" : SLOT_TONES[word as SlotStatus];
}

/** Its status and, where that says more, its health. */
export function SlotBadges({ slot }: { slot: Slot }) {
  const word = slotWord(slot);
  return (
    <>
      <Badge tone={slotTone(slot)}>{sentence(word)}</Badge>
      {slot.disabled && word !== "disabled" && <Badge tone="idle">Disabled after release</Badge>}
      {slot.health_state !== "healthy" && word !== "first_wipe" && <Badge tone="bad">{sentence(slot.health_state ?? "")}</Badge>}
    </>
  );
}

export function NodeBadge({ node }: { node: InventoryNode }) {
  const { state, schedulable } = node.status ?? {};
  if (state === "pending") return <Badge tone="idle">Waiting for agent</Badge>;
  if (state === "lost") return <Badge tone="bad">Lost</Badge>;
  return schedulable ? <Badge tone="good">Ready</Badge> : <Badge tone="warn">Not ready</Badge>;
}

/** One square per slot. */
export function SlotMap({ slots }: { slots: Slot[] }) {
  return (
    <ul className="slot-map" aria-label="Slots">
      {slots.map((slot) => {
        const word = slotWord(slot);
        const text = `Slot ${slot.slot_index}: ${sentence(word)}`;
        return (
          <li key={slot.id} className={slotTone(slot)} data-status={word} title={text}>
            <span className="visually-hidden">{text}</span>
            <span aria-hidden="true">{slot.slot_index}</span>
          </li>
        );
      })}
    </ul>
  );
}

export function evidenceCounts(evidence: Evidence[]): { pass: number; fail: number; warn: number; skip: number } {
  const counts = { pass: 0, fail: 0, warn: 0, skip: 0 };
  for (const { status } of evidence) if (status && status !== "unspecified") counts[status] += 1;
  return counts;
}

/** The reason of an action, for the audit trail. */
export function Reason({ id, label, value, onChange }: { id: string; label: string; value: string; onChange: (value: string) => void }) {
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input id={id} value={value} autoComplete="off" onChange={(event) => onChange(event.target.value)} />
    </div>
  );
}

/** The allocation of a slot by its name and project. */
export function Owner({ id, allocation }: { id: string; allocation: Allocation | undefined }) {
  if (!allocation) return <code title={id}>…{shortId(id)}</code>;
  return (
    <span className="owner" title={id}>
      <Link href={`/admin/allocations/${id}`}>{nameOf(allocation)}</Link> <span className="muted">of</span> <ProjectName id={allocation.config?.project_id} />
    </span>
  );
}
