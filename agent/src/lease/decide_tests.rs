//! Table and property tests of the lease rules; the properties run against the real journal.
use std::time::Duration;

use gpuaas_proto::gpuaas::agent::v1 as pb;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::host::clock::BootMoment;
use crate::ids::OperationId;
use crate::journal::{Journal, Kind, NewOperation};

fn slot(n: u128) -> SlotId {
    SlotId(Uuid::from_u128(0x5107_0000 + n))
}

fn allocation(n: u128) -> AllocationId {
    AllocationId(Uuid::from_u128(0xa110_0000 + n))
}

fn token(generation: u64, workflow: u64) -> Token {
    Token {
        cell_epoch: 1,
        slot_generation: generation,
        workflow_epoch: workflow,
    }
}

fn at(nanos: u64) -> BootMoment {
    BootMoment {
        boot_id: "boot".into(),
        nanos,
    }
}

fn new_operation(id: u128, who: u128) -> NewOperation {
    NewOperation {
        id: OperationId(Uuid::from_u128(id)),
        kind: Kind::Release,
        allocation: allocation(who),
        request: Vec::new(),
        request_hash: String::new(),
        lease: None,
        lease_request: pb::AcquireLeaseRequest::default(),
        plan: pb::BundlePlan::default(),
        traceparent: String::new(),
        deadline: at(u64::MAX / 2),
        started_ms: 0,
        steps: Vec::new(),
    }
}

struct Host {
    journal: Journal,
    next: u128,
}

impl Host {
    /// A host that knows the first slots: their disks were wiped on it.
    fn new() -> Self {
        let journal = Journal::in_memory().unwrap();
        for n in 0..5 {
            journal.restore_fence(slot(n), token(0, 0)).unwrap();
        }
        Self { journal, next: 0 }
    }

    fn acquire(
        &mut self,
        who: u128,
        slots: &[(u128, Token)],
        purpose: Purpose,
        now: &BootMoment,
    ) -> Result<LeaseId, ErrorReason> {
        self.acquire_with(who, slots, &[], purpose, now)
    }

    /// The same, with devices of the slots.
    fn acquire_with(
        &mut self,
        who: u128,
        slots: &[(u128, Token)],
        devices: &[(u128, &str)],
        purpose: Purpose,
        now: &BootMoment,
    ) -> Result<LeaseId, ErrorReason> {
        self.acquire_replacing(who, slots, devices, &[], (purpose, now))
    }

    /// The same, with retired slots whose devices they are.
    fn acquire_replacing(
        &mut self,
        who: u128,
        slots: &[(u128, Token)],
        devices: &[(u128, &str)],
        replaced: &[(u128, u128)],
        (purpose, now): (Purpose, &BootMoment),
    ) -> Result<LeaseId, ErrorReason> {
        self.next += 1;
        let spec = LeaseSpec {
            allocation: allocation(who),
            slots: slots
                .iter()
                .map(|(n, t)| (slot(*n), *t))
                .collect::<Vec<_>>()
                .try_into()
                .unwrap(),
            devices: devices
                .iter()
                .map(|(n, device)| (slot(*n), (*device).to_owned()))
                .collect(),
            replaced: replaced
                .iter()
                .map(|(n, old)| (slot(*n), slot(*old)))
                .collect(),
            purpose,
        };
        let expires = now.plus(Duration::from_nanos(100));
        let id = LeaseId(Uuid::from_u128(self.next));
        self.journal
            .grant_lease(
                &spec,
                id,
                &expires,
                now,
                &pb::AcquireLeaseRequest::default(),
                &pb::BundlePlan::default(),
            )
            .unwrap()
            .map(|lease| lease.id)
            .map_err(|refusal| HostError::from(refusal).reason)
    }

    /// Ends the hold with proof, as a release that succeeded does.
    fn release(&mut self, who: u128, slots: &[u128]) {
        let holds = self.journal.holds().unwrap();
        let of = |n: &u128| holds.iter().find(|hold| hold.slot == slot(*n)).unwrap();
        let slots: Vec<_> = slots.iter().map(|n| (slot(*n), of(n).token)).collect();
        let id = self.begin_release(who);
        self.journal
            .succeed(id, &pb::HostOperation::default(), 1, &slots)
            .unwrap();
    }

    /// Begins a release.
    fn begin_release(&mut self, who: u128) -> OperationId {
        self.next += 1;
        let id = OperationId(Uuid::from_u128(self.next));
        self.journal
            .start_operation(&new_operation(self.next, who))
            .unwrap();
        id
    }
}

#[test]
fn d_09_same_allocation_and_slots_get_the_same_lease() {
    let mut host = Host::new();
    let first = host
        .acquire(1, &[(0, token(1, 1))], Purpose::Provision, &at(0))
        .unwrap();
    let again = host
        .acquire(1, &[(0, token(1, 1))], Purpose::Provision, &at(1))
        .unwrap();
    assert_eq!(first, again);
}

#[test]
fn d_08_a_late_worker_neither_renews_nor_ends_the_lease_of_the_next() {
    let mut host = Host::new();
    let late = host
        .acquire(1, &[(0, token(1, 1))], Purpose::Provision, &at(0))
        .unwrap();
    let next = host
        .acquire(1, &[(0, token(1, 2))], Purpose::Release, &at(1))
        .unwrap();
    assert_ne!(late, next, "the next worker has a lease of its own");
    let journal = &host.journal;
    let longer = Duration::from_nanos(50);
    assert_eq!(journal.lease(late).unwrap(), None);
    assert_eq!(
        journal.renew_lease(late, &[], longer, &at(2)).unwrap(),
        None
    );
    journal.end_lease(late, allocation(1), &[]).unwrap();

    // the id alone proves nothing
    for refused in [
        journal.renew_lease(next, &[], longer, &at(2)).err(),
        journal.end_lease(next, allocation(1), &[]).err(),
        journal
            .end_lease(next, allocation(1), &[(slot(1), token(9, 9))])
            .err(),
    ] {
        assert_eq!(refused.unwrap().reason, ErrorReason::FieldInvalid);
    }
    assert!(journal.lease(next).unwrap().is_some());

    // it may know the next one's id from the list of leases, but its token differs
    let behind = [(slot(0), token(1, 1))];
    for refused in [
        journal.renew_lease(next, &behind, longer, &at(2)).err(),
        journal.end_lease(next, allocation(1), &behind).err(),
    ] {
        assert_eq!(refused.unwrap().reason, ErrorReason::Fenced);
    }
    let own = [(slot(0), token(1, 2))];
    assert!(
        journal
            .renew_lease(next, &own, longer, &at(2))
            .unwrap()
            .is_some()
    );
    journal.end_lease(next, allocation(1), &own).unwrap();
    assert_eq!(journal.lease(next).unwrap(), None);
}

#[test]
fn d_10_the_lease_of_a_proven_release_does_not_hold_up_the_next_tenant() {
    let mut host = Host::new();
    host.acquire(1, &[(0, token(1, 1))], Purpose::Provision, &at(0))
        .unwrap();
    host.release(1, &[0]);
    let again = host
        .acquire(1, &[(0, token(1, 2))], Purpose::Release, &at(1))
        .unwrap();
    let next = host
        .acquire(2, &[(0, token(2, 1))], Purpose::Provision, &at(2))
        .unwrap();
    assert_eq!(host.journal.lease(again).unwrap(), None);
    assert_eq!(
        host.journal.lease(next).unwrap().unwrap().allocation,
        allocation(2)
    );
}

#[test]
fn d_08_another_allocation_is_refused_however_high_its_token() {
    let mut host = Host::new();
    host.acquire(1, &[(0, token(1, 1))], Purpose::Provision, &at(0))
        .unwrap();
    let refused = host.acquire(2, &[(0, token(9, 9))], Purpose::Provision, &at(1));
    assert_eq!(refused, Err(ErrorReason::LeaseHeld));
    let long_after = host.acquire(2, &[(0, token(9, 9))], Purpose::Provision, &at(1_000_000));
    assert_eq!(
        long_after,
        Err(ErrorReason::LeaseHeld),
        "expiry of the lease never frees the slot"
    );
}

#[test]
fn power_needs_the_hold_of_a_vm_that_is_there() {
    let mut host = Host::new();
    let request = |host: &mut Host, workflow| {
        host.acquire(1, &[(0, token(1, workflow))], Purpose::Power, &at(0))
    };
    assert_eq!(request(&mut host, 1), Err(ErrorReason::HostNotReady));
    host.acquire(1, &[(0, token(1, 1))], Purpose::Provision, &at(0))
        .unwrap();
    assert!(request(&mut host, 2).is_ok());
    assert_eq!(request(&mut host, 1), Err(ErrorReason::Fenced));
    host.release(1, &[0]);
    assert_eq!(request(&mut host, 3), Err(ErrorReason::HostNotReady));
}

#[test]
fn d_10_a_lower_token_is_fenced_also_after_the_release() {
    let mut host = Host::new();
    host.acquire(1, &[(0, token(2, 5))], Purpose::Provision, &at(0))
        .unwrap();
    assert_eq!(
        host.acquire(1, &[(0, token(2, 4))], Purpose::Release, &at(1)),
        Err(ErrorReason::Fenced)
    );
    host.release(1, &[0]);
    assert_eq!(
        host.acquire(2, &[(0, token(1, 9))], Purpose::Provision, &at(2)),
        Err(ErrorReason::Fenced)
    );
    assert_eq!(
        host.acquire(2, &[(0, token(2, 6))], Purpose::Provision, &at(2)),
        Err(ErrorReason::Fenced),
        "a generation that ended with proof is not used again"
    );
    assert!(
        host.acquire(2, &[(0, token(3, 1))], Purpose::Provision, &at(2))
            .is_ok()
    );
}

#[test]
fn d_10_a_proof_ends_the_generation_it_was_made_under_and_no_later_one() {
    let mut host = Host::new();
    host.acquire(1, &[(0, token(1, 1))], Purpose::Provision, &at(0))
        .unwrap();
    let release = host.begin_release(1);
    // the control plane gave up on it and repairs under the next generation
    let repair = host
        .acquire(1, &[(0, token(2, 1))], Purpose::Repair, &at(1))
        .unwrap();
    let proof = [(slot(0), token(1, 1))];
    host.journal
        .succeed(release, &pb::HostOperation::default(), 1, &proof)
        .unwrap();
    assert_eq!(host.journal.holds().unwrap().len(), 1, "the repair's hold");
    assert!(host.journal.lease(repair).unwrap().is_some());
    assert!(
        host.acquire(1, &[(0, token(2, 1))], Purpose::Repair, &at(2))
            .is_ok(),
        "its generation is not closed"
    );
    host.release(1, &[0]);
    assert!(host.journal.holds().unwrap().is_empty());
    let late = host.acquire(2, &[(0, token(2, 9))], Purpose::Provision, &at(3));
    assert_eq!(late, Err(ErrorReason::Fenced));
}

const PURPOSES: [Purpose; 4] = [
    Purpose::Provision,
    Purpose::Release,
    Purpose::Repair,
    Purpose::Power,
];

#[test]
fn p6_a_disk_or_gpu_that_another_slot_is_held_with_is_refused() {
    let mut host = Host::new();
    let own = [(0, "disk-a"), (0, "0000:1b:00.0")];
    let first = [(0, token(1, 1))];
    host.acquire_with(1, &first, &own, Purpose::Provision, &at(0))
        .unwrap();
    for device in ["disk-a", "0000:1b:00.0"] {
        for purpose in PURPOSES {
            for who in [1, 2] {
                let other = [(9, token(9, 9))];
                let refused = host.acquire_with(who, &other, &[(9, device)], purpose, &at(1));
                assert_eq!(refused, Err(ErrorReason::LeaseHeld), "{purpose:?} {device}");
            }
        }
    }
    assert_eq!(host.journal.holds().unwrap().len(), 1, "nothing leaked");
    assert!(
        host.acquire_with(1, &first, &own, Purpose::Release, &at(2))
            .is_ok()
    );
    let twice = [(3, token(1, 1)), (4, token(1, 1))];
    let same = [(3, "disk-c"), (4, "disk-c")];
    assert_eq!(
        host.acquire_with(3, &twice, &same, Purpose::Provision, &at(3)),
        Err(ErrorReason::LeaseHeld)
    );
}

#[test]
fn p6_an_unknown_slot_is_not_believed_about_a_disk_that_a_known_slot_had() {
    let mut host = Host::new();
    let known = [(0, token(1, 1))];
    host.acquire_with(1, &known, &[(0, "disk-a")], Purpose::Provision, &at(0))
        .unwrap();
    host.release(1, &[0]);
    for purpose in PURPOSES {
        let unknown = [(9, token(9, 9))];
        let refused = host.acquire_with(2, &unknown, &[(9, "disk-a")], purpose, &at(1));
        assert_eq!(refused, Err(ErrorReason::HostNotReady), "{purpose:?}");
    }
    assert!(host.journal.holds().unwrap().is_empty());
    let next = [(0, token(2, 1))];
    assert!(
        host.acquire_with(2, &next, &[(0, "disk-a")], Purpose::Provision, &at(2))
            .is_ok()
    );
    // slots that are known may change their disks, as an approval says
    let other = [(1, token(1, 1))];
    host.acquire_with(3, &other, &[(1, "disk-b")], Purpose::Provision, &at(3))
        .unwrap();
    host.release(2, &[0]);
    host.release(3, &[1]);
    let changed = [(0, token(3, 1))];
    assert!(
        host.acquire_with(4, &changed, &[(0, "disk-b")], Purpose::Provision, &at(4))
            .is_ok()
    );
}

#[test]
fn a_slot_gets_the_devices_of_the_retired_slot_that_it_replaces() {
    let mut host = Host::new();
    let own = [(0, "disk-a"), (0, "0000:1b:00.0")];
    let before = [(0, token(1, 1))];
    host.acquire_with(1, &before, &own, Purpose::Provision, &at(0))
        .unwrap();
    let (new, devices) = ([(9, token(0, 1))], [(9, "disk-a"), (9, "0000:1b:00.0")]);
    let repair = (Purpose::Repair, &at(1));
    // retired or not: somebody holds it
    let held = host.acquire_replacing(2, &new, &devices, &[(9, 0)], repair);
    assert_eq!(held, Err(ErrorReason::LeaseHeld));
    host.release(1, &[0]);
    let unnamed = host.acquire_replacing(2, &new, &devices, &[], repair);
    assert_eq!(unnamed, Err(ErrorReason::HostNotReady));
    let another = host.acquire_replacing(2, &new, &devices, &[(9, 3)], repair);
    assert_eq!(another, Err(ErrorReason::HostNotReady));
    host.acquire_replacing(2, &new, &devices, &[(9, 0)], repair)
        .expect("the retired slot's devices are the new one's");
    // from now on it is known
    host.release(2, &[9]);
    let next = [(9, token(1, 1))];
    assert!(
        host.acquire_with(3, &next, &devices, Purpose::Provision, &at(2))
            .is_ok()
    );
}

#[test]
fn p6_a_slot_begins_with_a_wipe_and_no_vm_starts_on_one_that_was_never_seen() {
    let mut host = Host::new();
    let unknown = [(9, token(9, 9))];
    let devices = [(9, "disk-z")];
    let refused = host.acquire_with(2, &unknown, &devices, Purpose::Provision, &at(0));
    assert_eq!(refused, Err(ErrorReason::HostNotReady));
    assert!(host.journal.holds().unwrap().is_empty(), "nothing leaked");
    host.acquire_with(2, &unknown, &devices, Purpose::Repair, &at(1))
        .unwrap();
    let bound = host.acquire_with(
        3,
        &[(0, token(1, 1))],
        &[(0, "disk-z")],
        Purpose::Provision,
        &at(2),
    );
    assert_eq!(
        bound,
        Err(ErrorReason::LeaseHeld),
        "the wipe binds slot and disk"
    );
    host.release(2, &[9]);
    let next = [(9, token(10, 1))];
    assert!(
        host.acquire_with(3, &next, &devices, Purpose::Provision, &at(3))
            .is_ok()
    );
}

#[test]
fn p5_only_a_hold_that_nothing_came_of_ends_without_a_release() {
    let mut host = Host::new();
    for n in 0..4 {
        let now = if n == 3 { at(150) } else { at(0) };
        host.acquire(n, &[(n, token(1, 1))], Purpose::Provision, &now)
            .unwrap();
    }
    host.journal.mark_touched(&[slot(1)]).unwrap();
    let running = new_operation(99, 2);
    host.journal.start_operation(&running).unwrap();
    let end = |n: u128, who: u128| {
        let ended = host
            .journal
            .end_empty_hold(slot(n), allocation(who), &at(200));
        ended.unwrap()
    };
    assert!(!end(0, 7), "another's hold");
    assert!(end(0, 0));
    assert!(!end(1, 1), "the disk may hold its bytes");
    assert!(!end(2, 2), "an operation runs");
    assert!(!end(3, 3), "the lease is live");
    assert_eq!(host.journal.holds().unwrap().len(), 3);
}

/// The lease is checked in the transaction that records the operation.
/// D-07
#[test]
fn d_10_an_operation_begins_under_a_lease_that_lives_then_or_not_at_all() {
    let mut host = Host::new();
    let lease = host
        .acquire(1, &[(0, token(1, 1))], Purpose::Provision, &at(0))
        .unwrap();
    let mut begin = |who, lease, now| {
        host.next += 1;
        let new = NewOperation {
            lease: Some((lease, now)),
            ..new_operation(host.next, who)
        };
        let begun = host.journal.start_operation(&new);
        (begun.map_err(|error| error.reason), new.id)
    };
    let refused = [
        begin(2, lease, at(1)),
        begin(1, lease, at(100)),
        begin(1, LeaseId(Uuid::nil()), at(1)),
    ];
    let (good, id) = begin(1, lease, at(1));
    assert_eq!(good, Ok(true));
    let reasons = refused.map(|(outcome, refused)| {
        assert!(host.journal.operation(refused).unwrap().is_none());
        outcome.unwrap_err()
    });
    assert_eq!(
        reasons,
        [
            ErrorReason::LeaseRequired,
            ErrorReason::LeaseExpired,
            ErrorReason::LeaseRequired
        ]
    );
    // the same operation again is found, also when its lease has ended meanwhile
    let own = [(slot(0), token(1, 1))];
    host.journal.end_lease(lease, allocation(1), &own).unwrap();
    let again = NewOperation {
        lease: Some((lease, at(1))),
        id,
        ..new_operation(1, 1)
    };
    assert!(!host.journal.start_operation(&again).unwrap());
    host.next += 1;
    let late = NewOperation {
        lease: Some((lease, at(1))),
        ..new_operation(host.next, 1)
    };
    let late = host.journal.start_operation(&late).unwrap_err();
    assert_eq!(late.reason, ErrorReason::LeaseRequired);
}

#[test]
fn d_10_a_release_asked_again_after_its_proof_makes_no_new_hold() {
    let mut host = Host::new();
    host.acquire(1, &[(0, token(2, 1))], Purpose::Provision, &at(0))
        .unwrap();
    host.release(1, &[0]);
    assert!(
        host.acquire(1, &[(0, token(2, 2))], Purpose::Release, &at(1))
            .is_ok()
    );
    assert!(host.journal.holds().unwrap().is_empty());
}

#[test]
fn d_10_a_reboot_ends_leases_and_keeps_holds() {
    let mut host = Host::new();
    let before = host
        .acquire(1, &[(0, token(1, 1))], Purpose::Provision, &at(0))
        .unwrap();
    let after_boot = BootMoment {
        boot_id: "next".into(),
        nanos: 1,
    };
    assert!(
        host.journal
            .renew_lease(
                before,
                &[(slot(0), token(1, 1))],
                Duration::from_secs(1),
                &after_boot
            )
            .unwrap()
            .is_none()
    );
    assert_eq!(
        host.acquire(2, &[(0, token(2, 1))], Purpose::Provision, &after_boot),
        Err(ErrorReason::LeaseHeld)
    );
    let again = host
        .acquire(1, &[(0, token(1, 2))], Purpose::Release, &after_boot)
        .unwrap();
    assert_ne!(before, again);
}

#[test]
fn d_10_an_expired_lease_is_not_renewed() {
    let mut host = Host::new();
    let lease = host
        .acquire(1, &[(0, token(1, 1))], Purpose::Provision, &at(0))
        .unwrap();
    assert!(
        host.journal
            .renew_lease(
                lease,
                &[(slot(0), token(1, 1))],
                Duration::from_nanos(500),
                &at(99)
            )
            .unwrap()
            .is_some()
    );
    assert!(
        host.journal
            .renew_lease(
                lease,
                &[(slot(0), token(1, 1))],
                Duration::from_nanos(500),
                &at(600)
            )
            .unwrap()
            .is_none()
    );
}

#[test]
fn d_08_slots_are_named_once_and_at_least_once() {
    let mut host = Host::new();
    assert_eq!(
        host.acquire(1, &[], Purpose::Provision, &at(0)),
        Err(ErrorReason::FieldInvalid)
    );
    let twice = [(0, token(1, 1)), (0, token(1, 1))];
    assert_eq!(
        host.acquire(1, &twice, Purpose::Provision, &at(0)),
        Err(ErrorReason::FieldInvalid)
    );
}

#[test]
fn d_04_a_multi_slot_ask_is_granted_whole_or_not_at_all() {
    let mut host = Host::new();
    host.acquire(1, &[(1, token(1, 1))], Purpose::Provision, &at(0))
        .unwrap();
    let both = [(0, token(1, 1)), (1, token(2, 1))];
    assert_eq!(
        host.acquire(2, &both, Purpose::Provision, &at(1)),
        Err(ErrorReason::LeaseHeld)
    );
    let holds = host.journal.holds().unwrap();
    assert_eq!(holds.len(), 1);
    assert_eq!(holds[0].allocation, allocation(1));
}

#[derive(Debug, Clone)]
enum Act {
    Acquire {
        who: u128,
        slots: Vec<(u128, u64, u64)>,
        purpose: u8,
        pass: u64,
    },
    Release {
        who: u128,
        slot: u128,
    },
    Reboot,
}

fn act() -> impl Strategy<Value = Act> {
    let slots = prop::collection::vec((0..3u128, 0..4u64, 0..3u64), 1..3);
    prop_oneof![
        6 => (0..3u128, slots, 0..3u8, 0..150u64)
            .prop_map(|(who, slots, purpose, pass)| Act::Acquire { who, slots, purpose, pass }),
        2 => (0..3u128, 0..3u128).prop_map(|(who, slot)| Act::Release { who, slot }),
        1 => Just(Act::Reboot),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any requests in any order: a hold never changes its owner without proof, the fence never
    /// falls, a refusal changes nothing, and a slot has at most one lease.
    /// D-06
    #[test]
    fn d_10_no_order_of_asks_breaks_a_hold(acts in prop::collection::vec(act(), 1..40)) {
        let mut host = Host::new();
        let (mut boot, mut nanos) = (0, 0);
        for act in acts {
            let before = host.journal.holds().unwrap();
            match act {
                Act::Acquire { who, slots, purpose, pass } => {
                    nanos += pass;
                    let now = BootMoment { boot_id: format!("boot{boot}"), nanos };
                    let slots: Vec<(u128, Token)> =
                        slots.into_iter().map(|(n, g, w)| (n, token(g, w))).collect();
                    let purpose = [Purpose::Provision, Purpose::Release, Purpose::Repair][usize::from(purpose)];
                    let granted = host.acquire(who, &slots, purpose, &now);
                    let after = host.journal.holds().unwrap();
                    for hold in &before {
                        let still = after.iter().find(|h| h.slot == hold.slot).expect("a hold went without proof");
                        prop_assert_eq!(still.allocation, hold.allocation);
                        prop_assert!(still.token >= hold.token);
                    }
                    if granted.is_err() {
                        prop_assert_eq!(&before, &after);
                    }
                    let mut seen = std::collections::BTreeSet::new();
                    for lease in host.journal.leases().unwrap() {
                        prop_assert!(seen.insert(lease.id));
                    }
                }
                Act::Release { who, slot: n } => {
                    if before.iter().any(|h| h.slot == slot(n) && h.allocation == allocation(who)) {
                        host.release(who, &[n]);
                        prop_assert!(host.journal.holds().unwrap().iter().all(|h| h.slot != slot(n)));
                    }
                }
                Act::Reboot => { boot += 1; nanos = 0; }
            }
        }
    }
}
