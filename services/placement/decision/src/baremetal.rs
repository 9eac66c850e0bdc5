//! Bare-metal nodes: which of them are available, in which order, and why the others are not.
use crate::Cause;
use uuid::Uuid;

use super::unschedulable::{NodeReasons, ReasonCounts, none_offered};
use super::{CandidateSlot, Request, Rules};
use crate::UnschedulableReason;
use crate::model::{Health, SlotStatus};

/// A node as input of the decision about bare-metal nodes.
#[derive(Debug, Clone)]
pub struct BaremetalCandidate {
    pub id: Uuid,
    /// It is in mode baremetal already; an empty slice node changes its mode when it is allocated.
    pub baremetal: bool,
    /// Neither cordoned nor draining.
    pub enabled: bool,
    /// The host is ready.
    pub schedulable: bool,
    /// A live claim of either kind is on it.
    pub held: bool,
    /// All its slots but retired ones.
    pub slots: Vec<CandidateSlot>,
}

/// The nodes available as bare metal with exactly so many GPUs of the class, best first, and what removes the
/// others. A node whose every slot is free has every disk proven clean (P2): nothing less is allocated.
#[must_use]
pub fn judge_baremetal(
    rules: &Rules,
    request: &Request,
    nodes: &[BaremetalCandidate],
) -> (Vec<Uuid>, Vec<UnschedulableReason>) {
    let (fit, others) = judged(rules, request, nodes);
    let removed = sum(&fit, &others, request);
    (fit, removed)
}

/// What removes nodes in sum, and each node: available ones, best first, then the others with the reasons and their
/// GPUs. A node of another size or class has no reasons.
#[must_use]
pub fn judge_each_baremetal(
    rules: &Rules,
    request: &Request,
    nodes: &[BaremetalCandidate],
) -> (Vec<UnschedulableReason>, Vec<Judged>) {
    let (fit, others) = judged(rules, request, nodes);
    let removed = sum(&fit, &others, request);
    let fit = fit.into_iter().map(|id| (id, Ok(())));
    let others = others.into_iter().map(|(id, reasons)| {
        let mut counts = ReasonCounts::default();
        counts.add(&reasons);
        (id, Err(counts.reasons(request.gpu_count)))
    });
    (removed, fit.chain(others).collect())
}

/// A node, and the reasons why it is not available as bare metal.
pub type Judged = (Uuid, Result<(), Vec<UnschedulableReason>>);

fn sum(
    fit: &[Uuid],
    others: &[(Uuid, NodeReasons)],
    request: &Request,
) -> Vec<UnschedulableReason> {
    let mut counts = ReasonCounts::default();
    others.iter().for_each(|(_, reasons)| counts.add(reasons));
    let reasons = counts.reasons(request.gpu_count);
    if fit.is_empty() && reasons.is_empty() {
        return vec![none_offered("a whole of this kind and size")];
    }
    reasons
}

fn judged(
    rules: &Rules,
    request: &Request,
    nodes: &[BaremetalCandidate],
) -> (Vec<Uuid>, Vec<(Uuid, NodeReasons)>) {
    let mut fit = Vec::new();
    let mut others = Vec::new();
    for node in nodes {
        match verdict(rules, request, node) {
            Ok(()) => fit.push(node),
            Err(reasons) => others.push((node.id, reasons)),
        }
    }
    // what is reserved for the project comes first, then what is bare metal already, so that slices keep their nodes
    fit.sort_by_key(|node| {
        let open = node.slots.iter().any(|slot| slot.reserved.is_none());
        (open, !node.baremetal, node.id)
    });
    (fit.into_iter().map(|node| node.id).collect(), others)
}

/// It is reserved for another project, or not by what the rules allow.
fn is_anothers(slot: &CandidateSlot, rules: &Rules) -> bool {
    let of = slot.reserved.map(|reserved| reserved.project_id);
    (of.is_some() && of != rules.project) || !rules.allow_slot(slot.id)
}

fn verdict(rules: &Rules, request: &Request, node: &BaremetalCandidate) -> Result<(), NodeReasons> {
    let all = u32::try_from(node.slots.len()).unwrap_or(u32::MAX);
    let of_class = |slot: &CandidateSlot| slot.class == request.slot_class;
    let requested = rules.only_slots.is_none() || rules.allow(node.id);
    if node.slots.len() != request.gpu_count.get() as usize
        || !node.slots.iter().all(of_class)
        || !requested
    {
        // a node of another size or class was not requested: nothing to explain
        return Err(NodeReasons::default());
    }
    let blocked = if !rules.allow(node.id) {
        Some(Cause::Affinity)
    } else if rules.queued_ahead.contains(&node.id) {
        Some(Cause::QueuedAhead)
    } else if !node.enabled {
        Some(Cause::NodeDraining)
    } else if !node.schedulable {
        Some(Cause::HostNotReady)
    } else {
        None
    };
    if let Some(reason) = blocked {
        let mut reasons = NodeReasons::default();
        reasons.note(reason, all);
        return Err(reasons);
    }
    let mut reasons = NodeReasons::default();
    for slot in &node.slots {
        let reason = match slot.status {
            SlotStatus::CleanupBlocked => Cause::CleanupBlocked,
            SlotStatus::Disabled | SlotStatus::Retired => Cause::IncompleteSlot,
            SlotStatus::Available if slot.held => Cause::SlotsInUse,
            SlotStatus::Available if is_anothers(slot, rules) => Cause::CapacityReserved,
            SlotStatus::Available if !slot.complete => Cause::IncompleteSlot,
            SlotStatus::Available if slot.health != Health::Healthy => Cause::SlotUnhealthy,
            SlotStatus::Available => continue,
            SlotStatus::Cleanup if !slot.held => Cause::DisksBeingWiped,
            _ => Cause::SlotsInUse,
        };
        reasons.note(reason, 1);
    }
    if reasons.is_empty() && node.held {
        reasons.note(Cause::SlotsInUse, all);
    }
    if reasons.is_empty() {
        Ok(())
    } else {
        Err(reasons)
    }
}
