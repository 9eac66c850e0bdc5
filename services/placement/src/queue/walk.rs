//! A queue while it is served: a served project moves to the end of the round robin, so the order behind it may change.
use std::collections::{HashSet, VecDeque};

use jiff::Timestamp;
use uuid::Uuid;

use super::entries::{QueuedRequest, in_order};

/// A walk along a queue, each batch once.
#[derive(Debug)]
pub(crate) struct Walk {
    /// Not evaluated yet, in the order of the queue.
    ahead: VecDeque<QueuedRequest>,
    /// Evaluated, and still in the queue.
    passed: Vec<QueuedRequest>,
    now: Timestamp,
}

impl Walk {
    /// Along a queue as [`super::load`] gives it.
    pub(crate) fn along((queued, now): (Vec<QueuedRequest>, Timestamp)) -> Self {
        Self {
            ahead: queued.into(),
            passed: Vec::new(),
            now,
        }
    }

    /// The next one. Report the result with [`Walk::stays`] or [`Walk::left`].
    pub(crate) fn next(&mut self) -> Option<QueuedRequest> {
        self.ahead.pop_front()
    }

    /// Those that are still to be evaluated.
    pub(crate) fn ahead(&mut self) -> &[QueuedRequest] {
        self.ahead.make_contiguous()
    }

    /// The next one that gives up now, wherever it is in the queue. Report the result as of [`Walk::next`].
    pub(crate) fn next_over(&mut self) -> Option<QueuedRequest> {
        let at = self.ahead.iter().position(|one| one.deadline <= self.now)?;
        self.ahead.remove(at)
    }

    /// It stays queued.
    pub(crate) fn stays(&mut self, entry: QueuedRequest) {
        self.passed.push(entry);
    }

    /// It left the queue; others of its project have one before them less, and the whole round robin if it was `served`.
    pub(crate) fn left(&mut self, entry: &QueuedRequest, served: bool) {
        let passed = std::mem::take(&mut self.passed);
        let looked_at: HashSet<Uuid> = passed.iter().map(|one| one.batch.id).collect();
        let mut queued = passed;
        queued.extend(self.ahead.drain(..));
        if served {
            let end = queued.iter().map(|one| one.batch.last_served).max();
            let end = end.unwrap_or_default().saturating_add(1);
            let of_project =
                |one: &&mut QueuedRequest| one.batch.project_id == entry.batch.project_id;
            for one in queued.iter_mut().filter(of_project) {
                one.batch.last_served = end;
            }
        }
        let queued = in_order(queued, self.now).into_iter();
        let (passed, ahead) =
            queued.partition::<Vec<_>, _>(|one| looked_at.contains(&one.batch.id));
        (self.passed, self.ahead) = (passed, ahead.into());
    }
}
