//! A copy of a fleet in which VMs are moved to see what follows. Nothing of it is stored, and nothing is moved.
//!
//! Each size that is placed has its nodes in the order of their rank, and a change of a node changes its position:
//! one placement costs what the depth of a tree costs, not an evaluation of every node.
use crate::Cause;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use uuid::Uuid;

use super::compiled_node::CompiledNode;
use super::{Choice, Fleet, GpuCount, PackingStrategy, Ranking, Request, Rules};
use crate::UnschedulableReason;

/// An allocation on a node, as far as a plan needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedAllocation {
    /// Allocation.
    pub id: Uuid,
    /// Node it is on.
    pub node_id: Uuid,
    pub slot_ids: Vec<Uuid>,
    /// Its spec if it were launched again.
    pub request: Request,
    /// Hugepages of 1 GiB that its node has more without it.
    pub hugepages_1g_back: u32,
    /// It may be stopped and recreated elsewhere: it runs, and has no affinity, nor does another's name it.
    pub movable: bool,
    /// Its anti-affinity.
    pub anti_affinity: AntiAffinity,
}

/// Sets of allocations, shared by all that they are about; an allocation may be in one that is about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AntiAffinity {
    /// Allocations that its anti-affinity names.
    pub from: Vec<Arc<BTreeSet<Uuid>>>,
    /// Allocations whose anti-affinity names it. A launch of it would be allowed, so it is left where it is when it would come
    /// to the node of one.
    pub by: Vec<Arc<BTreeSet<Uuid>>>,
}

/// An allocation that would be stopped, and where it would be recreated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Allocation.
    pub id: Uuid,
    pub gpu_count: GpuCount,
    /// Node it is on.
    pub from: Uuid,
    /// Where placement would put it.
    pub to: Choice,
}

/// What a plan is made on.
#[derive(Debug, Clone, Copy)]
pub struct PlanInput<'a> {
    /// The nodes of a region.
    pub fleet: &'a Fleet,
    pub packing_strategy: PackingStrategy,
    /// Nodes with a backfill reservation: nothing is moved there.
    pub backfill_reserved: &'a BTreeSet<Uuid>,
}

/// An allocation with its position in the simulation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Located<'a> {
    pub(super) allocation: &'a PlacedAllocation,
    /// Bits of its slots.
    pub(super) slots: u64,
}

/// The copy.
#[derive(Debug)]
pub(super) struct Simulation {
    fleet: Fleet,
    packing_strategy: PackingStrategy,
    /// Nodes that take nothing.
    closed: Vec<bool>,
    sizes: Vec<Size>,
    /// The nodes of the allocations, as far as they are known.
    at: HashMap<Uuid, Uuid>,
    /// What was before each change.
    log: Vec<Before>,
}

#[derive(Debug)]
enum Before {
    /// An index, what was there, and whether it was closed.
    Place(usize, CompiledNode, bool),
    /// An allocation, and its node.
    At(Uuid, Uuid),
}

/// The nodes on which a request fits.
#[derive(Debug)]
struct Size {
    request: Request,
    /// Rank in the upper half, index in the fleet in the lower, as in a [`Ranking`].
    order: BTreeSet<u64>,
    /// Its key per index.
    keys: Vec<Option<u64>>,
}

impl Simulation {
    pub(super) fn of(input: &PlanInput<'_>) -> Self {
        let compiled_nodes = input.fleet.compiled_nodes.iter();
        let closed = compiled_nodes.map(|compiled| {
            !compiled.can_change() || input.backfill_reserved.contains(&compiled.id)
        });
        Self {
            closed: closed.collect(),
            fleet: input.fleet.clone(),
            packing_strategy: input.packing_strategy,
            sizes: Vec::new(),
            at: HashMap::new(),
            log: Vec::new(),
        }
    }

    pub(super) fn compiled_nodes(&self) -> &[CompiledNode] {
        &self.fleet.compiled_nodes
    }

    /// Index of a node.
    pub(super) fn place_of(&self, node_id: Uuid) -> Option<usize> {
        let compiled_nodes = &self.fleet.compiled_nodes;
        compiled_nodes
            .binary_search_by_key(&node_id, |compiled| compiled.id)
            .ok()
    }

    /// Per index, the allocations whose slots are known there, in the order in which they are moved: the largest first.
    pub(super) fn locate<'a>(
        &mut self,
        allocations: &'a [PlacedAllocation],
    ) -> Vec<Vec<Located<'a>>> {
        let at = |allocation: &PlacedAllocation| (allocation.id, allocation.node_id);
        self.at.extend(allocations.iter().map(at));
        let mut by_place = vec![Vec::new(); self.fleet.compiled_nodes.len()];
        for allocation in allocations {
            let Some(place) = self.place_of(allocation.node_id) else {
                continue;
            };
            let class = allocation.request.slot_class;
            if let Some(slots) = self.fleet.compiled_nodes[place].mask(class, &allocation.slot_ids)
            {
                by_place[place].push(Located { allocation, slots });
            }
        }
        for located in &mut by_place {
            located.sort_by_key(|one| {
                (
                    std::cmp::Reverse(one.allocation.slot_ids.len()),
                    one.allocation.id,
                )
            });
        }
        by_place
    }

    /// Nothing is placed on the node any more.
    pub(super) fn close(&mut self, place: usize) {
        self.log_of(place);
        self.closed[place] = true;
        self.reorder(place);
    }

    /// A point to go back to.
    pub(super) fn mark(&self) -> usize {
        self.log.len()
    }

    /// As it was at the mark.
    pub(super) fn back_to(&mut self, mark: usize) {
        while self.log.len() > mark
            && let Some(before) = self.log.pop()
        {
            match before {
                Before::Place(place, compiled, closed) => {
                    self.fleet.compiled_nodes[place] = compiled;
                    self.closed[place] = closed;
                    self.reorder(place);
                }
                Before::At(id, node_id) => {
                    self.at.insert(id, node_id);
                }
            }
        }
    }

    /// The indices that changed since the mark, each once.
    pub(super) fn changed_since(&self, mark: usize) -> BTreeSet<usize> {
        self.places_since(mark).map(|(place, _)| place).collect()
    }

    /// How many such requests fit on the nodes that changed since the mark: before, and now.
    pub(super) fn fits_since(&self, mark: usize, request: &Request) -> (u32, u32) {
        let mut seen = BTreeSet::new();
        let (mut before, mut now) = (0, 0);
        for (place, compiled) in self.places_since(mark) {
            // the first entry of an index is the original
            if seen.insert(place) {
                let anybody = Rules::default();
                before += compiled.count_fits(&anybody, request);
                now += self.fleet.compiled_nodes[place].count_fits(&anybody, request);
            }
        }
        (before, now)
    }

    fn places_since(&self, mark: usize) -> impl Iterator<Item = (usize, &CompiledNode)> {
        self.log[mark..].iter().filter_map(|before| match before {
            Before::Place(place, compiled, _) => Some((*place, compiled)),
            Before::At(..) => None,
        })
    }

    /// The nodes of others that are in one of the sets.
    fn nodes_of(&self, sets: &[Arc<BTreeSet<Uuid>>], but: Uuid) -> BTreeSet<Uuid> {
        let others = sets.iter().flat_map(|set| set.iter());
        let others = others.filter(|id| **id != but);
        others.filter_map(|id| self.at.get(id).copied()).collect()
    }

    /// Places a request on the best node that `admits` allows.
    pub(super) fn put(
        &mut self,
        request: &Request,
        admits: impl Fn(Uuid) -> bool,
    ) -> Option<Choice> {
        let size = self.size(request);
        let mut keys = self.sizes[size].order.iter();
        let place = loop {
            let place = (keys.next()? & u64::from(u32::MAX)) as usize;
            if admits(self.fleet.compiled_nodes[place].id) {
                break place;
            }
        };
        let compiled = &self.fleet.compiled_nodes[place];
        let pick = compiled.best(&Rules::default(), request)?;
        let taken = compiled.choice(request, &pick);
        self.log_of(place);
        self.fleet.compiled_nodes[place].take(request, &pick);
        self.reorder(place);
        Some(taken)
    }

    /// Moves allocations off a node that takes nothing from then on, each to the best other node that it may be on. None,
    /// and nothing changed, when one of them fits nowhere, or only on a node that `suits` rejects, or only on one that an
    /// anti-affinity excludes.
    pub(super) fn vacate(
        &mut self,
        place: usize,
        located: &[Located<'_>],
        suits: impl Fn(&Choice) -> bool,
    ) -> Option<Vec<Move>> {
        let mark = self.mark();
        self.close(place);
        let mut moves = Vec::with_capacity(located.len());
        for one in located {
            let allocation = one.allocation;
            let avoid = self.nodes_of(&allocation.anti_affinity.from, allocation.id);
            let to = self.put(&allocation.request, |node_id| !avoid.contains(&node_id));
            let avoided_by = self.nodes_of(&allocation.anti_affinity.by, allocation.id);
            let fine = |to: &Choice| suits(to) && !avoided_by.contains(&to.node_id);
            let Some(to) = to.filter(fine) else {
                self.back_to(mark);
                return None;
            };
            self.free(place, one);
            if let Some(from) = self.at.insert(allocation.id, to.node_id) {
                self.log.push(Before::At(allocation.id, from));
            }
            moves.push(Move {
                id: allocation.id,
                gpu_count: allocation.request.gpu_count,
                from: allocation.node_id,
                to,
            });
        }
        Some(moves)
    }

    /// How the nodes are ranked as they are now, and what removes them.
    pub(super) fn rank(&self, rules: &Rules, request: &Request) -> Ranking {
        self.fleet.rank(rules, request)
    }

    /// What is free where the request would fit, but nothing is planned: slots of several classes share a fabric
    /// device there, and what a VM more does to the other class is not compiled.
    pub(super) fn tangled(&self, rules: &Rules, request: &Request) -> Option<UnschedulableReason> {
        let (mut gpus, mut nodes) = (0, 0);
        for compiled in self
            .fleet
            .compiled_nodes
            .iter()
            .filter(|compiled| compiled.is_tangled())
        {
            if compiled.best(rules, request).is_some() {
                gpus += compiled.free_slots(request);
                nodes += 1;
            }
        }
        (nodes > 0).then(|| UnschedulableReason {
            cause: Cause::FabricHeld,
            gpus,
            nodes,
            message: format!(
                "{gpus} GPU free on {nodes} nodes whose slots of several classes share a fabric device; plans leave \
                 such nodes out."
            ),
        })
    }

    fn free(&mut self, place: usize, one: &Located<'_>) {
        self.log_of(place);
        let allocation = one.allocation;
        self.fleet.compiled_nodes[place].free(
            allocation.request.slot_class,
            one.slots,
            allocation.hugepages_1g_back,
        );
        self.reorder(place);
    }

    fn log_of(&mut self, place: usize) {
        let compiled = self.fleet.compiled_nodes[place].clone();
        self.log
            .push(Before::Place(place, compiled, self.closed[place]));
    }

    fn size(&mut self, request: &Request) -> usize {
        if let Some(known) = self.sizes.iter().position(|size| size.request == *request) {
            return known;
        }
        let keys: Vec<Option<u64>> = (0..self.fleet.compiled_nodes.len())
            .map(|place| self.key(place, request))
            .collect();
        self.sizes.push(Size {
            request: request.clone(),
            order: keys.iter().flatten().copied().collect(),
            keys,
        });
        self.sizes.len() - 1
    }

    fn key(&self, place: usize, request: &Request) -> Option<u64> {
        if self.closed[place] {
            return None;
        }
        let compiled = &self.fleet.compiled_nodes[place];
        let pick = compiled.best(&Rules::default(), request)?;
        Some(u64::from(compiled.rank(self.packing_strategy, request, &pick)) << 32 | place as u64)
    }

    fn reorder(&mut self, place: usize) {
        for size in 0..self.sizes.len() {
            let key = self.key(place, &self.sizes[size].request);
            let size = &mut self.sizes[size];
            if size.keys[place] != key {
                if let Some(before) = size.keys[place] {
                    size.order.remove(&before);
                }
                size.order.extend(key);
                size.keys[place] = key;
            }
        }
    }
}
