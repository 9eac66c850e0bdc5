//! Finds hosts that missed their heartbeats and evidence that has aged: both end a node's schedulability (INC-04).
use gpuaas_common::CancellationToken;

use super::ledger_sync::set_desired_node;
use crate::state::State;
use crate::store::nodes;

/// Sweeps at the poll interval until `shutdown`.
pub(crate) async fn run(state: State, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        if let Err(error) = sweep(&state).await {
            tracing::warn!("cannot find hosts that missed their heartbeats: {error}");
        }
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(state.config.poll_interval()) => {}
        }
    }
}

async fn sweep(state: &State) -> sqlx::Result<()> {
    let freshness = state.config.freshness();
    let mut tx = state.pool.begin().await?;
    let aged = nodes::sweep_aged(&mut tx, freshness).await?;
    for (node_id, _) in &aged {
        set_desired_node(&mut tx, *node_id, freshness, false).await?;
    }
    tx.commit().await?;
    for (node_id, lost) in &aged {
        if *lost {
            tracing::warn!(%node_id, "lose host: no heartbeat within the timeout");
        } else {
            tracing::warn!(%node_id, "distrust host: its readiness report is too old");
        }
    }
    if !aged.is_empty() {
        state.push_due.notify_one();
    }
    Ok(())
}
