//! The placement decision as a pure function: policy by table, invariants by property.
use gpuaas_placement::decision::{
    BaremetalCandidate, CandidateNode, CandidateSlot, Cause, Fleet, ImageKey, Request, ReservedFor,
    Rules, count_fits, decide, fabric_key, judge_baremetal,
};
use gpuaas_placement::model::{Health, SlotClass, SlotStatus};
use proptest::prelude::*;
use uuid::Uuid;

fn slot(node: u128, index: i32) -> CandidateSlot {
    CandidateSlot {
        id: Uuid::from_u128(node << 32 | index.unsigned_abs() as u128 | 1 << 100),
        index,
        class: SlotClass::H200Sxm,
        status: SlotStatus::Available,
        health: Health::Healthy,
        held: false,
        complete: true,
        module_id: Some(index.unsigned_abs() + 1),
        numa_node: Some(index / 4),
        fabric_device: String::new(),
        own_fabric_vf: true,
        reserved: None,
    }
}

/// Module ids of an eight-GPU board: pairs, both halves, all.
pub fn board() -> Vec<Vec<u32>> {
    vec![
        vec![1, 2],
        vec![3, 4],
        vec![5, 6],
        vec![7, 8],
        vec![1, 2, 3, 4],
        vec![5, 6, 7, 8],
        (1..=8).collect(),
    ]
}

pub fn node(id: u128, slots: i32) -> CandidateNode {
    CandidateNode {
        id: Uuid::from_u128(id),
        enabled: true,
        schedulable: true,
        hugepages_1g_free: 10_000,
        max_vms: 0,
        live_vms: 0,
        exclusively_held: false,
        images: Vec::new(),
        legal_groups: board(),
        version: "".into(),
        slots: (0..slots).map(|index| slot(id, index)).collect(),
    }
}

pub fn hold(node: &mut CandidateNode, indexes: &[i32]) {
    for slot in node
        .slots
        .iter_mut()
        .filter(|slot| indexes.contains(&slot.index))
    {
        slot.held = true;
        slot.status = SlotStatus::Active;
    }
    node.live_vms += 1;
}

pub fn request(gpu_count: usize) -> Request {
    Request {
        gpu_count: crate::world::gpu_count(u32::try_from(gpu_count).expect("few")),
        slot_class: SlotClass::H200Sxm,
        hugepages_1g: 0,
        image: Some(image("aa")),
        prewarmed: false,
    }
}

/// An image whose digest begins so.
pub fn image(start: &str) -> ImageKey {
    ImageKey::of(&format!("sha256:{start:0<64}")).expect("a digest")
}

fn chosen(request: &Request, nodes: &[CandidateNode]) -> Option<(u128, Vec<i32>)> {
    let decision = decide(request, nodes);
    decision
        .choices
        .first()
        .map(|choice| (choice.node_id.as_u128(), choice.score.indexes.clone()))
}

fn reasons(request: &Request, nodes: &[CandidateNode]) -> Vec<Cause> {
    decide(request, nodes)
        .reasons
        .into_iter()
        .map(|cause| cause.cause)
        .collect()
}

#[test]
fn b_47_a_sliced_node_comes_before_a_clean_one() {
    let (clean, mut sliced) = (node(1, 8), node(2, 8));
    hold(&mut sliced, &[0]);
    assert_eq!(
        chosen(&request(1), &[clean.clone(), sliced.clone()]),
        Some((2, vec![1]))
    );
    assert_eq!(
        chosen(&request(4), &[clean.clone(), sliced.clone()]),
        Some((2, vec![4, 5, 6, 7]))
    );
    // what only the clean node can do, it does
    assert_eq!(
        chosen(&request(8), &[clean, sliced]),
        Some((1, (0..8).collect()))
    );
}

#[test]
fn b_36_the_fuller_node_is_filled_first() {
    let (mut fuller, mut emptier) = (node(9, 8), node(1, 8));
    hold(&mut fuller, &[0, 1, 2, 3]);
    hold(&mut emptier, &[0, 1]);
    // without legal groups to keep whole, the leftover decides
    fuller.legal_groups.clear();
    emptier.legal_groups.clear();
    assert_eq!(
        chosen(&request(1), &[emptier, fuller]).map(|(node, _)| node),
        Some(9)
    );
}

#[test]
fn b_37_a_single_gpu_goes_where_it_breaks_the_least() {
    let mut node = node(1, 8);
    hold(&mut node, &[0]);
    // GPU 1 shares its pair and half with one that is held; every other breaks a whole half
    assert_eq!(chosen(&request(1), &[node.clone()]), Some((1, vec![1])));
    // a pair goes into the half that is broken already
    assert_eq!(chosen(&request(2), &[node]), Some((1, vec![2, 3])));
}

#[test]
fn without_a_report_only_one_and_all_are_offered() {
    let mut plain = node(1, 8);
    plain.legal_groups.clear();
    let nodes = [plain.clone()];
    assert!(chosen(&request(1), &nodes).is_some() && chosen(&request(8), &nodes).is_some());
    assert_eq!(chosen(&request(2), &nodes), None);
    assert_eq!(reasons(&request(2), &nodes), [Cause::Fragmented]);
    hold(&mut plain, &[3]);
    assert_eq!(chosen(&request(8), &[plain]), None);
}

#[test]
fn a_slot_that_nobody_has_and_that_is_being_wiped_is_not_in_use() {
    let mut nodes = [node(1, 2)];
    for slot in &mut nodes[0].slots {
        slot.status = SlotStatus::Cleanup;
    }
    assert_eq!(reasons(&request(1), &nodes), [Cause::DisksBeingWiped]);
    // whose VM is just being removed still has it
    nodes[0].slots[0].held = true;
    assert_eq!(
        reasons(&request(1), &nodes),
        [Cause::DisksBeingWiped, Cause::SlotsInUse]
    );
    nodes[0].enabled = false;
    assert_eq!(reasons(&request(1), &nodes), [Cause::NodeDraining]);
}

#[test]
fn b_17_free_gpus_of_two_nodes_do_not_add_up() {
    let mut nodes = [node(1, 8), node(2, 8)];
    for node in &mut nodes {
        hold(node, &[0, 2, 4, 6]);
    }
    assert_eq!(
        reasons(&request(2), &nodes),
        [Cause::Fragmented, Cause::SlotsInUse]
    );
    // eight free ones in all, so eight is fragmented too; a ninth would not be
    assert_eq!(
        reasons(&request(8), &nodes),
        [Cause::Fragmented, Cause::SlotsInUse]
    );
    hold(&mut nodes[0], &[1]);
    assert_eq!(reasons(&request(8), &nodes), [Cause::SlotsInUse]);
}

#[test]
fn inc_40_incomplete_rows_are_ignored_whatever_their_status() {
    let mut node = node(1, 1);
    node.slots[0].complete = false;
    assert_eq!(
        reasons(&request(1), &[node.clone()]),
        [Cause::IncompleteSlot]
    );
    node.slots[0].status = SlotStatus::Disabled;
    assert_eq!(reasons(&request(1), &[node]), [Cause::IncompleteSlot]);
}

#[test]
fn b_46_blocked_and_failed_slots_are_never_chosen() {
    let mut blocked = node(1, 1);
    blocked.slots[0].status = SlotStatus::CleanupBlocked;
    assert_eq!(reasons(&request(1), &[blocked]), [Cause::CleanupBlocked]);
    for health in [Health::Unknown, Health::Degraded, Health::Failed] {
        let mut sick = node(1, 1);
        sick.slots[0].health = health;
        assert_eq!(reasons(&request(1), &[sick]), [Cause::SlotUnhealthy]);
    }
}

#[test]
fn b_56_two_slots_of_one_request_need_two_fabric_devices() {
    let mut shared = node(1, 2);
    for slot in &mut shared.slots {
        slot.fabric_device = "0000:1a:00.0".into();
        slot.own_fabric_vf = false;
    }
    assert!(chosen(&request(1), &[shared.clone()]).is_some());
    assert_eq!(chosen(&request(2), &[shared.clone()]), None);
    // both are free, in a legal group, and cannot be had together
    assert_eq!(reasons(&request(2), &[shared.clone()]), [Cause::FabricHeld]);
    // B-54: one function of its own is not enough, all must have one
    shared.slots[0].own_fabric_vf = true;
    assert_eq!(fabric_key(&shared.slots[0], &shared), "0000:1a:00.0");
    shared.slots[1].own_fabric_vf = true;
    assert_eq!(fabric_key(&shared.slots[0], &shared), "");
    assert!(chosen(&request(2), &[shared]).is_some());
}

#[test]
fn b_53_no_fabric_device_excludes_nothing() {
    let mut node = node(1, 2);
    for slot in &mut node.slots {
        slot.own_fabric_vf = false;
    }
    hold(&mut node, &[0]);
    assert_eq!(chosen(&request(1), &[node]), Some((1, vec![1])));
}

#[test]
fn inc_27_a_held_parent_device_keeps_its_other_slots_away() {
    let mut node = node(1, 2);
    for slot in &mut node.slots {
        slot.fabric_device = "0000:1a:00.0".into();
        slot.own_fabric_vf = false;
    }
    hold(&mut node, &[0]);
    assert_eq!(
        reasons(&request(1), &[node]),
        [Cause::FabricHeld, Cause::SlotsInUse]
    );
}

#[test]
fn b_57_a_held_node_and_one_at_its_vm_limit_take_nothing() {
    let mut bare_metal_node = node(1, 2);
    bare_metal_node.exclusively_held = true;
    let mut one_vm = node(2, 8);
    one_vm.max_vms = 1;
    hold(&mut one_vm, &[0]);
    assert_eq!(
        reasons(&request(1), &[bare_metal_node, one_vm.clone()]),
        [Cause::SlotsInUse, Cause::NodeVmLimit]
    );
    let reported = decide(&request(1), &[one_vm.clone()]).reasons;
    let reported: Vec<&str> = reported
        .iter()
        .map(|cause| cause.message.as_str())
        .collect();
    assert_eq!(
        reported,
        [
            "1 GPU is in use on 1 node.",
            "7 GPUs are free on 1 node that has reached the VM limit."
        ]
    );
    assert_eq!(count_fits(&request(1), &[one_vm]), 0);
}

#[test]
fn fits_are_counted_as_they_would_be_placed() {
    let mut nodes = [node(1, 8), node(2, 8)];
    hold(&mut nodes[0], &[0]);
    assert_eq!(
        [1, 2, 4, 8].map(|n| count_fits(&request(n), &nodes)),
        [15, 7, 3, 1]
    );
    nodes[1].max_vms = 2;
    assert_eq!(count_fits(&request(1), &nodes), 9);
    nodes[0].hugepages_1g_free = 130;
    nodes[1].hugepages_1g_free = 63;
    assert_eq!(
        count_fits(
            &Request {
                hugepages_1g: 64,
                ..request(1)
            },
            &nodes
        ),
        2
    );
}

fn any_node(id: u128) -> impl Strategy<Value = CandidateNode> {
    let flags = (0u8..10, 0u8..10, any::<bool>(), any::<bool>());
    (
        flags,
        proptest::collection::vec((0u8..8, any::<bool>()), 1..=8),
    )
        .prop_map(move |((enabled, ready, has_image, grouped), slots)| {
            let mut node = node(id, i32::try_from(slots.len()).expect("few"));
            node.enabled = enabled > 0;
            node.schedulable = ready > 0;
            node.images.extend(has_image.then(|| image("aa")));
            if !grouped {
                node.legal_groups.clear();
            }
            for (slot, (kind, own)) in node.slots.iter_mut().zip(slots) {
                match kind {
                    0 => (slot.held, slot.status) = (true, SlotStatus::Active),
                    1 => slot.status = SlotStatus::CleanupBlocked,
                    2 => slot.complete = false,
                    3 => slot.health = Health::Failed,
                    4 => (slot.fabric_device, slot.own_fabric_vf) = ("0000:1a:00.0".into(), own),
                    _ => {}
                }
            }
            node
        })
}

fn any_fleet() -> impl Strategy<Value = Vec<CandidateNode>> {
    (any_node(1), any_node(2), any_node(3)).prop_map(|(a, b, c)| vec![a, b, c])
}

proptest! {
    #[test]
    fn b_37_the_decision_is_deterministic_and_ignores_the_order(fleet in any_fleet(), count in prop::sample::select(vec![1usize, 2, 4, 8])) {
        let mut reversed = fleet.clone();
        reversed.reverse();
        for node in &mut reversed {
            node.legal_groups.reverse();
        }
        prop_assert_eq!(decide(&request(count), &fleet), decide(&request(count), &reversed));
    }

    #[test]
    fn b_43_a_choice_is_one_nodes_legal_group_of_schedulable_slots(fleet in any_fleet(), count in prop::sample::select(vec![1usize, 2, 4, 8])) {
        for choice in decide(&request(count), &fleet).choices {
            let node = fleet.iter().find(|node| node.id == choice.node_id).expect("a candidate");
            prop_assert!(node.enabled && node.schedulable && !node.exclusively_held);
            let slots: Vec<_> = node.slots.iter().filter(|slot| choice.slot_ids.contains(&slot.id)).collect();
            prop_assert_eq!(slots.len(), count);
            let mut fabric = std::collections::HashSet::new();
            for slot in &slots {
                prop_assert!(slot.complete && !slot.held && slot.status == SlotStatus::Available && slot.health == Health::Healthy);
                let key = fabric_key(slot, node);
                prop_assert!(key.is_empty() || fabric.insert(key));
            }
            let mut modules: Vec<u32> = slots.iter().filter_map(|slot| slot.module_id).collect();
            modules.sort_unstable();
            let legal = count == 1 || node.legal_groups.contains(&modules) || (node.legal_groups.is_empty() && count == node.slots.len());
            prop_assert!(legal, "{:?}", modules);
        }
    }

    #[test]
    fn b_57_what_does_not_fit_is_explained(fleet in any_fleet(), count in prop::sample::select(vec![1usize, 2, 4, 8])) {
        let decision = decide(&request(count), &fleet);
        prop_assert_eq!(decision.choices.is_empty(), count_fits(&request(count), &fleet) == 0);
        let gpus: usize = fleet.iter().map(|node| node.slots.len()).sum();
        if decision.choices.is_empty() && gpus >= count {
            prop_assert!(!decision.reasons.is_empty());
        }
        for reason in decision.reasons {
            prop_assert!(reason.gpus > 0 && reason.nodes > 0 && !reason.message.is_empty());
        }
    }
}

/// Slots that rules name are the only ones, though others are the project's as well, or better.
#[test]
fn slots_that_the_rules_name_are_the_only_ones() {
    let project = Uuid::from_u128(7);
    let reserved = Some(ReservedFor {
        project_id: project,
        hugepages_1g: 0,
    });
    let mut node = node(1, 4);
    // the first is the project's by another reservation; the second shares the device of the third and is kept with it
    node.slots[0].reserved = reserved;
    node.slots[2].reserved = reserved;
    for slot in &mut node.slots[1..3] {
        slot.fabric_device = "0000:1a:00.0".into();
        slot.own_fabric_vf = false;
    }
    let rules = |only: &[usize]| Rules {
        project: Some(project),
        only_slots: Some(only.iter().map(|index| node.slots[*index].id).collect()),
        ..Rules::default()
    };
    let fleet = Fleet::of(std::slice::from_ref(&node));
    let slots = |rules: &Rules, count| {
        let ranking = fleet.rank(rules, &request(count));
        let choices = fleet.choices(&ranking).map(|choice| choice.slot_ids);
        (
            choices.collect::<Vec<_>>(),
            fleet.count_fits_by(rules, &request(count)),
        )
    };
    let all = Rules {
        project: Some(project),
        ..Rules::default()
    };
    for index in [0, 2] {
        let expected = (vec![vec![node.slots[index].id]], 1);
        assert_eq!(slots(&rules(&[index]), 1), expected);
        assert_eq!(slots(&rules(&[index]), 2), (vec![], 0));
    }
    // what is not the project's is not had by naming it
    assert_eq!(slots(&rules(&[3]), 1), (vec![], 0));

    let on_bare_metal = |rules: &Rules| {
        let candidate = BaremetalCandidate {
            id: node.id,
            baremetal: false,
            enabled: true,
            schedulable: true,
            held: false,
            slots: node.slots.clone(),
        };
        let (fit, removed) = judge_baremetal(rules, &request(4), &[candidate]);
        let causes: Vec<_> = removed.iter().map(|one| (one.cause, one.gpus)).collect();
        (fit.len(), causes)
    };
    assert_eq!(on_bare_metal(&all), (1, vec![]));
    let kept = (0, vec![(Cause::CapacityReserved, 1)]);
    assert_eq!(on_bare_metal(&rules(&[0, 1, 2])), kept);
    assert_eq!(on_bare_metal(&rules(&[0, 1, 2, 3])), (1, vec![]));
}
