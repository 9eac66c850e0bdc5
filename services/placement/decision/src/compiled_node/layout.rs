//! How the slots of a class on a node depend on each other, and which of them are best allocated together.
use std::collections::BTreeMap;

use super::{Pick, bits};
use crate::{CandidateNode, CandidateSlot, fabric_key};

/// What the slots of a class on a node have to do with each other; most nodes of a fleet share one.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    pub(super) all: u64,
    /// The host reports what may be allocated together.
    pub(super) reported: bool,
    pub(super) groups: Vec<Group>,
    /// Slots of each NUMA node.
    pub(super) numa: Vec<u64>,
    /// Slots that need the same fabric device alone, of each such device.
    pub(super) exclusive: Vec<u64>,
    /// Per bit, the slots that a claim on it blocks; empty when no device is shared.
    pub(super) conflicts: Vec<u64>,
}

/// A legal group.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Group {
    /// Those of its GPUs that are slots.
    pub(super) slots: u64,
    /// GPUs.
    pub(super) size: u32,
}

impl Layout {
    pub(super) fn of(node: &CandidateNode, slots: &[&CandidateSlot]) -> Self {
        let mask = |of: &dyn Fn(&CandidateSlot) -> bool| {
            let chosen = slots.iter().enumerate().filter(|(_, slot)| of(slot));
            chosen.fold(0u64, |mask, (bit, _)| mask | 1 << bit)
        };
        let group = |group: &Vec<u32>| Group {
            slots: mask(&|slot| slot.module_id.is_some_and(|id| group.contains(&id))),
            size: u32::try_from(group.len()).unwrap_or(u32::MAX),
        };
        let mut numa: BTreeMap<Option<i32>, u64> = BTreeMap::new();
        let mut devices: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (bit, slot) in slots.iter().enumerate() {
            *numa.entry(slot.numa_node).or_default() |= 1 << bit;
            if !slot.fabric_device.is_empty() {
                let (all, alone) = devices.entry(&slot.fabric_device).or_default();
                *all |= 1 << bit;
                *alone |= u64::from(!fabric_key(slot, node).is_empty()) << bit;
            }
        }
        let mut conflicts = Vec::new();
        for (all, alone) in devices.values().filter(|(_, alone)| *alone != 0) {
            conflicts.resize(slots.len(), 0);
            for bit in bits(*all) {
                let others = if alone >> bit & 1 == 1 { *all } else { *alone };
                conflicts[bit as usize] |= others & !(1 << bit);
            }
        }
        Self {
            all: mask(&|_| true),
            reported: !node.legal_groups.is_empty(),
            groups: node.legal_groups.iter().map(group).collect(),
            numa: numa.into_values().collect(),
            exclusive: devices
                .into_values()
                .map(|(_, alone)| alone)
                .filter(|alone| *alone != 0)
                .collect(),
            conflicts,
        }
    }

    /// Slots that need their fabric device alone.
    pub(super) fn alone(&self) -> u64 {
        self.exclusive.iter().fold(0, |all, mask| all | mask)
    }

    /// The counts that it offers.
    pub(super) fn sizes(&self) -> Vec<u32> {
        let whole = (!self.reported).then(|| self.all.count_ones());
        let groups = self.groups.iter().map(|group| group.size);
        let mut sizes: Vec<u32> = groups.chain(whole).chain([1]).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The best of the usable slots that may be allocated together (B-43, B-56). Within one node all policies agree.
    pub(super) fn best(&self, usable: u64, count: u32) -> Option<Pick> {
        if usable.count_ones() < count {
            return None;
        }
        // groups that are available now and larger than the request: taking a part of one breaks it
        let larger = self.groups.iter().filter(|group| {
            group.size > count
                && group.slots & !usable == 0
                && group.slots.count_ones() == group.size
        });
        let open: Vec<u64> = larger.map(|group| group.slots).collect();
        let mut best: Option<Pick> = None;
        let mut consider = |slots: u64| {
            let shares = |alone: &u64| (slots & alone).count_ones() > 1;
            if self.exclusive.iter().any(shares) {
                return;
            }
            let pick = self.pick(slots, usable, &open);
            // left over is the same for all sets of one size; among equals the lowest slots come first
            let key = |pick: &Pick| {
                let lowest_first = !pick.slots.reverse_bits();
                (pick.numa_nodes, pick.broken_groups, lowest_first)
            };
            if best.as_ref().is_none_or(|best| key(&pick) < key(best)) {
                best = Some(pick);
            }
        };
        if count == 1 {
            bits(usable).for_each(|bit| consider(1 << bit));
            return best;
        }
        for group in self.groups.iter().filter(|group| group.size == count) {
            let slots = group.slots & usable;
            if slots.count_ones() == count {
                consider(slots);
            }
        }
        if !self.reported && usable == self.all && usable.count_ones() == count {
            consider(usable);
        }
        best
    }

    /// Slots that may be allocated together are usable, so many of them, and only a device that two of them need exclusively
    /// prevents it.
    pub(super) fn needs_one_device_twice(&self, usable: u64, count: u32) -> bool {
        let shares = |set: u64| {
            let alone = |alone: &u64| (set & alone).count_ones() > 1;
            self.exclusive.iter().any(alone)
        };
        let sets = self.slot_sets(count).into_iter();
        let mut sets = sets.filter(|set| set & !usable == 0).peekable();
        sets.peek().is_some() && sets.all(shares)
    }

    fn pick(&self, slots: u64, usable: u64, open: &[u64]) -> Pick {
        let touched = |mask: &&u64| **mask & slots != 0;
        let numa = self.numa.iter().filter(touched).count();
        Pick {
            slots,
            own: false,
            numa_nodes: u32::try_from(numa).unwrap_or(u32::MAX),
            broken_groups: open
                .iter()
                .filter(touched)
                .map(|mask| mask.count_ones())
                .sum(),
            left_over: usable.count_ones() - slots.count_ones(),
        }
    }
}
