//! Drives rollouts of the agent: judges the nodes whose turn it is, stops at too many failures, goes on wave by wave.
//!
//! It never calls a host: hosts learn of their turn by the answer to a heartbeat. A replica works on a rollout under the
//! lock of its row, and each step is one transaction.
use gpuaas_common::{CancellationToken, db};
use uuid::Uuid;

use crate::domain::rollout::{Facts, Verdict, judge};
use crate::state::State;
use crate::store::nodes::{self, NodeRow};
use crate::store::rollouts::{self, RolloutNodeRow, RolloutRow};

/// Works at the poll interval until `shutdown`.
pub(crate) async fn run(state: State, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        if let Err(error) = db::within(db::PASS, step(&state)).await {
            tracing::warn!("cannot drive the rollout of the agent: {error}");
        }
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(state.config.poll_interval()) => {}
        }
    }
}

async fn step(state: &State) -> sqlx::Result<()> {
    let mut tx = state.pool.begin().await?;
    let Some(id) = rollouts::take(&mut tx).await? else {
        return Ok(());
    };
    let Some(rollout) = rollouts::find(&mut tx, id, false).await? else {
        return Ok(());
    };
    judge_nodes(state, &mut tx, &rollout).await?;
    let Some(rollout) = rollouts::find(&mut tx, id, false).await? else {
        return Ok(());
    };
    if rollout.state == "running" {
        advance(state, &mut tx, &rollout).await?;
    }
    tx.commit().await
}

async fn judge_nodes(
    state: &State,
    conn: &mut sqlx::PgConnection,
    rollout: &RolloutRow,
) -> sqlx::Result<()> {
    let rollout_id = rollout.id;
    for node in rollouts::nodes(&mut *conn, rollout_id, true).await? {
        let Some(row) = nodes::find(&mut *conn, node.node_id, state.config.freshness()).await?
        else {
            continue;
        };
        let report = row.report()?;
        let blockers = row.readiness(report.as_ref()).blockers;
        let verdict = judge(&Facts {
            removed: row.removed.is_some(),
            agent_version: row.agent_version.as_deref().unwrap_or_default(),
            version: &node.version,
            heard: row.heartbeat_fresh,
            blockers: &blockers,
            was_ready: node.was_ready,
            reported: &node.reported_state,
            reported_reason: &node.reported_reason,
            overdue: node.overdue,
            may_wait: rollout.end_time.is_none(),
        });
        let (word, reason) = match &verdict {
            Verdict::Wait => continue,
            Verdict::Succeeded => ("succeeded", ""),
            Verdict::Failed(reason) => ("failed", reason.as_str()),
            Verdict::Skipped(reason) => ("skipped", reason.as_str()),
        };
        rollouts::end_node(&mut *conn, rollout_id, node.node_id, word, reason).await?;
        tracing::info!(%rollout_id, node_id = %node.node_id, state = word, reason, "end update of agent");
    }
    Ok(())
}

async fn advance(
    state: &State,
    conn: &mut sqlx::PgConnection,
    rollout: &RolloutRow,
) -> sqlx::Result<()> {
    let failures = rollouts::counted_failures(&mut *conn, rollout.id).await?;
    if failures > i64::from(rollout.max_failures) {
        let reason = format!(
            "{failures} nodes failed, and the limit is {}.",
            rollout.max_failures
        );
        tracing::warn!(rollout_id = %rollout.id, failures, "pause rollout of agent");
        return rollouts::set_state(conn, rollout.id, "paused", &reason).await;
    }
    let all = rollouts::nodes(&mut *conn, rollout.id, false).await?;
    let open = |node: &&RolloutNodeRow| node.end_time.is_none();
    let Some(wave) = all.iter().filter(open).map(|node| node.wave).min() else {
        tracing::info!(rollout_id = %rollout.id, "complete rollout of agent");
        return rollouts::set_state(conn, rollout.id, "completed", "").await;
    };
    if wave > rollout.current_wave && skipped_whole(&all, rollout.current_wave) {
        let reason = format!(
            "No node of wave {} was updated, so nothing shows that the version is good.",
            rollout.current_wave
        );
        tracing::warn!(rollout_id = %rollout.id, wave = rollout.current_wave, "pause rollout of agent");
        return rollouts::set_state(conn, rollout.id, "paused", &reason).await;
    }
    if wave != rollout.current_wave {
        rollouts::begin_wave(&mut *conn, rollout.id, wave).await?;
    }
    let available = i64::from(rollout.max_parallel) - rollout.updating;
    let pending = all
        .iter()
        .filter(|node| node.wave == wave && node.state == "pending");
    for node in pending.take(usize::try_from(available).unwrap_or_default()) {
        begin(state, &mut *conn, rollout.id, node).await?;
    }
    Ok(())
}

/// Whether a wave has ended without a node that was updated and with one that was left out, which no operator has accepted.
/// Failures alone are counted by the limit.
fn skipped_whole(nodes: &[RolloutNodeRow], wave: i32) -> bool {
    let mut wave = nodes.iter().filter(|node| node.wave == wave);
    let updated = wave.clone().any(|node| node.state == "succeeded");
    !updated && wave.any(|node| node.state == "skipped" && !node.accepted)
}

/// Begins a node's turn, or ends it at once where there is nothing to do.
async fn begin(
    state: &State,
    conn: &mut sqlx::PgConnection,
    rollout_id: Uuid,
    node: &RolloutNodeRow,
) -> sqlx::Result<()> {
    let row = nodes::find(&mut *conn, node.node_id, state.config.freshness()).await?;
    let Some(row) = row.filter(|row| row.removed.is_none()) else {
        let why = "The node was taken out of service.";
        return rollouts::end_node(conn, rollout_id, node.node_id, "skipped", why).await;
    };
    if !row.heartbeat_fresh {
        let why = "The host did not report when its turn came.";
        return rollouts::end_node(conn, rollout_id, node.node_id, "skipped", why).await;
    }
    if is_at(&row, &node.version) {
        let why = "It had the version already.";
        return rollouts::end_node(conn, rollout_id, node.node_id, "succeeded", why).await;
    }
    let report = row.report()?;
    let was_ready = row.readiness(report.as_ref()).blockers.is_empty();
    let from = row.agent_version.as_deref().unwrap_or("unknown");
    rollouts::begin_node(conn, rollout_id, node.node_id, from, was_ready).await?;
    tracing::info!(%rollout_id, node_id = %node.node_id, version = node.version, "begin update of agent");
    Ok(())
}

fn is_at(row: &NodeRow, version: &str) -> bool {
    row.agent_version.as_deref() == Some(version)
}
