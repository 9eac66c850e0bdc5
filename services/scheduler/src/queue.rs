//! The task that reconciles capacity reservations and serves queued requests: after every change of the ledger, and by
//! polling, in case a wake-up was lost.
use std::time::Duration;

use gpuaas_common::{CancellationToken, db};
use gpuaas_placement::reserve::{Limits, Pass, Passes};
use gpuaas_placement::{Result, drift, outbox, queue, reservations, workflows};

use crate::api::Api;
use crate::metrics::Metrics;

/// Pause before another pass after contention.
const SOON: Duration = Duration::from_millis(200);

/// Serves until `shutdown`. Any number may run. Whatever frees capacity (a release, a repair, an approval, an
/// uncordon, a higher quota) notifies the outbox, and so wakes this; a wake-up that is lost costs one `poll` (P8).
pub async fn run(api: &Api, metrics: &Metrics, poll: Duration, shutdown: CancellationToken) {
    let waiter = api.wake.subscribe(outbox::TOPIC);
    let mut passes = Passes::default();
    while !shutdown.is_cancelled() {
        // first what is reserved, so that what it lets go is served at once
        let mut busy = reconcile(api).await;
        let served = passes.serve(&api.pool, api.ids, api.policy, Limits::default());
        match served.await {
            Ok(pass) => {
                if !pass.served.is_empty() || !pass.ended.is_empty() {
                    tracing::info!(served = ?pass.served, ended = ?pass.ended, "serve queued requests");
                    api.wake.notify(workflows::TOPIC).await;
                    api.wake.notify(outbox::TOPIC).await;
                }
                busy |= pass.busy;
                if let Err(error) = db::within(db::PASS, measure(api, metrics, &pass)).await {
                    let error = gpuaas_common::Error::from(error);
                    tracing::warn!("leave the queues unmeasured: {error:?}");
                }
            }
            Err(error) => {
                let error = gpuaas_common::Error::from(error);
                tracing::warn!("serve queued requests later: {error:?}");
            }
        }
        let pause = if busy { SOON.min(poll) } else { poll };
        shutdown.run_until_cancelled(waiter.wait(pause)).await;
    }
}

/// Reports the lengths of the queues after a pass, and its results.
async fn measure(api: &Api, metrics: &Metrics, pass: &Pass) -> Result<()> {
    let mut conn = api.pool.acquire().await?;
    let left: Vec<_> = pass.served.iter().chain(&pass.ended).copied().collect();
    if !left.is_empty() {
        metrics.left(&queue::outcomes(&mut conn, &left).await?);
    }
    metrics.queues(&queue::lengths(&mut conn).await?);
    metrics.drifted(&drift::counts(&mut conn).await?);
    Ok(())
}

/// Reconciles reservations; true when others were at one of them.
async fn reconcile(api: &Api) -> bool {
    match db::within(db::PASS, reservations::reconcile(&api.pool, api.policy)).await {
        Ok(reconciled) => {
            if reconciled.changed() {
                tracing::info!(
                    begun = ?reconciled.begun, ended = ?reconciled.ended, reserved = reconciled.held, released = reconciled.released,
                    dropped = reconciled.dropped, "reconcile reservations"
                );
            }
            reconciled.busy
        }
        Err(error) => {
            let error = gpuaas_common::Error::from(error);
            tracing::warn!("reconcile reservations later: {error:?}");
            false
        }
    }
}
