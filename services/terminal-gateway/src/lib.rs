//! Terminal gateway: shells in allocations, relayed between users' connections and hosts (F-01, F-09).
//!
//! It owns schema `terminal`: tickets, sessions, recordings. The gateway calls it, for users and with their
//! WebSockets; it calls the allocation service, which alone says where a terminal leads (F-10), and the agent of that
//! host. It offers shells, and tunnels to a guest's SSH server in which the user's own client logs in: no dashboard and no
//! other port of a guest is proxied (F-12, INC-42).
//!
//! Promises it keeps: opening and closing are audited in the transaction of the session's row (P10); memory per
//! session is bounded whatever client and guest do ([`domain::flow`]); a session ends with its allocation; a tunnel loses no
//! byte, and there is none where terminals must be recorded.
//!
//! Reading order: [`api`] → [`domain`] (pure) → [`store`] (SQL) → [`session`] (one task each) → [`workflow`].
mod api;
mod config;
mod domain;
mod session;
mod store;
mod workflow;

use std::sync::Arc;

use gpuaas_common::server::Server;
use gpuaas_common::{CancellationToken, Context};
use gpuaas_proto::gpuaas::internal::terminal::v1::terminal_relay_service_server::TerminalRelayServiceServer;
use gpuaas_proto::gpuaas::terminal::v1::terminal_admin_service_server::TerminalAdminServiceServer;
use gpuaas_proto::gpuaas::terminal::v1::terminal_session_service_server::TerminalSessionServiceServer;
use tokio_util::task::TaskTracker;

pub use config::{Config, Policy, Recording};

/// Topic of the ledger's log.
const EVENTS_TOPIC: &str = "events";

/// Serves until `shutdown`.
///
/// # Errors
/// Unusable settings, files or addresses.
pub async fn run(ctx: Context, config: Config, shutdown: CancellationToken) -> anyhow::Result<()> {
    let deps = session::Deps {
        pool: ctx.database()?,
        peers: ctx.peers.clone(),
        ids: ctx.ids,
        config: Arc::new(config),
        registry: session::registry::Registry::default(),
        replica: format!("terminal-gateway-{}", ctx.ids.next()),
        tasks: TaskTracker::new(),
        metrics: session::Metrics::new(&ctx.meter),
    };
    let background = TaskTracker::new();
    let waiter = ctx.wake()?.subscribe(EVENTS_TOPIC);
    background.spawn(workflow::ledger::run(
        deps.clone(),
        waiter,
        shutdown.clone(),
    ));
    background.spawn(workflow::sweep::run(deps.clone(), shutdown.clone()));
    {
        let (deps, shutdown) = (deps.clone(), shutdown.clone());
        background.spawn(async move {
            shutdown.cancelled().await;
            deps.registry.end_all(&domain::end::End::ShuttingDown);
        });
    }
    let served = Server::new(&ctx)
        .add(TerminalSessionServiceServer::new(
            api::sessions::SessionApi { deps: deps.clone() },
        ))
        .add(TerminalRelayServiceServer::new(api::relay::RelayApi {
            deps: deps.clone(),
        }))
        .add(TerminalAdminServiceServer::new(api::admin::AdminApi {
            pool: deps.pool.clone(),
        }))
        .run(shutdown.clone())
        .await;
    shutdown.cancel();
    background.close();
    background.wait().await;
    // sessions write their ends
    deps.registry.end_all(&domain::end::End::ShuttingDown);
    deps.tasks.close();
    deps.tasks.wait().await;
    served
}
