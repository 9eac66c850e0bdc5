//! The capacity index: the shortlist of nodes for a request, without evaluating the others.
use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::PackingStrategy;
use super::compiled_node::{CompiledNode, Cost};
use crate::model::SlotClass;

/// Nodes of equal cost that are shortlisted.
const PER_COST: usize = 4;
/// Nodes that are shortlisted besides those with something reserved.
const SHORTLISTED: usize = 32;
/// Nodes with so many slots reserved for the project that are shortlisted.
const RESERVED: usize = 8;

/// Nodes by their capacity. Those of one kind are in an order that has nothing to do with age or name, so that
/// concurrent requests, each of which begins at its own position, try different ones.
#[derive(Debug, Clone, Default)]
pub(super) struct CapacityIndex {
    /// Per class and count, and by what taking so many costs.
    open: BTreeMap<(SlotClass, u32), BTreeMap<Cost, HashRing>>,
    reserved: BTreeMap<Own, HashRing>,
}

/// Project, class, and how many free slots only this project may have.
type Own = (Uuid, SlotClass, u32);
type HashRing = BTreeSet<(u32, Uuid)>;

/// Some of the nodes with capacity, and what the others may have.
#[derive(Debug, Default)]
pub(super) struct Shortlist {
    pub(super) ids: BTreeSet<Uuid>,
    /// No other node has a lower rank than this, but for its image and what is reserved there. None: these are all.
    pub(super) others: Option<u32>,
    /// Other nodes have slots that are reserved for the project.
    pub(super) others_reserved: bool,
}

/// Position of a node among its kind.
fn place(id: Uuid) -> u32 {
    let (high, low) = id.as_u64_pair();
    // the bits of any id are spread over all positions: Fibonacci hashing
    ((high ^ low).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// The first node from a position on, cyclically.
fn from(ring: &HashRing, at: u32, most: usize) -> impl Iterator<Item = Uuid> {
    let begin = (at, Uuid::nil());
    let ring = ring.range(begin..).chain(ring.range(..begin));
    ring.take(most).map(|(_, id)| *id)
}

impl CapacityIndex {
    pub(super) fn add(&mut self, compiled: &CompiledNode) {
        let node = (place(compiled.id), compiled.id);
        for (of, cost) in compiled.capacity() {
            let by_cost = self.open.entry(of).or_default();
            by_cost.entry(cost).or_default().insert(node);
        }
        for of in compiled.reserved_capacity() {
            self.reserved.entry(of).or_default().insert(node);
        }
    }

    pub(super) fn remove(&mut self, compiled: &CompiledNode) {
        let node = (place(compiled.id), compiled.id);
        for (of, cost) in compiled.capacity() {
            if let Some(by_cost) = self.open.get_mut(&of) {
                take(by_cost, &cost, node);
                if by_cost.is_empty() {
                    self.open.remove(&of);
                }
            }
        }
        for of in compiled.reserved_capacity() {
            take(&mut self.reserved, &of, node);
        }
    }

    /// The largest count of a class that one node has, for any project.
    pub(super) fn largest(&self, class: SlotClass) -> u32 {
        let by_cost = self.open.range((class, 0)..=(class, u32::MAX));
        by_cost.last().map_or(0, |((_, count), _)| *count)
    }

    /// A few nodes with capacity for so many of a class, the best by a policy: of those that cost the same some; and some with
    /// slots that are reserved for the project. Their number does not grow with the fleet.
    pub(super) fn shortlist(
        &self,
        (class, count): (SlotClass, u32),
        packing_strategy: PackingStrategy,
        project_id: Option<Uuid>,
        at: u32,
    ) -> Shortlist {
        let mut shortlist = Shortlist::default();
        let by_cost = self.open.get(&(class, count)).into_iter().flatten();
        let mut by_cost: Vec<(u32, &HashRing)> = by_cost
            .map(|(cost, ring)| (cost.rank(packing_strategy), ring))
            .collect();
        by_cost.sort_unstable_by_key(|(rank, _)| *rank);
        for (rank, ring) in by_cost {
            let most = PER_COST.min(SHORTLISTED - shortlist.ids.len());
            shortlist.ids.extend(from(ring, at, most));
            if ring.len() > most {
                shortlist.others.get_or_insert(rank);
            }
        }
        if let Some(id) = project_id {
            let own = (id, class, count.max(1))..=(id, class, u32::MAX);
            for (_, ring) in self.reserved.range(own) {
                shortlist.ids.extend(from(ring, at, RESERVED));
                shortlist.others_reserved |= ring.len() > RESERVED;
            }
        }
        shortlist
    }
}

fn take<K: Ord>(rings: &mut BTreeMap<K, HashRing>, of: &K, node: (u32, Uuid)) {
    if let Some(ring) = rings.get_mut(of) {
        ring.remove(&node);
        if ring.is_empty() {
            rings.remove(of);
        }
    }
}
