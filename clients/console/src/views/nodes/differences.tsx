/** What of slots and NVSwitch partitions differs between the ledger and the host, each with what repairs it or why nothing does. */
import type { NodeDifference, Slot } from "../../api/types";
import { plural, sentence } from "../../lib/text";
import { Badge, Time } from "../../ui/basics";
import { type Column, TableCard } from "../../ui/table";
import { RepairSlot } from "./slots";
import { isRepairable, verdictOf } from "./three-way";

const COLUMNS: Column[] = ["Slot", "Kind", "Since", "Verdict", ["Repair", "number"]];

const SUBJECTS: Partial<Record<NonNullable<NodeDifference["subject"]>, string>> = {
  binding: "Device",
  disk: "Disk",
  network: "Network",
  hold: "Reserved on the host",
  partition: "GPU partition",
};

/** The slot that the repair of a difference is offered for: one that a call accepts, and one that only the host holds. */
export function repairedBy({ repair, slot_id, kind }: NodeDifference, slots: Slot[]): Slot | undefined {
  const slot = repair === "slot" ? slots.find(({ id }) => !!id && id === slot_id) : undefined;
  return slot && (kind === "held_on_host" || isRepairable(slot)) ? slot : undefined;
}

function Row({ one, slots }: { one: NodeDifference; slots: Slot[] }) {
  const { slot_id, slot_index, subject, message, remediation, since, detail } = one;
  const [word, tone] = verdictOf(one);
  const slot = repairedBy(one, slots);
  return (
    <tr>
      <td>{slot_id ? `Slot ${slot_index ?? 0}` : "None"}</td>
      <td>
        {(subject && SUBJECTS[subject]) ?? "Other"}
        <small className="bad-text block">{message}</small>
        {remediation && <small className="muted block">{remediation}</small>}
      </td>
      <td>{since ? <Time value={since} /> : "Just now"}</td>
      <td>
        <Badge tone={tone}>{word}</Badge>
        {detail && <small className="muted block">{sentence(detail)}.</small>}
      </td>
      <td className="number">{slot ? <RepairSlot slot={slot} /> : <span className="muted">–</span>}</td>
    </tr>
  );
}

export function Differences({ differences, slots }: { differences: NodeDifference[]; slots: Slot[] }) {
  if (differences.length === 0) return null;
  return (
    <TableCard label="Slots and GPU partitions" columns={COLUMNS} foot={<span className="muted">{plural(differences.length, "difference")}. Devices and disks are from the last report of the host.</span>}>
      {differences.map((one) => (
        <Row key={`${one.slot_id} ${one.kind} ${one.message}`} one={one} slots={slots} />
      ))}
    </TableCard>
  );
}
