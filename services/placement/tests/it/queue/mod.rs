//! Requests that wait for capacity, on the real ledger; here, what all tests of it use.
mod costs;
mod ending;
mod joining;
mod order;
mod passes;
pub mod suspended;

use gpuaas_placement::model::{Allocation, AllocationState};
use gpuaas_placement::queue::{self, QueuePosition};
use gpuaas_placement::reserve::{Key, Pass, Request, serve_queue};
use gpuaas_placement::{Result, Scope, audit, quota, release};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::reserving::{self, Reserved};
use crate::world::{LAB, POLICY, World};

/// In an hour.
pub fn deadline() -> Timestamp {
    Timestamp::now() + SignedDuration::from_hours(1)
}

pub async fn wait(world: &World, request: &Request) -> Result<Reserved> {
    reserving::one_or_queue(&world.scheduler, world.ids, POLICY, request, deadline()).await
}

/// A request of a project, for one lab GPU, that waits.
pub async fn waiter(world: &World, project_id: Uuid) -> Uuid {
    let request = Request {
        project_id,
        ..world.request(1)
    };
    let id = wait(world, &request).await.expect("waits").allocation_id;
    assert_eq!(world.get(id).await.state, AllocationState::Requested);
    id
}

pub async fn pass(world: &World) -> Pass {
    serve_queue(&world.scheduler, world.ids, POLICY)
        .await
        .expect("pass")
}

/// Releases an allocation whose host was not touched, so that its slots are free at once.
pub async fn free(world: &World, id: Uuid) -> Allocation {
    let mut tx = world.allocation.begin().await.expect("begin");
    let begun = release::begin(&mut tx, Scope::Platform, id, "", "")
        .await
        .expect("release");
    tx.commit().await.expect("commit");
    begun.allocation
}

pub async fn sound(world: &World) {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let report = audit::ledger(&mut conn).await.expect("audit");
    assert_eq!(report.broken().count(), 0, "{report:#?}");
}

pub async fn queue_position(world: &World, id: Uuid) -> Option<QueuePosition> {
    let row = world.get(id).await;
    let mut conn = world.allocation.acquire().await.expect("connection");
    queue::positions(&mut conn, &[row])
        .await
        .expect("positions")
        .remove(&id)
}

pub async fn set_quota(world: &World, project: Uuid, max: i32) {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    quota::put(&mut conn, project, LAB, max)
        .await
        .expect("quota");
}

pub async fn batch(world: &World, key: &str, requests: &[Request]) -> Result<(Vec<Uuid>, bool)> {
    let key = Key {
        principal: "user:alice",
        idempotency_key: key,
        request_hash: &[5; 32],
    };
    reserving::all_or_queue(
        &world.scheduler,
        world.ids,
        POLICY,
        key,
        requests,
        deadline(),
    )
    .await
}
