//! Unschedulable reasons: summed over nodes, with their numbers.
use crate::GpuCount;

/// Why GPUs are unavailable, in the order in which reasons are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// No node has enough GPUs that may be used together.
    Fragmented,
    /// A fabric device is in use, or only one of the GPUs can have it.
    FabricHeld,
    /// A slot is not set up.
    IncompleteSlot,
    /// A disk is not proven clean.
    CleanupBlocked,
    /// The host has too few free hugepages.
    HugepagesMissing,
    /// An operator took the node out of service: it is cordoned, draining, in maintenance or broken.
    NodeDraining,
    /// A slot is not healthy.
    SlotUnhealthy,
    /// Nobody has the slot, and its disk is being wiped.
    DisksBeingWiped,
    /// Somebody has the slot.
    SlotsInUse,
    /// The node runs as many VMs as it may.
    NodeVmLimit,
    /// A capacity reservation of another project.
    CapacityReserved,
    /// The placement constraints of the request.
    Affinity,
    /// The image is not in the cache, and the request needs it there.
    ImageNotCached,
    /// Queued requests that come first.
    QueuedAhead,
    HostNotReady,
    /// Nothing of the kind is offered, or all that is offered is too little.
    NoCapacity,
}

/// Every reason that is counted per node.
const CAUSES: [Cause; 15] = [
    Cause::Fragmented,
    Cause::FabricHeld,
    Cause::IncompleteSlot,
    Cause::CleanupBlocked,
    Cause::HugepagesMissing,
    Cause::NodeDraining,
    Cause::SlotUnhealthy,
    Cause::DisksBeingWiped,
    Cause::SlotsInUse,
    Cause::NodeVmLimit,
    Cause::CapacityReserved,
    Cause::Affinity,
    Cause::ImageNotCached,
    Cause::QueuedAhead,
    Cause::HostNotReady,
];

/// One reason why a request does not fit, with its GPUs and nodes (B-57, B-58).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnschedulableReason {
    /// What it is.
    pub cause: Cause,
    /// GPUs it removes.
    pub gpus: u32,
    /// Nodes it removes.
    pub nodes: u32,
    /// A sentence for the user.
    pub message: String,
}

/// GPUs of a node that each reason removes; none when the node has no slot of the class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeReasons([u32; CAUSES.len()]);

/// ReasonCounts summed over nodes.
#[derive(Debug, Default)]
pub(super) struct ReasonCounts {
    gpus: [u32; CAUSES.len()],
    nodes: [u32; CAUSES.len()],
}

impl NodeReasons {
    pub(super) fn note(&mut self, cause: Cause, gpus: u32) {
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

impl ReasonCounts {
    pub(super) fn add(&mut self, reasons: &NodeReasons) {
        self.add_nodes(reasons, 1);
    }

    /// Adds the reasons of so many nodes.
    pub(super) fn add_nodes(&mut self, reasons: &NodeReasons, nodes: u32) {
        for (sum, gpus) in self.gpus.iter_mut().zip(reasons.0) {
            *sum += gpus * nodes;
        }
        for (sum, gpus) in self.nodes.iter_mut().zip(reasons.0) {
            *sum += u32::from(gpus > 0) * nodes;
        }
    }

    pub(super) fn reasons(&self, gpu_count: GpuCount) -> Vec<UnschedulableReason> {
        CAUSES
            .into_iter()
            .zip(self.gpus.iter().zip(self.nodes))
            .filter(|(_, (gpus, _))| **gpus > 0)
            .map(|(cause, (&gpus, nodes))| UnschedulableReason {
                cause,
                gpus,
                nodes,
                message: message(cause, gpus, nodes, gpu_count),
            })
            .collect()
    }
}

/// The reason where no node has the requested class.
pub(super) fn none_offered(what: &str) -> UnschedulableReason {
    UnschedulableReason {
        cause: Cause::NoCapacity,
        gpus: 0,
        nodes: 0,
        message: format!("No node in the region offers {what}."),
    }
}

/// The reason where all schedulable GPUs are free, and too few.
pub(super) fn too_few_offered(gpus: u32, nodes: u32) -> UnschedulableReason {
    let held = format!("{gpus} {}", plural(gpus, "GPU"));
    let on = format!("{nodes} {}", plural(nodes, "node"));
    let be = if gpus == 1 { "is" } else { "are" };
    UnschedulableReason {
        cause: Cause::NoCapacity,
        gpus,
        nodes,
        message: format!("Only {held} on {on} {be} schedulable."),
    }
}

/// A reason with its numbers, for a request of so many GPUs (B-57).
fn message(cause: Cause, gpus: u32, nodes: u32, gpu_count: GpuCount) -> String {
    let held = format!("{gpus} {}", plural(gpus, "GPU"));
    let on = format!("{nodes} {}", plural(nodes, "node"));
    let be = if gpus == 1 { "is" } else { "are" };
    let is = if nodes == 1 { "is" } else { "are" };
    match cause {
        Cause::Fragmented if nodes == 1 => {
            format!(
                "{held} {be} free on {on}, which does not have {gpu_count} that can be used together."
            )
        }
        Cause::Fragmented => {
            format!(
                "{held} {be} free on {on}, but no node has {gpu_count} that can be used together."
            )
        }
        Cause::SlotsInUse => {
            format!("{held} {be} in use on {on}.")
        }
        Cause::DisksBeingWiped => {
            let disks = if gpus == 1 { "disk" } else { "disks" };
            format!("The {disks} of {held} on {on} {be} being wiped.")
        }
        Cause::NodeVmLimit => {
            let runs = if nodes == 1 { "has" } else { "have" };
            format!("{held} {be} free on {on} that {runs} reached the VM limit.")
        }
        Cause::SlotUnhealthy => format!("{held} {be} unhealthy on {on}."),
        Cause::HostNotReady => format!("{held} {be} on {on} that {is} not ready."),
        Cause::CleanupBlocked => {
            let verb = if gpus == 1 { "needs" } else { "need" };
            format!("{held} on {on} {verb} a repair by an operator.")
        }
        Cause::NodeDraining => {
            format!(
                "{on} with {held} {is} out of service (cordoned, draining, in maintenance or broken)."
            )
        }
        Cause::Affinity => format!("{held} on {on} {be} excluded by the placement constraints."),
        Cause::ImageNotCached => {
            format!("{held} {be} free on {on} without the cached image.")
        }
        Cause::CapacityReserved => format!("{held} {be} reserved for others on {on}."),
        Cause::QueuedAhead => {
            let be = if gpus == 1 { "goes" } else { "go" };
            format!("{held} on {on} {be} to requests ahead in the queue.")
        }
        other => format!("{held} on {on}: {}", other.sentence()),
    }
}

fn plural(count: u32, word: &str) -> String {
    if count == 1 {
        word.to_owned()
    } else {
        format!("{word}s")
    }
}

impl Cause {
    /// Every reason.
    pub fn all() -> impl Iterator<Item = Self> {
        CAUSES.into_iter().chain([Self::NoCapacity])
    }

    /// The text of a reason, for the user.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Fragmented => {
                "Enough GPUs are free, but no node has enough that can be used together."
            }
            Self::FabricHeld => "The GPUs share a fabric device that is in use.",
            Self::IncompleteSlot => "The GPUs are not set up yet.",
            Self::CleanupBlocked => "The GPUs need a repair by an operator.",
            Self::HugepagesMissing => "The nodes have too few free hugepages for this size.",
            Self::NodeDraining => {
                "The nodes are out of service (cordoned, draining, in maintenance or broken)."
            }
            Self::SlotUnhealthy => "The GPUs are unhealthy.",
            Self::DisksBeingWiped => "The disks of the GPUs are being wiped.",
            Self::SlotsInUse => "The GPUs are in use.",
            Self::NodeVmLimit => "The nodes have reached their VM limit.",
            Self::HostNotReady => "The nodes are not ready.",
            Self::Affinity => "The placement constraints exclude the nodes.",
            Self::ImageNotCached => "No node with free capacity has cached the image.",
            Self::QueuedAhead => "The free capacity goes to requests ahead in the queue.",
            Self::CapacityReserved => "The free capacity is reserved for other projects.",
            Self::NoCapacity => "No capacity is free.",
        }
    }
}
