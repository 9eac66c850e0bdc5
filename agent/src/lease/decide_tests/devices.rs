//! Slots and the devices that they are held with.
use super::*;

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
