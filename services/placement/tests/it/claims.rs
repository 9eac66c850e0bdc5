//! Claims, and nothing else, say what is held of a node; and bare-metal nodes are asked for as before there were slices.
use gpuaas_placement::model::Attribution;
use gpuaas_placement::model::{Scope, Shape};
use gpuaas_placement::node_placement::{self, Intent};
use gpuaas_placement::nodes::{self, NodeSpec};
use gpuaas_placement::reserve::Request;
use gpuaas_placement::{Error, audit, claims, release};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::baremetal::{bare_metal, reason, reserve, slice, tenancy, world_of};
use crate::world::World;

#[tokio::test]
async fn b_02_a_request_for_a_bare_metal_node_needs_to_name_no_shape() {
    let (world, _) = world_of(2).await;
    let named = |shape| Request {
        capacity_shape: Some(shape),
        ..bare_metal(&world)
    };
    let silent = bare_metal(&world);
    assert_eq!(silent.capacity_shape, None);
    for request in [silent, named(Shape::Baremetal)] {
        let id = reserve(&world, &request).await.expect("a bare-metal node");
        let row = world.get(id).await;
        assert_eq!(
            (row.capacity_shape, row.gpu_count.get()),
            (Shape::Baremetal, 8)
        );
        let mut conn = world.scheduler.acquire().await.expect("connection");
        let held = claims::of_allocation(&mut conn, id).await.expect("claims");
        let kinds: Vec<&str> = held.iter().map(|claim| claim.kind.as_str()).collect();
        assert_eq!(kinds, ["node_exclusive"]);
    }
    // one shape is never allocated for another
    let outcome = reserve(&world, &named(Shape::GpuSlice)).await;
    assert!(
        matches!(
            outcome,
            Err(Error::Invalid {
                field: "capacity_shape",
                ..
            })
        ),
        "{outcome:?}"
    );
}

/// What the read model says of an allocation's node is made wrong, past the key that keeps it right.
async fn misplace(world: &World, allocation_id: Uuid, node_id: Uuid) {
    let wrong =
        format!("UPDATE allocations SET node_id = '{node_id}' WHERE id = '{allocation_id}'");
    let refused = sqlx::query(AssertSqlSafe(wrong.clone()))
        .execute(&world.owner)
        .await;
    assert!(refused.is_err(), "the claim keeps it");
    world.run_past_guards(&wrong).await;
}

/// Live claims on a node, and whether it is empty once it is to be drained.
async fn drains(world: &World, node_id: Uuid) -> (i64, bool) {
    let mut tx = world.scheduler.begin().await.expect("begin");
    let (node, _) = node_placement::set_intent(
        &mut tx,
        node_id,
        Intent::Draining,
        Attribution::of("user:test", "by the test"),
    )
    .await
    .expect("draining");
    // only to look
    tx.rollback().await.expect("rollback");
    (node.live_claims, node.drained())
}

/// Whether inventory may make a node a bare-metal one now.
async fn may_be_baremetal(world: &World, spec: &NodeSpec) -> bool {
    let wanted = NodeSpec {
        mode: "baremetal".into(),
        ..spec.clone()
    };
    let mut tx = world.scheduler.begin().await.expect("begin");
    // out of service: what is held alone decides
    let word = Attribution::of("user:test", "another mode");
    let _ = node_placement::set_intent(&mut tx, spec.id, Intent::Cordoned, word)
        .await
        .expect("cordoned");
    let outcome = nodes::put(&mut tx, &wanted).await;
    tx.rollback().await.expect("rollback");
    outcome.is_ok()
}

#[tokio::test]
async fn b_26_b_29_claims_and_not_the_allocations_node_say_what_is_held() {
    let (world, specs) = world_of(2).await;
    let id = reserve(&world, &slice(&world)).await.expect("a slice");
    let on = world.get(id).await.node_id.expect("placed");
    let (held, free): (Vec<_>, Vec<_>) = specs.iter().partition(|spec| spec.id == on);
    let (held, free) = (held[0], free[0]);
    misplace(&world, id, free.id).await;
    assert_eq!(world.get(id).await.node_id, Some(free.id));

    assert_eq!(drains(&world, held.id).await, (1, false));
    assert_eq!(drains(&world, free.id).await, (0, true));
    assert!(!may_be_baremetal(&world, held).await);
    assert!(may_be_baremetal(&world, free).await);
    let first = reserve(&world, &bare_metal(&world))
        .await
        .expect("the empty one");
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let placed = claims::of_allocation(&mut conn, first)
        .await
        .expect("claims");
    assert_eq!(placed[0].node_id, free.id);
    let more = reserve(&world, &bare_metal(&world)).await;
    assert_eq!(reason(more), ErrorReason::SlotsInUse);
    // and the audit names the row that is wrong
    let report = audit::ledger(&mut conn).await.expect("audited");
    let broken: Vec<&str> = report.broken().map(|one| one.name).collect();
    assert_eq!(broken, ["claim_matches_allocation"]);

    // what it gives back is what its claim was on
    let mut tx = world.allocation.begin().await.expect("begin");
    release::begin(&mut tx, Scope::Platform, id, "", "")
        .await
        .expect("released");
    tx.commit().await.expect("commit");
    assert_eq!(drains(&world, held.id).await, (0, true));
    assert_eq!(drains(&world, free.id).await, (1, false));
    reserve(&world, &bare_metal(&world))
        .await
        .expect("given back");
}

#[tokio::test]
async fn b_29_an_allocation_without_a_claim_holds_nothing() {
    let (world, specs) = world_of(1).await;
    let id = reserve(&world, &bare_metal(&world))
        .await
        .expect("reserved");
    world
        .run_past_guards(&format!("DELETE FROM claims WHERE allocation_id = '{id}'"))
        .await;
    assert_eq!(world.get(id).await.node_id, Some(specs[0].id));
    assert_eq!(drains(&world, specs[0].id).await, (0, true));
    let other = reserve(&world, &bare_metal(&world))
        .await
        .expect("it is free");
    assert_eq!(world.get(other).await.node_id, Some(specs[0].id));
}

/// What a user of a bare-metal node sees of it from the request to the end, and which nodes there were to choose from.
async fn lifecycle(world: &World) -> Vec<String> {
    let id = reserve(world, &bare_metal(world))
        .await
        .expect("a bare-metal node");
    let node = world.get(id).await.node_id.expect("placed");
    let mut seen = Vec::new();
    tenancy(world, id, async || {
        let row = world.get(id).await;
        seen.push(format!(
            "{} {} {} GPU",
            row.state, row.capacity_shape, row.gpu_count
        ));
    })
    .await;
    seen.push(world.get(id).await.state.to_string());
    let reported: Vec<String> = sqlx::query_scalar(
        "SELECT type FROM outbox WHERE aggregate_id = $1
         UNION ALL SELECT kind || ' claim ' || state FROM claims WHERE allocation_id = $1
         UNION ALL SELECT 'billed ' || gpu_count FROM allocation_periods WHERE allocation_id = $1 AND ended_at IS NOT NULL
         UNION ALL SELECT step || ' ' || state FROM timeline WHERE allocation_id = $1
         UNION ALL SELECT 'node in mode ' || mode FROM nodes WHERE id = $2 ORDER BY 1",
    )
    .bind(id)
    .bind(node)
    .fetch_all(&world.owner)
    .await
    .expect("what is told");
    seen.extend(reported);
    seen
}

/// G-11.
#[tokio::test]
async fn b_31_bare_metal_is_offered_as_before_beside_nodes_with_slices() {
    let (before, specs) = world_of(2).await;
    let as_before = lifecycle(&before).await;
    assert!(
        as_before.contains(&"active baremetal 8 GPU".to_owned()),
        "{as_before:?}"
    );
    let (world, _) = world_of(specs.len() + 1).await;
    let beside = reserve(&world, &slice(&world)).await.expect("a slice");
    let sliced = world.get(beside).await.node_id;
    assert_eq!(lifecycle(&world).await, as_before);
    // the other bare-metal nodes are there to the last one, and the one with the slice is not
    let last = reserve(&world, &bare_metal(&world))
        .await
        .expect("the last one");
    assert_ne!(world.get(last).await.node_id, sliced);
    let more = reserve(&world, &bare_metal(&world)).await;
    assert!(matches!(more, Err(Error::Refused { .. })), "{more:?}");
    assert_eq!(world.get(beside).await.state.as_str(), "reserved");
}
