//! The allocation service: launches, shows and releases allocations, and carries them out on hosts.
//!
//! It owns, together with the scheduler, the schema `placement`: the scheduler decides and reserves, this
//! service moves what is reserved through its lifecycle. Called by the gateway (users, administrators) and by
//! consumers of events; calls the scheduler, the image catalog and hosts.
//!
//! Guarantees: a retried call has one effect (P4), a crash at any step leaks nothing (P5), a stale runner
//! is harmless (P6), an accepted operation ends or explains itself (P7), losing Redis costs at most a poll
//! interval (P8), every privileged action is on record (P10).
//!
//! Reading order: [`api`] → [`domain`] (pure) → [`store`] (SQL) → [`workflow`] (durable steps), then the
//! streams of [`watch`] and the two background tasks [`sequencer`] and [`reconcile`].

pub mod api;
mod auto_release;
pub mod config;
mod convert;
pub mod domain;
pub mod ingress;
pub mod metrics;
pub mod reconcile;
mod retention;
pub mod sequencer;
pub mod store;
mod unproven;
pub mod watch;
pub mod workflow;

use std::sync::Arc;

use gpuaas_common::server::Server;
use gpuaas_common::{CancellationToken, Context};
use gpuaas_proto::gpuaas::allocation::v1::allocation_admin_service_server::AllocationAdminServiceServer;
use gpuaas_proto::gpuaas::allocation::v1::allocation_service_server::AllocationServiceServer;
use gpuaas_proto::gpuaas::allocation::v1::ingress_service_server::IngressServiceServer;
use gpuaas_proto::gpuaas::allocation::v1::project_network_service_server::ProjectNetworkServiceServer;
use gpuaas_proto::gpuaas::internal::allocation::v1::access_service_server::AccessServiceServer;
use gpuaas_proto::gpuaas::internal::events::v1::event_service_server::EventServiceServer;

pub use config::Config;
pub use workflow::step_tables;

/// Runs the service until `shutdown`.
///
/// # Errors
/// Unusable settings, or an address that cannot be bound.
pub async fn run(
    context: Context,
    config: Config,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let host_authority = match &context.settings.tls.host_ca_file {
        Some(file) => gpuaas_common::config::read("tls.host_ca_file", file)?,
        // without it no host is called at all
        None => String::new(),
    };
    let deps = Arc::new(workflow::Deps {
        pool: context.database()?,
        peers: context.peers.clone(),
        wake: context.wake()?,
        config,
        metrics: metrics::Metrics::new(&context.meter),
        edges: Arc::new(workflow::edges::KillFile),
        host_authority,
    });
    // names the replica in `workflows.lease_owner`, for operators; the epoch is what fences
    let owner = format!("allocation-{}", context.ids.next());
    let stop = shutdown.child_token();
    let tasks = tokio_util::task::TaskTracker::new();
    tasks.spawn(workflow::runner::run(
        deps.clone(),
        owner.clone(),
        stop.clone(),
    ));
    {
        let (deps, stop) = (deps.clone(), stop.clone());
        tasks.spawn(async move { sequencer::run(&deps, stop).await });
    }
    {
        let (deps, stop) = (deps.clone(), stop.clone());
        tasks.spawn(async move { retention::sweep(&deps, stop).await });
    }
    {
        let (deps, stop, owner) = (deps.clone(), stop.clone(), owner.clone());
        tasks.spawn(async move { reconcile::run(&deps, &owner, stop).await });
    }
    {
        let (deps, stop) = (deps.clone(), stop.clone());
        tasks.spawn(async move { unproven::run(&deps, stop).await });
    }
    {
        let (deps, stop) = (deps.clone(), stop.clone());
        tasks.spawn(async move { auto_release::run(&deps, stop).await });
    }
    {
        let (deps, stop) = (deps.clone(), stop.clone());
        tasks.spawn(async move { ingress::run(&deps, stop).await });
    }
    let watching = watch::Watching::new(
        deps.clone(),
        gpuaas_common::watch::Streams::new(&context.meter, shutdown.clone()),
    );
    {
        let (watching, stop) = (watching.clone(), stop.clone());
        tasks.spawn(async move { watching.read_on(stop).await });
    }
    let served = Server::new(&context)
        .add(AllocationServiceServer::new(api::AllocationApi::new(
            deps.clone(),
            watching,
        )))
        .add(AllocationAdminServiceServer::new(api::AdminApi::new(
            deps.clone(),
        )))
        .add(ProjectNetworkServiceServer::new(api::NetworkApi::new(
            deps.clone(),
        )))
        .add(IngressServiceServer::new(api::IngressApi::new(
            deps.clone(),
        )))
        .add(EventServiceServer::new(api::EventApi::new(deps.clone())))
        .add(AccessServiceServer::new(api::AccessApi::new(deps.clone())))
        .run(shutdown)
        .await;
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    served
}
