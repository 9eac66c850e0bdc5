//! What one pass over the queue leads to: the queue is walked in its order beside the ledger's own answer.
use std::collections::BTreeSet;

use gpuaas_placement::model::AllocationState;
use gpuaas_placement::reserve::Pass;
use uuid::Uuid;

use super::fleet::Fleet;
use super::free_capacity::{FreeCapacity, Rule, Who, able_ones, item_of, order};
use super::predict::{No, end};
use super::requests::{Desired, to_the_end};
use super::view::{Batch, View};

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Served,
    Ended,
    Waits,
}

/// How far a pass came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To its end.
    Whole,
    /// To its end, but it lost its connection: nothing is kept for sure, and one batch may have been passed over, the
    /// one that was worked on.
    Cut,
    /// It gave up somewhere, or left a queue for the next time: what it did not come to waits on.
    BrokenOff,
}

/// Checks a pass, and returns what it should have answered.
pub fn walk(before: &View, after: &View, fleet: &Fleet, way: Way) -> Result<Pass, String> {
    let cut = way != Way::Whole;
    let mut now = before.clone();
    let mut pass = Pass::default();
    if before.queue.is_empty() {
        // nobody looks at a queue in which nobody is queued; what was kept for one that left is for everybody
        return if now == *after {
            Ok(pass)
        } else {
            Err(now.difference(after))
        };
    }
    let mut passed_over = false;
    let mut looked_at = BTreeSet::new();
    // who was served goes to the end of the round robin, so those behind may change places on the way
    let next = |now: &View, looked_at: &mut BTreeSet<Uuid>| {
        let mut queue = order(now, fleet, None).into_iter();
        queue.find(|batch| looked_at.insert(batch.id))
    };
    while let Some(batch) = next(&now, &mut looked_at) {
        let fate = fate(&batch, after)?;
        let (may, for_quota) = fates(&batch, &now, fleet);
        if !may.contains(&fate) {
            let once_too_often = passed_over && way != Way::BrokenOff;
            if !cut || once_too_often || fate != Fate::Waits {
                return Err(format!("{fate:?}, but should be one of {may:?}: {batch:?}"));
            }
            passed_over = true;
        }
        match fate {
            Fate::Waits => {
                let seen = after.queue.iter().find(|one| one.id == batch.id);
                let seen = seen.ok_or("a batch is lost")?;
                let waits = now.queue.iter_mut().find(|one| one.id == batch.id);
                let waits = waits.ok_or("it is not in the queue")?;
                // a batch may be refused for either
                waits.for_quota = match for_quota {
                    Some(quota) if !cut => quota,
                    _ => seen.for_quota,
                };
            }
            Fate::Ended => {
                now.queue.retain(|one| one.id != batch.id);
                for id in &batch.members {
                    end(&mut now, *id, AllocationState::Failed);
                }
                pass.ended.extend(&batch.members);
            }
            Fate::Served => {
                let items: Vec<_> = batch.members.iter().map(|id| item_of(fleet, *id)).collect();
                now = desired(&batch, &items, fleet)
                    .placed(&batch.members, &now, fleet, after)
                    .map_err(|reason| format!("{batch:?}: {reason}"))?;
                now.queue.retain(|one| one.id != batch.id);
                to_the_end(&mut now.round_robin, batch.project);
                pass.served.extend(&batch.members);
            }
        }
    }
    now.kept.clone_from(&after.kept);
    if now != *after {
        return Err(now.difference(after));
    }
    if !cut {
        kept(after, fleet)?;
    }
    Ok(pass)
}

fn desired<'a>(batch: &Batch, items: &'a [super::draw::Item], fleet: &'a Fleet) -> Desired<'a> {
    let launched = &fleet.launched[&batch.members[0]];
    Desired {
        who: Who::Batch(batch.id),
        project: launched.project,
        items,
        place: &launched.place,
    }
}

/// What became of a batch, all of it.
fn fate(batch: &Batch, after: &View) -> Result<Fate, String> {
    let states: BTreeSet<&str> = batch
        .members
        .iter()
        .map(|id| after.allocations[id].state.as_str())
        .collect();
    match states.into_iter().collect::<Vec<_>>().as_slice() {
        ["requested"] => Ok(Fate::Waits),
        ["reserved"] => Ok(Fate::Served),
        ["failed"] => Ok(Fate::Ended),
        mixed => Err(format!("{batch:?} came apart: {mixed:?}")),
    }
}

/// What may become of a batch, and whether it waits for its quota, where that is clear.
fn fates(batch: &Batch, now: &View, fleet: &Fleet) -> (Vec<Fate>, Option<bool>) {
    if batch.overdue {
        return (vec![Fate::Ended], None);
    }
    let items: Vec<_> = batch.members.iter().map(|id| item_of(fleet, *id)).collect();
    let ends = desired(batch, &items, fleet).ends(now, fleet);
    let fates = ends.iter().map(|end| match end {
        Ok(()) => Fate::Served,
        Err(No::Invalid) => Fate::Ended,
        Err(_) => Fate::Waits,
    });
    let quota = ends.contains(&Err(No::Quota));
    let capacity = ends.contains(&Err(No::Capacity));
    (fates.collect(), (quota != capacity).then_some(quota))
}

/// Nodes are kept for the first that could be helped, and for nobody else. For one allocation it is the node with
/// most free slots on which it would fit if everybody left; for a batch they are nodes on which it would.
fn kept(view: &View, fleet: &Fleet) -> Result<(), String> {
    let emptied = FreeCapacity::of(view, fleet).emptied();
    let batches: BTreeSet<Uuid> = view.kept.values().copied().collect();
    for batch in able_ones(view, fleet) {
        if let [id] = batch.members.as_slice() {
            let Some(node) = best(*id, view, fleet, &emptied) else {
                continue;
            };
            return if view.kept.iter().eq([(&node, &batch.id)]) {
                Ok(())
            } else {
                Err(format!(
                    "{node} is to be kept for {batch:?}, not {:?}",
                    view.kept
                ))
            };
        }
        if batches.contains(&batch.id) {
            let alone = batches.len() == 1 && view.kept.len() <= batch.members.len();
            return if alone && holds(&batch, view, fleet, &emptied) {
                Ok(())
            } else {
                Err(format!("{:?} is kept for {batch:?}", view.kept))
            };
        }
        // whether a batch could be helped depends on how it is laid out
    }
    if view.kept.is_empty() {
        return Ok(());
    }
    Err(format!("{:?} is kept for nobody", view.kept))
}

fn best(id: Uuid, view: &View, fleet: &Fleet, emptied: &FreeCapacity) -> Option<Uuid> {
    let launched = &fleet.launched[&id];
    let rule = Rule::of(view, fleet, launched.project, &launched.place, true)?;
    let free = FreeCapacity::of(view, fleet);
    emptied
        .choices(item_of(fleet, id), &rule, Some(launched.project))
        .into_iter()
        .map(|(place, _)| (u32::MAX - free.free_of(place), free.0[place].id))
        .min()
        .map(|(_, id)| id)
}

/// Whether the kept nodes could hold a whole batch once everybody on them has gone.
fn holds(batch: &Batch, view: &View, fleet: &Fleet, emptied: &FreeCapacity) -> bool {
    let only: Vec<_> = emptied
        .0
        .iter()
        .filter(|node| view.kept.contains_key(&node.id))
        .cloned()
        .collect();
    fits(&batch.members, view, fleet, &FreeCapacity(only))
}

fn fits(ids: &[Uuid], view: &View, fleet: &Fleet, capacity: &FreeCapacity) -> bool {
    let Some((id, others)) = ids.split_first() else {
        return true;
    };
    let launched = &fleet.launched[id];
    let Some(rule) = Rule::of(view, fleet, launched.project, &launched.place, true) else {
        return false;
    };
    let item = item_of(fleet, *id);
    let choices = capacity.choices(item, &rule, Some(launched.project));
    choices.into_iter().any(|choice| {
        let mut left = capacity.clone();
        left.take(choice, item, usize::MAX);
        fits(others, view, fleet, &left)
    })
}
