//! What of a node is reserved for projects and not in use: no other project gets it, nor what it needs of the host.
use uuid::Uuid;

use super::{CandidateNode, CandidateSlot, fabric_key};
use crate::model::SlotClass;

/// The reserved slots of a node; nearly every node has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Reserved(Option<Box<[Share]>>);

/// The slots reserved for one project.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Share {
    project_id: Uuid,
    /// Per class, the bits of the slots that only this project may have.
    slots: [u64; SlotClass::ALL.len()],
    /// VMs that may come: each GPU alone is the worst case.
    vms: u32,
    /// Free hugepages of 1 GiB they need.
    hugepages_1g: u32,
}

/// Collects what is reserved while a node is compiled.
#[derive(Debug, Default)]
pub(super) struct Builder(Vec<Share>);

impl Builder {
    /// Takes a slot that is free; true when it is reserved, or shares a fabric device with one that is and would take
    /// that device away.
    pub(super) fn take(&mut self, node: &CandidateNode, slot: &CandidateSlot, bit: usize) -> bool {
        let Some(project_id) = owner(node, slot) else {
            return false;
        };
        let known = self.0.iter().position(|of| of.project_id == project_id);
        let place = known.unwrap_or_else(|| {
            self.0.push(Share {
                project_id,
                slots: [0; SlotClass::ALL.len()],
                vms: 0,
                hugepages_1g: 0,
            });
            self.0.len() - 1
        });
        let share = &mut self.0[place];
        share.slots[slot.class as usize] |= 1 << bit;
        if let Some(reserved) = slot.reserved {
            share.vms += 1;
            share.hugepages_1g = share.hugepages_1g.saturating_add(reserved.hugepages_1g);
        }
        true
    }

    pub(super) fn build(self) -> Reserved {
        Reserved((!self.0.is_empty()).then(|| self.0.into_boxed_slice()))
    }
}

/// The project that a free slot is reserved for.
fn owner(node: &CandidateNode, slot: &CandidateSlot) -> Option<Uuid> {
    if let Some(reserved) = slot.reserved {
        return Some(reserved.project_id);
    }
    if slot.fabric_device.is_empty() {
        return None;
    }
    let alone = |slot: &CandidateSlot| !fabric_key(slot, node).is_empty();
    node.slots
        .iter()
        .filter(|other| !other.held && other.fabric_device == slot.fabric_device)
        .filter(|other| other.reserved.is_some() && (alone(other) || alone(slot)))
        .find_map(|other| Some(other.reserved?.project_id))
}

impl Reserved {
    /// Whether nothing is reserved for anybody.
    pub(super) fn is_nothing(&self) -> bool {
        self.0.is_none()
    }

    fn shares(&self) -> &[Share] {
        self.0.as_deref().unwrap_or_default()
    }

    /// The projects for which slots of a class are reserved, and how many.
    pub(super) fn capacity(&self) -> impl Iterator<Item = (Uuid, SlotClass, u32)> {
        self.shares().iter().flat_map(|share| {
            let some = |class: &&SlotClass| share.slots[**class as usize] != 0;
            let classes = SlotClass::ALL.iter().filter(some);
            let slots = |class: SlotClass| share.slots[class as usize].count_ones();
            classes.map(move |class| (share.project_id, *class, slots(*class)))
        })
    }

    /// The bits of the slots of a class that are reserved for a project.
    pub(super) fn own(&self, project_id: Option<Uuid>, class: SlotClass) -> u64 {
        let mine = |share: &&Share| Some(share.project_id) == project_id;
        let own = self.shares().iter().find(mine);
        own.map_or(0, |share| share.slots[class as usize])
    }

    /// How many slots of a class are reserved for other projects.
    pub(super) fn slots_of_others(&self, project_id: Option<Uuid>, class: SlotClass) -> u32 {
        let others = self.others(project_id);
        others
            .map(|share| share.slots[class as usize].count_ones())
            .sum()
    }

    /// VMs and hugepages that must be left for other projects.
    pub(super) fn needs_of_others(&self, project_id: Option<Uuid>) -> (u32, u32) {
        self.others(project_id)
            .fold((0, 0), |(vms, hugepages), share| {
                (
                    vms + share.vms,
                    u32::saturating_add(hugepages, share.hugepages_1g),
                )
            })
    }

    fn others(&self, project_id: Option<Uuid>) -> impl Iterator<Item = &Share> {
        self.shares()
            .iter()
            .filter(move |share| Some(share.project_id) != project_id)
    }
}
