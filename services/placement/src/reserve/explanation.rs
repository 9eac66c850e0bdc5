//! Where a request fits now.
use gpuaas_placement_decision::UnschedulableReason;

/// Where a request would fit now, and what removes the other nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Schedulable nodes of the region with the requested class, free or not; for bare-metal nodes, all of the region.
    pub nodes: u32,
    /// Nodes on which it fits.
    pub nodes_fit: u32,
    /// Per reason, the nodes it removes.
    pub removed: Vec<UnschedulableReason>,
}

/// A number of nodes.
pub(super) fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
