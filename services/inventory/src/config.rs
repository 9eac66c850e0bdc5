//! Settings of inventory, section `[inventory]`.
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::instance_identity::InstanceIdentityConfig;

/// Settings of inventory.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where enrolled hosts call, by their certificates.
    pub host_listen: Vec<SocketAddr>,
    /// Where hosts without a certificate call, to enrol by a token or to prove their key.
    pub enrolment_listen: Vec<SocketAddr>,
    /// Connections at an address of `enrolment_listen` at once. The one that has been idle longest makes place for a new one;
    /// while all are being answered, a new one is turned away.
    pub enrolment_max_connections: usize,
    /// Of them, those from one peer address (of IPv6: one /64); 0: no limit.
    pub enrolment_max_connections_per_peer: usize,
    /// Certificate of the intermediate authority that issues host certificates, in PEM, signed by that of
    /// `tls.host_ca_file`, whose key lies elsewhere.
    pub host_ca_cert_file: PathBuf,
    /// Its key in PKCS#8 PEM, mode 0600.
    pub host_ca_key_file: PathBuf,
    /// Identity tokens of VMs.
    pub instance_identity: InstanceIdentityConfig,
    /// Lifetime of a host certificate in days.
    pub host_certificate_days: u32,
    /// How long after its expiry a host may renew its certificate by proof of its key, in days.
    pub host_certificate_grace_days: u32,
    /// Lifetime of an enrolment token in seconds.
    pub enrolment_token_seconds: u32,
    /// How often a host shall report, in seconds.
    pub heartbeat_interval_seconds: u32,
    /// Time without a heartbeat after which a host is lost, in seconds.
    pub heartbeat_timeout_seconds: u32,
    /// Age at which a readiness report stops to count, in seconds (INC-04).
    pub evidence_max_age_seconds: u32,
    /// Age at which a discovery can no longer be approved from, in seconds.
    pub discovery_max_age_seconds: u32,
    /// Longest time one inspection of a host may take, in seconds.
    pub discovery_timeout_seconds: u32,
    /// Days for which a discovery is kept. Those that an approval names, and the latest of each node, stay. At least 1.
    pub discovery_retention_days: u32,
    /// How often the background work polls for something to do, in milliseconds.
    pub poll_interval_milliseconds: u64,
    /// How often hosts and slots are read while they are watched, in milliseconds.
    pub watch_interval_milliseconds: u64,
    /// Idle time after which a watch stream sends a heartbeat, in milliseconds.
    pub watch_heartbeat_milliseconds: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            host_listen: Vec::new(),
            enrolment_listen: Vec::new(),
            enrolment_max_connections: 1024,
            enrolment_max_connections_per_peer: 64,
            host_ca_cert_file: PathBuf::new(),
            host_ca_key_file: PathBuf::new(),
            instance_identity: InstanceIdentityConfig::default(),
            host_certificate_days: 90,
            host_certificate_grace_days: 30,
            enrolment_token_seconds: 3600,
            heartbeat_interval_seconds: 10,
            heartbeat_timeout_seconds: 35,
            evidence_max_age_seconds: 120,
            discovery_max_age_seconds: 3600,
            discovery_timeout_seconds: 60,
            discovery_retention_days: 90,
            poll_interval_milliseconds: 2000,
            watch_interval_milliseconds: 1000,
            watch_heartbeat_milliseconds: 15_000,
        }
    }
}

impl Config {
    /// How long hosts and their evidence count as current.
    #[must_use]
    pub fn freshness(&self) -> Freshness {
        Freshness {
            heartbeat_seconds: f64::from(self.heartbeat_timeout_seconds),
            evidence_seconds: f64::from(self.evidence_max_age_seconds),
        }
    }

    /// How often the background work polls for something to do.
    #[must_use]
    pub fn poll_interval(&self) -> Duration {
        Duration::from_millis(self.poll_interval_milliseconds)
    }

    /// How often hosts and slots are read while they are watched.
    #[must_use]
    pub fn watch_interval(&self) -> Duration {
        Duration::from_millis(self.watch_interval_milliseconds.max(10))
    }

    /// Idle time after which a watch stream sends a heartbeat.
    #[must_use]
    pub fn watch_heartbeat(&self) -> Duration {
        Duration::from_millis(self.watch_heartbeat_milliseconds.max(50))
    }
}

/// How long hosts and their evidence count as current. Ages are compared in SQL only.
#[derive(Clone, Copy, Debug)]
pub struct Freshness {
    /// Time without a heartbeat after which a host is lost, in seconds.
    pub heartbeat_seconds: f64,
    /// Age at which a readiness report stops to count, in seconds.
    pub evidence_seconds: f64,
}
