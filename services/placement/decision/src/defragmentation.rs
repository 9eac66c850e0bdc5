//! Which few allocations would have to be elsewhere so that more launches of a size fit.
//!
//! Every legal group of the size, on every node, names the allocations that are in its way. The cheapest such set is
//! tried first: it is moved in a copy of the fleet, by the decision that places launches, and kept if more launches fit
//! in all than before. A node that something was moved off takes nothing in the plan, and a node that took something
//! is not emptied: so the steps can be carried out in their order, each with its node cordoned.
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use uuid::Uuid;

use super::trial::{Settled, Trial};
use super::{Move, Request, Rules, Site, Tenant};

/// Most sets of allocations that are tried for one suggestion.
const TRIES: usize = 2000;

/// One node that something is moved off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Node.
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
    /// The search was given up at its bound; there may be more.
    pub cut: bool,
}

/// A set of tenants of a node, to be tried; the least costs first. The same input gives the same order (B-37).
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Set {
    gpus: usize,
    moves: usize,
    /// Launches that the node alone would take more.
    gained: Reverse<u32>,
    place: usize,
    /// Bits of the tenants among those of the node.
    tenants: u64,
    /// How often something was moved off the node before.
    version: u32,
}

struct Search<'a> {
    request: &'a Request,
    trial: Trial,
    settled: Vec<Vec<Settled<'a>>>,
    versions: Vec<u32>,
    /// Nodes that something was moved to.
    received: BTreeSet<usize>,
    sets: BinaryHeap<Reverse<Set>>,
}

/// Suggests at most so many moves that make room for more launches of a size.
#[must_use]
pub fn defragment(
    site: &Site<'_>,
    request: &Request,
    tenants: &[Tenant],
    most_moves: usize,
) -> Defragmentation {
    let before = site.fleet.count_fits(request);
    let mut found = Defragmentation {
        before,
        after: before,
        ..Defragmentation::default()
    };
    let mut trial = Trial::of(site);
    let places = trial.compiled_nodes().len();
    let mut search = Search {
        request,
        settled: trial.settle(tenants),
        trial,
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
    /// Adds the sets of a node that would make room on it.
    fn offer(&mut self, place: usize, most_moves: usize) {
        let compiled = &self.trial.compiled_nodes()[place];
        let settled = &self.settled[place];
        if !compiled.can_change() || settled.is_empty() || most_moves == 0 {
            return;
        }
        let mut sets: BTreeSet<u64> = compiled
            .in_the_way(self.request)
            .into_iter()
            .filter_map(|slots| owners(slots, settled))
            .collect();
        // the most VMs of a node, or its hugepages, may be what is in the way
        sets.extend((0..settled.len().min(64)).map(|bit| 1 << bit));
        let now = compiled.count_fits(&Rules::default(), self.request);
        for tenants in sets {
            let chosen: Vec<&Settled<'_>> = members(tenants, settled).collect();
            if chosen.len() > most_moves || !chosen.iter().all(|one| one.tenant.movable) {
                continue;
            }
            let mut after = compiled.clone();
            for one in &chosen {
                let class = one.tenant.request.slot_class;
                after.free(class, one.slots, one.tenant.hugepages_1g_back);
            }
            let gained = after
                .count_fits(&Rules::default(), self.request)
                .saturating_sub(now);
            if gained > 0 {
                self.sets.push(Reverse(Set {
                    gpus: chosen.iter().map(|one| one.tenant.slot_ids.len()).sum(),
                    moves: chosen.len(),
                    gained: Reverse(gained),
                    place,
                    tenants,
                    version: self.versions[place],
                }));
            }
        }
    }

    /// Moves a set, if each of it has another place and more launches fit then.
    fn attempt(&mut self, set: &Set) -> Option<Step> {
        let mark = self.trial.mark();
        let settled = &self.settled[set.place];
        let chosen: Vec<Settled<'_>> = members(set.tenants, settled).copied().collect();
        let moves = self.trial.vacate(set.place, &chosen, |_| true)?;
        let (before, after) = self.trial.fits_since(mark, self.request);
        if after <= before {
            self.trial.back_to(mark);
            return None;
        }
        let others = self.trial.changed_since(mark);
        self.received
            .extend(others.into_iter().filter(|place| *place != set.place));
        self.versions[set.place] += 1;
        self.settled[set.place].retain(|one| !moves.iter().any(|moved| moved.id == one.tenant.id));
        Some(Step {
            node_id: self.trial.compiled_nodes()[set.place].id,
            moves,
            gained: after - before,
        })
    }
}

/// The tenants that have any of the slots; none when somebody else has.
fn owners(slots: u64, settled: &[Settled<'_>]) -> Option<u64> {
    let mut left = slots;
    let mut owners = 0;
    for (bit, one) in settled.iter().enumerate().take(64) {
        if one.slots & slots != 0 {
            owners |= 1 << bit;
            left &= !one.slots;
        }
    }
    (left == 0).then_some(owners)
}

fn members<'a, 'b>(
    tenants: u64,
    settled: &'b [Settled<'a>],
) -> impl Iterator<Item = &'b Settled<'a>> {
    let chosen = move |(bit, _): &(usize, &Settled<'a>)| tenants >> bit & 1 == 1;
    let numbered = settled.iter().take(64).enumerate();
    numbered.filter(chosen).map(|(_, one)| one)
}
