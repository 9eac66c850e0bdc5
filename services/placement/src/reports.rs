//! Planning reports for operators: what emptying nodes would take, what moving a few allocations would bring, and
//! which nodes could be allocated as bare metal. They read and answer; nothing is stopped, moved or reserved. There is no live
//! migration (B-49): a move means to stop the owner's VM, to wipe its disks, and to launch it again elsewhere, empty.
//!
//! Free capacity comes from the copy in memory ([`crate::capacity`]), what is held from the claims; both are of one
//! snapshot when the caller's transaction has one. The decisions are pure functions
//! ([`crate::decision::evacuate`], [`crate::decision::defragment`], [`crate::decision::preserve`]) that place with the
//! code that places launches. They consider capacity alone: not quotas, nor whether region, SKU and image are enabled.
mod allocations;
mod defragmentation;
mod evacuation;
mod preservation;
mod rows;
mod ties;

pub use allocations::{PlannedAllocation, PlannedMove, PlannedPlacement};
pub use defragmentation::{
    DefragmentationSpec, MAX_MOVES, PlannedStep, Suggestion, defragmentation,
};
pub use evacuation::{MAX_NODES, Outcome, Plan, Planned, evacuation};
pub use preservation::{Recoverable, RegionReport, SHOWN, preservation};

/// What every plan's reader must know.
pub const NOTICE: &str = "Nothing was or will be executed: this is a plan. There is no live migration. To move an \
    allocation, its owner releases it, which stops it and wipes its disks, and launches it again. The capacity is \
    not reserved: another launch may take it first, and quotas are not checked.";
