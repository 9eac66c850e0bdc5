//! Requests that wait for capacity: their queues, their order, and what is kept for them.
//!
//! An allocation in state `requested` waits. Those that could use the same slots, which are those of one region and
//! one slot class, stand in one *line*; allocations of one batch are a *batch* and are served together. The order
//! of a queue ([`fair_share`]) follows from rows alone, so it is the same for every replica and after every restart.
//!
//! **The rule.** Nobody, waiting or new, is placed on a node on which somebody before it in the queue would fit now, nor on
//! one that is kept for the first that does not fit. It is decided under the node's lock, so capacity that becomes
//! free is never lost to somebody who came at the right moment. What the ones before cannot use goes to those
//! behind: a small request passes a large one, but not on the nodes that are kept for the large one, where free slots
//! only become more. So the first of a queue is served when its nodes are free, and everybody becomes the first, because
//! nobody waits beyond a deadline.
//!
//! Who cannot be served for its own project's quota holds nobody up.
mod ahead;
mod backfill;
mod entries;
pub mod fair_share;
mod metrics;
pub mod priority;
mod walk;

pub(crate) use ahead::{Ahead, Ask, asks};
pub(crate) use backfill::plan_backfill;
pub use entries::{
    Member, QueuedRequest, Standing, backfill_reservations, load, queues, sentence, standing,
};
pub use metrics::{Outcome, QueueLength, lengths, outcomes};
pub(crate) use walk::Walk;
