//! Nodes and quotas that others have locked: the next candidate is tried, and no database error reaches a caller.
use std::time::{Duration, Instant};

use futures::future::join_all;
use gpuaas_placement::model::SlotStatus;
use gpuaas_placement::reserve::{Policy, Request};
use gpuaas_placement::{Error, availability};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sqlx::{Postgres, Transaction};
use uuid::Uuid;

use crate::reserving::{self, Reserved};
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
        node_lock_timeout: Duration::from_millis(200),
        ..POLICY
    };
    let request = world.request(1);
    let letting_go = async {
        world.someone_waits().await;
        goes.commit().await.expect("commit");
    };
    let (outcome, ()) = tokio::join!(
        reserving::one(&world.scheduler, world.ids, policy, &request),
        letting_go
    );
    let id = outcome.expect("the other node was taken").allocation_id;
    assert_eq!(world.get(id).await.node_id, Some(nodes[1]));
    stays.commit().await.expect("commit");
}

/// Runs a reservation that has looked at the nodes and chosen one of them when `meanwhile` happens. The project has an
/// allocation already.
pub async fn reserve_while(
    world: &World,
    meanwhile: impl Future<Output = ()>,
) -> Result<Reserved, Error> {
    let mut quota = world.owner.begin().await.expect("begin");
    sqlx::query("SELECT FROM quotas WHERE sku = $1 FOR NO KEY UPDATE")
        .bind(LAB)
        .execute(&mut *quota)
        .await
        .expect("lock");
    let request = world.request(1);
    let changing = async {
        world.someone_waits().await;
        meanwhile.await;
        quota.commit().await.expect("commit");
    };
    let (outcome, ()) = tokio::join!(world.reserve(&request), changing);
    outcome
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn b_42_a_node_that_was_cordoned_since_it_was_looked_at_is_not_taken() {
    for change in [
        "admin_state = 'cordoned'",
        "schedulable = false",
        "max_vms = 1",
    ] {
        let world = World::new().await;
        let nodes = [world.lab_node(2).await, world.lab_node(2).await];
        // begun nodes are filled first, so this one is what the next request chooses
        let first = world.reserved(1).await;
        let begun = world.get(first).await.node_id.expect("placed");
        let change = format!("UPDATE nodes SET {change} WHERE id = '{begun}'");
        let done = Box::pin(reserve_while(&world, world.run(&change))).await;
        let id = done.expect("reserved").allocation_id;
        let other = nodes.into_iter().find(|node| *node != begun);
        assert_eq!(world.get(id).await.node_id, other, "{change}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn b_42_a_slot_that_others_took_since_it_was_looked_at_leads_to_the_next_of_the_node() {
    let (world, node) = World::with_lab_slots(3).await;
    world.reserved(1).await;
    let theirs = Request {
        project_id: Uuid::now_v7(),
        ..world.request(1)
    };
    let taking = Box::pin(async {
        world.reserve(&theirs).await.expect("reserved");
    });
    let done = reserve_while(&world, taking).await;
    let id = done.expect("reserved").allocation_id;
    assert_eq!(world.get(id).await.node_id, Some(node));
    assert_eq!(world.count(node, SlotStatus::Reserved).await, 3);
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
        placement_timeout: Duration::from_millis(50),
        ..POLICY
    };
    let error = reserving::one(&world.scheduler, world.ids, policy, &world.request(1))
        .await
        .expect_err("busy");
    assert!(matches!(error, Error::Busy { .. }), "{error:?}");
    let error = gpuaas_common::Error::from(error);
    assert_eq!(error.reason(), ErrorReason::Overloaded);
    assert!(error.is_transient());
    other.commit().await.expect("commit");
    assert_eq!(world.fingerprint().await, before);
}

/// All look at the nodes at once, and none can: each waits for the one that reads, then for the lock, and no longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn b_42_nodes_that_cannot_be_read_keep_nobody_waiting_behind_others() {
    const CALLERS: usize = 6;
    let (world, _) = World::with_lab_slots(2).await;
    // an allocation and a key that are there before, and nodes that have been read
    let before = world.request(1);
    world.reserve(&before).await.expect("reserved");
    let as_it_was = world.fingerprint().await;
    let mut migration = world.owner.begin().await.expect("begin");
    sqlx::query("LOCK TABLE nodes IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *migration)
        .await
        .expect("lock");
    let policy = Policy {
        placement_timeout: Duration::from_millis(50),
        ..POLICY
    };
    let begun = Instant::now();
    let requests: Vec<Request> = (0..CALLERS).map(|_| world.request(1)).collect();
    let launches = requests
        .iter()
        .map(|request| reserving::one(&world.scheduler, world.ids, policy, request));
    let looks = (0..CALLERS).map(|_| async {
        let mut conn = world.scheduler.acquire().await?;
        availability::list(
            &mut conn,
            &world.scheduler.capacity,
            POLICY,
            None,
            None,
            None,
        )
        .await
    });
    let (launched, looked) = tokio::join!(join_all(launches), join_all(looks));
    let took = begun.elapsed();
    let errors = launched.into_iter().map(|one| one.expect_err("no node"));
    let errors = errors.chain(looked.into_iter().map(|one| one.expect_err("no answer")));
    for error in errors.map(gpuaas_common::Error::from) {
        assert_eq!(error.reason(), ErrorReason::Overloaded, "{error:?}");
        assert!(error.is_transient(), "{error:?}");
    }
    // three seconds for those before it and three for the lock; one after the other it would be half a minute or more
    assert!(took < Duration::from_secs(12), "{took:?}");
    // what was done before is still told, and nothing has changed
    let again = reserving::one(&world.scheduler, world.ids, policy, &before);
    assert!(again.await.expect("told").replayed);
    migration.commit().await.expect("commit");
    assert_eq!(world.fingerprint().await, as_it_was);
    world.reserve(&requests[0]).await.expect("reserved");
}
