/** The approved slots of a node, and the actions on them. */
import { type ReactNode, useState } from "react";
import { changeSlot, useAdminAllocations, useSlotRepair } from "../../api/nodes";
import type { Allocation, Slot } from "../../api/types";
import { nameOf } from "../../lib/allocation-name";
import { bytes } from "../../lib/text";
import { Button, Empty, Facts, Progress, Time } from "../../ui/basics";
import { useMay } from "../../session/rights";
import { Chooser, useChosen } from "../../ui/bulk";
import { Confirm } from "../../ui/dialog";
import { Power, Wrench } from "../../ui/icons";
import { ForceRelease } from "../allocations/force-release";
import { isHostLost } from "../allocations/state";
import { Drifts } from "./compare";
import { SlotsBulk } from "./bulk";
import { SlotHistory } from "./history";
import { Owner, Reason, SlotBadges } from "./parts";
import { isRebound, isRepairable } from "./three-way";
import { isFirstWipe, percentIn, withoutPercent } from "./wipe";

/** Wipes a slot's disk and makes the slot schedulable again. */
export function RepairSlot({ slot }: { slot: Slot }) {
  const [reason, setReason] = useState("");
  const repair = () => changeSlot(slot, "repair", reason);
  const name = `slot ${slot.slot_index}`;
  return (
    <Confirm needs="operate" danger trigger={<Button small kind="danger"><Wrench size={14} aria-hidden="true" /> Repair <span className="visually-hidden">{name}</span></Button>} title={`Repair ${name}?`} action="Wipe and repair" ready={reason.trim() !== ""} run={repair}>
      <p>
        The slot’s disk <code>{slot.bindings?.nvme_device}</code> is wiped and verified empty. {isRebound(slot) && "If another driver has a device of the slot, the device is bound to vfio-pci again, unless it is in use. "}Then the slot is schedulable again.
      </p>
      <Reason id={`why-repair-${slot.id}`} label="Reason" value={reason} onChange={setReason} />
    </Confirm>
  );
}

export function SlotActions({ slot, allocation, isLost }: { slot: Slot; allocation: Allocation | undefined; /** Its node is. */ isLost: boolean }) {
  const [reason, setReason] = useState("");
  const disable = () => changeSlot(slot, "disable", reason);
  const enable = () => changeSlot(slot, "enable");
  const name = `slot ${slot.slot_index}`;
  return (
    <div className="slot-actions">
      {slot.allocation_id && (isLost || (allocation && isHostLost(allocation))) && <ForceRelease small id={slot.allocation_id} name={allocation ? nameOf(allocation) : `the allocation of ${name}`} />}
      {isRepairable(slot) && <RepairSlot slot={slot} />}
      {slot.status === "retired" ? null : slot.disabled ? (
        <Confirm needs="operate" trigger={<Button small><Power size={14} aria-hidden="true" /> Enable</Button>} title={`Enable ${name}?`} action="Enable" run={enable}>
          The slot is schedulable again as soon as it is healthy and clean.
        </Confirm>
      ) : (
        <Confirm needs="operate" trigger={<Button small><Power size={14} aria-hidden="true" /> Disable</Button>} title={`Disable ${name}?`} action="Disable" run={disable}>
          <p>The slot becomes unschedulable. {slot.allocation_id ? "Its allocation continues until it is released." : ""}</p>
          <Reason id={`why-${slot.id}`} label="Reason" value={reason} onChange={setReason} />
        </Confirm>
      )}
    </div>
  );
}

/** Why a slot that is wiped takes no allocations, and how far the wipe is. */
export function WipeNote({ slot }: { slot: Slot }) {
  const isWiped = slot.status === "cleanup";
  const repair = useSlotRepair(slot.node_id ?? "", slot.id ?? "", isWiped).data;
  if (!isWiped) return null;
  const step = repair?.state === "running" ? (repair.detail ?? "") : "";
  const percent = percentIn(step);
  const why = slot.health_detail || "The disk is being wiped and verified.";
  return (
    <div className="wipe-note" role="status">
      <p>
        <strong>Not schedulable yet.</strong> {why}
      </p>
      {percent !== undefined && <Progress value={percent} label={`Wipe of slot ${slot.slot_index}`} />}
      {step && step !== slot.health_detail && (
        <small className="muted">
          {withoutPercent(step)} {percent !== undefined && `${percent} %. `}
          {repair?.create_time && (
            <>
              Began <Time value={repair.create_time} />.
            </>
          )}
        </small>
      )}
    </div>
  );
}

/** The index of a retired slot is another one's by now. */
export function anchorOf({ id, slot_index, status }: Slot): string {
  return status === "retired" ? `slot-${id}` : `slot-${slot_index}`;
}

export function SlotCard({ slot, allocation, isLost, before }: { slot: Slot; allocation: Allocation | undefined; isLost: boolean; /** Stands before the name, such as a checkbox. */ before?: ReactNode }) {
  const b = slot.bindings;
  return (
    <article id={anchorOf(slot)} className="card slot" aria-label={`Slot ${slot.slot_index}`} tabIndex={-1}>
      <header>
        <h2>
          {before && <span className="row-before">{before}</span>}
          Slot {slot.slot_index} <SlotBadges slot={slot} />
        </h2>
        <SlotActions slot={slot} allocation={allocation} isLost={isLost} />
      </header>
      <WipeNote slot={slot} />
      {slot.health_detail && slot.status !== "cleanup" && <p className="blocker">{slot.health_detail}</p>}
      <Drifts slot={slot} />
      <Facts
        rows={[
          ["Class", slot.slot_class],
          ["GPU", b?.gpu_pci_address || "none (lab)"],
          ["Disk", <><code>{b?.nvme_device}</code> {b?.nvme_bytes && bytes(Number(b.nvme_bytes))}</>],
          ...(slot.storage_transition_manifest ? ([["Disk erased by transition", <code key="manifest">{slot.storage_transition_manifest}</code>]] as [string, ReactNode][]) : []),
          ["Address", `${b?.private_ip ?? ""} · ${b?.management_mac ?? ""}`],
          ...(slot.ovs_interface_id ? ([["Port on the switch", slot.ovs_interface_id]] as [string, string][]) : []),
          ...(b?.fabric_device ? ([["Fabric", `${b.fabric_device} · ${b.fabric_vf_pci_address ?? ""}`]] as [string, string][]) : []),
          ["Generation", <span title="Counts the uses of the slot. A slot is schedulable only if its disk was wiped and verified empty after the last use.">{slot.generation}{isFirstWipe(slot) ? ", not wiped yet" : `, wiped after use ${slot.clean_generation}`}</span>],
          // of an earlier generation it proves nothing about this one
          ["Wipe evidence", (slot.clean_generation === slot.generation && slot.clean_evidence) || "–"],
          ["Allocation", slot.allocation_id ? <Owner id={slot.allocation_id} allocation={allocation} /> : "–"],
          ["Changed", <Time value={slot.update_time} />],
        ]}
      />
      <SlotHistory slot={slot} />
    </article>
  );
}

export function Slots({ slots, isLost, isPending = false }: { slots: Slot[]; /** Its reports have stopped. */ isLost: boolean; /** Its agent has not enrolled. */ isPending?: boolean }) {
  const owners = useAdminAllocations([...new Set(slots.flatMap(({ allocation_id }) => allocation_id || []))]);
  const { chosen, choose, keep } = useChosen();
  const mayChange = useMay("operate") && slots.length > 1;
  if (slots.length === 0) return <Empty title="No approved slots">{isPending ? "The agent must enrol first. Choose Enrol to create a token." : "Run a discovery on the Topology tab and approve its candidates. A discovery does not change the host."}</Empty>;
  return (
    <>
      <SlotsBulk selected={slots.filter(({ id = "" }) => chosen.has(id))} chosen={chosen} keep={keep} />
      <div className="slots">
        {slots.map((slot) => (
          <SlotCard
            key={slot.id}
            slot={slot}
            allocation={owners.get(slot.allocation_id ?? "")}
            isLost={isLost}
            before={mayChange && slot.status !== "retired" && <Chooser name={`slot ${slot.slot_index}`} checked={chosen.has(slot.id ?? "")} choose={(on) => choose(slot.id ?? "", on)} />}
          />
        ))}
      </div>
    </>
  );
}
