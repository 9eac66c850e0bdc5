//! What is reserved, to the decision as a pure function.
use std::collections::BTreeSet;

use gpuaas_placement::decision::{
    CandidateNode, CandidateSlot, Cause, Fleet, Request, ReservedFor, Rules, decide_by,
};
use gpuaas_placement::model::{Health, SlotClass, SlotStatus};
use proptest::prelude::*;
use uuid::Uuid;

const OURS: Uuid = Uuid::from_u128(1);
const THEIRS: Uuid = Uuid::from_u128(2);

/// A node with four slots, the ones of the mask reserved for a project.
fn node(id: u128, reserved: u8, project_id: Uuid) -> CandidateNode {
    let slot = |index: u32| CandidateSlot {
        id: Uuid::from_u128(id << 8 | u128::from(index)),
        index: index.cast_signed(),
        class: SlotClass::H200Sxm,
        status: SlotStatus::Available,
        health: Health::Healthy,
        held: false,
        complete: true,
        module_id: Some(index),
        numa_node: Some(0),
        fabric_device: String::new(),
        own_fabric_vf: true,
        reserved: (reserved >> index & 1 == 1).then_some(ReservedFor {
            project_id,
            hugepages_1g: 10,
        }),
    };
    CandidateNode {
        id: Uuid::from_u128(id),
        enabled: true,
        schedulable: true,
        hugepages_1g_free: 1000,
        max_vms: 0,
        live_vms: 0,
        exclusively_held: false,
        images: Vec::new(),
        legal_groups: vec![vec![0, 1], vec![2, 3], vec![0, 1, 2, 3]],
        version: "".into(),
        slots: (0..4).map(slot).collect(),
    }
}

fn ask(gpu_count: usize) -> Request {
    Request {
        gpu_count: crate::world::gpu_count(u32::try_from(gpu_count).expect("few")),
        slot_class: SlotClass::H200Sxm,
        hugepages_1g: 10 * u32::try_from(gpu_count).expect("small"),
        image: None,
        prewarmed: false,
    }
}

fn of(project: Option<Uuid>) -> Rules {
    Rules {
        project,
        ..Rules::default()
    }
}

/// Slots of the best choice, by index.
fn chosen(rules: &Rules, gpu_count: usize, node: &CandidateNode) -> Option<Vec<i32>> {
    let decision = decide_by(rules, &ask(gpu_count), std::slice::from_ref(node));
    decision
        .choices
        .first()
        .map(|choice| choice.score.indexes.clone())
}

fn reasons(rules: &Rules, gpu_count: usize, node: &CandidateNode) -> Vec<(Cause, u32)> {
    let decision = decide_by(rules, &ask(gpu_count), std::slice::from_ref(node));
    decision
        .reasons
        .iter()
        .map(|one| (one.cause, one.gpus))
        .collect()
}

#[test]
fn its_project_takes_it_first_and_others_never() {
    let node = node(1, 0b0110, OURS);
    assert_eq!(chosen(&of(None), 1, &node), Some(vec![0]));
    assert_eq!(chosen(&of(Some(THEIRS)), 1, &node), Some(vec![0]));
    assert_eq!(chosen(&of(Some(OURS)), 1, &node), Some(vec![1]));
    // no pair is reserved whole, so what is open completes one
    assert_eq!(chosen(&of(Some(OURS)), 2, &node), Some(vec![0, 1]));
    assert_eq!(chosen(&of(Some(OURS)), 4, &node), Some(vec![0, 1, 2, 3]));
    assert_eq!(chosen(&of(None), 2, &node), None);
    assert_eq!(
        reasons(&of(None), 2, &node),
        [(Cause::Fragmented, 2), (Cause::CapacityReserved, 2)]
    );
    let fleet = Fleet::of(&[node]);
    assert_eq!(fleet.count_fits(&ask(1)), 2);
    assert_eq!(fleet.count_fits_by(&of(Some(OURS)), &ask(1)), 4);
    assert_eq!(fleet.count_fits_by(&of(Some(OURS)), &ask(2)), 2);
}

#[test]
fn what_the_reserved_gpus_need_of_the_host_is_left_for_them() {
    let mut tight = node(1, 0b0011, OURS);
    tight.hugepages_1g_free = 30;
    // 10 for one more, 20 for what is reserved
    assert_eq!(chosen(&of(None), 1, &tight), Some(vec![2]));
    assert_eq!(chosen(&of(None), 2, &tight), None);
    assert_eq!(
        reasons(&of(None), 2, &tight),
        [(Cause::CapacityReserved, 4)]
    );
    assert_eq!(chosen(&of(Some(OURS)), 2, &tight), Some(vec![0, 1]));
    assert_eq!(Fleet::of(&[tight]).count_fits(&ask(1)), 1);

    let mut few = node(1, 0b0011, OURS);
    (few.max_vms, few.live_vms) = (3, 1);
    assert_eq!(chosen(&of(None), 1, &few), None);
    assert_eq!(chosen(&of(Some(OURS)), 1, &few), Some(vec![0]));
    few.max_vms = 4;
    assert_eq!(chosen(&of(None), 1, &few), Some(vec![2]));
    assert_eq!(Fleet::of(&[few]).count_fits(&ask(1)), 1);
}

#[test]
fn a_fabric_device_that_a_reserved_gpu_needs_alone_is_kept_for_it() {
    let mut shared = node(1, 0b0001, OURS);
    for slot in &mut shared.slots[..2] {
        slot.fabric_device = "0000:1a:00.0".into();
        slot.own_fabric_vf = false;
    }
    assert_eq!(chosen(&of(None), 1, &shared), Some(vec![2]));
    assert_eq!(chosen(&of(Some(OURS)), 1, &shared), Some(vec![0]));
    assert_eq!(Fleet::of(&[shared]).count_fits(&ask(1)), 2);
}

#[test]
fn a_node_that_is_kept_for_who_is_queued_is_open_to_what_is_reserved_on_it() {
    let node = node(1, 0b0001, OURS);
    let kept = |project| Rules {
        queued_ahead: BTreeSet::from([node.id]),
        ..of(project)
    };
    assert_eq!(chosen(&kept(Some(OURS)), 1, &node), Some(vec![0]));
    assert_eq!(chosen(&kept(None), 1, &node), None);
    assert_eq!(chosen(&kept(Some(OURS)), 2, &node), None);
}

proptest! {
    #[test]
    fn p1_nobody_is_given_what_is_reserved_for_others(
        masks in prop::collection::vec((0u8..16, any::<bool>()), 1..6),
        count in prop::sample::select(vec![1usize, 2, 4]),
        who in prop::sample::select(vec![None, Some(OURS), Some(THEIRS)]),
    ) {
        let nodes: Vec<CandidateNode> = masks
            .iter()
            .enumerate()
            .map(|(id, (mask, ours))| node(id as u128 + 1, *mask, if *ours { OURS } else { THEIRS }))
            .collect();
        let decision = decide_by(&of(who), &ask(count), &nodes);
        let mut open = false;
        for choice in &decision.choices {
            let own = nodes
                .iter()
                .flat_map(|node| &node.slots)
                .filter(|slot| choice.slot_ids.contains(&slot.id))
                .map(|slot| slot.reserved.map(|of| of.project_id))
                .inspect(|of| assert!(of.is_none() || *of == who))
                .filter(Option::is_some)
                .count();
            // all that come wholly from a reservation are before all others
            prop_assert!(!open || own < count);
            open |= own < count;
        }
        // what fits in sum is at least what fits on one node each
        let fleet = Fleet::of(&nodes);
        let fits = fleet.count_fits_by(&of(who), &ask(count));
        prop_assert!(fits as usize >= decision.choices.len());
        prop_assert_eq!(fits == 0, decision.choices.is_empty());
    }
}
