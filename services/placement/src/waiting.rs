//! Requests that wait for capacity: their lines, their order, and what is kept for them.
//!
//! An allocation in state `requested` waits. Those that could use the same slots, which are those of one region and
//! one slot class, stand in one *line*; allocations of one request are a *batch* and are served together. The order
//! of a line ([`order`]) follows from rows alone, so it is the same for every replica and after every restart.
//!
//! **The rule.** Nobody, waiting or new, is placed on a node on which somebody before it in line would fit now, nor on
//! one that is kept for the first that does not fit. It is decided under the node's lock, so capacity that becomes
//! free is never lost to somebody who came at the right moment. What the ones before cannot use goes to those
//! behind: a small request passes a large one, but not on the nodes that are kept for the large one, where free slots
//! only become more. So the first of a line is served when its nodes are free, and everybody becomes the first, because
//! nobody waits beyond a deadline.
//!
//! Who cannot be served for its own project's quota holds nobody up.
mod keep;
mod length;
mod line;
pub mod order;
pub mod priority;
mod settle;
mod walk;

pub(crate) use keep::{Ahead, Ask, asks};
pub use length::{Length, Outcome, lengths, outcomes};
pub use line::{Member, Standing, Waiting, kept, lines, load, sentence, standing};
pub(crate) use settle::settle;
pub(crate) use walk::Walk;
