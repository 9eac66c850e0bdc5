//! What keeps an evacuation from its place: who is queued, and nodes that no plan can be made on.
use std::collections::{BTreeSet, HashMap};

use gpuaas_placement::decision::{
    CandidateNode, CandidateSlot, Cause, DisplacedAllocation, Fleet, PackingStrategy, PlanInput,
    Request, evacuate,
};
use gpuaas_placement::model::{Health, Priority, SlotClass, SlotStatus};
use gpuaas_placement::reports::Outcome;
use gpuaas_placement::{Error, queue, reserve};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::baremetal::{WITH_EXECUTOR, bare_metal, reserve as launch, slice, world_of};
use crate::explain::gpu_node;
use crate::reports::{evacuation, launch as launch_slice};
use crate::reserving;
use crate::world::{World, gpu_count};

/// A bare-metal node is not moved to where somebody who is queued for a part of it would be before it.
#[tokio::test]
async fn b_49_a_bare_metal_node_is_not_moved_past_those_who_are_queued() {
    let (world, _) = world_of(1).await;
    let held = launch(&world, &bare_metal(&world))
        .await
        .expect("a bare-metal node");
    let node = world.get(held).await.node_id.expect("placed");
    // it waits, and what would serve it comes later
    let first = reserve::Request {
        project_id: Uuid::from_u128(77),
        ..slice(&world)
    };
    let mut conn = world.scheduler.acquire().await.expect("connection");
    queue::priority::put(&mut conn, first.project_id, Priority::High)
        .await
        .expect("class");
    drop(conn);
    let deadline = Timestamp::now() + SignedDuration::from_hours(1);
    let policy = WITH_EXECUTOR;
    reserving::one_or_queue(&world.scheduler, world.ids, policy, &first, deadline)
        .await
        .expect("waits");
    let spare = crate::explain::gpu_node(&world, 8).await;

    let plan = evacuation(&world, &[node]).await.expect("planned");
    let Outcome::Nowhere(causes) = &plan.allocations[0].outcome else {
        panic!("{plan:?}");
    };
    let reported: Vec<_> = causes.iter().map(|one| (one.reason, one.gpus)).collect();
    assert_eq!(reported, [(ErrorReason::QueuedAhead, 8)]);
    // as it would be refused if it were launched again
    let again = launch(&world, &bare_metal(&world)).await;
    let Err(Error::Refused { causes, .. }) = again else {
        panic!("{again:?}");
    };
    assert!(
        causes
            .iter()
            .any(|one| one.reason == ErrorReason::QueuedAhead)
    );

    reserve::serve_queue(&world.scheduler, world.ids, policy)
        .await
        .expect("served");
    let other = crate::explain::gpu_node(&world, 8).await;
    let plan = evacuation(&world, &[node]).await.expect("planned");
    let Outcome::Fits(place) = &plan.allocations[0].outcome else {
        panic!("{plan:?}");
    };
    assert_eq!(place.node_id, other);
    assert_ne!(other, spare);
}

fn slot(node: u128, index: i32, class: SlotClass) -> CandidateSlot {
    CandidateSlot {
        id: Uuid::from_u128(node << 8 | u128::from(index.unsigned_abs())),
        index,
        class,
        status: SlotStatus::Available,
        health: Health::Healthy,
        held: false,
        complete: true,
        module_id: Some(index.unsigned_abs()),
        numa_node: Some(0),
        // one device for slots of both classes
        fabric_device: "0000:1a:00.0".into(),
        own_fabric_vf: false,
        reserved: None,
    }
}

#[test]
fn b_49_a_node_that_no_plan_is_made_on_is_told_as_the_reason() {
    let id = 7;
    let node = CandidateNode {
        id: Uuid::from_u128(id),
        enabled: true,
        schedulable: true,
        hugepages_1g_free: 1000,
        max_vms: 0,
        live_vms: 0,
        exclusively_held: false,
        images: Vec::new(),
        legal_groups: Vec::new(),
        version: "".into(),
        slots: vec![slot(id, 0, SlotClass::H200Sxm), slot(id, 1, SlotClass::Lab)],
    };
    let request = Request {
        gpu_count: gpu_count(1),
        slot_class: SlotClass::H200Sxm,
        hugepages_1g: 0,
        image: None,
        prewarmed: false,
    };
    let fleet = Fleet::of(&[node]);
    assert_eq!(fleet.count_fits(&request), 1, "a launch fits");
    let input = PlanInput {
        fleet: &fleet,
        packing_strategy: PackingStrategy::MostAllocated,
        backfill_reserved: &BTreeSet::new(),
    };
    let one = DisplacedAllocation {
        id: Uuid::from_u128(1),
        request,
        affinity: Vec::new(),
        anti_affinity: Vec::new(),
        queued_ahead: std::sync::Arc::default(),
    };
    let planned = evacuate(&input, &[one], &HashMap::new());
    let causes = planned[0].1.as_ref().expect_err("nothing is planned there");
    let reported: Vec<_> = causes
        .iter()
        .map(|one| (one.cause, one.gpus, one.nodes))
        .collect();
    assert_eq!(reported, [(Cause::FabricHeld, 1, 1)]);
    assert!(causes[0].message.contains("plans leave such nodes out"));
}

#[tokio::test]
async fn b_49_what_is_on_the_only_node_fits_nowhere_for_want_of_another() {
    let world = World::new().await;
    let only = gpu_node(&world, 8).await;
    launch_slice(&world, 1).await;
    let plan = evacuation(&world, &[only]).await.expect("planned");
    let Outcome::Nowhere(causes) = &plan.allocations[0].outcome else {
        panic!("{plan:?}");
    };
    let reported: Vec<&str> = causes.iter().map(|cause| cause.message.as_str()).collect();
    assert_eq!(
        reported,
        ["No other node in the region offers GPUs of this class."]
    );
}
