//! What is free, and who is before whom: the rules of placement and of the queue, told once more and without the
//! library. Sets of slots are masks, the slot with index 0 is the lowest bit.
use std::collections::BTreeSet;

use gpuaas_placement::model::{AllocationState, ClaimState, SlotStatus};
use uuid::Uuid;

use super::calls::Place;
use super::draw::{Item, PROJECTS};
use super::fleet::{Fleet, GPUS, GROUPS};
use super::view::{Batch, View};

/// A node as far as placement goes.
#[derive(Debug, Clone)]
pub struct NodeCapacity {
    pub id: Uuid,
    /// Neither host nor operator keeps allocations off.
    pub open: bool,
    pub baremetal: bool,
    /// Slots schedulable to everybody.
    pub free: u8,
    /// Slots schedulable to one project, by project.
    pub reserved: [u8; PROJECTS],
    /// Slots that would be schedulable if everybody left, and those that would be for one project.
    leavable: (u8, [u8; PROJECTS]),
    slots: u32,
    vms: usize,
    max_vms: usize,
    /// Something is claimed of it.
    held: bool,
    /// Projects that have something on it.
    projects: BTreeSet<usize>,
}

/// All nodes.
#[derive(Debug, Clone)]
pub struct FreeCapacity(pub Vec<NodeCapacity>);

/// Slots of a node that one allocation could have; all of them for a bare-metal node.
pub type Choice = (usize, u8);

impl FreeCapacity {
    pub fn of(view: &View, fleet: &Fleet) -> Self {
        let nodes = fleet.nodes.iter().map(|node| {
            let seen = &view.nodes[&node.id];
            let mut capacity = NodeCapacity {
                id: node.id,
                open: seen.intent == "enabled" && node.schedulable && node.healthy,
                baremetal: seen.baremetal,
                free: 0,
                reserved: [0; PROJECTS],
                leavable: (0, [0; PROJECTS]),
                slots: 0,
                vms: 0,
                max_vms: node.max_vms,
                held: false,
                projects: BTreeSet::new(),
            };
            for (id, slot) in view.slots.iter().filter(|(_, slot)| slot.node == node.id) {
                let bit = 1u8 << slot.index;
                let project = view.held_for(*id).map(|project| fleet.project(project));
                capacity.slots += u32::from(slot.status != SlotStatus::Retired);
                if slot.status == SlotStatus::Available {
                    *project.map_or(&mut capacity.free, |of| &mut capacity.reserved[of]) |= bit;
                }
                if !matches!(
                    slot.status,
                    SlotStatus::Disabled
                        | SlotStatus::Retired
                        | SlotStatus::Cleanup
                        | SlotStatus::CleanupBlocked
                ) {
                    let (all, of_one) = &mut capacity.leavable;
                    *project.map_or(all, |of| &mut of_one[of]) |= bit;
                }
            }
            capacity
        });
        let mut capacity = Self(nodes.collect());
        for (id, one) in &view.allocations {
            let Some(node) = one
                .node
                .and_then(|node| capacity.0.iter_mut().find(|of| of.id == node))
            else {
                continue;
            };
            let at_work = |state: &ClaimState| *state != ClaimState::CleanupBlocked;
            node.vms += usize::from(one.claims.values().any(at_work));
            node.held |= one.bare_metal.is_some() || !one.claims.is_empty();
            if one.lives() {
                node.projects.insert(fleet.launched[id].project);
            }
        }
        capacity
    }

    /// The nodes as they are once everybody on them has gone; bare-metal ones have nothing for slices.
    pub fn emptied(&self) -> Self {
        let mut capacity = self.clone();
        for node in &mut capacity.0 {
            (node.free, node.reserved) = node.leavable;
            (node.vms, node.held) = (0, false);
        }
        capacity
    }

    /// Slots of a node that nobody has: those of one that is held as bare metal stay schedulable until its host is touched.
    pub fn free_of(&self, place: usize) -> u32 {
        let node = &self.0[place];
        if node.held && node.baremetal {
            return 0;
        }
        node.free.count_ones()
    }

    /// Everything that could be taken for an allocation of a project, whoever else wants it.
    pub fn choices(&self, item: Item, rule: &Rule, project: Option<usize>) -> Vec<Choice> {
        let mut found = Vec::new();
        for (place, node) in self.0.iter().enumerate() {
            if !node.open || !rule.allows(node) {
                continue;
            }
            let free = node.free | project.map_or(0, |project| node.reserved[project]);
            if item.bare_metal {
                if node.slots == GPUS && free == u8::MAX && !node.held {
                    found.push((place, u8::MAX));
                }
                continue;
            }
            // each GPU that is reserved for others may become a VM
            let vms = node.vms + node.reserved_for_others(project);
            if node.baremetal || (node.max_vms > 0 && vms >= node.max_vms) {
                continue;
            }
            let sets = (0..8).map(|bit| 1u8 << bit).filter(|_| item.count == 1);
            let groups = GROUPS
                .iter()
                .filter(|group| item.count > 1 && group.len() == item.count as usize)
                .map(|group| {
                    group
                        .iter()
                        .fold(0u8, |mask, module| mask | 1 << (module - 1))
                });
            let fit = sets.chain(groups).filter(|set| set & !free == 0);
            found.extend(fit.map(|set| (place, set)));
        }
        found
    }

    /// Whether all of it is reserved for the project.
    pub fn is_own(&self, (place, set): Choice, project: usize) -> bool {
        set & !self.0[place].reserved[project] == 0
    }

    pub fn take(&mut self, (place, set): Choice, item: Item, project: usize) {
        let node = &mut self.0[place];
        node.held = true;
        node.projects.insert(project);
        if item.bare_metal {
            node.baremetal = true;
        } else {
            node.free &= !set;
            node.reserved.iter_mut().for_each(|of| *of &= !set);
            node.vms += 1;
        }
    }
}

impl NodeCapacity {
    /// Slots that are schedulable to other projects alone.
    pub fn reserved_for_others(&self, project: Option<usize>) -> usize {
        let others = self.reserved.iter().enumerate();
        let others = others.filter(|(of, _)| Some(*of) != project);
        others.map(|(_, mask)| mask.count_ones() as usize).sum()
    }

    /// It may have a VM more, whoever comes.
    pub fn takes_more(&self) -> bool {
        self.max_vms == 0 || self.vms + self.reserved_for_others(None) < self.max_vms
    }

    /// It has no limit of VMs.
    pub fn is_unlimited(&self) -> bool {
        self.max_vms == 0
    }
}

/// Nodes that an allocation may be on.
#[derive(Debug, Default)]
pub struct Rule {
    only: Option<Uuid>,
    avoid: BTreeSet<Uuid>,
    /// No node with something of this project.
    apart_from: Option<usize>,
}

impl Rule {
    fn allows(&self, node: &NodeCapacity) -> bool {
        self.only.is_none_or(|only| only == node.id)
            && !self.avoid.contains(&node.id)
            && self
                .apart_from
                .is_none_or(|project| !node.projects.contains(&project))
    }

    /// None when an allocation that it is about is not there any more. One that `waits` minds only those that live.
    pub fn of(
        view: &View,
        fleet: &Fleet,
        project: usize,
        place: &Place,
        waits: bool,
    ) -> Option<Self> {
        let node_of = |id: &Uuid| {
            let one = &view.allocations[id];
            one.node
                .filter(|_| one.lives() && fleet.launched[id].project == project)
        };
        let mut rule = Self::default();
        match place {
            Place::Anywhere => {}
            Place::With(id) => rule.only = Some(node_of(id)?),
            Place::Apart(ids) => {
                for id in ids {
                    if waits && !view.allocations[id].lives() {
                        continue;
                    }
                    rule.avoid.insert(node_of(id)?);
                }
            }
            Place::ApartFromAll => rule.apart_from = Some(project),
        }
        Some(rule)
    }
}

/// What an allocation that waits is.
pub fn item_of(fleet: &Fleet, id: Uuid) -> Item {
    let launched = &fleet.launched[&id];
    Item {
        count: launched.gpus,
        bare_metal: launched.bare_metal,
    }
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub enum Who {
    /// One of the queue.
    Batch(Uuid),
    /// Somebody of a project, who does not wait.
    New(usize),
}

/// The batches of a queue, or those before somebody who does not wait, in the order in which they are served: by class,
/// then round by round the next of each project, in the order of the round robin.
pub fn order(view: &View, fleet: &Fleet, new: Option<usize>) -> Vec<Batch> {
    let mut queue: Vec<(usize, Option<&Batch>)> = view
        .queue
        .iter()
        .map(|batch| (fleet.project(batch.project), Some(batch)))
        .collect();
    // the youngest of all
    queue.extend(new.map(|project| (project, None)));
    let joins_ring = |project: usize| {
        !view
            .queue
            .iter()
            .any(|batch| fleet.project(batch.project) == project)
    };
    let turn = |project: usize| {
        let place = view
            .round_robin
            .iter()
            .position(|id| *id == fleet.projects[project]);
        if joins_ring(project) {
            usize::MAX
        } else {
            place.expect("who is queued is in the round robin")
        }
    };
    let mut ordered = Vec::new();
    for class in gpuaas_placement::model::Priority::ALL.iter().rev() {
        let mut left: Vec<(usize, Option<&Batch>)> = queue
            .iter()
            .copied()
            .filter(|(project, _)| fleet.priorities[*project] == *class)
            .collect();
        while !left.is_empty() {
            let mut projects: Vec<usize> = left.iter().map(|(project, _)| *project).collect();
            projects.sort_by_key(|project| (turn(*project), fleet.projects[*project]));
            projects.dedup();
            for project in projects {
                let place = left.iter().position(|(of, _)| *of == project);
                let (_, next) = left.remove(place.expect("one per round"));
                match next {
                    Some(batch) => ordered.push(batch.clone()),
                    // those behind do not matter
                    None => return ordered,
                }
            }
        }
    }
    ordered
}

/// GPUs that a project holds besides what is seen: of slices, and of bare-metal nodes.
pub type More = (usize, [u32; 2]);

/// Whether a project's quota lets a batch be served as a whole.
fn able(view: &View, fleet: &Fleet, batch: &Batch, more: More) -> bool {
    let project = fleet.project(batch.project);
    [false, true].into_iter().all(|bare_metal| {
        let launched = batch.members.iter().map(|id| &fleet.launched[id]);
        let requested: u32 = launched
            .filter(|launched| launched.bare_metal == bare_metal)
            .map(|launched| launched.gpus)
            .sum();
        let more = if more.0 == project {
            more.1[usize::from(bare_metal)]
        } else {
            0
        };
        requested == 0
            || fleet.used(view, project, bare_metal) + more + requested
                <= fleet.quota(project, bare_metal)
    })
}

/// The batches of a queue whose quota does not keep them.
pub fn able_ones(view: &View, fleet: &Fleet) -> Vec<Batch> {
    let mut queue = order(view, fleet, None);
    queue.retain(|batch| able(view, fleet, batch, (0, [0; 2])));
    queue
}

/// The nodes that are not for somebody, because somebody before it would fit there now or they are kept for one.
pub fn not_for(
    who: Who,
    view: &View,
    fleet: &Fleet,
    capacity: &FreeCapacity,
    more: More,
) -> BTreeSet<Uuid> {
    if view.queue.is_empty() {
        return BTreeSet::new();
    }
    let mut before = match who {
        Who::New(project) => order(view, fleet, Some(project)),
        Who::Batch(id) => {
            let mut queue = order(view, fleet, None);
            queue.truncate(queue.iter().position(|one| one.id == id).expect("queued"));
            queue
        }
    };
    before.retain(|batch| able(view, fleet, batch, more));
    let mut nodes: BTreeSet<Uuid> = view
        .kept
        .iter()
        .filter(|(_, batch)| before.iter().any(|one| one.id == **batch))
        .map(|(node, _)| *node)
        .collect();
    for (place, batch) in before.iter().enumerate() {
        // where one of a batch fits, the batch may still not: only the first batch holds others up
        if place > 0 && batch.members.len() > 1 {
            continue;
        }
        for id in &batch.members {
            let launched = &fleet.launched[id];
            if let Some(rule) = Rule::of(view, fleet, launched.project, &launched.place, true) {
                let fit = capacity.choices(item_of(fleet, *id), &rule, Some(launched.project));
                nodes.extend(fit.into_iter().map(|(place, _)| capacity.0[place].id));
            }
        }
    }
    nodes
}

/// Whether an allocation is queued.
pub fn waits(view: &View, id: Uuid) -> bool {
    view.allocations[&id].state == AllocationState::Requested
}
