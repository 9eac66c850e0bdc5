//! The sequencer: gives committed events their positions, then wakes the readers.

use std::time::Duration;

use gpuaas_common::db;
use gpuaas_placement::{events, outbox, sequencer};
use tokio_util::sync::CancellationToken;

use crate::workflow::Deps;

/// Gives positions until `shutdown`. Any number may run; they alternate under the ledger's own lock.
pub async fn run(deps: &Deps, shutdown: CancellationToken) {
    let poll = Duration::from_secs_f64(deps.config.poll_seconds);
    let waiter = deps.wake.subscribe(outbox::TOPIC);
    while !shutdown.is_cancelled() {
        match db::within(db::PASS, sequencer::run_once(&deps.pool)).await {
            Ok(0) => {}
            Ok(count) => {
                deps.metrics.sequenced(count);
                deps.wake.notify(events::TOPIC).await;
            }
            Err(error) => {
                tracing::warn!(
                    "wait to sequence events: {:?}",
                    gpuaas_common::Error::from(error)
                );
            }
        }
        shutdown.run_until_cancelled(waiter.wait(poll)).await;
    }
}
