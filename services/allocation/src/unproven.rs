//! Slots that a release before this one offered on an operator's word, with no wipe behind it: they are wiped before
//! anybody else gets them.
use std::time::Duration;

use gpuaas_common::db;
use gpuaas_placement::{outbox, repair, workflows};
use tokio_util::sync::CancellationToken;

use crate::workflow::Deps;

/// Between two searches. Not a setting: a site that compares nothing else still offers no slot that was never wiped.
const INTERVAL: Duration = Duration::from_secs(60);

/// Looks for them until `shutdown`: an operator may enable one later, and a replica of that release may run for a while.
pub async fn run(deps: &Deps, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        match db::within(db::PASS, wipe(deps)).await {
            Ok(0) => {}
            Ok(slots) => {
                tracing::info!(slots, "start wipe of slots that were never wiped");
                deps.wake.notify(workflows::TOPIC).await;
                deps.wake.notify(outbox::TOPIC).await;
            }
            Err(error) => {
                tracing::warn!("retry the search for slots that were never wiped: {error}");
            }
        }
        shutdown
            .run_until_cancelled(tokio::time::sleep(INTERVAL))
            .await;
    }
}

async fn wipe(deps: &Deps) -> gpuaas_placement::Result<usize> {
    let mut conn = deps.pool.acquire().await?;
    repair::wipe_unproven(&mut conn).await
}
