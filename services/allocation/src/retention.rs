//! Removes what is past its retention: ended work, histories of nodes and slots, events.

use std::time::Duration;

use gpuaas_common::db;
use tokio_util::sync::CancellationToken;

use crate::workflow::Deps;

/// Time between two sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_secs(3600);

/// Removes it periodically, until `shutdown`. Any number may run.
pub async fn sweep(deps: &Deps, shutdown: CancellationToken) {
    let mut pause = gpuaas_common::retention::FIRST_SWEEP;
    loop {
        let paused = shutdown.run_until_cancelled(tokio::time::sleep(pause));
        if paused.await.is_none() {
            return;
        }
        pause = SWEEP_INTERVAL;
        let work = gpuaas_placement::sweep::work(&deps.pool, deps.config.retention_days);
        match shutdown
            .run_until_cancelled(db::within(db::SWEEP, work))
            .await
        {
            Some(Ok(0)) | None => {}
            Some(Ok(rows)) => tracing::info!(rows, "remove old workflows and timelines"),
            Some(Err(error)) => {
                let error = gpuaas_common::Error::from(error);
                tracing::warn!("leave old work for the next sweep: {error:?}");
            }
        }
        let days = deps.config.history_retention_days;
        let histories = gpuaas_placement::sweep::histories(&deps.pool, days);
        match shutdown
            .run_until_cancelled(db::within(db::SWEEP, histories))
            .await
        {
            Some(Ok(0)) | None => {}
            Some(Ok(rows)) => tracing::info!(rows, "remove old history of nodes and slots"),
            Some(Err(error)) => {
                let error = gpuaas_common::Error::from(error);
                tracing::warn!("leave old history for the next sweep: {error:?}");
            }
        }
        let events = gpuaas_placement::sweep::outbox(&deps.pool);
        match shutdown
            .run_until_cancelled(db::within(db::SWEEP, events))
            .await
        {
            Some(Ok(0)) | None => {}
            Some(Ok(events)) => tracing::info!(events, "remove old events"),
            Some(Err(error)) => {
                let error = gpuaas_common::Error::from(error);
                tracing::warn!("leave old events for the next sweep: {error:?}");
            }
        }
    }
}
