//! The order of a queue: priority class, then fair share by project, then age. A pure function.
//!
//! Fair share is a round robin over the projects of a queue: a served project moves to its end, and a new one joins
//! there. Each request takes one turn, the oldest first. Every [`RAISED_AFTER`] in the queue raises a request by one class, so
//! no class starves; within a class none does, because new projects join at the end.
use std::cmp::Reverse;
use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::model::Priority;

/// Time in the queue after which a request is raised by one class.
pub const RAISED_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// One request in the queue: an allocation, or a batch of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub id: Uuid,
    /// Whose it is.
    pub project_id: Uuid,
    /// The class its project is in.
    pub priority: Priority,
    /// Since when it is queued.
    pub since: Timestamp,
    /// Position of its project in the round robin; the lowest is next.
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

/// The indices of batches in the order in which they are served, first to last. The order of the input
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
