//! Says which sessions live here and ends those whose end was requested or whose row another process has closed; closes the
//! rows of sessions whose process is gone, forgets old tickets and recordings.
use std::time::Duration;

use gpuaas_common::{CancellationToken, Result, db};
use tokio::time::{Interval, MissedTickBehavior};

use crate::domain::end::End;
use crate::session::Deps;
use crate::session::open::{Closing, record_close};
use crate::store::sessions::ToEnd;
use crate::store::{recordings, sessions, tickets};

const INTERVAL: Duration = Duration::from_secs(10);
/// A session whose process was silent for this many seconds is over.
const LOST_SECONDS: f64 = 60.0;
/// Limit of one look at the own sessions. Together with [`INTERVAL`] far below [`LOST_SECONDS`]: an answer that the database
/// loses does not make a process that lives a lost one.
const OWN: Duration = Duration::from_secs(15);

/// Sweeps until `shutdown`.
pub(crate) async fn run(deps: Deps, shutdown: CancellationToken) {
    let both = async { tokio::join!(own(&deps), others(&deps)) };
    shutdown.run_until_cancelled(Box::pin(both)).await;
}

fn ticks(interval: Duration) -> Interval {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Tends the sessions of this process, whatever becomes of the others.
async fn own(deps: &Deps) {
    let mut requests = ticks(Duration::from_secs_f64(deps.config.poll_seconds.max(0.01)));
    let mut records = ticks(INTERVAL);
    loop {
        let done = tokio::select! {
            _ = requests.tick() => db::within(OWN, end_requested(deps)).await,
            _ = records.tick() => db::within(OWN, record_running(deps)).await,
        };
        if let Err(error) = done {
            tracing::warn!(
                "skip a look at the sessions of this process: {}",
                error.chain()
            );
        }
    }
}

/// Clears up what other processes, and time, have left.
async fn others(deps: &Deps) {
    let mut sweeps = ticks(INTERVAL);
    loop {
        sweeps.tick().await;
        if let Err(error) = db::within(db::PASS, sweep(deps)).await {
            tracing::warn!("skip a sweep: {}", error.chain());
        }
    }
}

/// Ends the sessions of this process whose end was requested, of whichever process that was, and those whose row is closed: a
/// process that heard nothing of this one for long has done so, and nobody could see or end such a session any more.
async fn end_requested(deps: &Deps) -> Result<()> {
    let ids = deps.registry.ids();
    if ids.is_empty() {
        return Ok(());
    }
    for (session_id, why) in sessions::to_end(&deps.pool, &ids).await? {
        if let Some(handle) = deps.registry.get(session_id) {
            handle.kill.order(match why {
                ToEnd::Closed => {
                    tracing::warn!(%session_id, "end a session that another process has closed");
                    End::ProcessLost
                }
                ToEnd::ByUser => End::EndedByUser,
                ToEnd::ByOperator(reason) => End::EndedByOperator(reason),
            });
        }
    }
    Ok(())
}

async fn record_running(deps: &Deps) -> Result<()> {
    sessions::record_running(&deps.pool, &deps.registry.ids()).await?;
    Ok(())
}

async fn sweep(deps: &Deps) -> Result<()> {
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
