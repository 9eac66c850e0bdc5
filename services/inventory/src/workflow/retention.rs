//! Removes inspections of hosts past their retention.
use std::time::Duration;

use gpuaas_common::{CancellationToken, db};

use crate::state::State;
use crate::store::tasks;

/// Time between two sweeps.
const INTERVAL: Duration = Duration::from_secs(3600);

/// Sweeps until `shutdown`. Any number may run.
pub(crate) async fn run(state: State, shutdown: CancellationToken) {
    loop {
        let sweep = tasks::sweep(&state.pool, state.config.discovery_retention_days);
        match shutdown
            .run_until_cancelled(db::within(db::SWEEP, sweep))
            .await
        {
            Some(Ok(0)) | None => {}
            Some(Ok(discoveries)) => tracing::info!(discoveries, "remove old discoveries"),
            Some(Err(error)) => {
                tracing::warn!("leave old discoveries for the next sweep: {error}");
            }
        }
        let pause = tokio::time::sleep(INTERVAL);
        if shutdown.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}
