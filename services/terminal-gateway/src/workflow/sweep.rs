//! Says which sessions live here, closes the rows of sessions whose process is gone, forgets old tickets and
//! recordings.
use std::time::Duration;

use gpuaas_common::{CancellationToken, Result};

use crate::session::Deps;
use crate::session::open::{Closing, record_close};
use crate::store::{recordings, sessions, tickets};

const INTERVAL: Duration = Duration::from_secs(10);
/// A session whose process was silent for this many seconds is over.
const LOST_SECONDS: f64 = 60.0;

/// Sweeps until `shutdown`.
pub(crate) async fn run(deps: Deps, shutdown: CancellationToken) {
    loop {
        if let Err(error) = sweep(&deps).await {
            tracing::warn!("skip a sweep: {}", error.chain());
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
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
