//! Billing: immutable prices, usage intervals, exact money.
//!
//! It owns schema `billing`. The gateway calls it for users (`UsageService`), administrators (`UsageAdminService`,
//! `PriceAdminService`) and webhooks (`UsageEventService`); it reads the ledger's event log from the allocation service and
//! pushes prices to the scheduler. It keeps the promise of no billing gap and no overlap (P3): intervals are opened and closed by
//! ledger events only, each exactly once, in order; the database refuses an overlap; a reconciler compares the
//! union of the intervals with the billable history again and again. Billing is sourced from allocations (C-14,
//! G-01), never from hosts.
pub mod api;
mod config;
pub mod domain;
pub mod metrics;
pub mod store;
pub mod workflow;

use std::time::Duration;

use gpuaas_common::server::Server;
use gpuaas_common::{CancellationToken, Context, db};
use gpuaas_proto::gpuaas::billing::v1::price_admin_service_server::PriceAdminServiceServer;
use gpuaas_proto::gpuaas::billing::v1::usage_admin_service_server::UsageAdminServiceServer;
use gpuaas_proto::gpuaas::billing::v1::usage_service_server::UsageServiceServer;
use gpuaas_proto::gpuaas::internal::billing::v1::usage_event_service_server::UsageEventServiceServer;

pub use config::{Config, HostLost};

use crate::api::Api;
use crate::metrics::Metrics;
use crate::workflow::consumer::Consumer;
use crate::workflow::publisher::{self, Publisher};
use crate::workflow::reconciler::{self, Reconciler};

/// Topic that wakes readers of the ledger's log.
const EVENTS_TOPIC: &str = "events";

/// Runs the service until `shutdown`.
///
/// # Errors
/// Unusable settings, or a server that cannot listen.
pub async fn run(ctx: Context, config: Config, shutdown: CancellationToken) -> anyhow::Result<()> {
    let pool = ctx.database()?;
    let wake = ctx.wake()?;
    let metrics = Metrics::new(&ctx.meter);
    let (allocation, scheduler) = (
        ctx.peers.channel("allocation")?,
        ctx.peers.channel("scheduler")?,
    );
    let poll_interval = Duration::from_millis(config.poll_interval_ms.max(1));

    let consumer = Consumer {
        pool: pool.clone(),
        ids: ctx.ids,
        ledger: allocation.clone(),
        policy: config.host_lost,
        limit: db::PASS,
        metrics: metrics.clone(),
    };
    let publisher = Publisher {
        pool: pool.clone(),
        ledger: scheduler.clone(),
        metrics: metrics.clone(),
    };
    let reconciler = Reconciler {
        pool: pool.clone(),
        ledger: allocation,
        page: reconciler::PAGE,
        metrics,
    };
    let api = Api {
        pool,
        ids: ctx.ids,
        scheduler,
        publisher: publisher.clone(),
        wake: wake.clone(),
    };

    let follow = consumer.run(
        wake.subscribe(EVENTS_TOPIC),
        poll_interval,
        shutdown.clone(),
    );
    let publish = publisher.run(
        wake.subscribe(publisher::TOPIC),
        poll_interval,
        shutdown.clone(),
    );
    let prove = reconciler.run(
        Duration::from_secs(config.reconcile_interval_seconds.max(1)),
        shutdown.clone(),
    );
    let serve = async {
        let outcome = Server::new(&ctx)
            .add(UsageServiceServer::new(api.clone()))
            .add(UsageEventServiceServer::new(api.clone()))
            .add(UsageAdminServiceServer::new(api.clone()))
            .add(PriceAdminServiceServer::new(api))
            .run(shutdown.clone())
            .await;
        // a server that failed takes the other work with it
        shutdown.cancel();
        outcome
    };
    let (served, (), (), ()) = tokio::join!(serve, follow, publish, prove);
    served
}
