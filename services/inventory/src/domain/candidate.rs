//! What is reviewed for an approval: a slot as a host proposed it, and why it may not become one.
use gpuaas_common::drift::Drift;
use gpuaas_proto::gpuaas::common::v1::SlotBindings;

use super::bindings::Violation;

/// A slot as a host proposed it.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Place of the slot on its node.
    pub slot_index: u32,
    /// Class as the host names it.
    pub slot_class: String,
    /// Devices and addresses.
    pub bindings: SlotBindings,
    /// Why the host reports it as unusable.
    pub blockers: Vec<String>,
    /// Those of the blockers that are about the disk.
    pub disk_blockers: Vec<String>,
    /// Those of the blockers that are about the fabric function.
    pub fabric_blockers: Vec<String>,
}

/// Why nothing is approved.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// Nothing was chosen.
    NothingChosen,
    /// An index was chosen twice.
    ChosenTwice(u32),
    /// The node is not offered in slices.
    NotSliceMode,
    /// The discovery no longer counts.
    Stale(&'static str),
    /// The host does not pass its readiness checks, or the discovery found it unfit.
    HostNotReady(Vec<String>),
    /// The discovery has no candidate of this index.
    NoCandidate(u32),
    /// Something is chosen for a slot twice, or for one that is not to be approved.
    NotRequested(u32),
    /// The node does not report the device that was chosen.
    NoDevice {
        /// Which of the choices.
        choice: usize,
        /// The field of the choice.
        field: &'static str,
        /// What was chosen.
        device: String,
    },
    /// The host itself reports that the candidate cannot be used.
    Blocked {
        /// Index of the candidate.
        slot_index: u32,
        /// The host's reasons.
        blockers: Vec<String>,
    },
    /// A binding is missing or wrong.
    Incomplete {
        /// Index of the candidate.
        slot_index: u32,
        /// What is missing or wrong.
        violations: Vec<Violation>,
    },
    /// The host cannot wipe the disk in the way of the slot's policy (D-75).
    NoSuchWipe {
        /// Index of the candidate.
        slot_index: u32,
        /// Which of the choices names the policy; `None`: the host proposed it.
        choice: Option<usize>,
        /// Identity of the disk.
        device: String,
        /// The policy.
        policy: String,
        /// The policies that it can meet.
        possible: Vec<String>,
    },
    /// The host is not as the discovery found it any more.
    Changed {
        /// Index of the candidate.
        slot_index: u32,
        /// What is different now.
        differences: Vec<Drift>,
    },
    /// Two slots would share what each must have for itself.
    Shared {
        /// Index of the candidate.
        slot_index: u32,
        /// Index of the other slot or candidate.
        other: u32,
        /// The field that is equal.
        field: &'static str,
    },
}
