//! Inventory: regions, nodes, what hosts report, and which slots an operator approved.
//!
//! It owns schema `inventory`. Callers: the gateway (regions, node administration) and agents (enrolment,
//! heartbeats). It calls the scheduler, which owns the ledger's rows of regions, nodes and slots, and agents, to inspect
//! their topology. It never reads another context's tables.
//!
//! | promise | how |
//! |---|---|
//! | a host that is not proven fit now is not schedulable (A-11, INC-04) | readiness is decided from the current instance's fresh evidence; a missed heartbeat and age end it |
//! | an earlier image of a machine counts for nothing (A-09) | its certificate names its instance; only the node's current instance is heard |
//! | what a host says is believed only in form and range, in order, and from the node's current instance | every report is checked before it is stored; a refusal changes nothing and is counted |
//! | nothing a host proposes is schedulable before an operator approves it (A-58) | candidates stay in the discovery; approval checks completeness and uniqueness, all or none |
//! | the ledger learns of every change | the desired state is stored with the change and pushed until confirmed |
//! | a VM's identity token is of a claim that is on the calling host instance now | ledger and current instance are read at each call |
//! | every privileged action is on record (P10) | audit row in the transaction of the effect |
mod api;
mod authority;
mod chain;
mod config;
mod convert;
pub mod domain;
mod instance_identity;
mod refusals;
mod state;
mod store;
mod watch;
mod workflow;

use std::future::Future;
use std::sync::Arc;

use anyhow::Context as _;
use gpuaas_common::server::{Clients, Server};
use gpuaas_common::watch::Streams;
use gpuaas_common::{CancellationToken, Context};
use gpuaas_proto::gpuaas::internal::inventory::v1::host_service_server::HostServiceServer;
use gpuaas_proto::gpuaas::inventory::v1::agent_rollout_admin_service_server::AgentRolloutAdminServiceServer;
use gpuaas_proto::gpuaas::inventory::v1::node_admin_service_server::NodeAdminServiceServer;
use gpuaas_proto::gpuaas::inventory::v1::region_admin_service_server::RegionAdminServiceServer;
use gpuaas_proto::gpuaas::inventory::v1::region_service_server::RegionServiceServer;
use tokio::sync::Notify;
use tokio::task::JoinSet;

pub use config::{Config, Freshness};
pub use instance_identity::InstanceIdentityConfig;

use authority::HostAuthority;
use instance_identity::InstanceIdentity;
use refusals::Refusals;
use state::{Shared, State};

/// Serves and works until `shutdown`.
///
/// # Errors
/// Unusable settings, files or addresses; a background task that panicked.
pub async fn run(ctx: Context, config: Config, shutdown: CancellationToken) -> anyhow::Result<()> {
    let (host_listen, enrolment_listen) =
        (config.host_listen.clone(), config.enrolment_listen.clone());
    let enrolment_limits = (
        config.enrolment_max_connections,
        config.enrolment_max_connections_per_peer,
    );
    let refusals = Refusals::new(&ctx.meter);
    let state = State::new(Shared {
        pool: ctx.database()?,
        peers: ctx.peers.clone(),
        ids: ctx.ids,
        cell: ctx.settings.cell,
        authority: HostAuthority::load(ctx.settings.cell, &config, &ctx.settings.tls)?,
        instance_identity: InstanceIdentity::load(&config.instance_identity)?,
        trust_pem: gpuaas_common::config::read("tls.ca_file", &ctx.settings.tls.ca_file)?,
        config,
        push_due: Notify::new(),
        task_due: Notify::new(),
        refusals: refusals.clone(),
    });
    let watching = Arc::new(watch::Watching::new(
        state.clone(),
        Streams::new(&ctx.meter, shutdown.clone()),
    ));
    let mut parts = JoinSet::new();
    let background = shutdown.child_token();
    let spawn = |parts: &mut JoinSet<()>,
                 part: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
        parts.spawn(part);
    };
    for _ in 0..workflow::ledger_sync::WORKERS {
        spawn(
            &mut parts,
            Box::pin(workflow::ledger_sync::run(
                state.clone(),
                background.clone(),
            )),
        );
    }
    spawn(
        &mut parts,
        Box::pin(workflow::heartbeat_monitor::run(
            state.clone(),
            background.clone(),
        )),
    );
    spawn(
        &mut parts,
        Box::pin(workflow::retention::run(state.clone(), background.clone())),
    );
    spawn(
        &mut parts,
        Box::pin(workflow::agent_rollout::run(
            state.clone(),
            background.clone(),
        )),
    );
    spawn(
        &mut parts,
        Box::pin(watch::observe::run(watching.clone(), background.clone())),
    );
    for _ in 0..workflow::discovery::WORKERS {
        spawn(
            &mut parts,
            Box::pin(workflow::discovery::run(state.clone(), background.clone())),
        );
    }
    let server = Server::new(&ctx)
        .add(RegionServiceServer::new(api::Regions(state.clone())))
        .add(RegionAdminServiceServer::new(api::Regions(state.clone())))
        .add(refusals.of(NodeAdminServiceServer::new(api::Nodes(
            state.clone(),
            watching,
        ))))
        .add(
            refusals.of(AgentRolloutAdminServiceServer::new(api::Rollouts(
                state.clone(),
            ))),
        )
        .add(
            refusals.of(HostServiceServer::new(api::Hosts(state))
                .max_decoding_message_size(domain::report::MAX_BYTES)),
        )
        .also_at(&host_listen, Clients::Hosts)
        .also_limited_at(&enrolment_listen, Clients::Enrolling, enrolment_limits)
        .run(shutdown);
    let served = tokio::select! {
        served = server => served,
        // they end at shutdown only; one that ends before has panicked
        Some(Err(panicked)) = parts.join_next() => Err(panicked).context("background task"),
    };
    background.cancel();
    while parts.join_next().await.is_some() {}
    served
}
