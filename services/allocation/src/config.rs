//! Settings of the service, section `[allocation]`.

use std::time::Duration;

use gpuaas_placement::ingress::Limits;
use serde::Deserialize;

use crate::domain::wipe::Thoroughness;

/// What provisions and erases bare-metal nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BaremetalExecutor {
    /// Nothing: a bare-metal node that was allocated all the same is released untouched.
    #[default]
    None,
    /// Nothing either, but it reports success: no host is touched. To try the platform, and for tests.
    Simulated,
}

impl BaremetalExecutor {
    /// The name in the settings, when there is one to do it.
    #[must_use]
    pub fn executor(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Simulated => Some("simulated"),
        }
    }
}

/// Time for a wipe, unless a site sets another.
pub const WIPE_SECONDS: u64 = gpuaas_placement::workflows::WIPE_SECONDS.unsigned_abs();

/// Most ingress mappings of an allocation that a host takes.
const MOST_INGRESS: u32 = 64;

/// Settings with their defaults.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Seconds between two polls for due work; wake-ups come sooner.
    pub poll_seconds: f64,
    /// Seconds a workflow's lease lasts without renewal: how long work of a killed replica rests.
    pub lease_seconds: f64,
    /// Workflows this process runs at once, besides those at a wipe.
    pub concurrency: usize,
    /// Releases and repairs that this process has at the wipe of their disks at once; more of them wait. A wipe may take hours,
    /// and keeps no other work waiting.
    pub wipe_concurrency: usize,
    /// Seconds a guest may take to shut down before it is stopped hard, when it is released.
    pub graceful_stop_seconds: u64,
    /// Seconds a guest may take to shut down before it is stopped hard, when its owner stops or reboots it.
    pub power_graceful_seconds: u64,
    /// Seconds that a release or a repair gives its host to remove the VM, wipe the disks and prove them empty. A host that
    /// allows less by its own `agent.limits.wipe_budget_s` ends earlier.
    pub wipe_seconds: u64,
    /// Disks up to this many bytes must have been read back completely after a wipe.
    pub wipe_full_verify_bytes: u64,
    /// Bytes of a larger disk that must at least have been read back.
    pub wipe_sample_verify_bytes: u64,
    /// What provisions bare-metal nodes: `none`, or `simulated`, which touches no host and is for trying the platform and for
    /// tests. See `scheduler.baremetal`.
    pub baremetal: BaremetalExecutor,
    /// Seconds between two comparisons of ledger, hosts and hypervisors; 0 makes none.
    pub reconcile_seconds: f64,
    /// Nodes that this process compares at once.
    pub reconcile_concurrency: usize,
    /// Ingress mappings that one allocation may have, at most 64; 0 makes none anywhere.
    pub ingress_per_allocation: u32,
    /// Ingress mappings that all allocations of a project may have together.
    pub ingress_per_project: u32,
    /// Days that ended workflows, their calls to hosts and the timelines of ended allocations are retained; at least 30.
    pub retention_days: u32,
    /// Days that the histories of nodes and slots, and their times of bad health, are retained; at least 30. The latest entry
    /// of each stays.
    pub history_retention_days: u32,
    /// Seconds between two polls for what watch streams show; wake-ups come sooner.
    pub watch_poll_seconds: f64,
    /// Seconds after which a watch stream on which nothing happened sends a heartbeat.
    pub watch_heartbeat_seconds: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            poll_seconds: 1.0,
            lease_seconds: 15.0,
            concurrency: 64,
            wipe_concurrency: 256,
            graceful_stop_seconds: 20,
            power_graceful_seconds: 60,
            wipe_seconds: WIPE_SECONDS,
            wipe_full_verify_bytes: 16 << 30,
            wipe_sample_verify_bytes: 2 << 30,
            baremetal: BaremetalExecutor::None,
            reconcile_seconds: 30.0,
            reconcile_concurrency: 32,
            ingress_per_allocation: 16,
            ingress_per_project: 100,
            retention_days: 90,
            history_retention_days: 400,
            watch_poll_seconds: 0.5,
            watch_heartbeat_seconds: 15.0,
        }
    }
}

impl Config {
    /// How long a step with a wipe in it may take over all attempts.
    #[must_use]
    pub fn wipe_deadline(&self) -> Duration {
        Duration::from_secs(self.wipe_seconds)
    }

    /// How many ingress mappings there may be. A host takes 64 of an allocation.
    #[must_use]
    pub fn ingress_limits(&self) -> Limits {
        Limits {
            per_allocation: self.ingress_per_allocation.min(MOST_INGRESS),
            per_project: self.ingress_per_project,
        }
    }

    /// How much of a wiped disk must have been read back.
    #[must_use]
    pub fn thoroughness(&self) -> Thoroughness {
        Thoroughness {
            full_bytes: self.wipe_full_verify_bytes,
            sample_bytes: self.wipe_sample_verify_bytes,
        }
    }
}
