//! Operators' plans on fleets of two nodes, each with what it must say.
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use gpuaas_placement::decision::{
    AntiAffinity, CandidateNode, Cause, DisplacedAllocation, Fleet, PackingStrategy,
    PlacedAllocation, PlanInput, defragment, evacuate, preserve,
};
use gpuaas_placement::model::SlotClass;
use uuid::Uuid;

use crate::decision::{hold, node, request};

fn allocation(id: u128, node: &CandidateNode, indexes: &[i32]) -> PlacedAllocation {
    let slots = node
        .slots
        .iter()
        .filter(|slot| indexes.contains(&slot.index));
    PlacedAllocation {
        id: Uuid::from_u128(1 << 90 | id),
        node_id: node.id,
        slot_ids: slots.map(|slot| slot.id).collect(),
        request: request(indexes.len()),
        hugepages_1g_back: 0,
        movable: true,
        anti_affinity: AntiAffinity::default(),
    }
}

fn input<'a>(fleet: &'a Fleet, kept: &'a BTreeSet<Uuid>) -> PlanInput<'a> {
    PlanInput {
        fleet,
        packing_strategy: PackingStrategy::MostAllocated,
        backfill_reserved: kept,
    }
}

/// Node 1 with VMs on 0 and on 4 and 5, node 2 with one on 0 to 3.
fn two_sliced() -> (Vec<CandidateNode>, Vec<PlacedAllocation>) {
    let mut nodes = vec![node(1, 8), node(2, 8)];
    for indexes in [&[0][..], &[4, 5]] {
        hold(&mut nodes[0], indexes);
    }
    hold(&mut nodes[1], &[0, 1, 2, 3]);
    let allocations = vec![
        allocation(1, &nodes[0], &[0]),
        allocation(2, &nodes[0], &[4, 5]),
        allocation(3, &nodes[1], &[0, 1, 2, 3]),
    ];
    (nodes, allocations)
}

#[test]
fn b_49_two_moves_make_room_for_a_whole_board() {
    let (nodes, allocations) = two_sliced();
    let (fleet, kept) = (Fleet::of(&nodes), BTreeSet::new());
    let found = defragment(&input(&fleet, &kept), &request(8), &allocations, 8);
    assert_eq!((found.before, found.after, found.cut), (0, 1, false));
    let [step] = &found.steps[..] else {
        panic!("one step: {found:?}");
    };
    let moves: Vec<(u32, &[i32])> = step
        .moves
        .iter()
        .map(|one| (one.gpu_count.get(), &one.to.score.indexes[..]))
        .collect();
    assert_eq!((step.node_id.as_u128(), step.gained), (1, 1));
    assert_eq!(moves, [(2, &[4, 5][..]), (1, &[6])], "the larger one first");
    // three GPUs off one node are cheaper than four off the other; with one move only the other is possible
    let one = defragment(&input(&fleet, &kept), &request(8), &allocations, 1);
    assert_eq!(one.steps.len(), 0, "four GPUs have no half on node 1");
    // what may not be moved is not
    let pinned: Vec<PlacedAllocation> = allocations
        .into_iter()
        .map(|allocation| PlacedAllocation {
            movable: false,
            ..allocation
        })
        .collect();
    let found = defragment(&input(&fleet, &kept), &request(8), &pinned, 8);
    assert_eq!((found.before, found.after, found.steps.len()), (0, 0, 0));
}

#[test]
fn b_47_the_node_with_less_on_it_becomes_empty_again() {
    let (nodes, allocations) = two_sliced();
    let (fleet, kept) = (Fleet::of(&nodes), BTreeSet::new());
    let report = &preserve(&input(&fleet, &kept), &allocations)[&SlotClass::H200Sxm];
    assert_eq!(
        (report.nodes, report.baremetal_free, report.sliced),
        (2, 0, 2)
    );
    let drained: Vec<(u128, usize)> = report
        .drained
        .iter()
        .map(|one| (one.node_id.as_u128(), one.moves.len()))
        .collect();
    assert_eq!(drained, [(1, 2)], "node 2 took what was there");
    // kept for who is queued, node 2 takes nothing; the half on it has no place on node 1
    let kept = BTreeSet::from([Uuid::from_u128(2)]);
    let report = &preserve(&input(&fleet, &kept), &allocations)[&SlotClass::H200Sxm];
    assert_eq!(report.drained, []);
}

#[test]
fn b_49_b_47_a_plan_moves_nothing_to_where_it_or_another_must_not_be() {
    let (nodes, allocations) = two_sliced();
    let (fleet, kept) = (Fleet::of(&nodes), BTreeSet::new());
    let half = Arc::new(BTreeSet::from([allocations[2].id]));
    let single = Arc::new(BTreeSet::from([allocations[0].id]));
    for (place, apart) in [
        // the single one asked for a node without the half, or the half for one without it
        (
            0,
            AntiAffinity {
                from: vec![half.clone()],
                by: Vec::new(),
            },
        ),
        (
            0,
            AntiAffinity {
                from: Vec::new(),
                by: vec![half],
            },
        ),
        (
            2,
            AntiAffinity {
                from: vec![single.clone()],
                by: Vec::new(),
            },
        ),
        (
            2,
            AntiAffinity {
                from: Vec::new(),
                by: vec![single.clone()],
            },
        ),
    ] {
        let mut allocations = allocations.clone();
        allocations[place].anti_affinity = apart;
        let found = defragment(&input(&fleet, &kept), &request(8), &allocations, 8);
        let report = &preserve(&input(&fleet, &kept), &allocations)[&SlotClass::H200Sxm];
        let moved = found.steps.len() + report.drained.len();
        assert_eq!(
            moved > 0,
            place == 2,
            "what moves is the single one: {found:?}"
        );
    }
    // who is in a set of those that it keeps away from may move
    let mut allocations = allocations.clone();
    allocations[0].anti_affinity.from = vec![single];
    let found = defragment(&input(&fleet, &kept), &request(8), &allocations, 8);
    assert_eq!(found.after, 1);
}

fn evacuee(id: u128, gpu_count: usize) -> DisplacedAllocation {
    DisplacedAllocation {
        id: Uuid::from_u128(id),
        request: request(gpu_count),
        affinity: Vec::new(),
        anti_affinity: Vec::new(),
        queued_ahead: Arc::default(),
    }
}

#[test]
fn b_49_what_must_stand_together_or_apart_does_after_an_evacuation() {
    let nodes = [node(1, 8), node(2, 8)];
    let (fleet, kept) = (Fleet::of(&nodes), BTreeSet::new());
    let id = Uuid::from_u128;
    // 12 waits for 11 although it is larger; 13 keeps away from both; 14 from one that is on node 2 already
    let displaced = [
        evacuee(11, 1),
        DisplacedAllocation {
            affinity: vec![vec![id(11)]],
            ..evacuee(12, 2)
        },
        DisplacedAllocation {
            anti_affinity: vec![id(11), id(12)],
            ..evacuee(13, 1)
        },
        DisplacedAllocation {
            anti_affinity: vec![id(20), id(13)],
            ..evacuee(14, 1)
        },
        DisplacedAllocation {
            affinity: vec![vec![id(99)]],
            ..evacuee(15, 1)
        },
    ];
    let node_of = HashMap::from([(id(20), id(2)), (id(11), id(9))]);
    let placed: HashMap<u128, _> = evacuate(&input(&fleet, &kept), &displaced, &node_of)
        .into_iter()
        .map(|(id, outcome)| (id.as_u128(), outcome.map(|choice| choice.node_id.as_u128())))
        .collect();
    assert_eq!((&placed[&11], &placed[&12]), (&Ok(1), &Ok(1)));
    assert_eq!((&placed[&13], &placed[&14]), (&Ok(2), &Ok(1)));
    let causes = placed[&15]
        .as_ref()
        .expect_err("its neighbour has no place");
    let affinity = causes.iter().find(|cause| cause.cause == Cause::Affinity);
    assert_eq!(affinity.map(|cause| cause.nodes), Some(2));
}

#[test]
fn b_49_those_that_asked_for_each_others_label_go_together_and_who_follows_them_comes_after() {
    let nodes = [node(1, 8), node(2, 8)];
    let (fleet, kept) = (Fleet::of(&nodes), BTreeSet::new());
    let id = Uuid::from_u128;
    let beside = |of: u128, gpu_count, groups: &[&[u128]]| DisplacedAllocation {
        affinity: groups
            .iter()
            .map(|group| group.iter().map(|one| id(*one)).collect())
            .collect(),
        ..evacuee(of, gpu_count)
    };
    // 11 and 12 have the label that both ask for; 13 is larger and must be where 11 is
    let displaced = [
        beside(11, 1, &[&[12]]),
        beside(12, 2, &[&[11]]),
        beside(13, 4, &[&[11]]),
    ];
    let placed: Vec<(u128, _)> = evacuate(&input(&fleet, &kept), &displaced, &HashMap::new())
        .into_iter()
        .map(|(id, outcome)| (id.as_u128(), outcome.map(|choice| choice.node_id.as_u128())))
        .collect();
    assert!(placed.iter().all(|(_, node)| node == &Ok(1)), "{placed:?}");
    assert_eq!(placed.len(), 3);
}
