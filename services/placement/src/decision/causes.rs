//! Why something does not fit: causes summed over nodes, told with their numbers.
use std::collections::{BTreeMap, BTreeSet};

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::Reason;

/// Causes summed over nodes.
#[derive(Default)]
pub(super) struct Causes(BTreeMap<i32, (u32, BTreeSet<Uuid>)>);

impl Causes {
    pub(super) fn add(&mut self, node_id: Uuid, found: &[(ErrorReason, u32)]) {
        for (reason, gpus) in found.iter().filter(|(_, gpus)| *gpus > 0) {
            let sum = self.0.entry(*reason as i32).or_default();
            sum.0 += gpus;
            sum.1.insert(node_id);
        }
    }

    pub(super) fn into_reasons(self, gpu_count: usize) -> Vec<Reason> {
        self.0
            .into_iter()
            .filter_map(|(reason, (gpus, nodes))| {
                let reason = ErrorReason::try_from(reason).ok()?;
                let nodes = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
                Some(Reason {
                    reason,
                    gpus,
                    nodes,
                    message: message(reason, gpus, nodes, gpu_count),
                })
            })
            .collect()
    }
}

/// A cause with its numbers, for a request of so many GPUs (B-57).
#[must_use]
pub fn message(reason: ErrorReason, gpus: u32, nodes: u32, gpu_count: usize) -> String {
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
            format!("{held} on {on} {be} in use by others; try again later.")
        }
        ErrorReason::SlotUnhealthy => format!("{held} on {on} {be} not healthy."),
        ErrorReason::CleanupBlocked => {
            let verb = if gpus == 1 { "waits" } else { "wait" };
            format!("{held} on {on} {verb} for an operator to prove the disks clean.")
        }
        ErrorReason::NodeDraining => {
            format!("{held} on {on} that an operator keeps new allocations off.")
        }
        ErrorReason::Affinity => format!("{held} on {on} that the placement constraints rule out."),
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
        ErrorReason::FabricHeld => "The GPUs share a fabric device with capacity that is in use.",
        ErrorReason::IncompleteSlot => "The operator has not finished setting these GPUs up.",
        ErrorReason::CleanupBlocked => "The GPUs wait for an operator to prove their disks clean.",
        ErrorReason::HugepagesMissing => {
            "The nodes do not have enough free hugepages for this size."
        }
        ErrorReason::NodeDraining => "An operator keeps new allocations off the nodes.",
        ErrorReason::SlotUnhealthy => "The GPUs are not healthy.",
        ErrorReason::SlotsInUse => "The GPUs are in use by others; try again later.",
        ErrorReason::HostNotReady => "The hosts are not ready at the moment.",
        ErrorReason::Affinity => "The placement constraints rule the nodes out.",
        ErrorReason::RegionDisabled => "The region is closed for new allocations.",
        ErrorReason::Quota => "The project's quota is used up.",
        _ => "No capacity is free.",
    }
}
