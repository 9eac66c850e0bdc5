//! Why something does not fit: causes summed over nodes, told with their numbers.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::Reason;

/// Every cause the decision can find, in the order in which they are told.
const CAUSES: [ErrorReason; 14] = [
    ErrorReason::Fragmented,
    ErrorReason::FabricHeld,
    ErrorReason::IncompleteSlot,
    ErrorReason::CleanupBlocked,
    ErrorReason::HugepagesMissing,
    ErrorReason::NodeDraining,
    ErrorReason::SlotUnhealthy,
    ErrorReason::SlotsInUse,
    ErrorReason::NodeVmLimit,
    ErrorReason::CapacityReserved,
    ErrorReason::Affinity,
    ErrorReason::ImageNotCached,
    ErrorReason::WaitingAhead,
    ErrorReason::HostNotReady,
];

/// GPUs of a node that each cause keeps away; none when the node has no slot of the class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Found([u32; CAUSES.len()]);

/// Causes summed over nodes.
#[derive(Debug, Default)]
pub(super) struct Causes {
    gpus: [u32; CAUSES.len()],
    nodes: [u32; CAUSES.len()],
}

impl Found {
    pub(super) fn note(&mut self, cause: ErrorReason, gpus: u32) {
        if gpus == 0 {
            return;
        }
        if let Some(place) = CAUSES.iter().position(|known| *known == cause) {
            self.0[place] += gpus;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|gpus| *gpus == 0)
    }
}

impl Causes {
    pub(super) fn add(&mut self, found: &Found) {
        self.add_of(found, 1);
    }

    /// Adds what was found of so many nodes.
    pub(super) fn add_of(&mut self, found: &Found, nodes: u32) {
        for (sum, gpus) in self.gpus.iter_mut().zip(found.0) {
            *sum += gpus * nodes;
        }
        for (sum, gpus) in self.nodes.iter_mut().zip(found.0) {
            *sum += u32::from(gpus > 0) * nodes;
        }
    }

    pub(super) fn reasons(&self, gpu_count: usize) -> Vec<Reason> {
        CAUSES
            .into_iter()
            .zip(self.gpus.iter().zip(self.nodes))
            .filter(|(_, (gpus, _))| **gpus > 0)
            .map(|(reason, (&gpus, nodes))| Reason {
                reason,
                gpus,
                nodes,
                message: message(reason, gpus, nodes, gpu_count),
            })
            .collect()
    }
}

/// The cause where no node is of what is asked for.
pub(super) fn nobody_has(what: &str) -> Reason {
    Reason {
        reason: ErrorReason::NoCapacity,
        gpus: 0,
        nodes: 0,
        message: format!("No node of the region has {what} on sale."),
    }
}

/// The cause where all that is on sale is free, and too few.
pub(super) fn no_more(gpus: u32, nodes: u32) -> Reason {
    let held = format!("{gpus} {}", plural(gpus, "GPU"));
    let on = format!("{nodes} {}", plural(nodes, "node"));
    Reason {
        reason: ErrorReason::NoCapacity,
        gpus,
        nodes,
        message: format!("No more than {held} on {on} can be had: nothing else is on sale."),
    }
}

/// A cause with its numbers, for a request of so many GPUs (B-57).
fn message(reason: ErrorReason, gpus: u32, nodes: u32, gpu_count: usize) -> String {
    let held = format!("{gpus} {}", plural(gpus, "GPU"));
    let on = format!("{nodes} {}", plural(nodes, "node"));
    let be = if gpus == 1 { "is" } else { "are" };
    match reason {
        ErrorReason::Fragmented if nodes == 1 => {
            format!("{held} free on {on}, which does not have {gpu_count} in one legal group.")
        }
        ErrorReason::Fragmented => {
            format!("{held} free on {on}, none has {gpu_count} in one legal group.")
        }
        ErrorReason::SlotsInUse => {
            format!("{held} on {on} {be} in use; try again later, or wait in line.")
        }
        ErrorReason::NodeVmLimit => {
            let runs = if nodes == 1 { "runs" } else { "run" };
            format!("{held} free on {on} that {runs} as many VMs as allowed; try again later.")
        }
        ErrorReason::SlotUnhealthy => format!("{held} on {on} {be} not healthy."),
        ErrorReason::CleanupBlocked => {
            let verb = if gpus == 1 { "waits" } else { "wait" };
            format!("{held} on {on} {verb} for an operator to prove the disks clean.")
        }
        ErrorReason::NodeDraining => {
            format!("An operator keeps new allocations off {on} with {held}.")
        }
        ErrorReason::Affinity => format!("{held} on {on} that the placement constraints rule out."),
        ErrorReason::ImageNotCached => {
            format!("{held} free on {on} without the image in the cache.")
        }
        ErrorReason::CapacityReserved => format!("{held} on {on} {be} reserved for others."),
        ErrorReason::WaitingAhead => {
            let be = if gpus == 1 { "goes" } else { "go" };
            format!("{held} on {on} {be} to requests that wait in line.")
        }
        other => format!("{held} on {on}: {}", sentence(other)),
    }
}

fn plural(count: u32, word: &str) -> String {
    if count == 1 {
        word.to_owned()
    } else {
        format!("{word}s")
    }
}

/// What a cause means, for the user.
#[must_use]
pub fn sentence(reason: ErrorReason) -> &'static str {
    match reason {
        ErrorReason::Fragmented => {
            "Free GPUs exist, but no single node has enough of them that may be used together."
        }
        ErrorReason::FabricHeld => {
            "The GPUs share a fabric device that is in use, or that only one of them can have."
        }
        ErrorReason::IncompleteSlot => "The operator has not finished setting these GPUs up.",
        ErrorReason::CleanupBlocked => "The GPUs wait for an operator to prove their disks clean.",
        ErrorReason::HugepagesMissing => {
            "The nodes do not have enough free hugepages for this size."
        }
        ErrorReason::NodeDraining => "An operator keeps new allocations off the nodes.",
        ErrorReason::SlotUnhealthy => "The GPUs are not healthy.",
        ErrorReason::SlotsInUse => "The GPUs are in use; try again later, or wait in line.",
        ErrorReason::NodeVmLimit => {
            "The nodes run as many VMs as they are allowed to; try again later."
        }
        ErrorReason::HostNotReady => "The hosts are not ready at the moment.",
        ErrorReason::Affinity => "The placement constraints rule the nodes out.",
        ErrorReason::ImageNotCached => "No node with room has the image in its cache.",
        ErrorReason::WaitingAhead => "Other requests wait in line for what is free.",
        ErrorReason::CapacityReserved => "What is free is reserved for other projects.",
        ErrorReason::RegionDisabled => "The region is closed for new allocations.",
        ErrorReason::Quota => "The project's quota is used up.",
        _ => "No capacity is free.",
    }
}
