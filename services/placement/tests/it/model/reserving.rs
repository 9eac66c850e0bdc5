//! What capacity reservations may hold: which slots is the decision's business, and only checked.
use std::collections::{BTreeMap, BTreeSet};

use gpuaas_placement::model::SlotStatus;
use uuid::Uuid;

use super::calls::Hold;
use super::draw::Item;
use super::fleet::{Fleet, GPUS};
use super::free_capacity::{FreeCapacity, Rule};
use super::predict::No;
use super::view::{ReservationView, View};

/// A reservation that exceeds the quota is refused. All windows of a run overlap.
pub fn quota(hold: &Hold, view: &View, fleet: &Fleet) -> Result<(), No> {
    let project = fleet.projects[hold.project];
    let own = view.reservations.values();
    let own =
        own.filter(|of| of.project == project && of.bare_metal == hold.bare_metal && !of.overdue);
    let reserved: usize = own.map(|of| of.gpus).sum();
    let most = fleet.quota(hold.project, hold.bare_metal) as usize;
    if reserved + hold.gpus as usize > most {
        return Err(No::Quota);
    }
    Ok(())
}

/// It is over, and holds nothing.
pub fn end(view: &mut View, id: Uuid) {
    view.reservations.remove(&id);
    view.held.retain(|_, of| *of != id);
}

/// GPUs that can be held one by one, at least and at most: with a limit of VMs it depends on how they are grouped.
fn open(view: &View, fleet: &Fleet, bare_metal: bool) -> (u32, u32) {
    let capacity = FreeCapacity::of(view, fleet);
    if bare_metal {
        let item = Item {
            count: GPUS,
            bare_metal,
        };
        let nodes = capacity.choices(item, &Rule::default(), None).len();
        let gpus = GPUS * u32::try_from(nodes).expect("few");
        return (gpus, gpus);
    }
    let nodes = capacity
        .0
        .iter()
        .filter(|node| node.open && !node.baremetal);
    let nodes = nodes.filter(|node| node.takes_more());
    nodes.fold((0, 0), |(least, most), node| {
        let free = node.free.count_ones();
        let sure = if node.is_unlimited() {
            free
        } else {
            free.min(1)
        };
        (least + sure, most + free)
    })
}

/// Whether a reservation may have been refused for capacity.
pub fn may_be_refused(hold: &Hold, view: &View, fleet: &Fleet) -> bool {
    !hold.gather && open(view, fleet, hold.bare_metal).0 < hold.gpus
}

/// Whether a slot that is held can still be launched on.
fn fits(view: &View, fleet: &Fleet, slot: Uuid) -> bool {
    let seen = &view.slots[&slot];
    let node = fleet.nodes.iter().find(|node| node.id == seen.node);
    let enabled = view.nodes[&seen.node].intent == "enabled";
    match seen.status {
        SlotStatus::Cleanup | SlotStatus::CleanupBlocked => false,
        _ if view.in_use(slot) => true,
        SlotStatus::Available => node.is_some_and(|node| node.healthy) && enabled,
        _ => false,
    }
}

/// The ledger after a reservation was made: what it holds was free, and is all of it when it had to be.
pub fn made(
    hold: &Hold,
    id: Uuid,
    before: &View,
    after: &View,
    fleet: &Fleet,
    whole_way: bool,
) -> Result<View, String> {
    let mut now = before.clone();
    let of = ReservationView {
        project: fleet.projects[hold.project],
        gpus: hold.gpus as usize,
        bare_metal: hold.bare_metal,
        overdue: false,
    };
    now.reservations.insert(id, of);
    take(&mut now, before, after, fleet)?;
    let missing = hold.gpus as usize - now.holds(id).min(hold.gpus as usize);
    if missing > 0 && !hold.gather {
        return Err(format!("{missing} GPUs are missing"));
    }
    if whole_way {
        nothing_left(&now, fleet, id)?;
    }
    Ok(now)
}

/// The ledger after reservations were reconciled: what was let go could not be launched on, or not alone, or its window was
/// over; what is held besides was free; and with `whole_way` nothing is left to do.
pub fn reconciled(
    before: &View,
    after: &View,
    fleet: &Fleet,
    whole_way: bool,
) -> Result<View, String> {
    let mut now = before.clone();
    let over = before.reservations.iter();
    for (id, _) in over.filter(|(id, of)| of.overdue && !after.reservations.contains_key(id)) {
        end(&mut now, *id);
    }
    let held: Vec<(Uuid, Uuid)> = now.held.iter().map(|(slot, of)| (*slot, *of)).collect();
    for (slot, of) in held {
        let node = before.slots[&slot].node;
        let of_node = |held: &BTreeMap<Uuid, Uuid>| -> Vec<Uuid> {
            let of_it = held.iter().filter(|(_, by)| **by == of);
            let slots = of_it.map(|(other, _)| *other);
            slots
                .filter(|other| before.slots[other].node == node)
                .collect()
        };
        let part = now.reservations[&of].bare_metal && !before.in_use(slot) && {
            let all = of_node(&before.held);
            all.len() < GPUS as usize || all.iter().any(|other| !fits(before, fleet, *other))
        };
        // a part is let go, and may be held again at once, when the bare-metal node can be
        let all = GPUS as usize;
        let again = part && of_node(&before.held).len() < all && of_node(&after.held).len() == all;
        if after.held.get(&slot) == Some(&of) && !again {
            if whole_way && !fits(before, fleet, slot) {
                return Err(format!("{slot} is kept for {of} and does not fit"));
            }
            continue;
        }
        if fits(before, fleet, slot) && !part {
            return Err(format!("{slot} was let go and fits"));
        }
        now.held.remove(&slot);
    }
    take(&mut now, before, after, fleet)?;
    if whole_way {
        for (id, of) in &now.reservations {
            if of.overdue {
                return Err(format!("{id} is over"));
            }
            nothing_left(&now, fleet, *id)?;
        }
    }
    Ok(now)
}

/// Takes what is held in `after` and not yet, where it is free.
fn take(now: &mut View, before: &View, after: &View, fleet: &Fleet) -> Result<(), String> {
    let new = after
        .held
        .iter()
        .filter(|(slot, of)| now.held.get(*slot) != Some(*of));
    let new: Vec<(Uuid, Uuid)> = new.map(|(slot, of)| (*slot, *of)).collect();
    let capacity = FreeCapacity::of(now, fleet);
    for (slot, of) in new {
        let seen = &before.slots[&slot];
        let node = capacity.0.iter().find(|node| node.id == seen.node);
        let node = node.ok_or("no such node")?;
        let bare_metal = match now.reservations.get(&of) {
            Some(reservation) => reservation.bare_metal,
            None => return Err(format!("{slot} is held for {of}, which there is not")),
        };
        let free = node.free >> seen.index & 1 == 1 && node.open;
        let right = if bare_metal {
            node.free == u8::MAX
        } else {
            !node.baremetal && node.takes_more()
        };
        if !free || !right {
            return Err(format!(
                "{slot} is held for {of} and was not free: {node:?}"
            ));
        }
        if now.held.insert(slot, of).is_some() {
            return Err(format!("{slot} was held for another"));
        }
    }
    for (id, of) in &now.reservations {
        if now.holds(*id) > of.gpus {
            return Err(format!("{id} holds more than {of:?}"));
        }
    }
    Ok(())
}

/// Nothing that a reservation lacks could be held.
fn nothing_left(view: &View, fleet: &Fleet, id: Uuid) -> Result<(), String> {
    let of = &view.reservations[&id];
    let missing = of.gpus - view.holds(id).min(of.gpus);
    let (free, _) = open(view, fleet, of.bare_metal);
    let least = if of.bare_metal { GPUS as usize } else { 1 };
    if missing >= least && free > 0 {
        return Err(format!(
            "{missing} are missing of {of:?}, and {free} are free"
        ));
    }
    Ok(())
}

/// The reservation that is there after and was not before.
pub fn new_one(before: &View, after: &View) -> Option<Uuid> {
    let known: BTreeSet<&Uuid> = before.reservations.keys().collect();
    after
        .reservations
        .keys()
        .find(|id| !known.contains(id))
        .copied()
}
