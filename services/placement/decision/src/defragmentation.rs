//! Which few allocations would have to be elsewhere so that more launches of a size fit.
//!
//! Every legal group of the size, on every node, names the allocations that are in its way. The cheapest such set is
//! tried first: it is moved in a copy of the fleet, by the decision that places launches, and committed if more launches fit
//! in all than before. A node that something was moved off takes nothing in the plan, and a node that took something
//! is not drained: so the steps can be carried out in their order, each with its node cordoned.
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use uuid::Uuid;

use super::simulation::{Located, Simulation};
use super::{Move, PlacedAllocation, PlanInput, Request, Rules};

/// Most sets of allocations that are tried for one suggestion.
const TRIES: usize = 2000;

/// One node that something is moved off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub node_id: Uuid,
    /// What would be stopped, and where it would be recreated, in this order.
    pub moves: Vec<Move>,
    /// Launches that fit more than before the step, in the whole region.
    pub gained: u32,
}

/// What moving a few allocations would bring.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Defragmentation {
    /// Launches that fit now.
    pub before: u32,
    /// Launches that fit after all steps.
    pub after: u32,
    /// In the order in which they would be done.
    pub steps: Vec<Step>,
    /// The search ended at its bound; there may be more.
    pub cut: bool,
}

/// A set of allocations of a node, to be tried; the least costs first. The same input gives the same order (B-37).
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Set {
    gpus: usize,
    moves: usize,
    /// Launches that the node alone would take more.
    gained: Reverse<u32>,
    place: usize,
    /// Bits of the allocations among those of the node.
    allocations: u64,
    /// How often something was moved off the node before.
    version: u32,
}

struct Search<'a> {
    request: &'a Request,
    simulation: Simulation,
    located: Vec<Vec<Located<'a>>>,
    versions: Vec<u32>,
    /// Nodes that something was moved to.
    received: BTreeSet<usize>,
    sets: BinaryHeap<Reverse<Set>>,
}

/// Suggests at most so many moves after which more launches of a size fit.
#[must_use]
pub fn defragment(
    input: &PlanInput<'_>,
    request: &Request,
    allocations: &[PlacedAllocation],
    most_moves: usize,
) -> Defragmentation {
    let before = input.fleet.count_fits(request);
    let mut found = Defragmentation {
        before,
        after: before,
        ..Defragmentation::default()
    };
    let mut simulation = Simulation::of(input);
    let places = simulation.compiled_nodes().len();
    let mut search = Search {
        request,
        located: simulation.locate(allocations),
        simulation,
        versions: vec![0; places],
        received: BTreeSet::new(),
        sets: BinaryHeap::new(),
    };
    for place in 0..places {
        search.offer(place, most_moves);
    }
    let (mut left, mut tries) = (most_moves, 0);
    while let Some(Reverse(set)) = search.sets.pop() {
        let stale = set.version != search.versions[set.place];
        if stale || set.moves > left || search.received.contains(&set.place) {
            continue;
        }
        if tries == TRIES {
            found.cut = true;
            break;
        }
        tries += 1;
        if let Some(step) = search.attempt(&set) {
            left -= step.moves.len();
            found.after += step.gained;
            found.steps.push(step);
            search.offer(set.place, left);
        }
    }
    found
}

impl Search<'_> {
    /// Adds the sets of a node that would free capacity on it.
    fn offer(&mut self, place: usize, most_moves: usize) {
        let compiled = &self.simulation.compiled_nodes()[place];
        let located = &self.located[place];
        if !compiled.can_change() || located.is_empty() || most_moves == 0 {
            return;
        }
        let mut sets: BTreeSet<u64> = compiled
            .in_the_way(self.request)
            .into_iter()
            .filter_map(|slots| owners(slots, located))
            .collect();
        // the most VMs of a node, or its hugepages, may be what is in the way
        sets.extend((0..located.len().min(64)).map(|bit| 1 << bit));
        let now = compiled.count_fits(&Rules::default(), self.request);
        for allocations in sets {
            let chosen: Vec<&Located<'_>> = members(allocations, located).collect();
            if chosen.len() > most_moves || !chosen.iter().all(|one| one.allocation.movable) {
                continue;
            }
            let mut after = compiled.clone();
            for one in &chosen {
                let class = one.allocation.request.slot_class;
                after.free(class, one.slots, one.allocation.hugepages_1g_back);
            }
            let gained = after
                .count_fits(&Rules::default(), self.request)
                .saturating_sub(now);
            if gained > 0 {
                self.sets.push(Reverse(Set {
                    gpus: chosen.iter().map(|one| one.allocation.slot_ids.len()).sum(),
                    moves: chosen.len(),
                    gained: Reverse(gained),
                    place,
                    allocations,
                    version: self.versions[place],
                }));
            }
        }
    }

    /// Moves a set, if each of it fits elsewhere and more launches fit then.
    fn attempt(&mut self, set: &Set) -> Option<Step> {
        let mark = self.simulation.mark();
        let located = &self.located[set.place];
        let chosen: Vec<Located<'_>> = members(set.allocations, located).copied().collect();
        let moves = self.simulation.vacate(set.place, &chosen, |_| true)?;
        let (before, after) = self.simulation.fits_since(mark, self.request);
        if after <= before {
            self.simulation.back_to(mark);
            return None;
        }
        let others = self.simulation.changed_since(mark);
        self.received
            .extend(others.into_iter().filter(|place| *place != set.place));
        self.versions[set.place] += 1;
        self.located[set.place]
            .retain(|one| !moves.iter().any(|moved| moved.id == one.allocation.id));
        Some(Step {
            node_id: self.simulation.compiled_nodes()[set.place].id,
            moves,
            gained: after - before,
        })
    }
}

/// The allocations that have any of the slots; none when one is not known.
fn owners(slots: u64, located: &[Located<'_>]) -> Option<u64> {
    let mut left = slots;
    let mut owners = 0;
    for (bit, one) in located.iter().enumerate().take(64) {
        if one.slots & slots != 0 {
            owners |= 1 << bit;
            left &= !one.slots;
        }
    }
    (left == 0).then_some(owners)
}

fn members<'a, 'b>(
    allocations: u64,
    located: &'b [Located<'a>],
) -> impl Iterator<Item = &'b Located<'a>> {
    let chosen = move |(bit, _): &(usize, &Located<'a>)| allocations >> bit & 1 == 1;
    let numbered = located.iter().take(64).enumerate();
    numbered.filter(chosen).map(|(_, one)| one)
}
