//! Watching hosts and slots: one observer per process reads all of them while anybody watches, and every stream
//! sends what stands after its position.
//!
//! Hosts are rows of this context and slots rows of the ledger, which answers by RPC, so there is no one log to follow.
//! The observer makes one: what differs from how it was last observed gets the next position, in the database, so that a
//! position means the same to every replica and after a restart.
mod follow;
pub(crate) mod observe;
mod snapshot;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gpuaas_common::watch::Streams;
use tokio::sync::{Notify, watch};

use snapshot::Snapshot;

use crate::state::State;

/// Longest wait for the first snapshot.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(10);

/// What the streams of a process share.
pub(crate) struct Watching {
    state: State,
    streams: Streams,
    snapshot: watch::Sender<Arc<Snapshot>>,
    /// Snapshots requested so far; a snapshot carries the number of the request it answers.
    requested: AtomicU64,
    due: Notify,
}

impl Watching {
    pub(crate) fn new(state: State, streams: Streams) -> Self {
        Self {
            state,
            streams,
            snapshot: watch::Sender::default(),
            requested: AtomicU64::new(0),
            due: Notify::new(),
        }
    }

    /// Pictures from one on that is not older than this call.
    async fn fresh(&self) -> Option<watch::Receiver<Arc<Snapshot>>> {
        let mut snapshots = self.snapshot.subscribe();
        let request = self.requested.fetch_add(1, Ordering::SeqCst) + 1;
        self.due.notify_one();
        let fresh = snapshots.wait_for(|snapshot| snapshot.answers >= request);
        let found = tokio::time::timeout(SNAPSHOT_TIMEOUT, fresh).await;
        let is_found = matches!(found, Ok(Ok(_)));
        drop(found);
        is_found.then_some(snapshots)
    }
}
