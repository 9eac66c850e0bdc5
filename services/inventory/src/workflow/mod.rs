//! The background work: synchronising the ledger, inspecting hosts, monitoring heartbeats, rolling
//! out agents, removing what is too old. Every replica does all of it; rows are taken by expiring leases or locks, so no
//! replica leads.
pub mod agent_rollout;
pub mod discovery;
pub mod heartbeat_monitor;
pub mod ledger_sync;
pub mod retention;

use std::time::Duration;

use tokio::sync::Notify;

/// Waits for a notification, at most the poll interval.
async fn rest(due: &Notify, poll_interval: Duration) {
    let _either_way = tokio::time::timeout(poll_interval, due.notified()).await;
}
