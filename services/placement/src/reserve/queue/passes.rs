//! Passes over all queues. Each queue has a time of its own in a pass, and a pass begins behind the queue where the last one
//! ended: a queue that takes long, or hangs, starves no other.
use std::time::{Duration, Instant};

use gpuaas_common::db;
use gpuaas_common::id::IdGen;
use uuid::Uuid;

use super::serve::serve_one;
use crate::Result;
use crate::capacity::Ledger;
use crate::model::{Policy, SlotClass};
use crate::queue;

/// The result of one pass over all queues.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Pass {
    /// Allocations that have their claims now, in the order in which they were served.
    pub served: Vec<Uuid>,
    /// Allocations that failed: past their deadline, or impossible by now.
    pub ended: Vec<Uuid>,
    /// Something could not be evaluated because of contention: run again soon.
    pub busy: bool,
}

/// How long serving may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// One queue; what is left of it is served in the next pass.
    pub queue: Duration,
    /// A pass that has taken this long begins no other queue.
    pub pass: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue: db::PASS,
            pass: db::PASS,
        }
    }
}

/// The passes of one process, one after the other.
#[derive(Debug, Default)]
pub struct Passes {
    /// Where the last one ended.
    last: Option<(String, SlotClass)>,
}

impl Passes {
    /// Serves the requests that can be placed and ends those that are over. Notify [`TOPIC`](crate::workflows::TOPIC) of workflows and
    /// [`TOPIC`](crate::outbox::TOPIC) of the outbox when something was served or ended.
    ///
    /// # Errors
    /// Those of the database when the queues cannot be read; what is wrong with one batch or one queue does not
    /// block the others.
    pub async fn serve(
        &mut self,
        ledger: &Ledger,
        ids: IdGen,
        policy: Policy,
        limits: Limits,
    ) -> Result<Pass> {
        let begun = Instant::now();
        let read = async { queue::queues(&mut *ledger.acquire().await?).await };
        let mut queues = db::within(limits.queue, read).await?;
        queues.sort_unstable();
        let behind = queues.partition_point(|queue| Some(queue) <= self.last.as_ref());
        queues.rotate_left(behind);
        let mut pass = Pass::default();
        for (count, (region_code, slot_class)) in queues.into_iter().enumerate() {
            if count > 0 && begun.elapsed() >= limits.pass {
                pass.busy = true;
                break;
            }
            let of = (region_code.as_str(), slot_class);
            let served = serve_one(ledger, ids, policy, of, &mut pass);
            // one that is cut has served and ended what is in the pass
            if let Err(error) = db::within(limits.queue, served).await {
                tracing::warn!(region_code, %slot_class, "serve a queue later: {error:?}");
                pass.busy = true;
            }
            self.last = Some((region_code, slot_class));
        }
        Ok(pass)
    }
}

/// One pass over all queues, as [`Passes::serve`] makes it.
///
/// # Errors
/// As there.
pub async fn serve_queue(ledger: &Ledger, ids: IdGen, policy: Policy) -> Result<Pass> {
    let mut passes = Passes::default();
    passes.serve(ledger, ids, policy, Limits::default()).await
}
