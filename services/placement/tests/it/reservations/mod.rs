//! Capacity reservations on the real ledger. Time is moved by moving windows and ages, never by waiting.
mod decision;
mod draw;
pub mod limits;
mod races;
mod refused;
mod search;
mod window;

use gpuaas_placement::model::Scope;
use gpuaas_placement::reservations::{self, CapacityReservation, Reconciled, ReservationSpec};
use gpuaas_placement::reserve::{Policy, Request};
use gpuaas_placement::{Error, Result, audit, release};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::world::{LAB, POLICY, REGION, World};

/// An operator's request to reserve lab GPUs for the world's project, now and for an hour, with a name and key of its
/// own.
pub fn requested(world: &World, gpu_count: u32) -> ReservationSpec {
    let unique = Uuid::new_v4().simple().to_string();
    ReservationSpec {
        principal: "user:root".into(),
        idempotency_key: unique.clone(),
        request_hash: vec![9; 32],
        request_id: "req-1".into(),
        made_by_project: false,
        project_id: world.project,
        name: format!("r-{unique}"),
        region_code: REGION.into(),
        sku: LAB.into(),
        gpu_count,
        starts_at: None,
        ends_at: Timestamp::now() + SignedDuration::from_hours(1),
        release_unused_after: None,
        gather: false,
    }
}

async fn create(world: &World, requested: &ReservationSpec) -> Result<CapacityReservation> {
    let made = reservations::create(&world.scheduler, world.ids, POLICY, requested).await;
    made.map(|(row, _)| row)
}

/// A reservation of lab GPUs for the world's project that holds all of them.
pub async fn reserved(world: &World, gpu_count: u32) -> CapacityReservation {
    let row = create(world, &requested(world, gpu_count))
        .await
        .expect("made");
    assert_eq!(row.missing(), 0);
    row
}

async fn get(world: &World, id: Uuid) -> CapacityReservation {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    reservations::get(&mut conn, Scope::Platform, id)
        .await
        .expect("reservation")
}

/// Held, used and unused GPUs.
async fn counts(world: &World, id: Uuid) -> (i64, i64, i64) {
    let row = get(world, id).await;
    (row.reserved_gpus, row.used_gpus, row.unused_gpus)
}

async fn reconcile(world: &World) -> Reconciled {
    reconcile_by(world, POLICY).await
}

async fn reconcile_by(world: &World, policy: Policy) -> Reconciled {
    reservations::reconcile(&world.scheduler, policy)
        .await
        .expect("reconciled")
}

/// A launch of another project.
fn of_others(world: &World, gpu_count: u32) -> Request {
    Request {
        project_id: Uuid::from_u128(77),
        ..world.request(gpu_count)
    }
}

/// Releases an allocation whose host was not touched, so that its slots are free at once.
async fn free(world: &World, id: Uuid) {
    let mut tx = world.allocation.begin().await.expect("begin");
    release::begin(&mut tx, Scope::Platform, id, "", "")
        .await
        .expect("release");
    tx.commit().await.expect("commit");
}

/// Causes of a refusal with their GPUs.
fn causes(error: Error) -> Vec<(ErrorReason, u32)> {
    match error {
        Error::Refused { causes, .. } => causes
            .into_iter()
            .map(|cause| (cause.reason, cause.gpus))
            .collect(),
        other => panic!("{other:?}"),
    }
}

async fn sound(world: &World) {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let report = audit::ledger(&mut conn).await.expect("audit");
    assert_eq!(report.broken().count(), 0, "{report:#?}");
}
