//! Finds hosts that missed their heartbeats and evidence that has aged: both end a node's schedulability (INC-04).
use std::time::{Duration, Instant};

use gpuaas_common::{CancellationToken, db};

use super::ledger_sync::set_desired_node;
use crate::state::State;
use crate::store::nodes;

/// Since when this process could have heard of hosts. A host is judged silent only by who has listened for as long as a host
/// may be silent: after an absence of inventory, or of its database, the silence is its own.
#[derive(Debug, Default)]
struct Listening {
    since: Option<Instant>,
    last: Option<Instant>,
}

impl Listening {
    /// The database answers. After a pause in which that was not known, listening begins anew.
    fn heard(&mut self, now: Instant, timeout: Duration) {
        let pause = self.last.map(|last| now.saturating_duration_since(last));
        if pause.is_none_or(|pause| pause > timeout / 2) {
            self.since = Some(now);
        }
        self.last = Some(now);
    }

    /// The database does not answer, so no heartbeat is taken in.
    fn interrupted(&mut self) {
        *self = Self::default();
    }

    fn judges_silence(&self, now: Instant, timeout: Duration) -> bool {
        let heard_lately = self
            .last
            .is_some_and(|last| now.saturating_duration_since(last) <= timeout / 2);
        let long_enough = self
            .since
            .is_some_and(|since| now.saturating_duration_since(since) >= timeout);
        heard_lately && long_enough
    }
}

/// Sweeps at the poll interval until `shutdown`.
pub(crate) async fn run(state: State, shutdown: CancellationToken) {
    let timeout = Duration::from_secs_f64(state.config.freshness().heartbeat_seconds);
    let mut listening = Listening::default();
    while !shutdown.is_cancelled() {
        let judge = listening.judges_silence(Instant::now(), timeout);
        match db::within(db::PASS, sweep(&state, judge)).await {
            Ok(()) => listening.heard(Instant::now(), timeout),
            Err(error) => {
                listening.interrupted();
                tracing::warn!("cannot find hosts that missed their heartbeats: {error}");
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(state.config.poll_interval()) => {}
        }
    }
}

async fn sweep(state: &State, judge_silence: bool) -> sqlx::Result<()> {
    let freshness = state.config.freshness();
    let mut tx = state.pool.begin().await?;
    let aged = nodes::sweep_aged(&mut tx, freshness, judge_silence).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_judged_only_by_who_has_listened_as_long_as_it_lasts() {
        let (start, timeout) = (Instant::now(), Duration::from_secs(30));
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut listening = Listening::default();
        assert!(!listening.judges_silence(at(0), timeout));
        for second in (0..30).step_by(2) {
            listening.heard(at(second), timeout);
            assert!(!listening.judges_silence(at(second), timeout), "{second}");
        }
        listening.heard(at(30), timeout);
        assert!(listening.judges_silence(at(30), timeout));
        // the process was held up
        assert!(!listening.judges_silence(at(60), timeout));
        listening.heard(at(60), timeout);
        assert!(!listening.judges_silence(at(60), timeout));
        for second in (60..=90).step_by(2) {
            listening.heard(at(second), timeout);
        }
        assert!(listening.judges_silence(at(90), timeout));
        // the database was away
        listening.interrupted();
        listening.heard(at(91), timeout);
        assert!(!listening.judges_silence(at(92), timeout));
    }
}
