//! The filters: why a node, or one of its slots, is not available to a request.
use super::CompiledNode;
use crate::model::{Health, SlotStatus};
use crate::{CandidateNode, CandidateSlot, Cause, Request, Rules, fabric_key};

impl CompiledNode {
    /// Why the node is not for a request; nothing: it is a candidate.
    pub(super) fn filter(&self, rules: &Rules, request: &Request) -> Option<Cause> {
        if rules.allow(self.id) && rules.queued_ahead.contains(&self.id) {
            Some(Cause::QueuedAhead)
        } else {
            self.filter_own(rules, request)
        }
    }

    /// The same for what is reserved for the project: no request is queued before it there.
    pub(super) fn filter_own(&self, rules: &Rules, request: &Request) -> Option<Cause> {
        let (vms, hugepages) = self.reserved.needs_of_others(rules.project);
        let full = |vms: u32| self.max_vms > 0 && vms >= self.max_vms;
        if !rules.allow(self.id) {
            Some(Cause::Affinity)
        } else if !self.enabled {
            Some(Cause::NodeDraining)
        } else if !self.schedulable {
            Some(Cause::HostNotReady)
        } else if self.exclusively_held {
            Some(Cause::SlotsInUse)
        } else if full(self.live_vms) {
            Some(Cause::NodeVmLimit)
        } else if request.hugepages_1g > self.hugepages_1g_free {
            Some(Cause::HugepagesMissing)
        } else if full(self.live_vms.saturating_add(vms))
            || request.hugepages_1g > self.hugepages_1g_free.saturating_sub(hugepages)
        {
            Some(Cause::CapacityReserved)
        } else if request.prewarmed && !request.finds_its_image(&self.images) {
            Some(Cause::ImageNotCached)
        } else {
            None
        }
    }
}

/// Why a slot is not available; the inner `None` when it is not offered at all.
pub(super) fn filter_slot(slot: &CandidateSlot, node: &CandidateNode) -> Option<Option<Cause>> {
    match slot.status {
        SlotStatus::CleanupBlocked => return Some(Some(Cause::CleanupBlocked)),
        SlotStatus::Disabled if !slot.complete => return Some(Some(Cause::IncompleteSlot)),
        SlotStatus::Disabled | SlotStatus::Retired => return Some(None),
        // a slot that ends there is not schedulable again while the node is reserved
        _ if slot.status != SlotStatus::Available || slot.held => {
            let is_wiped = slot.status == SlotStatus::Cleanup && !slot.held;
            return Some(Some(match (node.enabled, is_wiped) {
                (true, true) => Cause::DisksBeingWiped,
                (true, false) => Cause::SlotsInUse,
                (false, _) => Cause::NodeDraining,
            }));
        }
        _ => {}
    }
    if !slot.complete {
        return Some(Some(Cause::IncompleteSlot));
    }
    if slot.health != Health::Healthy {
        // of a host that is not ready all slots are no better than it is: what is wrong is the host
        return Some(Some(if node.schedulable {
            Cause::SlotUnhealthy
        } else if node.enabled {
            Cause::HostNotReady
        } else {
            Cause::NodeDraining
        }));
    }
    let device_held = node.slots.iter().any(|other| {
        other.held
            && other.id != slot.id
            && !slot.fabric_device.is_empty()
            && other.fabric_device == slot.fabric_device
            && !(fabric_key(other, node).is_empty() && fabric_key(slot, node).is_empty())
    });
    device_held.then_some(Some(Cause::FabricHeld))
}
