//! How webhooks are delivered.
use serde::Deserialize;

/// Section `[gateway.webhooks]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhookSettings {
    /// Plain HTTP and addresses that are not public are allowed. For development and tests alone: with it every owner of a
    /// project reaches what the gateway reaches.
    pub allow_insecure: bool,
    /// Webhooks that a project or an organisation may have. 0 is no limit.
    pub max_per_owner: usize,
    /// Longest time for one attempt, in seconds: from the lookup of the name to the head of the answer.
    pub timeout_seconds: f64,
    /// Pause after the first failed attempt, in seconds; it doubles with each further one.
    pub first_retry_seconds: f64,
    /// Longest pause between two attempts, in seconds.
    pub longest_retry_seconds: f64,
    /// A delivery that is pending for so many hours fails with its next failed attempt.
    pub max_age_hours: f64,
    /// A webhook is disabled when so many hours no delivery has succeeded and one fails.
    pub disable_after_hours: f64,
    /// Days for which deliveries are kept.
    pub keep_days: u32,
    /// Attempts that one gateway makes at once; at most half of them to endpoints that fail.
    pub max_concurrent: usize,
    /// Seconds between two polls for due deliveries and of billing's log, and of the ledger's log when no wake-up comes.
    pub poll_seconds: f64,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            allow_insecure: false,
            max_per_owner: 20,
            timeout_seconds: 15.0,
            first_retry_seconds: 5.0,
            longest_retry_seconds: 3600.0,
            max_age_hours: 24.0,
            disable_after_hours: 72.0,
            keep_days: 30,
            max_concurrent: 32,
            poll_seconds: 1.0,
        }
    }
}
