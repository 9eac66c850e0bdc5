//! Settings of the service.
use serde::Deserialize;

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
