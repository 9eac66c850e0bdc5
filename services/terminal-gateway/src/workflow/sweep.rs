//! Says which sessions live here and ends those whose end was requested, closes the rows of sessions whose process is gone,
//! forgets old tickets and recordings.
use std::time::Duration;

use gpuaas_common::{CancellationToken, Result};
use tokio::time::MissedTickBehavior;

use crate::domain::end::End;
use crate::session::Deps;
use crate::session::open::{Closing, record_close};
use crate::store::{recordings, sessions, tickets};

const INTERVAL: Duration = Duration::from_secs(10);
/// A session whose process was silent for this many seconds is over.
const LOST_SECONDS: f64 = 60.0;

/// Sweeps until `shutdown`.
pub(crate) async fn run(deps: Deps, shutdown: CancellationToken) {
    let interval = Duration::from_secs_f64(deps.config.poll_seconds.max(0.01));
    let mut requests = tokio::time::interval(interval);
    let mut sweeps = tokio::time::interval(INTERVAL);
    for ticks in [&mut requests, &mut sweeps] {
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    loop {
        let done = tokio::select! {
            () = shutdown.cancelled() => return,
            _ = requests.tick() => end_requested(&deps).await,
            _ = sweeps.tick() => sweep(&deps).await,
        };
        if let Err(error) = done {
            tracing::warn!("skip a sweep: {}", error.chain());
        }
    }
}

/// Ends the sessions of this process whose end was requested, of whichever process that was.
async fn end_requested(deps: &Deps) -> Result<()> {
    let ids = deps.registry.ids();
    if ids.is_empty() {
        return Ok(());
    }
    for (session_id, reason) in sessions::to_end(&deps.pool, &ids).await? {
        if let Some(handle) = deps.registry.get(session_id) {
            handle.kill.order(match reason.as_str() {
                "" => End::EndedByUser,
                _ => End::EndedByOperator(reason),
            });
        }
    }
    Ok(())
}

async fn sweep(deps: &Deps) -> Result<()> {
    sessions::record_running(&deps.pool, &deps.registry.ids()).await?;
    let mut tx = deps.pool.begin().await?;
    for (session_id, principal, allocation_id) in sessions::lost(&mut tx, LOST_SECONDS).await? {
        tracing::warn!(%session_id, %allocation_id, "close a session whose process is gone");
        let closing = Closing {
            principal: &principal,
            allocation_id,
            request_id: "",
            reason: "process_lost",
            carried: None,
        };
        record_close(&mut tx, session_id, closing).await?;
    }
    tx.commit().await?;
    let mut tx = deps.pool.begin().await?;
    tickets::sweep(&mut tx).await?;
    let expired = recordings::expire(&mut tx, deps.config.recording.retention_days).await?;
    tx.commit().await?;
    if expired > 0 {
        tracing::info!(expired, "forget recordings");
    }
    Ok(())
}
