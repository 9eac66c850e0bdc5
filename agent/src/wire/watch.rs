//! Keeps the rules in force: what another hand changed, or a restart of the switch forgot, is put back and reported.
use std::time::Duration;

use gpuaas_common::CancellationToken;

use super::Wire;

/// Between two checks.
const INTERVAL: Duration = Duration::from_secs(3);

/// Checks until `shutdown`.
pub async fn watch(wire: &Wire, shutdown: CancellationToken) {
    let mut failing = false;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        match wire.put().await {
            Ok(altered) => {
                for what in altered {
                    tracing::warn!(
                        "put back rules of the guests' network: {what} not as they must be"
                    );
                }
                failing = false;
            }
            // once: it is said again by every report of readiness
            Err(error) if !failing => {
                tracing::error!(%error, "cannot put the rules of the guests' network in force");
                failing = true;
            }
            Err(_) => {}
        }
    }
}
