//! What of slots and NVSwitch partitions differs between ledger and host, a row each: the drift that the host's last report
//! left at its slots, the slots that its journal holds and nobody has, and what its agent found at Fabric Manager.
use gpuaas_common::drift::{Kind, Part};
use gpuaas_placement::host_holds::HostHold;
use gpuaas_placement::model::{CurrentDrift, Slot, SlotStatus};
use gpuaas_placement::repair::may_rebind;
use gpuaas_proto::gpuaas::agent::v1::{ListHoldsResponse, PartitionDifference};
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use uuid::Uuid;

use crate::convert;
use crate::domain::host_holds::{Ledger, host_holds};
use crate::domain::residue::LedgerState;

/// What follows: the verdict, the correction if there is one, and what it does or why there is none.
type Judged = (
    pb::ComparisonVerdict,
    pb::ComparisonCorrection,
    &'static str,
);

const OCCUPIED: Judged =
    none("an allocation has the slot, and nothing is touched: it is repaired after its release");
const BEING_REPAIRED: Judged = (
    pb::ComparisonVerdict::Finish,
    pb::ComparisonCorrection::Unspecified,
    "a wipe of the slot runs",
);
const PUT_BACK: Judged = (
    pb::ComparisonVerdict::Finish,
    pb::ComparisonCorrection::Unspecified,
    "the agent puts the rules back by itself",
);
const DISK_IS_GONE: Judged = none(
    "no call corrects it: the disk does not answer on its host; when it is back and empty, it is wiped before it is offered",
);
const ANOTHER_DISK: Judged = none(
    "no call corrects it: another disk is there; put the approved one back and repair the slot, or retire the slot",
);
const DEVICE_FIRST: Judged = none(
    "no call corrects it: it ends with the host's next report once the host is as it was approved",
);
const AT_NEXT_REPORT: Judged = none("the host's next report tells whether the slot needs a repair");
const OTHERS_FIRST: Judged = none(
    "no repair while the disk of the slot is away, or a domain has its device: that comes first",
);
const WIPES: Judged =
    slot("a repair wipes the disk and proves it empty; it fails while somebody uses the disk");
const BINDS: Judged = slot("a repair wipes the disk, and binds the device to vfio-pci again");
const UNDOES: Judged = slot(
    "a repair removes what is left of it and wipes the disk; until that is proven, the slot is not offered",
);
const CLAIMED: Judged = none(
    "another allocation has the slot by the ledger, and nothing is touched: see the runbook of blocked slots",
);
const PARTITION: Judged = none("no call corrects it: see the runbook of GPU partitions");
const UNOWNED: Judged = (
    pb::ComparisonVerdict::Report,
    pb::ComparisonCorrection::DeactivatePartition,
    "the correction deactivates it; its host refuses that while a VM may have its GPUs",
);
/// As the agent calls it.
const OF_NOBODY: &str = "partition_unowned";

const fn none(detail: &'static str) -> Judged {
    (
        pb::ComparisonVerdict::Report,
        pb::ComparisonCorrection::Unspecified,
        detail,
    )
}

const fn slot(detail: &'static str) -> Judged {
    (
        pb::ComparisonVerdict::Report,
        pb::ComparisonCorrection::RepairSlot,
        detail,
    )
}

/// All differences of a node: by slot, those of no slot last.
#[must_use]
pub(super) fn differences(ledger: &Ledger, host: &ListHoldsResponse) -> Vec<pb::NodeDifference> {
    let mut slots: Vec<&Slot> = ledger.slots[1].iter().collect();
    slots.retain(|slot| slot.status != SlotStatus::Retired);
    slots.sort_by_key(|slot| slot.slot_index);
    let held = host_holds(ledger, host);
    let mut all = Vec::new();
    for slot in slots {
        let drift = slot.drift.iter();
        all.extend(drift.map(|one| of_drift(ledger, slot, one)));
        let hold = held.get(&slot.id);
        all.extend(hold.and_then(|hold| of_hold(ledger, slot, *hold)));
    }
    let partitions = host.partition_differences.iter();
    all.extend(partitions.filter_map(|one| of_partition(ledger, one)));
    all
}

fn of_drift(ledger: &Ledger, slot: &Slot, current: &CurrentDrift) -> pb::NodeDifference {
    let shown = current.to_proto();
    let subject = match current.drift.part() {
        Part::Gpu | Part::Fabric => pb::NodeDifferenceSubject::Binding,
        Part::Disk => pb::NodeDifferenceSubject::Disk,
        Part::Network => pb::NodeDifferenceSubject::Network,
    };
    let row = pb::NodeDifference {
        subject: subject.into(),
        kind: shown.kind,
        approved: shown.approved,
        observed: shown.observed,
        message: shown.message,
        since: shown.since,
        remediation: shown.remediation,
        ..of_slot(slot)
    };
    judged(row, judge_drift(ledger, slot, current.drift.kind))
}

fn judge_drift(ledger: &Ledger, slot: &Slot, kind: Kind) -> Judged {
    let blocked = slot.status == SlotStatus::CleanupBlocked;
    let over = |id| ledger.state(id) == LedgerState::OverHeld;
    if kind == Kind::RulesMissing {
        return PUT_BACK;
    }
    if slot.status == SlotStatus::Cleanup {
        return BEING_REPAIRED;
    }
    if slot.allocation_id.is_some_and(|id| !(blocked && over(id))) {
        return OCCUPIED;
    }
    let mut others = slot.drift.iter().map(|one| one.drift.kind);
    let stays = |kind| {
        matches!(
            kind,
            Kind::DiskMissing | Kind::DiskFaulty | Kind::DiskReplaced | Kind::UnknownDomain
        )
    };
    match kind {
        Kind::DiskMissing | Kind::DiskFaulty => DISK_IS_GONE,
        Kind::DiskReplaced => ANOTHER_DISK,
        Kind::DiskInUse | Kind::DiskContent if !blocked => AT_NEXT_REPORT,
        Kind::DiskInUse | Kind::DiskContent | Kind::DriverRebound if others.any(stays) => {
            OTHERS_FIRST
        }
        Kind::DiskInUse | Kind::DiskContent => WIPES,
        Kind::DriverRebound if blocked || may_rebind(slot) => BINDS,
        Kind::DriverRebound => OTHERS_FIRST,
        _ => DEVICE_FIRST,
    }
}

/// None: the ledger has it so, or somebody works on it.
fn of_hold(ledger: &Ledger, slot: &Slot, hold: HostHold) -> Option<pb::NodeDifference> {
    let holder = hold.holder;
    let has = ledger
        .unchanged_slot(slot.id)
        .and_then(|slot| slot.allocation_id);
    let is_others = has.is_some_and(|id| id != holder)
        && holder != slot.id
        && ledger.state(holder) != LedgerState::Moving;
    let by = match (hold.leaked_at, is_others) {
        (Some(_), _) => UNDOES,
        (None, true) => CLAIMED,
        (None, false) => return None,
    };
    let since = slot
        .host_held_since
        .filter(|_| slot.host_holder == Some(holder));
    let whose = match ledger.states[1].contains_key(&holder) {
        true => "which is over",
        false => "of which the ledger has nothing on this node",
    };
    let row = pb::NodeDifference {
        subject: pb::NodeDifferenceSubject::Hold.into(),
        kind: "held_on_host".to_owned(),
        allocation_id: holder.to_string(),
        approved: has.map(|id| id.to_string()).unwrap_or_default(),
        observed: holder.to_string(),
        message: format!("The host holds the slot for {holder}, {whose}."),
        since: since.map(convert::time),
        remediation: "Find out whether the ledger or the host's journal was restored. Nothing of the host is lost before the \
                      repair: save what somebody needs."
            .to_owned(),
        ..of_slot(slot)
    };
    Some(judged(row, by))
}

/// None: an operation of its VM runs.
fn of_partition(ledger: &Ledger, one: &PartitionDifference) -> Option<pb::NodeDifference> {
    let owner: Option<Uuid> = one.allocation_id.parse().ok();
    if owner.is_some_and(|id| ledger.state(id) == LedgerState::Moving) {
        return None;
    }
    let row = pb::NodeDifference {
        subject: pb::NodeDifferenceSubject::Partition.into(),
        kind: one.kind.clone(),
        allocation_id: owner.map(|id| id.to_string()).unwrap_or_default(),
        observed: one.partition_id.to_string(),
        message: one.message.clone(),
        since: one.since,
        remediation: "See Fabric Manager's table (`fmpm -l`) and the agent's log.".to_owned(),
        ..pb::NodeDifference::default()
    };
    let of_nobody = one.kind == OF_NOBODY && one.allocation_id.is_empty();
    Some(judged(row, if of_nobody { UNOWNED } else { PARTITION }))
}

fn of_slot(slot: &Slot) -> pb::NodeDifference {
    pb::NodeDifference {
        slot_id: slot.id.to_string(),
        slot_index: slot.slot_index,
        allocation_id: slot
            .allocation_id
            .map(|id| id.to_string())
            .unwrap_or_default(),
        ..pb::NodeDifference::default()
    }
}

fn judged(row: pb::NodeDifference, (verdict, correction, detail): Judged) -> pb::NodeDifference {
    pb::NodeDifference {
        verdict: verdict.into(),
        correction: correction.into(),
        detail: detail.to_owned(),
        ..row
    }
}

#[cfg(test)]
#[path = "differences_tests.rs"]
mod tests;
