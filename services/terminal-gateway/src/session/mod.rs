//! Sessions that this process runs: opening ([`open`]), one task each ([`session_loop`]), their list ([`registry`]).
mod admitted;
pub(crate) mod host;
pub(crate) mod kill;
pub(crate) mod link;
pub(crate) mod open;
pub(crate) mod recorder;
pub(crate) mod registry;
pub(crate) mod session_loop;
pub(crate) mod target;

use gpuaas_common::client::Peers;
use gpuaas_common::id::IdGen;
use opentelemetry::metrics::{Counter, UpDownCounter};
use sqlx::PgPool;
use std::sync::Arc;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::config::{Config, Policy};
use crate::domain::kind::Kind;
use registry::Registry;

/// What sessions need.
#[derive(Clone)]
pub(crate) struct Deps {
    pub(crate) pool: PgPool,
    pub(crate) peers: Peers,
    pub(crate) ids: IdGen,
    pub(crate) config: Arc<Config>,
    pub(crate) registry: Registry,
    /// Names this process in the rows of its sessions.
    pub(crate) replica: String,
    pub(crate) tasks: TaskTracker,
    pub(crate) metrics: Metrics,
}

impl Deps {
    /// How sessions of this kind are recorded in a project; none when a project that must have recordings gets none of them.
    pub(crate) fn recording(&self, kind: Kind, project_id: Uuid) -> Option<Policy> {
        match (kind, self.config.recording.policy(project_id)) {
            (Kind::Shell, policy) => Some(policy),
            (Kind::SshTunnel, Policy::Required) => None,
            // there is nothing in it that could be shown
            (Kind::SshTunnel, _) => Some(Policy::Off),
        }
    }
}

/// Instruments.
#[derive(Clone)]
pub(crate) struct Metrics {
    /// Sessions that are open.
    pub(crate) open: UpDownCounter<i64>,
    /// Sessions that ended, by reason.
    pub(crate) ended: Counter<u64>,
    /// Output bytes from hosts.
    pub(crate) output_bytes: Counter<u64>,
}

impl Metrics {
    pub(crate) fn new(meter: &opentelemetry::metrics::Meter) -> Self {
        Self {
            open: meter.i64_up_down_counter("terminal_sessions_open").build(),
            ended: meter.u64_counter("terminal_sessions_ended_total").build(),
            output_bytes: meter.u64_counter("terminal_output_bytes_total").build(),
        }
    }
}
