//! Whether packing keeps whole nodes free: which nodes could be sold as one now, and which could be again (B-47).
use std::collections::BTreeMap;

use uuid::Uuid;

use super::trial::Trial;
use super::{Move, Site, Tenant};
use crate::model::SlotClass;

/// A node whose allocations would all fit on other sliced nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emptied {
    /// Node.
    pub node_id: Uuid,
    /// What would be stopped, and where it would be recreated, in this order.
    pub moves: Vec<Move>,
}

/// The slice nodes of one class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClassReport {
    /// Nodes.
    pub nodes: u32,
    /// Nobody has any of it, and every slot is on sale.
    pub whole: u32,
    /// Nobody has any of it, but not all of it can be sold: cordoned, not ready, or a slot that is not on sale.
    pub clean: u32,
    /// Somebody has a part of it.
    pub sliced: u32,
    /// Held as a whole.
    pub held_whole: u32,
    /// Sliced nodes that would be whole again, each on top of the ones before it: the least GPUs first.
    pub emptied: Vec<Emptied>,
}

/// Counts per class of slots. Nodes with slots of several classes are left out: they cannot be sold as one.
#[must_use]
pub fn preserve(site: &Site<'_>, tenants: &[Tenant]) -> BTreeMap<SlotClass, ClassReport> {
    let mut trial = Trial::of(site);
    let settled = trial.settle(tenants);
    let mut reports: BTreeMap<SlotClass, ClassReport> = BTreeMap::new();
    let mut sliced = Vec::new();
    for (place, compiled) in trial.compiled_nodes().iter().enumerate() {
        let Some(class) = compiled.class() else {
            continue;
        };
        let report = reports.entry(class).or_default();
        report.nodes += 1;
        if compiled.is_held_whole() {
            report.held_whole += 1;
        } else if compiled.is_whole() {
            report.whole += 1;
        } else if compiled.is_clean() {
            report.clean += 1;
        } else {
            report.sliced += 1;
            let gpus: usize = settled[place]
                .iter()
                .map(|one| one.tenant.slot_ids.len())
                .sum();
            sliced.push((gpus, settled[place].len(), place, class));
        }
    }
    sliced.sort_unstable();
    let mut received = vec![false; settled.len()];
    for (_, _, place, class) in sliced {
        let all = &settled[place];
        let movable = all.iter().all(|one| one.tenant.movable);
        if received[place]
            || all.is_empty()
            || !movable
            || !trial.compiled_nodes()[place].can_change()
        {
            continue;
        }
        let mark = trial.mark();
        // on a clean node it would take as much as it gives
        let Some(moves) = trial.vacate(place, all, |to| !to.score.clean_node) else {
            continue;
        };
        if !trial.compiled_nodes()[place].is_whole() {
            trial.back_to(mark);
            continue;
        }
        for other in trial.changed_since(mark) {
            received[other] = true;
        }
        let node_id = trial.compiled_nodes()[place].id;
        let report = reports.entry(class).or_default();
        report.emptied.push(Emptied { node_id, moves });
    }
    reports
}
