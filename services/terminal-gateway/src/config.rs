//! Settings of the terminal gateway.
use std::collections::BTreeMap;

use serde::Deserialize;
use uuid::Uuid;

/// Section `[terminal_gateway]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Sessions one user may have open.
    pub max_sessions_per_user: u32,
    /// Seconds a ticket can be used.
    pub ticket_seconds: u32,
    /// Seconds without input after which a session ends.
    pub idle_seconds: u64,
    /// Seconds after which a session ends in any case.
    pub max_seconds: u64,
    /// Seconds a session without a connection is kept.
    pub resume_seconds: u64,
    /// Seconds between two readings of the ledger's log; wake-ups come sooner.
    pub poll_seconds: f64,
    /// Which sessions are recorded.
    pub recording: Recording,
}

/// Which sessions are recorded, and for how long.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recording {
    /// Policy of projects that are not listed.
    pub default: Policy,
    /// Policy of single projects, by id.
    pub projects: BTreeMap<Uuid, Policy>,
    /// Days a recording is kept.
    pub retention_days: u32,
    /// Largest recording in bytes. A best-effort one stops there, a required one ends its session.
    pub max_bytes: u64,
}

/// Whether a project's sessions are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Never.
    Off,
    /// As long as it can be stored.
    BestEffort,
    /// Always: output that is not stored is not shown, and a session that cannot be stored ends.
    Required,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_sessions_per_user: 20,
            ticket_seconds: 30,
            idle_seconds: 1800,
            max_seconds: 43_200,
            resume_seconds: 60,
            poll_seconds: 1.0,
            recording: Recording::default(),
        }
    }
}

impl Default for Recording {
    fn default() -> Self {
        Self {
            default: Policy::Off,
            projects: BTreeMap::new(),
            retention_days: 30,
            max_bytes: 64 << 20,
        }
    }
}

impl Recording {
    /// The policy of a project.
    pub fn policy(&self, project_id: Uuid) -> Policy {
        self.projects
            .get(&project_id)
            .copied()
            .unwrap_or(self.default)
    }
}
