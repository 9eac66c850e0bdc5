/** The approved slots of a node, and the actions on them. */
import { useEffect, useState } from "react";
import { client, unwrap } from "../../api/client";
import { useDiscovery, useEvacuationPlan } from "../../api/queries";
import type { EvacuatedAllocation, Slot, SlotStatus } from "../../api/types";
import { bytes, sentence, shortId } from "../../lib/text";
import { Badge, Button, Empty, Facts, Time } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Power, Wrench } from "../../ui/icons";
import { ProjectName } from "../../ui/project";
import { drift } from "./drift";
import { Reason, SLOT_TONES, slotWord } from "./parts";

function SlotActions({ slot }: { slot: Slot }) {
  const [reason, setReason] = useState("");
  const path = { node_id: slot.node_id ?? "", slot_id: slot.id ?? "" };
  const disable = () => unwrap(client.POST("/api/v1/admin/nodes/{node_id}/resource-slots/{slot_id}:disable", { params: { path }, body: { reason } }));
  const enable = () => unwrap(client.POST("/api/v1/admin/nodes/{node_id}/resource-slots/{slot_id}:enable", { params: { path }, body: {} }));
  const repair = () => unwrap(client.POST("/api/v1/admin/nodes/{node_id}/resource-slots/{slot_id}:repair", { params: { path }, body: { reason } }));
  const name = `slot ${slot.slot_index}`;
  return (
    <div className="slot-actions">
      {slot.status === "cleanup_blocked" && (
        <Confirm danger trigger={<Button small kind="danger"><Wrench size={14} aria-hidden="true" /> Repair</Button>} title={`Repair ${name}?`} action="Wipe and repair" ready={reason.trim() !== ""} run={repair}>
          <p>
            The slot’s disk <code>{slot.bindings?.nvme_device}</code> is wiped and verified empty. Then the slot is schedulable again.
          </p>
          <Reason id={`why-${slot.id}`} label="Reason" value={reason} onChange={setReason} />
        </Confirm>
      )}
      {slot.disabled ? (
        <Confirm trigger={<Button small><Power size={14} aria-hidden="true" /> Enable</Button>} title={`Enable ${name}?`} action="Enable" run={enable}>
          The slot is schedulable again as soon as it is healthy and clean.
        </Confirm>
      ) : (
        slot.status !== "retired" && (
          <Confirm trigger={<Button small><Power size={14} aria-hidden="true" /> Disable</Button>} title={`Disable ${name}?`} action="Disable" run={disable}>
            <p>The slot becomes unschedulable. {slot.allocation_id ? "Its allocation continues until it is released." : ""}</p>
            <Reason id={`why-${slot.id}`} label="Reason" value={reason} onChange={setReason} />
          </Confirm>
        )
      )}
    </div>
  );
}

/** The allocation of a slot by its name and project. */
function Owner({ id, allocation }: { id: string; allocation: EvacuatedAllocation["allocation"] }) {
  if (!allocation) return <code title={id}>…{shortId(id)}</code>;
  return (
    <span title={id}>
      {allocation.name} <span className="muted">of</span> <ProjectName id={allocation.project_id} />
    </span>
  );
}

export function Slots({ nodeId, slots }: { nodeId: string; slots: Slot[] }) {
  const discovery = useDiscovery(nodeId);
  // the plan knows the names of the allocations on the node
  const plan = useEvacuationPlan(nodeId);
  const claimed = slots.map(({ allocation_id }) => allocation_id).join();
  const { refetch } = plan;
  useEffect(() => void refetch(), [claimed, refetch]);
  const owners = new Map((plan.data?.allocations ?? []).map(({ allocation }) => [allocation?.id ?? "", allocation]));
  if (slots.length === 0) return <Empty title="No approved slots">Run a discovery on the Topology tab and approve its candidates.</Empty>;
  return (
    <div className="slots">
      {slots.map((slot) => {
        const word = slotWord(slot);
        const drifts = drift(slot, discovery.data ?? undefined);
        const b = slot.bindings;
        return (
          <article key={slot.id} className="card slot" aria-label={`Slot ${slot.slot_index}`}>
            <header>
              <h2>
                Slot {slot.slot_index} <Badge tone={SLOT_TONES[word as SlotStatus] ?? "idle"}>{sentence(word)}</Badge>
                {slot.disabled && word !== "disabled" && <Badge tone="idle">Disabled after release</Badge>}
                {slot.health_state !== "healthy" && <Badge tone="bad">{sentence(slot.health_state ?? "")}</Badge>}
              </h2>
              <SlotActions slot={slot} />
            </header>
            {slot.health_detail && <p className="blocker">{slot.health_detail}</p>}
            {drifts.map((text) => (
              <p key={text} className="blocker">
                {text}
              </p>
            ))}
            <Facts
              rows={[
                ["Class", slot.slot_class],
                ["GPU", b?.gpu_pci_address || "none (lab)"],
                ["Disk", <><code>{b?.nvme_device}</code> {b?.nvme_bytes && bytes(Number(b.nvme_bytes))}</>],
                ["Address", `${b?.private_ip ?? ""} · ${b?.management_mac ?? ""}`],
                ...(b?.fabric_device ? ([["Fabric", `${b.fabric_device} · ${b.fabric_vf_pci_address ?? ""}`]] as [string, string][]) : []),
                ["Generation", <span title="Counts the uses of the slot. A slot is schedulable when its disk was verified empty in its latest generation.">{slot.generation}, verified clean at {slot.clean_generation}</span>],
                ["Wipe evidence", slot.clean_evidence || "–"],
                ["Allocation", slot.allocation_id ? <Owner id={slot.allocation_id} allocation={owners.get(slot.allocation_id)} /> : "–"],
                ["Changed", <Time value={slot.update_time} />],
              ]}
            />
          </article>
        );
      })}
    </div>
  );
}
