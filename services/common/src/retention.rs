//! Removes what is past its retention: old idempotency keys, for every process with a database.
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::config::DatabaseSettings;
use crate::context::Context;
use crate::{db, idempotency};

/// Time from the start of a service to the first removal of what is past its retention: a start has more urgent work.
pub const FIRST_SWEEP: Duration = Duration::from_secs(5);
/// Time between two sweeps of old idempotency keys.
const SWEEP_INTERVAL: Duration = Duration::from_secs(3600);

/// Removes old idempotency keys from the service's schema now and then, if it has one. Replicas may do so at once.
pub async fn sweep(context: Context, shutdown: CancellationToken) {
    let Some(settings) = &context.settings.database else {
        return;
    };
    let one_connection = DatabaseSettings {
        max_connections: 1,
        ..settings.clone()
    };
    let mut pause = FIRST_SWEEP;
    loop {
        let paused = shutdown.run_until_cancelled(tokio::time::sleep(pause));
        if paused.await.is_none() {
            return;
        }
        pause = SWEEP_INTERVAL;
        // a pool of its own, closed again: nothing is held between two sweeps
        match db::pool(context.service, &one_connection) {
            Ok(pool) => {
                let swept =
                    shutdown.run_until_cancelled(db::within(db::SWEEP, idempotency::sweep(&pool)));
                match swept.await {
                    Some(Ok(0)) | None => {}
                    Some(Ok(keys)) => tracing::info!(keys, "remove old idempotency keys"),
                    Some(Err(error)) => {
                        tracing::warn!("leave old idempotency keys for the next sweep: {error}");
                    }
                }
                pool.close().await;
            }
            Err(error) => tracing::warn!("cannot sweep idempotency keys: {error}"),
        }
    }
}
