//! The ledger's vocabulary: states, rows and the values that are frozen into them.
use uuid::Uuid;

pub use gpuaas_placement_decision::model::{Health, SlotClass, SlotStatus};

mod allocation;
mod bindings;
mod claim;
mod drift;
mod frozen;
mod intent;
mod request;
mod slot;
mod states;

pub use allocation::{Allocation, Failure, GuestAccess, Rescue};
pub use bindings::{Bindings, missing};
pub use claim::{Claim, Snapshot};
pub use drift::CurrentDrift;
pub use frozen::{Image, Price, Profile};
pub use intent::Intent;
pub use request::{Constraints, Policy, Request};
pub use slot::{Slot, SlotEvidence};
pub(crate) use states::StoredHealth;
pub use states::{
    AllocationState, ClaimState, EvidenceKind, Priority, ReservationState, Shape, Stored,
};

/// Whose rows a read may see. Lists are always scoped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One project's rows; another project's do not exist.
    Project(Uuid),
    /// All rows: administrators and workflows.
    Platform,
}

impl Scope {
    pub(crate) fn project(self) -> Option<Uuid> {
        match self {
            Self::Project(id) => Some(id),
            Self::Platform => None,
        }
    }
}

/// A workflow with the lease epoch its runner holds; every write of a step carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// Row of `workflows`.
    pub workflow_id: Uuid,
    /// `workflows.lease_epoch` as the runner took it.
    pub lease_epoch: i64,
}

/// Whether a transition changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// It was made now.
    Changed,
    /// It had been made before.
    Unchanged,
}

/// Who made a change and why, for the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribution<'a> {
    /// Who.
    pub principal: &'a str,
    /// Why.
    pub reason: &'a str,
}

impl<'a> Attribution<'a> {
    /// By a principal, with its reason.
    #[must_use]
    pub fn of(principal: &'a str, reason: &'a str) -> Self {
        Self { principal, reason }
    }
}
