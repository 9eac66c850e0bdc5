//! The decision on one spec for a lease, a pure function (D-07, D-10).
use std::collections::BTreeSet;

use gpuaas_proto::gpuaas::agent::v1::LeasePurpose;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::bounded::Bounded;
use crate::error::HostError;
use crate::ids::{AllocationId, LeaseId, SlotId, Token};

/// What a lease is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A new VM.
    Provision,
    /// Release or clean-up.
    Release,
    Repair,
    /// Stop, start or reboot of a VM that is there.
    Power,
}

impl Purpose {
    /// Reads the wire value.
    pub fn from_wire(value: i32) -> Result<Self, HostError> {
        match LeasePurpose::try_from(value) {
            Ok(LeasePurpose::Provision) => Ok(Self::Provision),
            Ok(LeasePurpose::Release) => Ok(Self::Release),
            Ok(LeasePurpose::Repair) => Ok(Self::Repair),
            Ok(LeasePurpose::Power) => Ok(Self::Power),
            _ => Err(HostError::invalid(
                "purpose",
                "must be provision, release, repair or power",
            )),
        }
    }
}

/// The spec of a lease.
#[derive(Debug, Clone)]
pub struct LeaseSpec {
    /// Who requests it.
    pub allocation: AllocationId,
    /// For which slots, each with its token.
    pub slots: Bounded<(SlotId, Token), MAX_SLOTS>,
    /// Disk, GPU and fabric function of each slot.
    pub devices: Vec<(SlotId, String)>,
    /// Slots that are retired, each after the slot that has a device of it now.
    pub replaced: Vec<(SlotId, SlotId)>,
    /// For what.
    pub purpose: Purpose,
}

/// Most slots of a request: more than any host has GPUs.
pub const MAX_SLOTS: usize = 64;

/// The journal's state of one slot.
#[derive(Debug, Clone)]
pub struct SlotFacts {
    pub slot: SlotId,
    /// Highest token observed.
    pub fence: Option<Token>,
    /// Cell epoch and generation whose hold ended with proof.
    pub closed: Option<(u64, u64)>,
    /// Who holds it.
    pub hold: Option<AllocationId>,
    /// What it shall have and another slot was last held with.
    pub elsewhere: Vec<Elsewhere>,
}

/// A device that another slot was last held with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    pub device: String,
    /// The other slot.
    pub slot: SlotId,
    /// It is held now.
    pub held: bool,
}

/// A lease that has not expired.
#[derive(Debug, Clone)]
pub struct LiveLease {
    pub id: LeaseId,
    /// Whose it is.
    pub allocation: AllocationId,
    pub slots: BTreeSet<SlotId>,
}

/// What is granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The lease that the same allocation already has for the same slots under the same tokens (D-09). A higher
    /// token is another worker's: it gets a lease of its own, and the late one's ends with its id.
    pub same: Option<LeaseId>,
    /// Slots whose hold begins.
    pub take_hold: Vec<SlotId>,
    /// Leases that end: those of the same allocation for other slots or lower tokens, and what is left of an
    /// allocation whose hold ended with proof.
    pub supersedes: Vec<LeaseId>,
}

/// Why nothing is granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No slot, or one named twice.
    BadSlots,
    /// Another allocation holds the slot (D-08).
    Held {
        slot: SlotId,
        /// By whom.
        by: AllocationId,
    },
    /// Another slot has a device that this one shall have: it is held with it, or this slot was never seen here.
    DeviceTaken {
        slot: SlotId,
        device: String,
        /// The other slot.
        by: SlotId,
        /// It is held; else it is known, and this slot is not.
        held: bool,
    },
    /// The slot was never seen here. A slot begins with the wipe of its disk, which binds the two; nothing tells one that was
    /// never wiped here from one that does not exist.
    Unknown { slot: SlotId },
    /// The allocation does not hold the slot, so no VM of it is here.
    NotHeld {
        /// The slot.
        slot: SlotId,
    },
    /// The token is lower than one already observed, or of a generation that ended with proof.
    Fenced {
        slot: SlotId,
        /// The token that came.
        token: Token,
        /// The highest observed.
        fence: Token,
    },
}

impl From<Refusal> for HostError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::BadSlots => {
                Self::invalid("slots", "must name each slot once, and at least one")
            }
            Refusal::Held { slot, by } => Self::host(
                ErrorReason::LeaseHeld,
                format!("slot {slot} is held by allocation {by}"),
            ),
            Refusal::DeviceTaken {
                slot,
                device,
                by,
                held: true,
            } => Self::host(
                ErrorReason::LeaseHeld,
                format!("{device} of slot {slot} belongs to slot {by}, which is held"),
            ),
            Refusal::DeviceTaken {
                slot, device, by, ..
            } => Self::host(
                ErrorReason::HostNotReady,
                format!("slot {slot} is unknown here, and its {device} belongs to slot {by}"),
            ),
            Refusal::Unknown { slot } => Self::host(
                ErrorReason::HostNotReady,
                format!("slot {slot} is unknown here: its disk was never wiped on this host"),
            ),
            Refusal::NotHeld { slot } => Self::host(
                ErrorReason::HostNotReady,
                format!("slot {slot} is not held by the allocation"),
            ),
            Refusal::Fenced { slot, token, fence } => Self::host(
                ErrorReason::Fenced,
                format!("token {token} of slot {slot} is behind {fence}"),
            ),
        }
    }
}

/// Decides on a request. `slots` are the facts of the requested slots, `leases` all live leases of the host.
pub fn decide(
    spec: &LeaseSpec,
    slots: &[SlotFacts],
    leases: &[LiveLease],
) -> Result<Grant, Refusal> {
    let requested: BTreeSet<SlotId> = spec.slots.iter().map(|(slot, _)| *slot).collect();
    if requested.is_empty() || requested.len() != spec.slots.len() {
        return Err(Refusal::BadSlots);
    }
    check_devices(spec, slots)?;
    let mut take_hold = Vec::new();
    for (slot, token) in spec.slots.iter() {
        let facts = slots.iter().find(|facts| facts.slot == *slot);
        let hold = facts.and_then(|facts| facts.hold);
        if let Some(by) = hold.filter(|by| *by != spec.allocation) {
            return Err(Refusal::Held { slot: *slot, by });
        }
        let fence = facts.and_then(|facts| facts.fence);
        if let Some(fence) = fence.filter(|fence| token < fence) {
            return Err(Refusal::Fenced {
                slot: *slot,
                token: *token,
                fence,
            });
        }
        let closed = facts.and_then(|facts| facts.closed);
        let ended =
            closed.is_some_and(|closed| (token.cell_epoch, token.slot_generation) <= closed);
        match (hold, ended, spec.purpose) {
            (Some(_), _, _) => {}
            // A release requested again after its proof: its answer is journaled, and no hold may come back.
            (None, true, Purpose::Release) => {}
            (None, _, Purpose::Provision) if fence.is_none() => {
                return Err(Refusal::Unknown { slot: *slot });
            }
            (None, _, Purpose::Power) => return Err(Refusal::NotHeld { slot: *slot }),
            (None, true, Purpose::Provision | Purpose::Repair) => {
                return Err(Refusal::Fenced {
                    slot: *slot,
                    token: *token,
                    fence: fence.unwrap_or(*token),
                });
            }
            (None, false, _) => take_hold.push(*slot),
        }
    }
    // No other allocation holds a requested slot, and without a hold a lease leads to no effect on one: a release that
    // was requested again after its proof has such a lease, and the slot's next tenant does not wait for its end.
    let overlapping = || {
        leases
            .iter()
            .filter(|lease| !lease.slots.is_disjoint(&requested))
    };
    let newer = spec.slots.iter().any(|(slot, token)| {
        let facts = slots.iter().find(|facts| facts.slot == *slot);
        facts.and_then(|facts| facts.fence) < Some(*token)
    });
    let same = overlapping()
        .filter(|lease| !newer && lease.allocation == spec.allocation)
        .find(|lease| lease.slots == requested)
        .map(|lease| lease.id);
    let supersedes = overlapping()
        .map(|lease| lease.id)
        .filter(|id| Some(*id) != same)
        .collect();
    Ok(Grant {
        same,
        take_hold,
        supersedes,
    })
}

/// A device belongs to one slot: no other slot of the request or of the host may have it. A slot that was never seen here
/// is not believed about a device that a known slot had, for nothing tells it from one that does not exist: unless the control
/// plane names that slot as retired. What is held stays with its holder, retired or not.
fn check_devices(spec: &LeaseSpec, slots: &[SlotFacts]) -> Result<(), Refusal> {
    for (index, (slot, device)) in spec.devices.iter().enumerate() {
        let before = &spec.devices[..index];
        if let Some((by, _)) = before.iter().find(|(by, one)| one == device && by != slot) {
            return Err(Refusal::DeviceTaken {
                slot: *slot,
                device: device.clone(),
                by: *by,
                held: true,
            });
        }
    }
    for facts in slots {
        let taken = facts.elsewhere.iter().find(|one| {
            let replaced = spec.replaced.contains(&(facts.slot, one.slot));
            one.held || facts.fence.is_none() && !replaced
        });
        if let Some(taken) = taken {
            return Err(Refusal::DeviceTaken {
                slot: facts.slot,
                device: taken.device.clone(),
                by: taken.slot,
                held: taken.held,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "decide_tests/mod.rs"]
mod tests;
