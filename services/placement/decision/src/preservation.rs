//! Whether packing preserves bare-metal nodes: which nodes are available as one now, and which could be again (B-47).
use std::collections::BTreeMap;

use uuid::Uuid;

use super::simulation::Simulation;
use super::{Move, PlacedAllocation, PlanInput};
use crate::model::SlotClass;

/// A node whose allocations would all fit on other sliced nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainedNode {
    pub node_id: Uuid,
    /// What would be stopped, and where it would be recreated, in this order.
    pub moves: Vec<Move>,
}

/// The slice nodes of one class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClassReport {
    pub nodes: u32,
    /// No claims, and every slot is schedulable.
    pub baremetal_free: u32,
    /// No claims, but not all of it is available: cordoned, not ready, or a slot that is not schedulable.
    pub clean: u32,
    /// Somebody has a part of it.
    pub sliced: u32,
    /// Held as bare metal.
    pub baremetal_allocated: u32,
    /// Sliced nodes that would be free for bare metal again, each on top of the ones before it: the least GPUs first.
    pub drained: Vec<DrainedNode>,
}

/// Counts per class of slots. Nodes with slots of several classes are left out: they are not offered as bare metal.
#[must_use]
pub fn preserve(
    input: &PlanInput<'_>,
    allocations: &[PlacedAllocation],
) -> BTreeMap<SlotClass, ClassReport> {
    let mut simulation = Simulation::of(input);
    let located = simulation.locate(allocations);
    let mut reports: BTreeMap<SlotClass, ClassReport> = BTreeMap::new();
    let mut sliced = Vec::new();
    for (place, compiled) in simulation.compiled_nodes().iter().enumerate() {
        let Some(class) = compiled.class() else {
            continue;
        };
        let report = reports.entry(class).or_default();
        report.nodes += 1;
        if compiled.is_baremetal_allocated() {
            report.baremetal_allocated += 1;
        } else if compiled.is_free_for_baremetal() {
            report.baremetal_free += 1;
        } else if compiled.is_clean() {
            report.clean += 1;
        } else {
            report.sliced += 1;
            let gpus: usize = located[place]
                .iter()
                .map(|one| one.allocation.slot_ids.len())
                .sum();
            sliced.push((gpus, located[place].len(), place, class));
        }
    }
    sliced.sort_unstable();
    let mut received = vec![false; located.len()];
    for (_, _, place, class) in sliced {
        let all = &located[place];
        let movable = all.iter().all(|one| one.allocation.movable);
        if received[place]
            || all.is_empty()
            || !movable
            || !simulation.compiled_nodes()[place].can_change()
        {
            continue;
        }
        let mark = simulation.mark();
        // on a clean node it would take as much as it gives
        let Some(moves) = simulation.vacate(place, all, |to| !to.score.clean_node) else {
            continue;
        };
        if !simulation.compiled_nodes()[place].is_free_for_baremetal() {
            simulation.back_to(mark);
            continue;
        }
        for other in simulation.changed_since(mark) {
            received[other] = true;
        }
        let node_id = simulation.compiled_nodes()[place].id;
        let report = reports.entry(class).or_default();
        report.drained.push(DrainedNode { node_id, moves });
    }
    reports
}
