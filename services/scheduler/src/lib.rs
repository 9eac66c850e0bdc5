//! Scheduler: decides where capacity is placed, and takes nodes, slots, regions, SKUs and prices into the ledger.
//!
//! It shares schema `placement` with the allocation service through `gpuaas-placement` and is the only one that
//! may insert claims. It makes no calls. Called by the gateway (`SkuService`, `AvailabilityService`, `QuotaService`,
//! `SkuAdminService`, `LedgerAdminService`, `CapacityAdminService`, `QueueAdminService`, `CapacityReservationService`,
//! `CapacityReservationAdminService`,
//! `NodePlacementService`, `FleetAdminService`, `HealthEventService`, `SuspensionService`) and by allocation, inventory, billing and image-catalog (`PlacementService`). It guarantees one allocation per GPU (P1) and one effect per key (P4): both are
//! constraints of the database, met in one transaction. The task in [`queue`] reconciles capacity reservations and
//! serves queued requests.
pub mod api;
pub mod fleet;
pub mod history;
pub mod metrics;
mod queue;

use std::time::Duration;

use gpuaas_common::server::Server;
use gpuaas_common::{CancellationToken, Context};
use gpuaas_placement::capacity::{self, Ledger};
use gpuaas_placement::decision::PackingStrategy;
use gpuaas_placement::reservations::UNUSED_SECONDS;
use gpuaas_placement::reserve::Policy;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_server::PlacementServiceServer;
use gpuaas_proto::gpuaas::internal::scheduler::v1::suspension_service_server::SuspensionServiceServer;
use gpuaas_proto::gpuaas::scheduler::v1::availability_service_server::AvailabilityServiceServer;
use gpuaas_proto::gpuaas::scheduler::v1::capacity_admin_service_server::CapacityAdminServiceServer;
use gpuaas_proto::gpuaas::scheduler::v1::capacity_reservation_admin_service_server::CapacityReservationAdminServiceServer;
use gpuaas_proto::gpuaas::scheduler::v1::capacity_reservation_service_server::CapacityReservationServiceServer;
use gpuaas_proto::gpuaas::scheduler::v1::fleet_admin_service_server::FleetAdminServiceServer;
use gpuaas_proto::gpuaas::scheduler::v1::health_event_service_server::HealthEventServiceServer;
use gpuaas_proto::gpuaas::scheduler::v1::ledger_admin_service_server::LedgerAdminServiceServer;
use gpuaas_proto::gpuaas::scheduler::v1::node_health_service_server::NodeHealthServiceServer;
use gpuaas_proto::gpuaas::scheduler::v1::node_placement_service_server::NodePlacementServiceServer;
use gpuaas_proto::gpuaas::scheduler::v1::queue_admin_service_server::QueueAdminServiceServer;
use gpuaas_proto::gpuaas::scheduler::v1::quota_service_server::QuotaServiceServer;
use gpuaas_proto::gpuaas::scheduler::v1::sku_admin_service_server::SkuAdminServiceServer;
use gpuaas_proto::gpuaas::scheduler::v1::sku_service_server::SkuServiceServer;
use serde::Deserialize;
use sqlx::PgPool;

use crate::api::Api;

/// Section `[scheduler]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// GPUs of a SKU that a project without a quota of its own may hold.
    pub default_project_quota_gpus: u32,
    /// Allocations, of all SKUs together, that a project without a quota of its own may hold.
    pub default_project_quota_allocations: u32,
    /// How long to wait for a node that is locked by others before the next one is tried, in milliseconds.
    pub node_lock_timeout_ms: u64,
    /// How long a request tries other nodes, and retries under contention, in milliseconds.
    pub placement_timeout_ms: u64,
    /// How many days the history of the fleet's capacity is retained; 0: none is written.
    pub capacity_history_days: u32,
    /// Packing strategy: `most_allocated` fills one node before the next is opened, `least_allocated` prefers the emptiest.
    pub packing_strategy: PackingStrategy,
    /// Whether bare-metal nodes are offered. Switch it on only where `allocation.baremetal` names what provisions them.
    pub baremetal: bool,
    /// Seconds after which GPUs that a project has reserved by itself are released when they are unused, unless it requests
    /// for fewer; 0: never, else at least 60. Operators may reserve for longer.
    pub release_unused_after_seconds: u32,
    /// Seconds between two passes over capacity reservations and queues; wake-ups come sooner.
    pub queue_poll_seconds: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            default_project_quota_gpus: 64,
            default_project_quota_allocations: 256,
            node_lock_timeout_ms: 2000,
            placement_timeout_ms: 10_000,
            capacity_history_days: 90,
            packing_strategy: PackingStrategy::MostAllocated,
            baremetal: false,
            release_unused_after_seconds: 0,
            queue_poll_seconds: 5.0,
        }
    }
}

/// Runs the service until `shutdown`.
///
/// # Errors
/// Unusable settings, or a server that cannot listen.
pub async fn run(ctx: Context, config: Config, shutdown: CancellationToken) -> anyhow::Result<()> {
    let unused = Some(config.release_unused_after_seconds).filter(|seconds| *seconds > 0);
    if let Some(seconds) = unused {
        let (least, most) = UNUSED_SECONDS.into_inner();
        anyhow::ensure!(
            UNUSED_SECONDS.contains(&seconds),
            "scheduler.release_unused_after_seconds is {seconds}, but must be 0 or {least} to {most}"
        );
    }
    let api = Api {
        pool: Ledger::new(ctx.database_with(&capacity::CONNECTION)?),
        ids: ctx.ids,
        wake: ctx.wake()?,
        policy: Policy {
            default_quota_gpus: config.default_project_quota_gpus,
            default_quota_allocations: config.default_project_quota_allocations,
            node_lock_timeout: Duration::from_millis(config.node_lock_timeout_ms),
            placement_timeout: Duration::from_millis(config.placement_timeout_ms),
            packing_strategy: config.packing_strategy,
            baremetal: config.baremetal,
            release_unused_after: unused,
        },
    };
    let stop = shutdown.child_token();
    let poll = Duration::from_secs_f64(config.queue_poll_seconds.max(0.01));
    let serving = {
        let (api, stop) = (api.clone(), stop.clone());
        let metrics = metrics::Metrics::new(&ctx.meter);
        tokio::spawn(async move { queue::run(&api, &metrics, poll, stop).await })
    };
    // no call has to wait for the first reading of the fleet
    let reading = {
        let ledger = api.pool.clone();
        tokio::spawn(async move { warm(&ledger).await })
    };
    let writing = tokio::spawn(history::write(
        PgPool::clone(&api.pool),
        config.capacity_history_days,
        stop.clone(),
    ));
    let counting = tokio::spawn(fleet::measure(
        PgPool::clone(&api.pool),
        fleet::Gauges::new(&ctx.meter),
        stop.clone(),
    ));
    let served = Server::new(&ctx)
        .add(SkuServiceServer::new(api.clone()))
        .add(AvailabilityServiceServer::new(api.clone()))
        .add(SkuAdminServiceServer::new(api.clone()))
        .add(QuotaServiceServer::new(api.clone()))
        .add(LedgerAdminServiceServer::new(api.clone()))
        .add(CapacityAdminServiceServer::new(api.clone()))
        .add(NodePlacementServiceServer::new(api.clone()))
        .add(FleetAdminServiceServer::new(api.clone()))
        .add(HealthEventServiceServer::new(api.clone()))
        .add(NodeHealthServiceServer::new(api.clone()))
        .add(QueueAdminServiceServer::new(api.clone()))
        .add(CapacityReservationServiceServer::new(api.clone()))
        .add(CapacityReservationAdminServiceServer::new(api.clone()))
        .add(SuspensionServiceServer::new(api.clone()))
        .add(PlacementServiceServer::new(api))
        .run(shutdown)
        .await;
    stop.cancel();
    reading.abort();
    serving.await?;
    writing.await?;
    counting.await?;
    served
}

/// Reads the fleet; where that fails, the first request does it.
async fn warm(ledger: &Ledger) {
    let read = async {
        let mut conn = ledger.acquire().await?;
        ledger.capacity.now(&mut conn).await
    };
    if let Err(error) = read.await {
        let error = gpuaas_common::Error::from(error);
        tracing::warn!("read the fleet at the first request: {error:?}");
    }
}
