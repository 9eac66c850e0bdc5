//! Where the allocations of nodes would fit if the nodes had to be empty.
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::simulation::Simulation;
use super::{Choice, PlanInput, Request, Rules};
use crate::UnschedulableReason;

/// A displaced allocation: it would have to leave its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisplacedAllocation {
    /// Allocation.
    pub id: Uuid,
    /// Its spec if it were launched again.
    pub request: Request,
    /// A node on which one of each of these is.
    pub affinity: Vec<Vec<Uuid>>,
    /// No node of one of these allocations.
    pub anti_affinity: Vec<Uuid>,
    /// Nodes on which a queued request is before it.
    pub queued_ahead: Arc<BTreeSet<Uuid>>,
}

/// Where each would be placed when all leave, the largest first and each as if those before it were placed already,
/// or the reasons. The drained nodes are not among those of the input. `node_of` names where the
/// allocations are now that `affinity` and `anti_affinity` name. The answers are in the order in which they were placed: their
/// ids first.
#[must_use]
pub fn evacuate(
    input: &PlanInput<'_>,
    displaced: &[DisplacedAllocation],
    node_of: &HashMap<Uuid, Uuid>,
) -> Vec<(Uuid, Result<Choice, Vec<UnschedulableReason>>)> {
    let mut simulation = Simulation::of(input);
    let mut node_of = node_of.clone();
    for one in displaced {
        // where it is now is where it will not be
        node_of.remove(&one.id);
    }
    in_order(displaced)
        .into_iter()
        .map(|(one, begins_ring)| {
            let nodes = |ids: &Vec<Uuid>| -> BTreeSet<Uuid> {
                ids.iter()
                    .filter_map(|id| node_of.get(id).copied())
                    .collect()
            };
            let mut affinity: Vec<BTreeSet<Uuid>> = one.affinity.iter().map(nodes).collect();
            // whoever launches it again leaves out an affinity that nothing is left for
            affinity.retain(|nodes| !begins_ring || !nodes.is_empty());
            let rules = Rules {
                packing_strategy: input.packing_strategy,
                // a plan counts on nothing that is reserved
                project: None,
                only_slots: None,
                // no node at all: nothing that its affinity allows is placed
                only: affinity.into_iter().reduce(|all, of| &all & &of),
                avoid: nodes(&one.anti_affinity),
                queued_ahead: (*one.queued_ahead).clone(),
            };
            let admits =
                |node_id: Uuid| rules.allow(node_id) && !rules.queued_ahead.contains(&node_id);
            let outcome = match simulation.put(&one.request, admits) {
                Some(choice) => {
                    node_of.insert(one.id, choice.node_id);
                    Ok(choice)
                }
                None => {
                    let mut causes = simulation.rank(&rules, &one.request).removed();
                    causes.extend(simulation.tangled(&rules, &one.request));
                    Err(causes)
                }
            };
            (one.id, outcome)
        })
        .collect()
}

/// The largest first, but none before those that its affinity names; and whether it begins a cycle of those with affinity to
/// each other, as all do that have the label they name: nothing is left for its affinity.
fn in_order(displaced: &[DisplacedAllocation]) -> Vec<(&DisplacedAllocation, bool)> {
    let mut left: Vec<&DisplacedAllocation> = displaced.iter().collect();
    left.sort_by_key(|one| (std::cmp::Reverse(one.request.gpu_count), one.id));
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let waiting: HashSet<Uuid> = left.iter().map(|one| one.id).collect();
        let waits = |id: &Uuid| waiting.contains(id);
        let blocked = |one: &&DisplacedAllocation| one.affinity.iter().flatten().any(waits);
        let (after, now): (Vec<_>, Vec<_>) = left.into_iter().partition(blocked);
        left = after;
        if now.is_empty() {
            let begins = in_cycle(&left);
            ordered.push((left.remove(begins), true));
        }
        ordered.extend(now.into_iter().map(|one| (one, false)));
    }
    ordered
}

/// The index of one of a cycle, where each has another before it: the first that is met twice.
fn in_cycle(blocked: &[&DisplacedAllocation]) -> usize {
    let place_of: HashMap<Uuid, usize> = (0..).zip(blocked).map(|(at, one)| (one.id, at)).collect();
    let mut seen = HashSet::new();
    let mut at = 0;
    while seen.insert(at) {
        let mut before = blocked[at].affinity.iter().flatten();
        at = before
            .find_map(|id| place_of.get(id).copied())
            .unwrap_or(at);
    }
    at
}
