//! Plans keep together and apart what launches asked to be so, whether they waited or not.
use std::collections::BTreeMap;

use gpuaas_placement::decision::PackingStrategy;
use gpuaas_placement::node_placement::Intent;
use gpuaas_placement::reports;
use gpuaas_placement::reserve::{Constraints, Request};
use uuid::Uuid;

use crate::explain::gpu_node;
use crate::reports::{
    begin_release, bring_up, end_release, evacuation, fits, forget, gpus, intend, launch, requested,
};
use crate::world::{REGION, World};

/// Moves that are suggested for a whole board, and nodes that could be empty again.
pub async fn planned(world: &World) -> (usize, u32) {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let found = reports::defragmentation(
        &mut conn,
        &world.capacity,
        PackingStrategy::MostAllocated,
        &requested(8),
    )
    .await;
    let steps = found.expect("suggested").steps;
    let report = reports::preservation(
        &mut conn,
        &world.capacity,
        PackingStrategy::MostAllocated,
        Some(REGION),
    )
    .await;
    let recoverable = report.expect("reported")[0].recoverable;
    (steps.iter().map(|step| step.moves.len()).sum(), recoverable)
}

async fn with(world: &World, gpu_count: u32, constraints: Constraints) -> Uuid {
    let request = Request {
        constraints,
        ..gpus(world, gpu_count)
    };
    let made = world.reserve(&request).await.expect("room").allocation_id;
    bring_up(world, made).await;
    made
}

#[tokio::test]
async fn b_49_b_47_plans_move_nothing_beside_what_must_be_apart() {
    let world = World::new().await;
    let (a, _) = (gpu_node(&world, 8).await, gpu_node(&world, 8).await);
    let single = launch(&world, 1).await;
    bring_up(&world, single).await;
    // of another label nobody has to be apart
    let label = |value: &str| Constraints {
        anti_affinity_label: Some(("team".into(), value.into())),
        ..Constraints::default()
    };
    let half = with(&world, 4, label("a")).await;
    let (kept_away, at) = (world.get(half).await, world.get(single).await);
    assert!(kept_away.node_id != at.node_id && at.node_id == Some(a));
    assert_eq!(planned(&world).await, (0, 0), "every launch has the label");
    forget(&world, half).await;
    assert_eq!(planned(&world).await, (1, 1), "it is what kept them");

    // a label that nobody has keeps nothing
    begin_release(&world, half).await;
    end_release(&world, half).await;
    intend(&world, a, Intent::Cordoned).await;
    with(&world, 4, label("b")).await;
    intend(&world, a, Intent::Enabled).await;
    assert_eq!(planned(&world).await, (1, 1));
}

#[tokio::test]
async fn b_49_b_47_plans_leave_together_what_was_launched_to_be() {
    let world = World::new().await;
    let (a, b) = (gpu_node(&world, 8).await, gpu_node(&world, 8).await);
    let single = launch(&world, 1).await;
    bring_up(&world, single).await;
    let beside = Constraints {
        affinity: Some(single),
        ..Constraints::default()
    };
    let mate = with(&world, 1, beside).await;
    intend(&world, a, Intent::Cordoned).await;
    launch(&world, 4).await;
    intend(&world, a, Intent::Enabled).await;
    assert_eq!(world.get(mate).await.node_id, Some(a));
    assert_eq!(planned(&world).await, (0, 0));
    // when the node must be empty, they go together
    let plan = evacuation(&world, &[a]).await.expect("planned");
    assert_eq!((fits(&plan, single).0, fits(&plan, mate).0), (b, b));

    // alone it is bound to nobody
    begin_release(&world, mate).await;
    end_release(&world, mate).await;
    assert_eq!(planned(&world).await, (1, 1));
    let by_label = Constraints {
        affinity_label: Some(("team".into(), "a".into())),
        ..Constraints::default()
    };
    let request = Request {
        labels: BTreeMap::new(),
        constraints: by_label,
        ..gpus(&world, 2)
    };
    intend(&world, b, Intent::Cordoned).await;
    let mate = world.reserve(&request).await.expect("room").allocation_id;
    intend(&world, b, Intent::Enabled).await;
    bring_up(&world, mate).await;
    assert_eq!(world.get(mate).await.node_id, Some(a));
    assert_eq!(planned(&world).await, (0, 0), "bound by the label");
    let plan = evacuation(&world, &[a]).await.expect("planned");
    assert_eq!((fits(&plan, single).0, fits(&plan, mate).0), (b, b));
}
