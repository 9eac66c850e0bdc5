//! Why something does not fit: causes summed over nodes, told with their numbers.

/// What keeps GPUs away, in the order in which reasons are listed.
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
    /// An operator keeps new allocations off the node.
    NodeDraining,
    /// A slot is not healthy.
    SlotUnhealthy,
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
    WaitingAhead,
    /// The host is not ready.
    HostNotReady,
    /// Nothing of the kind is offered, or all that is offered is too little.
    NoCapacity,
}

/// Every cause that is counted per node.
const CAUSES: [Cause; 14] = [
    Cause::Fragmented,
    Cause::FabricHeld,
    Cause::IncompleteSlot,
    Cause::CleanupBlocked,
    Cause::HugepagesMissing,
    Cause::NodeDraining,
    Cause::SlotUnhealthy,
    Cause::SlotsInUse,
    Cause::NodeVmLimit,
    Cause::CapacityReserved,
    Cause::Affinity,
    Cause::ImageNotCached,
    Cause::WaitingAhead,
    Cause::HostNotReady,
];

/// One cause why a request does not fit, with how much it keeps away (B-57, B-58).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnschedulableReason {
    /// What it is.
    pub cause: Cause,
    /// GPUs it keeps away.
    pub gpus: u32,
    /// Nodes it was found on.
    pub nodes: u32,
    /// A sentence for the user.
    pub message: String,
}

/// GPUs of a node that each cause keeps away; none when the node has no slot of the class.
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

    /// Adds what was found of so many nodes.
    pub(super) fn add_nodes(&mut self, reasons: &NodeReasons, nodes: u32) {
        for (sum, gpus) in self.gpus.iter_mut().zip(reasons.0) {
            *sum += gpus * nodes;
        }
        for (sum, gpus) in self.nodes.iter_mut().zip(reasons.0) {
            *sum += u32::from(gpus > 0) * nodes;
        }
    }

    pub(super) fn reasons(&self, gpu_count: usize) -> Vec<UnschedulableReason> {
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

/// The cause where no node is of what is asked for.
pub(super) fn none_offered(what: &str) -> UnschedulableReason {
    UnschedulableReason {
        cause: Cause::NoCapacity,
        gpus: 0,
        nodes: 0,
        message: format!("No node of the region has {what} on sale."),
    }
}

/// The cause where all that is on sale is free, and too few.
pub(super) fn too_few_offered(gpus: u32, nodes: u32) -> UnschedulableReason {
    let held = format!("{gpus} {}", plural(gpus, "GPU"));
    let on = format!("{nodes} {}", plural(nodes, "node"));
    UnschedulableReason {
        cause: Cause::NoCapacity,
        gpus,
        nodes,
        message: format!("No more than {held} on {on} can be had: nothing else is on sale."),
    }
}

/// A cause with its numbers, for a request of so many GPUs (B-57).
fn message(cause: Cause, gpus: u32, nodes: u32, gpu_count: usize) -> String {
    let held = format!("{gpus} {}", plural(gpus, "GPU"));
    let on = format!("{nodes} {}", plural(nodes, "node"));
    let be = if gpus == 1 { "is" } else { "are" };
    match cause {
        Cause::Fragmented if nodes == 1 => {
            format!("{held} free on {on}, which does not have {gpu_count} in one legal group.")
        }
        Cause::Fragmented => {
            format!("{held} free on {on}, none has {gpu_count} in one legal group.")
        }
        Cause::SlotsInUse => {
            format!("{held} on {on} {be} in use; try again later, or wait in line.")
        }
        Cause::NodeVmLimit => {
            let runs = if nodes == 1 { "runs" } else { "run" };
            format!("{held} free on {on} that {runs} as many VMs as allowed; try again later.")
        }
        Cause::SlotUnhealthy => format!("{held} on {on} {be} not healthy."),
        Cause::CleanupBlocked => {
            let verb = if gpus == 1 { "waits" } else { "wait" };
            format!("{held} on {on} {verb} for an operator to prove the disks clean.")
        }
        Cause::NodeDraining => {
            format!("An operator keeps new allocations off {on} with {held}.")
        }
        Cause::Affinity => format!("{held} on {on} that the placement constraints rule out."),
        Cause::ImageNotCached => {
            format!("{held} free on {on} without the image in the cache.")
        }
        Cause::CapacityReserved => format!("{held} on {on} {be} reserved for others."),
        Cause::WaitingAhead => {
            let be = if gpus == 1 { "goes" } else { "go" };
            format!("{held} on {on} {be} to requests that wait in line.")
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
    /// Every cause.
    pub fn all() -> impl Iterator<Item = Self> {
        CAUSES.into_iter().chain([Self::NoCapacity])
    }

    /// What a cause means, for the user.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Fragmented => {
                "Free GPUs exist, but no single node has enough of them that may be used together."
            }
            Self::FabricHeld => {
                "The GPUs share a fabric device that is in use, or that only one of them can have."
            }
            Self::IncompleteSlot => "The operator has not finished setting these GPUs up.",
            Self::CleanupBlocked => "The GPUs wait for an operator to prove their disks clean.",
            Self::HugepagesMissing => "The nodes do not have enough free hugepages for this size.",
            Self::NodeDraining => "An operator keeps new allocations off the nodes.",
            Self::SlotUnhealthy => "The GPUs are not healthy.",
            Self::SlotsInUse => "The GPUs are in use; try again later, or wait in line.",
            Self::NodeVmLimit => {
                "The nodes run as many VMs as they are allowed to; try again later."
            }
            Self::HostNotReady => "The hosts are not ready at the moment.",
            Self::Affinity => "The placement constraints rule the nodes out.",
            Self::ImageNotCached => "No node with room has the image in its cache.",
            Self::WaitingAhead => "Other requests wait in line for what is free.",
            Self::CapacityReserved => "What is free is reserved for other projects.",
            Self::NoCapacity => "No capacity is free.",
        }
    }
}
