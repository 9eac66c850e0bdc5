//! Laws of the placement policy, over fleets that a generator makes up.
use std::collections::{BTreeMap, BTreeSet};

use gpuaas_placement::decision::{
    CandidateNode, CandidateSlot, Cause, Choice, Fleet, PackingStrategy, Request, ReservedFor,
    Rules, decide_by,
};
use gpuaas_placement::model::{Health, SlotClass, SlotStatus};
use proptest::prelude::*;
use uuid::Uuid;

/// Boards differ: what is legal is what the host reports, not what this test believes.
const BOARDS: [&[&[u32]]; 3] = [
    &[
        &[0, 1],
        &[2, 3],
        &[4, 5],
        &[6, 7],
        &[0, 1, 2, 3],
        &[4, 5, 6, 7],
        &[0, 1, 2, 3, 4, 5, 6, 7],
    ],
    &[
        &[0, 2],
        &[1, 3],
        &[4, 6],
        &[5, 7],
        &[0, 1, 2, 3],
        &[4, 5, 6, 7],
        &[0, 1, 2, 3, 4, 5, 6, 7],
    ],
    &[&[0, 1], &[2, 3], &[0, 1, 2, 3]],
];

fn node(id: u128, board: usize, held: u8) -> CandidateNode {
    let slot = |index: u32| {
        let taken = held & (1 << index) != 0;
        CandidateSlot {
            id: Uuid::from_u128(id << 8 | u128::from(index)),
            index: index.cast_signed(),
            class: SlotClass::H200Sxm,
            status: if taken {
                SlotStatus::Active
            } else {
                SlotStatus::Available
            },
            health: Health::Healthy,
            held: taken,
            complete: true,
            module_id: Some(index),
            numa_node: Some((index / 4).cast_signed()),
            fabric_device: String::new(),
            own_fabric_vf: true,
            reserved: None,
        }
    };
    CandidateNode {
        id: Uuid::from_u128(id),
        enabled: true,
        schedulable: true,
        hugepages_1g_free: 10_000,
        max_vms: 0,
        live_vms: held.count_ones(),
        exclusively_held: false,
        images: Vec::new(),
        legal_groups: BOARDS[board].iter().map(|group| group.to_vec()).collect(),
        version: "".into(),
        slots: (0..8).map(slot).collect(),
    }
}

fn fleet() -> impl Strategy<Value = Vec<CandidateNode>> {
    // a clean node is as shortlist as any other, or the law about it would hardly be met
    let held = prop_oneof![Just(0u8), any::<u8>()];
    prop::collection::vec((0..BOARDS.len(), held), 1..6).prop_map(|nodes| {
        nodes
            .into_iter()
            .enumerate()
            .map(|(number, (board, held))| node(number as u128 + 1, board, held))
            .collect()
    })
}

fn counts() -> impl Strategy<Value = usize> {
    prop::sample::select(vec![1usize, 2, 4, 8])
}

fn requested(gpu_count: usize) -> Request {
    Request {
        gpu_count: crate::world::gpu_count(u32::try_from(gpu_count).expect("few")),
        slot_class: SlotClass::H200Sxm,
        hugepages_1g: 0,
        image: None,
        prewarmed: false,
    }
}

fn by(packing_strategy: PackingStrategy) -> Rules {
    Rules {
        packing_strategy,
        ..Rules::default()
    }
}

/// Groups of the node, larger than the set, that are wholly free, share a GPU with the set, and so are lost to others.
fn split(node: &CandidateNode, taken: &[Uuid]) -> u32 {
    let free: BTreeSet<u32> = node
        .slots
        .iter()
        .filter(|slot| !slot.held)
        .filter_map(|slot| slot.module_id)
        .collect();
    let taken: BTreeSet<u32> = node
        .slots
        .iter()
        .filter(|slot| taken.contains(&slot.id))
        .filter_map(|slot| slot.module_id)
        .collect();
    node.legal_groups
        .iter()
        .filter(|group| group.len() > taken.len())
        .filter(|group| {
            group.iter().all(|id| free.contains(id)) && group.iter().any(|id| taken.contains(id))
        })
        .map(|group| u32::try_from(group.len()).expect("small"))
        .sum()
}

/// Every way to place the request, found by looking at all of them: node, slots, NUMA nodes.
fn all_fits(count: usize, nodes: &[CandidateNode]) -> Vec<(&CandidateNode, Vec<Uuid>, usize)> {
    let mut fits = Vec::new();
    for node in nodes {
        let free: Vec<&CandidateSlot> = node.slots.iter().filter(|slot| !slot.held).collect();
        let groups: Vec<Vec<u32>> = if count == 1 {
            free.iter()
                .filter_map(|slot| slot.module_id.map(|id| vec![id]))
                .collect()
        } else {
            node.legal_groups
                .iter()
                .filter(|group| group.len() == count)
                .cloned()
                .collect()
        };
        for group in groups {
            let set: Vec<&&CandidateSlot> = free
                .iter()
                .filter(|slot| slot.module_id.is_some_and(|id| group.contains(&id)))
                .collect();
            if set.len() == count {
                let numa: BTreeSet<Option<i32>> = set.iter().map(|slot| slot.numa_node).collect();
                fits.push((node, set.iter().map(|slot| slot.id).collect(), numa.len()));
            }
        }
    }
    fits
}

fn is_clean(node: &CandidateNode) -> bool {
    node.slots.iter().all(|slot| !slot.held)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn b_37_the_order_of_nodes_and_slots_changes_nothing(fleet in fleet(), count in counts(), spread in any::<bool>(), turn in 0usize..8) {
        let rules = by(if spread { PackingStrategy::LeastAllocated } else { PackingStrategy::MostAllocated });
        let first = decide_by(&rules, &requested(count), &fleet);
        let mut shuffled = fleet.clone();
        let nodes = shuffled.len();
        shuffled.rotate_left(turn % nodes);
        for node in &mut shuffled {
            node.slots.rotate_left(turn);
            node.legal_groups.reverse();
        }
        prop_assert_eq!(first, decide_by(&rules, &requested(count), &shuffled));
    }

    /// B-38: the fragmentation policy, without a database.
    #[test]
    fn b_36_no_legal_group_is_split_when_an_equal_fit_splits_less(fleet in fleet(), count in counts(), spread in any::<bool>()) {
        let rules = by(if spread { PackingStrategy::LeastAllocated } else { PackingStrategy::MostAllocated });
        let decision = decide_by(&rules, &requested(count), &fleet);
        let fits = all_fits(count, &fleet);
        prop_assert_eq!(decision.choices.is_empty(), fits.is_empty());
        if let Some(best) = decision.choices.first() {
            let chosen = fleet.iter().find(|node| node.id == best.node_id).expect("of the fleet");
            let lost = split(chosen, &best.slot_ids);
            prop_assert_eq!(lost, best.score.broken_groups);
            for (node, set, numa) in &fits {
                // equal: as near to one NUMA node, and as little a loss for bare metal
                let equal = *numa == best.score.numa_nodes && (spread || is_clean(node) == is_clean(chosen));
                prop_assert!(!equal || split(node, set) >= lost, "{:?} splits less than {:?}", set, best);
            }
        }
    }

    #[test]
    fn b_47_a_clean_node_is_not_taken_while_a_sliced_one_fits_as_well(fleet in fleet(), count in counts()) {
        let decision = decide_by(&by(PackingStrategy::MostAllocated), &requested(count), &fleet);
        if let Some(best) = decision.choices.first() {
            let chosen = fleet.iter().find(|node| node.id == best.node_id).expect("of the fleet");
            let sliced_fits = all_fits(count, &fleet)
                .iter()
                .any(|(node, _, numa)| !is_clean(node) && *numa <= best.score.numa_nodes);
            prop_assert!(!(is_clean(chosen) && sliced_fits), "{best:?}");
        }
    }

    /// A reservation looks at a few nodes of a large fleet first, wherever it begins: the laws above hold there, too.
    #[test]
    fn b_36_b_47_the_few_nodes_that_are_looked_at_first_are_as_good_as_all(
        kinds in prop::collection::vec((0..BOARDS.len(), prop_oneof![Just(0u8), Just(0x5a), Just(0xf5), any::<u8>()], 0..8u8), 40..160),
        count in counts(),
        spread in any::<bool>(),
        mine in any::<bool>(),
        at in any::<u32>(),
    ) {
        let owner = Uuid::from_u128(7);
        let rules = Rules { project: mine.then_some(owner), ..by(if spread { PackingStrategy::LeastAllocated } else { PackingStrategy::MostAllocated }) };
        let request = Request { hugepages_1g: 8, ..requested(count) };
        let fleet: Vec<CandidateNode> = kinds
            .into_iter()
            .enumerate()
            .map(|(number, (board, held, unlike))| {
                let mut node = node(number as u128 + 1, board, held);
                match unlike {
                    0 => node.enabled = false,
                    // looked at, and out of the question
                    1 | 2 => node.hugepages_1g_free = 7,
                    3 => node.max_vms = node.live_vms,
                    4 => {
                        let free = node.slots.iter_mut().filter(|slot| !slot.held);
                        free.for_each(|slot| slot.reserved = Some(ReservedFor { project_id: owner, hugepages_1g: 0 }));
                    }
                    _ => {}
                }
                node
            })
            .collect();
        let all = Fleet::of(&fleet);
        let few = all.shortlist(&rules, &request, at);
        prop_assert!(few.len() <= 64, "{} are not few", few.len());
        let best = |fleet: &Fleet| {
            let ranking = fleet.rank(&rules, &request);
            let best = fleet.choices(&ranking).next();
            // which of equal ones is taken, and which of what is reserved, is open
            best.map(|best| if best.own { (true, Vec::new()) } else { (false, best.score.parts().to_vec()) })
        };
        prop_assert_eq!(best(&few), best(&all));
    }

    #[test]
    fn spread_takes_the_emptiest_of_equal_fits(fleet in fleet(), count in counts()) {
        let decision = decide_by(&by(PackingStrategy::LeastAllocated), &requested(count), &fleet);
        if let Some(best) = decision.choices.first() {
            for other in &decision.choices[1..] {
                let equal = other.score.numa_nodes == best.score.numa_nodes
                    && other.score.broken_groups == best.score.broken_groups;
                prop_assert!(!equal || other.score.left_over <= best.score.left_over);
            }
        }
    }

    #[test]
    fn b_43_rules_are_kept(fleet in fleet(), count in counts(), only in 1u128..6, avoid in 1u128..6) {
        let rules = Rules { only: Some(BTreeSet::from([Uuid::from_u128(only)])), ..Rules::default() };
        prop_assert!(decide_by(&rules, &requested(count), &fleet).choices.iter().all(|choice| choice.node_id == Uuid::from_u128(only)));
        let rules = Rules { avoid: BTreeSet::from([Uuid::from_u128(avoid)]), ..Rules::default() };
        prop_assert!(decide_by(&rules, &requested(count), &fleet).choices.iter().all(|choice| choice.node_id != Uuid::from_u128(avoid)));
    }

    #[test]
    fn b_37_nodes_that_are_alike_are_judged_as_each_would_be_alone(
        kinds in prop::collection::vec((0..BOARDS.len(), prop::sample::select(vec![0u8, 0x0f, 0xee, 0xff]), 0..4u8), 1..40),
        avoid in prop::collection::btree_set(1u128..40, 0..4),
        kept in prop::collection::btree_set(1u128..40, 0..4),
        count in counts(),
        mine in any::<bool>(),
    ) {
        let ids = |of: BTreeSet<u128>| of.into_iter().map(Uuid::from_u128).collect();
        let owner = Uuid::from_u128(7);
        let rules = Rules {
            project: mine.then_some(owner),
            avoid: ids(avoid),
            queued_ahead: ids(kept),
            ..Rules::default()
        };
        let fleet: Vec<CandidateNode> = kinds
            .into_iter()
            .enumerate()
            .map(|(number, (board, held, unlike))| {
                let mut node = node(number as u128 + 1, board, held);
                match unlike {
                    0 => node.enabled = false,
                    1 => {
                        let free = node.slots.iter_mut().filter(|slot| !slot.held);
                        free.for_each(|slot| slot.reserved = Some(ReservedFor { project_id: owner, hugepages_1g: 0 }));
                    }
                    _ => {}
                }
                node
            })
            .collect();
        let requested = requested(count);
        let reported = |nodes: &[CandidateNode]| {
            let fleet = Fleet::of(nodes);
            let ranking = fleet.rank(&rules, &requested);
            let choices: Vec<Choice> = fleet.choices(&ranking).collect();
            (choices, ranking.removed(), fleet.count_fits_by(&rules, &requested))
        };
        let (choices, removed, fits) = reported(&fleet);
        let mut alone = (Vec::new(), BTreeMap::<Cause, (u32, u32)>::new(), 0);
        for node in &fleet {
            let (choices, removed, fits) = reported(std::slice::from_ref(node));
            alone.0.extend(choices);
            for reason in removed {
                let sum = alone.1.entry(reason.cause).or_default();
                *sum = (sum.0 + reason.gpus, sum.1 + reason.nodes);
            }
            alone.2 += fits;
        }
        let by_node = |mut choices: Vec<Choice>| {
            choices.sort_by_key(|choice| choice.node_id);
            choices
        };
        let summed = removed.iter().map(|one| (one.cause, (one.gpus, one.nodes))).collect();
        prop_assert_eq!((by_node(choices), summed, fits), (by_node(alone.0), alone.1, alone.2));
    }
}
