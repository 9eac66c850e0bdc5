//! No order of requests breaks a hold.
use super::*;

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
