//! A compiled node as it would be with a VM added or removed: planning reports simulate with it.
use crate::Cause;
use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::{CompiledNode, Layout, Pick, bits};
use crate::model::{Health, SlotClass, SlotStatus};
use crate::{CandidateNode, CandidateSlot, Request, Rules};

/// The slot is allocated, or being worked on.
pub(super) fn is_taken(slot: &CandidateSlot) -> bool {
    slot.held
        || !matches!(
            slot.status,
            SlotStatus::Available
                | SlotStatus::CleanupBlocked
                | SlotStatus::Disabled
                | SlotStatus::Retired
        )
}

/// Only its allocation, or its fabric device, removes the slot for every project.
pub(super) fn is_sound(slot: &CandidateSlot) -> bool {
    let schedulable = !matches!(
        slot.status,
        SlotStatus::CleanupBlocked | SlotStatus::Disabled | SlotStatus::Retired
    );
    schedulable && slot.complete && slot.health == Health::Healthy && slot.reserved.is_none()
}

/// Slots of several classes share a fabric device.
pub(super) fn tangled(node: &CandidateNode) -> bool {
    let mut class_of: BTreeMap<&str, SlotClass> = BTreeMap::new();
    node.slots
        .iter()
        .filter(|slot| !slot.fabric_device.is_empty())
        .any(|slot| *class_of.entry(&slot.fabric_device).or_insert(slot.class) != slot.class)
}

impl Layout {
    /// Slots that a claim on any of these blocks.
    pub(super) fn conflicting_with(&self, slots: u64) -> u64 {
        bits(slots)
            .filter_map(|bit| self.conflicts.get(bit as usize))
            .fold(0, |all, others| all | others)
    }

    /// The sets of slots that may be allocated together as one of so many GPUs.
    pub(super) fn slot_sets(&self, count: u32) -> Vec<u64> {
        if count == 1 {
            return bits(self.all).map(|bit| 1 << bit).collect();
        }
        let whole = (!self.reported && self.all.count_ones() == count).then_some(self.all);
        let groups = self
            .groups
            .iter()
            .filter(|group| group.size == count && group.slots.count_ones() == count)
            .map(|group| group.slots);
        groups.chain(whole).collect()
    }
}

impl CompiledNode {
    /// The bits of slots of a class; none when one of them is not on the node.
    pub(crate) fn mask(&self, class: SlotClass, slot_ids: &[Uuid]) -> Option<u64> {
        let slots = self.slots[class as usize].as_ref()?;
        slot_ids.iter().try_fold(0, |mask, id| {
            let bit = slots.iter().position(|(known, _)| known == id)?;
            Some(mask | 1 << bit)
        })
    }

    /// A VM more.
    pub(crate) fn take(&mut self, request: &Request, pick: &Pick) {
        let Some(view) = self.views[request.slot_class as usize].as_mut() else {
            return;
        };
        let conflicting = view.layout.conflicting_with(pick.slots) & view.usable & !pick.slots;
        view.usable &= !(pick.slots | conflicting);
        view.taken |= pick.slots;
        let mut reasons = (*view.reasons).clone();
        reasons.note(Cause::SlotsInUse, pick.slots.count_ones());
        reasons.note(Cause::FabricHeld, conflicting.count_ones());
        view.reasons = Arc::new(reasons);
        self.live_vms = self.live_vms.saturating_add(1);
        self.hugepages_1g_free = self.hugepages_1g_free.saturating_sub(request.hugepages_1g);
        self.clean = false;
    }

    /// A VM less, its disks wiped. The reasons of its slots are not corrected: a node that something was moved off
    /// is not evaluated for reasons.
    pub(crate) fn free(&mut self, class: SlotClass, slots: u64, hugepages_1g: u32) {
        let Some(view) = self.views[class as usize].as_mut() else {
            return;
        };
        view.taken &= !slots;
        let back = slots | view.layout.conflicting_with(slots);
        let away = view.taken | view.layout.conflicting_with(view.taken);
        view.usable |= back & view.sound & !away;
        self.live_vms = self.live_vms.saturating_sub(1);
        self.hugepages_1g_free = self.hugepages_1g_free.saturating_add(hugepages_1g);
        let none_taken = self.views.iter().flatten().all(|view| view.taken == 0);
        self.clean = none_taken && self.reserved.is_nothing();
    }

    /// What a VM more or less does to it is known, and it takes new ones.
    pub(crate) fn can_change(&self) -> bool {
        self.enabled && self.schedulable && !self.exclusively_held && !self.tangled
    }

    /// It would change, but what that does to slots of another class is not known.
    pub(crate) fn is_tangled(&self) -> bool {
        self.tangled
    }

    /// Slots of the request's class that any project may have.
    pub(crate) fn free_slots(&self, request: &Request) -> u32 {
        self.usable(request.slot_class).count_ones()
    }

    /// The bits of the slots of a class that any project may have.
    pub(crate) fn usable(&self, class: SlotClass) -> u64 {
        self.views[class as usize]
            .as_ref()
            .map_or(0, |view| view.usable)
    }

    /// A request may fit once nothing is allocated on the node: no other reason removes it. Every allocated slot
    /// counts as schedulable, and so does every slot that is reserved for the project.
    pub(crate) fn could_take(&self, rules: &Rules, request: &Request) -> bool {
        let Some(view) = self.view(request) else {
            return false;
        };
        let own = self.reserved.own(rules.project, request.slot_class);
        rules.allow(self.id)
            && self.enabled
            && self.schedulable
            && (!request.prewarmed || request.finds_its_image(&self.images))
            && view
                .layout
                .best(view.sound | view.taken | own, request.gpu_count.get())
                .is_some()
    }

    /// Per set of slots that would do for the request, the slots of it that are allocated or blocked; no set that
    /// anything else than a VM removes.
    pub(crate) fn in_the_way(&self, request: &Request) -> Vec<u64> {
        let Some(view) = self.view(request) else {
            return Vec::new();
        };
        let sets = view.layout.slot_sets(request.gpu_count.get()).into_iter();
        sets.filter(|set| set & !view.sound == 0)
            .map(|set| (set | view.layout.conflicting_with(set)) & view.taken)
            .filter(|others| *others != 0)
            .collect()
    }
}
