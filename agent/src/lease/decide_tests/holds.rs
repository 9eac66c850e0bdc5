//! Holds: what ends them, and what they outlive.
use super::*;

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
