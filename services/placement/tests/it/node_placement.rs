//! Cordon and drain: honoured by placement, told once, with the progress of a drain.
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_placement::model::Attribution;
use gpuaas_placement::model::Scope;
use gpuaas_placement::node_placement::{self, Intent, NodePlacement};
use gpuaas_placement::{Error, Outcome, availability, release};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::world::{LAB, POLICY, REGION, World};

async fn say(world: &World, node: Uuid, intent: Intent, reason: &str) -> (NodePlacement, Outcome) {
    let mut tx = world.scheduler.begin().await.expect("begin");
    let said =
        node_placement::set_intent(&mut tx, node, intent, Attribution::of("user:root", reason))
            .await
            .expect("intent");
    tx.commit().await.expect("commit");
    said
}

#[tokio::test]
async fn b_50_a_cordoned_node_takes_nothing_new_until_it_is_uncordoned() {
    let (world, node) = World::with_lab_slots(2).await;
    world.reserved(1).await;
    let (reported, outcome) = say(&world, node, Intent::Cordoned, "fan replaced at 14:00").await;
    assert_eq!(outcome, Outcome::Changed);
    assert_eq!(
        (
            reported.admin_state.as_str(),
            reported.admin_reason.as_str()
        ),
        ("cordoned", "fan replaced at 14:00")
    );
    assert!(reported.admin_at.is_some() && !reported.drained());
    assert_eq!(
        (
            reported.live_claims,
            reported.live_allocations,
            reported.available_slots
        ),
        (1, 1, 1)
    );
    match world.reserve(&world.request(1)).await {
        Err(Error::Refused { causes, .. }) => {
            let cause = causes
                .iter()
                .find(|cause| cause.reason == ErrorReason::NodeDraining)
                .expect("the operator's word is among the causes");
            assert_eq!((cause.gpus, cause.nodes), (2, 1));
        }
        other => panic!("{other:?}"),
    }
    let rows = availability::list(
        &mut world.scheduler.acquire().await.expect("connection"),
        &world.capacity,
        POLICY,
        None,
        Some(REGION),
        Some(LAB),
    )
    .await
    .expect("availability");
    assert!(
        rows[0].fits == 0
            && rows[0]
                .reasons
                .iter()
                .any(|r| r.reason == ErrorReason::NodeDraining)
    );

    let _ = say(&world, node, Intent::Enabled, "").await;
    world.reserved(1).await;
}

#[tokio::test]
async fn an_intent_said_again_changes_nothing_and_tells_nobody() {
    let (world, node) = World::with_lab_slots(1).await;
    let events = "SELECT count(*) FROM outbox WHERE type LIKE 'node.%'";
    let (first, _) = say(&world, node, Intent::Draining, "move to rack 4").await;
    assert_eq!(world.number(events).await, 1);
    let (again, outcome) = say(&world, node, Intent::Draining, "move to rack 4").await;
    assert_eq!((outcome, &again), (Outcome::Unchanged, &first));
    assert_eq!(world.number(events).await, 1);
    let (other, _) = say(&world, node, Intent::Draining, "move to rack 5").await;
    assert!(other.generation > first.generation);
    assert_eq!(
        world
            .number("SELECT count(*) FROM outbox WHERE type = 'node.draining' AND data->>'reason' = 'move to rack 5'")
            .await,
        1
    );
}

#[tokio::test]
async fn b_48_a_drain_waits_for_natural_release_and_says_when_it_is_over() {
    let (world, node) = World::with_lab_slots(2).await;
    let id = world.reserved(2).await;
    let (draining, _) = say(&world, node, Intent::Draining, "retire the host").await;
    assert_eq!((draining.live_claims, draining.drained()), (2, false));
    let mut tx = world.allocation.begin().await.expect("begin");
    release::begin(&mut tx, Scope::Platform, id, "", "req")
        .await
        .expect("release");
    tx.commit().await.expect("commit");
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let now = node_placement::get(&mut conn, node).await.expect("node");
    assert_eq!(
        (now.live_claims, now.live_allocations, now.drained()),
        (0, 0, true)
    );
}

#[tokio::test]
async fn nodes_are_listed_by_id_in_pages() {
    let world = World::new().await;
    let mut ids = [world.lab_node(1).await, world.lab_node(1).await];
    ids.sort();
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let selection = Selection::parse(&node_placement::NODES, "", "").expect("everything");
    let page = |page_token, size| Wanted {
        page_token,
        size,
        query: &[],
    };
    let (first, token) = node_placement::list(&mut conn, Some(REGION), &selection, page("", 1))
        .await
        .expect("page");
    let (second, end) = node_placement::list(&mut conn, Some(REGION), &selection, page(&token, 10))
        .await
        .expect("page");
    assert_eq!([first[0].id, second[0].id], ids);
    assert_eq!((second.len(), end.as_str()), (1, ""));
    let (elsewhere, _) =
        node_placement::list(&mut conn, Some("elsewhere"), &selection, page("", 10))
            .await
            .expect("page");
    assert!(elsewhere.is_empty());
    assert!(matches!(
        node_placement::get(&mut conn, Uuid::nil()).await,
        Err(Error::NotFound { .. })
    ));
}
