//! Billing: immutable prices, usage intervals, exact money.
//!
//! It owns schema `billing`. The gateway calls it for users (`UsageService`) and administrators
//! (`PriceAdminService`); it reads the ledger's event log from the allocation service and pushes prices to the
//! scheduler. It keeps the promise of no billing gap and no overlap (P3): intervals are opened and closed by
//! ledger events only, each exactly once, in order; the database refuses an overlap; a reconciler compares the
//! union of the intervals with the billable history again and again. Billing is sourced from allocations (C-14,
//! G-01), never from hosts.
pub mod api;
pub mod domain;
pub mod metrics;
pub mod store;
pub mod workflow;

use std::time::Duration;

use gpuaas_common::server::Server;
use gpuaas_common::{CancellationToken, Context};
use gpuaas_proto::gpuaas::billing::v1::price_admin_service_server::PriceAdminServiceServer;
use gpuaas_proto::gpuaas::billing::v1::usage_service_server::UsageServiceServer;
use serde::Deserialize;

use crate::api::Api;
use crate::metrics::Metrics;
use crate::workflow::consumer::Consumer;
use crate::workflow::publisher::{self, Publisher};
use crate::workflow::reconciler::Reconciler;

/// Topic that wakes readers of the ledger's log.
const EVENTS_TOPIC: &str = "events";

/// Section `[billing]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Longest time until a ledger event or an unpublished price is noticed without Redis, in milliseconds.
    pub poll_interval_ms: u64,
    /// Time between two reconciliations of usage with the ledger, in seconds.
    pub reconcile_interval_seconds: u64,
    /// What becomes of the time in which the host of an allocation is lost: `charge`, or `credit`, from when it was last heard
    /// until it is back. An allocation that an administrator releases by force is billed until its host was last heard in
    /// either case, or until the time that the administrator states. A change is for losses from then on.
    pub host_lost: HostLost,
}

/// What becomes of the time in which the host of an allocation is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostLost {
    /// It is charged: the GPUs stay allocated.
    #[default]
    Charge,
    /// It is not charged.
    Credit,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            poll_interval_ms: 2000,
            reconcile_interval_seconds: 3600,
            host_lost: HostLost::Charge,
        }
    }
}

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
