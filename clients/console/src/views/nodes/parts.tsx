/** Shared parts of the node views. */
import type { Evidence, InventoryNode, Slot, SlotStatus } from "../../api/types";
import { sentence } from "../../lib/text";
import { Badge, Time, type Tone } from "../../ui/basics";
import { type Column, TableCard } from "../../ui/table";

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

export function slotWord(slot: Slot): string {
  return slot.disabled && slot.status === "available" ? "disabled" : (slot.status ?? "unspecified");
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
          <li key={slot.id} className={SLOT_TONES[word as SlotStatus] ?? "idle"} data-status={word} title={text}>
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

const EVIDENCE_TONES: Record<string, Tone> = { pass: "good", fail: "bad", warn: "warn", skip: "idle" };
const COLUMNS: Column[] = ["Check", "Result", "Details", ["Observed", "number"]];
const ORDER = ["fail", "warn", "pass", "skip"];

export function EvidenceTable({ evidence }: { evidence: Evidence[] }) {
  const sorted = [...evidence].sort((a, b) => ORDER.indexOf(a.status ?? "") - ORDER.indexOf(b.status ?? ""));
  return (
    <TableCard label="Evidence" columns={COLUMNS}>
      {sorted.map((item) => (
        <tr key={item.check}>
          <td>
            <strong>{sentence(item.check ?? "")}</strong>
          </td>
          <td>
            <Badge tone={EVIDENCE_TONES[item.status ?? ""] ?? "idle"}>{sentence(item.status ?? "")}</Badge>
          </td>
          <td>
            {item.detail}
            {item.remediation && <p className="remediation">{item.remediation}</p>}
          </td>
          <td className="number">
            <Time value={item.observed_at} />
          </td>
        </tr>
      ))}
    </TableCard>
  );
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
