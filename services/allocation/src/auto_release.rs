//! Releases the allocations whose release time has come.

use std::time::Duration;

use gpuaas_common::{Error, audit, db};
use gpuaas_placement::{Scope, allocations, auto_release, lock};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::workflow::Deps;

/// Most that are released in one round.
const MOST: i64 = 100;
/// Who did it, in the audit trail.
const SYSTEM: &str = "service:allocation";
/// Shortest time between two rounds.
const SHORTEST: Duration = Duration::from_millis(50);

/// Looks at the interval of the settings until `shutdown`.
pub async fn run(deps: &Deps, shutdown: CancellationToken) {
    let interval = Duration::from_secs_f64(deps.config.poll_seconds).max(SHORTEST);
    while shutdown
        .run_until_cancelled(tokio::time::sleep(interval))
        .await
        .is_some()
    {
        let went = shutdown
            .run_until_cancelled(Box::pin(db::within(db::PASS, round(deps))))
            .await;
        if let Some(Err(error)) = went {
            tracing::warn!(
                "wait to release allocations at their time: {}",
                error.chain()
            );
        }
    }
}

async fn round(deps: &Deps) -> Result<(), Error> {
    let mut conn = deps.pool.acquire().await?;
    let due = auto_release::due(&mut conn, MOST).await?;
    drop(conn);
    let mut released = false;
    for id in due {
        match one(deps, id).await {
            Ok(done) => released |= done,
            // one that cannot be released holds up no other; the next round tries again
            Err(error) => {
                tracing::warn!(allocation_id = %id, "cannot release at its time: {}", error.chain());
            }
        }
    }
    if released {
        deps.wake.notify(gpuaas_placement::workflows::TOPIC).await;
        deps.wake.notify(gpuaas_placement::outbox::TOPIC).await;
    }
    Ok(())
}

async fn one(deps: &Deps, id: Uuid) -> Result<bool, Error> {
    let mut tx = deps.pool.begin().await?;
    let before = lock::allocation(&mut tx, Scope::Platform, id).await?;
    if !auto_release::begin(&mut tx, id).await? {
        return Ok(false);
    }
    let after = allocations::get(&mut tx, Scope::Platform, id).await?;
    let detail = allocations::with_digests(json!({}), Some(&before), &after);
    let entry = audit::Entry {
        principal: SYSTEM,
        action: "allocation.auto_release",
        resource: "allocation",
        resource_id: &id.to_string(),
        request_id: "",
        detail: audit::in_project(detail, after.project_id),
    };
    audit::record(&mut tx, entry).await?;
    tx.commit().await?;
    tracing::info!(allocation_id = %id, "release at its time");
    Ok(true)
}
