//! Nodes and quotas that others have locked: the next candidate is tried, and no database error reaches a caller.
use std::time::Duration;

use gpuaas_placement::Error;
use gpuaas_placement::reserve::{self, Policy};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sqlx::{Postgres, Transaction};
use uuid::Uuid;

use crate::world::{LAB, POLICY, World};

async fn hold(world: &World, node: Uuid) -> Transaction<'static, Postgres> {
    let mut other = world.owner.begin().await.expect("begin");
    sqlx::query("SELECT FROM nodes WHERE id = $1 FOR NO KEY UPDATE")
        .bind(node)
        .execute(&mut *other)
        .await
        .expect("lock");
    other
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn b_42_a_node_that_stays_busy_leads_to_the_next() {
    let world = World::new().await;
    // the first by id is preferred, so it is the one that is waited for first
    let mut nodes = [world.lab_node(1).await, world.lab_node(1).await];
    nodes.sort();
    let stays = hold(&world, nodes[0]).await;
    let goes = hold(&world, nodes[1]).await;
    let policy = Policy {
        node_wait: Duration::from_millis(200),
        ..POLICY
    };
    let request = world.request(1);
    let letting_go = async {
        world.someone_waits().await;
        goes.commit().await.expect("commit");
    };
    let (outcome, ()) = tokio::join!(
        reserve::reserve(&world.scheduler, world.ids, policy, &request),
        letting_go
    );
    let id = outcome.expect("the other node was taken").allocation_id;
    assert_eq!(world.get(id).await.node_id, Some(nodes[1]));
    stays.commit().await.expect("commit");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_quota_that_others_hold_is_told_as_busy_and_not_as_a_database_error() {
    let (world, _) = World::with_lab_slots(2).await;
    world.reserved(1).await;
    let before = world.fingerprint().await;
    let mut other = world.owner.begin().await.expect("begin");
    sqlx::query("SELECT FROM quotas WHERE sku = $1 FOR NO KEY UPDATE")
        .bind(LAB)
        .execute(&mut *other)
        .await
        .expect("lock");
    let policy = Policy {
        patience: Duration::from_millis(50),
        ..POLICY
    };
    let error = reserve::reserve(&world.scheduler, world.ids, policy, &world.request(1))
        .await
        .expect_err("busy");
    assert!(matches!(error, Error::Busy { .. }), "{error:?}");
    let error = gpuaas_kit::Error::from(error);
    assert_eq!(error.reason(), ErrorReason::Overloaded);
    assert!(error.is_transient());
    other.commit().await.expect("commit");
    assert_eq!(world.fingerprint().await, before);
}
