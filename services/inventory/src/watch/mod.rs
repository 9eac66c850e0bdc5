//! Watching hosts and slots: one observer per process looks at all of them while anybody watches, and every stream
//! sends what stands after its position.
//!
//! Hosts are rows of this context and slots rows of the ledger, which answers by RPC, so there is no one log to follow.
//! The observer makes one: what differs from how it was last seen gets the next position, in the database, so that a
//! position means the same to every replica and after a restart.
mod follow;
mod observe;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gpuaas_common::watch::Streams;
use tokio::sync::{Notify, watch};

use observe::Picture;
pub(crate) use observe::run;

/// Longest wait for the first look.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// What the streams of a process share.
pub(crate) struct Watching {
    streams: Streams,
    picture: watch::Sender<Arc<Picture>>,
    /// Looks that were asked for; a picture says which it answers.
    asked: AtomicU64,
    look: Notify,
}

impl Watching {
    pub(crate) fn new(streams: Streams) -> Self {
        Self {
            streams,
            picture: watch::Sender::default(),
            asked: AtomicU64::new(0),
            look: Notify::new(),
        }
    }

    /// Pictures from one on that is not older than this call.
    async fn fresh(&self) -> Option<watch::Receiver<Arc<Picture>>> {
        let mut pictures = self.picture.subscribe();
        let wanted = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.look.notify_one();
        let fresh = pictures.wait_for(|picture| picture.answers >= wanted);
        let found = tokio::time::timeout(FIRST_LOOK, fresh).await;
        let is_found = matches!(found, Ok(Ok(_)));
        drop(found);
        is_found.then_some(pictures)
    }
}
