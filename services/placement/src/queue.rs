//! Queued launch requests: their queues, their order, and the backfill reservations for them.
//!
//! An allocation in state `requested` is queued. Allocations that could use the same slots, which are those of one region
//! and one slot class, share one *queue*; allocations of one batch are a *batch* and are served together. The order
//! of a queue ([`fair_share`]) follows from rows alone, so it is the same for every replica and after every restart.
//!
//! **The rule.** No request, queued or new, is placed on a node on which a request before it in the queue would fit now, nor
//! on one that has a backfill reservation for the first that does not fit. This is decided under the node's lock, so freed
//! capacity never goes to a request that merely came at the right moment. What earlier requests cannot use goes to later
//! ones: a small request passes a large one, but not on the nodes that are reserved for the large one, where free slots
//! only become more. So the first of a queue is served when its nodes are free, and every request becomes the first, because
//! no request stays queued beyond its deadline.
//!
//! A request that its own project's quota blocks does not block others, nor does one whose project is suspended: it stays queued,
//! and is served at its old place once the project is resumed.
mod ahead;
mod backfill;
mod entries;
pub mod fair_share;
mod metrics;
pub mod priority;
mod walk;

pub(crate) use ahead::{Ahead, QueuedSpec, specs};
pub(crate) use backfill::plan_backfill;
pub use entries::{
    Member, QueuePosition, QueuedRequest, backfill_reservations, load, positions, queues, sentence,
};
pub use metrics::{Outcome, QueueLength, lengths, outcomes};
pub(crate) use walk::Walk;
