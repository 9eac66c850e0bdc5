//! Leases: who gets one, renews it and works under it.
use super::*;

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
