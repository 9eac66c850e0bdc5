use std::collections::BTreeMap;

use gpuaas_common::drift::Drift as Difference;
use gpuaas_placement::model::{Bindings, Health, SlotClass};
use gpuaas_proto::gpuaas::agent::v1::Hold;
use jiff_sqlx::ToSqlx as _;
use sqlx::types::Json;

use super::*;
use crate::domain::residue::Vm;

const HAS: Uuid = Uuid::from_u128(0xa);
const OVER: Uuid = Uuid::from_u128(0xb);
const BLOCKED: Uuid = Uuid::from_u128(0xc);
const MOVING: Uuid = Uuid::from_u128(0xd);

fn slot_of(status: SlotStatus, allocation_id: Option<Uuid>, kinds: &[Kind]) -> Slot {
    let drift = |kind: &Kind| {
        let field = match kind {
            Kind::DiskMissing | Kind::DiskInUse | Kind::DiskReplaced | Kind::DiskContent => {
                "nvme_device"
            }
            Kind::DuplicateMac | Kind::RulesMissing => "management_mac",
            _ => "gpu_pci_address",
        };
        CurrentDrift {
            drift: Difference {
                kind: *kind,
                field: field.into(),
                approved: "one".into(),
                observed: "other".into(),
            },
            since: jiff::Timestamp::UNIX_EPOCH,
        }
    };
    Slot {
        id: Uuid::from_u128(1),
        node_id: Uuid::from_u128(2),
        slot_index: 3,
        class: SlotClass::H200Sxm,
        status,
        generation: 7,
        clean_generation: Some(7),
        disabled: false,
        health_state: Health::Degraded,
        health_detail: String::new(),
        updated_at: jiff::Timestamp::UNIX_EPOCH.to_sqlx(),
        revision: 1,
        bindings: Bindings::default(),
        storage_ownership: String::new(),
        storage_mode: String::new(),
        storage_transition_manifest: String::new(),
        allocation_id,
        project_id: None,
        clean_evidence: None,
        drift: Json(kinds.iter().map(drift).collect()),
        host_holder: None,
        host_held_since: None,
    }
}

fn ledger(slot: &Slot) -> Ledger {
    let vm = Vm {
        running: true,
        boot_id: None,
    };
    let states: BTreeMap<Uuid, LedgerState> = [
        (HAS, LedgerState::Active(vm)),
        (OVER, LedgerState::Over),
        (BLOCKED, LedgerState::OverHeld),
        (MOVING, LedgerState::Moving),
    ]
    .into();
    Ledger {
        states: [states.clone(), states],
        slots: [vec![slot.clone()], vec![slot.clone()]],
    }
}

fn held_for(holder: Uuid) -> ListHoldsResponse {
    let hold = Hold {
        slot_id: Uuid::from_u128(1).to_string(),
        allocation_id: holder.to_string(),
        ..Hold::default()
    };
    ListHoldsResponse {
        holds: vec![hold],
        ..ListHoldsResponse::default()
    }
}

/// Of each difference the subject, whether a repair of its slot is offered, and the reason.
fn rows(slot: &Slot, host: &ListHoldsResponse) -> Vec<(pb::NodeDifferenceSubject, bool, String)> {
    let found = differences(&ledger(slot), host).into_iter();
    let row = |one: pb::NodeDifference| {
        assert!(
            !one.message.is_empty() && !one.remediation.is_empty(),
            "{one:?}"
        );
        assert!(!one.detail.is_empty(), "{one:?}");
        let repair = match one.correction() {
            pb::ComparisonCorrection::RepairSlot => true,
            pb::ComparisonCorrection::Unspecified => false,
            other => panic!("{other:?}"),
        };
        (one.subject(), repair, one.detail)
    };
    found.map(row).collect()
}

#[test]
fn d_80_every_drift_of_a_slot_is_a_row_with_its_correction_or_why_there_is_none() {
    use SlotStatus::{Active, Available, Cleanup, CleanupBlocked, Disabled};
    use pb::NodeDifferenceSubject::{Binding, Disk, Network};
    type Case<'a> = (
        SlotStatus,
        Option<Uuid>,
        &'a [Kind],
        pb::NodeDifferenceSubject,
        Option<Judged>,
    );
    let table: [Case<'_>; 18] = [
        (
            Available,
            None,
            &[Kind::DriverRebound],
            Binding,
            Some(BINDS),
        ),
        (Disabled, None, &[Kind::DriverRebound], Binding, Some(BINDS)),
        (
            CleanupBlocked,
            None,
            &[Kind::DriverRebound],
            Binding,
            Some(BINDS),
        ),
        (
            CleanupBlocked,
            Some(BLOCKED),
            &[Kind::DriverRebound],
            Binding,
            Some(BINDS),
        ),
        // its allocation has not ended yet
        (
            CleanupBlocked,
            Some(MOVING),
            &[Kind::DriverRebound],
            Binding,
            Some(OCCUPIED),
        ),
        (
            Active,
            Some(HAS),
            &[Kind::DriverRebound],
            Binding,
            Some(OCCUPIED),
        ),
        (
            Active,
            Some(HAS),
            &[Kind::DiskMissing],
            Disk,
            Some(OCCUPIED),
        ),
        (
            Active,
            Some(HAS),
            &[Kind::RulesMissing],
            Network,
            Some(PUT_BACK),
        ),
        (
            Cleanup,
            None,
            &[Kind::DriverRebound],
            Binding,
            Some(BEING_REPAIRED),
        ),
        (
            Available,
            None,
            &[Kind::GpuMissing],
            Binding,
            Some(DEVICE_FIRST),
        ),
        (
            Available,
            None,
            &[Kind::CheckFailed],
            Binding,
            Some(DEVICE_FIRST),
        ),
        (
            Available,
            None,
            &[Kind::DuplicateMac],
            Network,
            Some(DEVICE_FIRST),
        ),
        (
            Available,
            None,
            &[Kind::DiskMissing],
            Disk,
            Some(DISK_IS_GONE),
        ),
        (
            CleanupBlocked,
            None,
            &[Kind::DiskReplaced],
            Disk,
            Some(ANOTHER_DISK),
        ),
        (
            Available,
            None,
            &[Kind::DiskInUse],
            Disk,
            Some(AT_NEXT_REPORT),
        ),
        (CleanupBlocked, None, &[Kind::DiskInUse], Disk, Some(WIPES)),
        (
            CleanupBlocked,
            None,
            &[Kind::DiskContent],
            Disk,
            Some(WIPES),
        ),
        (Available, None, &[], Binding, None),
    ];
    for (status, allocation, kinds, subject, expected) in table {
        let slot = slot_of(status, allocation, kinds);
        let expected = expected.map(|(_, correction, detail)| {
            let offered = correction == pb::ComparisonCorrection::RepairSlot;
            (subject, offered, detail.to_owned())
        });
        let found = rows(&slot, &ListHoldsResponse::default());
        assert_eq!(found, Vec::from_iter(expected), "{status} {kinds:?}");
    }
    // what is away comes first, blocked or not
    for status in [Available, CleanupBlocked] {
        let slot = slot_of(status, None, &[Kind::DriverRebound, Kind::DiskMissing]);
        let found = rows(&slot, &ListHoldsResponse::default());
        let details: Vec<_> = found
            .into_iter()
            .map(|(_, repair, detail)| (repair, detail))
            .collect();
        let expected =
            [OTHERS_FIRST, DISK_IS_GONE].map(|(_, _, detail)| (false, detail.to_owned()));
        assert_eq!(details, expected, "{status}");
    }
}

#[test]
fn d_80_a_row_has_what_was_approved_what_is_there_and_since_when() {
    let slot = slot_of(SlotStatus::Active, Some(HAS), &[Kind::DriverRebound]);
    let found = differences(&ledger(&slot), &ListHoldsResponse::default());
    let row = &found[0];
    assert_eq!(
        (&*row.kind, &*row.approved, &*row.observed, row.slot_index),
        ("driver_rebound", "one", "other", 3)
    );
    assert_eq!(row.allocation_id, HAS.to_string());
    assert_eq!(row.since.map(|at| at.seconds), Some(0));
}

#[test]
fn p5_a_hold_is_leaked_only_where_nobody_has_the_slot_and_nobody_works_on_it() {
    use SlotStatus::{Active, Available, Cleanup, CleanupBlocked, Disabled, Retired};
    let free = slot_of(Available, None, &[]);
    let unknown = Uuid::from_u128(0xe);
    let hold = |slot: &Slot, holder| {
        let host = held_for(holder);
        let is_leaked = host_holds(&ledger(slot), &host)[&slot.id].leaked_at;
        let offered: Vec<bool> = rows(slot, &host)
            .into_iter()
            .map(|(_, offered, _)| offered)
            .collect();
        (is_leaked, offered)
    };
    for slot in [
        free.clone(),
        slot_of(Disabled, None, &[]),
        slot_of(CleanupBlocked, None, &[]),
    ] {
        for holder in [OVER, BLOCKED, unknown] {
            assert_eq!(
                hold(&slot, holder),
                (Some(7), vec![true]),
                "{}",
                slot.status
            );
        }
        for holder in [HAS, MOVING] {
            assert_eq!(hold(&slot, holder), (None, vec![]), "{}", slot.status);
        }
    }
    // a failed repair has it, and the next one takes it up; a free slot is not left like that
    let own = Uuid::from_u128(1);
    assert_eq!(
        hold(&slot_of(CleanupBlocked, None, &[]), own),
        (None, vec![])
    );
    assert_eq!(hold(&free, own), (Some(7), vec![true]));
    // somebody has it, or works on it
    assert_eq!(hold(&slot_of(Active, Some(HAS), &[]), HAS), (None, vec![]));
    assert_eq!(
        hold(&slot_of(Active, Some(HAS), &[]), OVER),
        (None, vec![false])
    );
    assert_eq!(
        hold(&slot_of(Active, Some(HAS), &[]), MOVING),
        (None, vec![])
    );
    assert_eq!(hold(&slot_of(Cleanup, None, &[]), OVER), (None, vec![]));
    assert_eq!(hold(&slot_of(Retired, None, &[]), OVER), (None, vec![]));
    // it changed hands while the host was asked
    let mut moved = ledger(&free);
    moved.slots[0][0].generation = 6;
    assert_eq!(
        host_holds(&moved, &held_for(OVER))[&free.id].leaked_at,
        None
    );
    assert!(differences(&moved, &held_for(OVER)).is_empty());
}

#[test]
fn d_82_partitions_are_rows_unless_an_operation_of_their_vm_runs() {
    let partition = |kind: &str, owner: &str| PartitionDifference {
        kind: kind.into(),
        partition_id: 6,
        allocation_id: owner.into(),
        message: "It differs.".into(),
        since: None,
    };
    let host = ListHoldsResponse {
        partition_differences: vec![
            partition("partition_unmatched", &HAS.to_string()),
            partition("partition_unmatched", &MOVING.to_string()),
            partition("partition_unowned", ""),
            // one that has an owner is none of nobody
            partition("partition_unowned", &HAS.to_string()),
            // a filter of the rows compares ids
            partition("partition_unmatched", "no id"),
        ],
        ..ListHoldsResponse::default()
    };
    let found = differences(&ledger(&slot_of(SlotStatus::Available, None, &[])), &host);
    let owners: Vec<_> = found.iter().map(|one| one.allocation_id.clone()).collect();
    let (has, none) = (HAS.to_string(), String::new());
    assert_eq!(owners, [has.clone(), none.clone(), has, none]);
    let offered = found.iter().map(pb::NodeDifference::correction);
    let (nothing, partition) = (
        pb::ComparisonCorrection::Unspecified,
        pb::ComparisonCorrection::DeactivatePartition,
    );
    assert_eq!(
        Vec::from_iter(offered),
        [nothing, partition, nothing, nothing]
    );
    for one in &found {
        assert_eq!(one.subject(), pb::NodeDifferenceSubject::Partition);
        assert!(one.slot_id.is_empty() && one.observed == "6", "{one:?}");
    }
}
