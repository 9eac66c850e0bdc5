//! The order of a queue: priority class, then the projects in turn, then age. A pure function.
//!
//! The projects of a queue form a ring: who was served goes to its end, and so does who joins. Each request of a
//! project takes one turn, the oldest first. Every [`RAISED_AFTER`] of waiting raises a request by one class, so that
//! no class starves; within a class none does, because what joins the ring joins behind.
use std::cmp::Reverse;
use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::model::Priority;

/// How long a request waits until it is raised by one class.
pub const RAISED_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// One request in the queue: an allocation, or a batch of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Id.
    pub id: Uuid,
    /// Whose it is.
    pub project_id: Uuid,
    /// The class its project is in.
    pub priority: Priority,
    /// Since when it waits.
    pub since: Timestamp,
    /// Place of its project in the ring; the lowest is next.
    pub last_served: i64,
}

impl Batch {
    /// The class it is in at a time.
    #[must_use]
    pub fn class_at(&self, now: Timestamp) -> Priority {
        let raises = now.duration_since(self.since).as_hours() / RAISED_AFTER.as_hours();
        match (self.priority, raises) {
            (Priority::Low, ..=0) => Priority::Low,
            (Priority::Low, 1) | (Priority::Normal, ..=0) => Priority::Normal,
            _ => Priority::High,
        }
    }
}

/// The places of batches in the order in which they are served, first to last. The order in which they are given
/// makes no difference.
#[must_use]
pub fn order(batches: &[Batch], now: Timestamp) -> Vec<usize> {
    let mut by_age: Vec<usize> = (0..batches.len()).collect();
    by_age.sort_by_key(|place| (batches[*place].since, batches[*place].id));
    let mut older: HashMap<(Priority, Uuid), usize> = HashMap::new();
    let mut keyed = Vec::with_capacity(batches.len());
    for place in by_age {
        let batch = &batches[place];
        let class = batch.class_at(now);
        let round = older.entry((class, batch.project_id)).or_default();
        keyed.push((
            Reverse(class),
            *round,
            batch.last_served,
            batch.project_id,
            place,
        ));
        *round += 1;
    }
    keyed.sort_unstable();
    keyed.into_iter().map(|(.., place)| place).collect()
}
