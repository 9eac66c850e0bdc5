/** What of slots and NVSwitch partitions differs between the ledger and the host, each with what corrects it or why nothing does. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client, unwrap } from "../../api/client";
import type { NodeDifference, Slot } from "../../api/types";
import { plural, sentence } from "../../lib/text";
import { Badge, Button, Time } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Wrench } from "../../ui/icons";
import { type Column, TableCard } from "../../ui/table";
import { Reason } from "./parts";
import { RepairSlot } from "./slots";
import { isRepairable, verdictOf } from "./three-way";

const COLUMNS: Column[] = ["Slot", "Kind", "Since", "Verdict", ["Correction", "number"]];

const SUBJECTS: Partial<Record<NonNullable<NodeDifference["subject"]>, string>> = {
  binding: "Device",
  disk: "Disk",
  network: "Network",
  hold: "Reserved on the host",
  partition: "GPU partition",
};

/** The slot whose repair is offered for a difference: one that a call accepts, and one that only the host holds. */
export function repairedBy({ correction, slot_id, kind }: NodeDifference, slots: Slot[]): Slot | undefined {
  const slot = correction === "repair_slot" ? slots.find(({ id }) => !!id && id === slot_id) : undefined;
  return slot && (kind === "held_on_host" || isRepairable(slot)) ? slot : undefined;
}

/** Deactivates a partition without an owner. */
function DeactivatePartition({ nodeId, id }: { nodeId: string; id: number }) {
  const [reason, setReason] = useState("");
  const queries = useQueryClient();
  const name = `partition ${id}`;
  const run = async () => {
    await unwrap(client.POST("/api/v1/admin/nodes/{node_id}/partitions/{partition_id}:deactivate", { params: { path: { node_id: nodeId, partition_id: id } }, body: { reason } }));
    await queries.invalidateQueries({ queryKey: ["node-comparison", nodeId] });
  };
  return (
    <Confirm needs="operate" danger trigger={<Button small kind="danger"><Wrench size={14} aria-hidden="true" /> Deactivate <span className="visually-hidden">{name}</span></Button>} title={`Deactivate ${name}?`} action="Deactivate" ready={reason.trim() !== ""} run={run}>
      <p>Its GPUs are separated from each other. The host refuses it while an allocation has the partition, or a VM may have its GPUs.</p>
      <Reason id={`why-partition-${id}`} label="Reason" value={reason} onChange={setReason} />
    </Confirm>
  );
}

function Row({ nodeId, one, slots }: { nodeId: string; one: NodeDifference; slots: Slot[] }) {
  const { slot_id, slot_index, subject, message, remediation, since, detail } = one;
  const [word, tone] = verdictOf(one);
  const slot = repairedBy(one, slots);
  const partition = one.correction === "deactivate_partition" ? Number(one.observed) : undefined;
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
      <td className="number">{slot ? <RepairSlot slot={slot} /> : partition !== undefined ? <DeactivatePartition nodeId={nodeId} id={partition} /> : <span className="muted">–</span>}</td>
    </tr>
  );
}

export function Differences({ nodeId, differences, slots }: { nodeId: string; differences: NodeDifference[]; slots: Slot[] }) {
  if (differences.length === 0) return null;
  return (
    <TableCard label="Slots and GPU partitions" columns={COLUMNS} foot={<span className="muted">{plural(differences.length, "difference")}. Devices and disks are from the last report of the host.</span>}>
      {differences.map((one) => (
        <Row key={`${one.slot_id} ${one.kind} ${one.message}`} nodeId={nodeId} one={one} slots={slots} />
      ))}
    </TableCard>
  );
}
