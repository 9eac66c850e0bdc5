//! The model: what each call makes of the ledger, told once more and without the library.
use std::collections::BTreeSet;

use gpuaas_placement::model::{AllocationState, ClaimState, SlotStatus};
use uuid::Uuid;

use super::calls::Call;
use super::fleet::Fleet;
use super::requests::End;
use super::view::View;

/// Why nothing changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum No {
    /// The state does not allow it.
    Conflict,
    /// Proof is missing.
    Evidence,
    /// Another runner has the workflow.
    Stale,
    /// The project's quota is used up.
    Quota,
    /// It fits nowhere.
    Capacity,
    /// The name is taken.
    Name,
    /// The key was used for another request.
    Key,
    /// It asks for what cannot be.
    Invalid,
}

/// What a call leads to.
#[derive(Debug)]
pub enum Foretold {
    /// This very ledger.
    Ledger(Box<View>),
    /// One of these, for a request.
    Ends(BTreeSet<End>),
    /// A reservation, or [why not](super::reserving), and what it holds is looked at.
    Hold,
    /// What [reconciling](super::reserving) led to is looked at.
    Reconciled,
    /// A pass over the queue, which is [walked](super::serving::walk) beside what the ledger made of it.
    Pass,
}

pub fn predict(call: &Call, before: &View, fleet: &Fleet) -> Result<Foretold, No> {
    let mut view = before.clone();
    match call {
        Call::Ask(ask) => {
            let ends = ask.ends(before, fleet);
            return match ends.first() {
                Some(End::No(no)) if ends.len() == 1 => Err(*no),
                _ => Ok(Foretold::Ends(ends)),
            };
        }
        Call::Serve => return Ok(Foretold::Pass),
        Call::Hold(hold) => {
            super::reserving::quota(hold, before, fleet)?;
            return Ok(Foretold::Hold);
        }
        Call::Reconcile => return Ok(Foretold::Reconciled),
        Call::Cancel(id) => super::reserving::end(&mut view, *id),
        Call::Over(id) => {
            let of = view.reservations.get_mut(id);
            of.expect("a reservation").overdue = true;
        }
        Call::Again {
            other_body: true, ..
        } => return Err(No::Key),
        Call::Again { .. }
        | Call::Gate { .. }
        | Call::Quota { .. }
        | Call::Priority { .. }
        | Call::Sequence => {}
        Call::Stale(_) => return Err(No::Stale),
        Call::Expire(id) => {
            let batch = view.queue.iter_mut().find(|batch| batch.id == *id);
            batch.expect("queued").overdue = true;
        }
        Call::Start(id) => start(&mut view, *id)?,
        Call::Activate { of, finish } => activate(&mut view, *of, *finish)?,
        Call::Fail { of, dirty } => fail(&mut view, *of, *dirty)?,
        Call::Release(id) => release(&mut view, *id)?,
        Call::Complete { of, proven } => complete(&mut view, *of, *proven)?,
        Call::Block(id) => {
            let from = [SlotStatus::Releasing];
            move_slots(&mut view, *id, &from, SlotStatus::CleanupBlocked);
            let from = [ClaimState::Releasing];
            move_claims(&mut view, *id, &from, ClaimState::CleanupBlocked);
            end(&mut view, *id, AllocationState::Released);
        }
        Call::Power { of, action } => {
            let (from, meanwhile, _) = action.powers();
            let allocation = view.allocation(*of);
            if allocation.bare_metal.is_some() || allocation.power.as_deref() != Some(from) {
                return Err(No::Conflict);
            }
            allocation.power = Some(meanwhile.to_owned());
            allocation.work = Some(action.as_str().to_owned());
        }
        Call::PowerOutcome { of, power } => {
            let allocation = view.allocation(*of);
            allocation.power = Some((*power).to_owned());
            allocation.work = None;
        }
        Call::Repair(slot) => repair(&mut view, *slot)?,
        Call::Repaired { slot, destroyed } => repaired(&mut view, *slot, *destroyed)?,
        Call::NotRepaired(slot) => not_repaired(&mut view, *slot)?,
        Call::Intent { slot, disabled } => intent(&mut view, *slot, *disabled)?,
        Call::Approve { node, upto } => approve(&mut view, *node, *upto, fleet)?,
        Call::Reinstall(node) => reinstall(&mut view, fleet.nodes[*node].id),
        Call::Mode { node, baremetal } => mode(&mut view, fleet.nodes[*node].id, *baremetal)?,
        Call::Operator { node, intent } => {
            view.node(fleet.nodes[*node].id).intent = intent.as_str().to_owned();
        }
    }
    Ok(Foretold::Ledger(Box::new(view)))
}

fn held(view: &View, id: Uuid) -> Vec<Uuid> {
    view.allocations[&id].claims.keys().copied().collect()
}

fn move_slots(view: &mut View, id: Uuid, from: &[SlotStatus], to: SlotStatus) {
    for slot in held(view, id) {
        let slot = view.slot(slot);
        if from.contains(&slot.status) {
            slot.status = to;
        }
    }
}

fn move_claims(view: &mut View, id: Uuid, from: &[ClaimState], to: ClaimState) {
    let allocation = view.allocation(id);
    let claims = allocation
        .claims
        .values_mut()
        .chain(&mut allocation.bare_metal);
    for state in claims.filter(|state| from.contains(state)) {
        *state = to;
    }
    let live = |state: &ClaimState| *state != ClaimState::Released;
    allocation.claims.retain(|_, state| live(state));
    allocation.bare_metal = allocation.bare_metal.filter(live);
}

/// An empty node is what it is meant to be.
fn apply_intended_mode(view: &mut View, node: Uuid) {
    if view.holders(node).next().is_none() {
        let node = view.node(node);
        node.baremetal = node.meant_baremetal;
    }
}

/// Ends the hold of a bare-metal node.
fn free_node(view: &mut View, id: Uuid) {
    if let Some(node) = view.allocations[&id].node {
        apply_intended_mode(view, node);
    }
}

/// What a tenant of the bare-metal node may have written to is out of service until it is approved anew.
fn retire_evidence(view: &mut View, node: Uuid) {
    for slot in view.slots.values_mut().filter(|slot| slot.node == node) {
        if matches!(slot.status, SlotStatus::Available | SlotStatus::Disabled) {
            slot.status = SlotStatus::Disabled;
            slot.generation += 1;
        }
    }
}

/// The bare-metal node that an allocation holds.
fn bare_metal_node(view: &View, id: Uuid) -> Option<Uuid> {
    let one = &view.allocations[&id];
    one.bare_metal.and(one.node)
}

/// A slot whose present generation is proven clean.
fn cleaned(view: &mut View, slot: Uuid) {
    let slot = view.slot(slot);
    slot.clean = Some(slot.generation);
    slot.status = if slot.disabled {
        SlotStatus::Disabled
    } else {
        SlotStatus::Available
    };
}

pub fn end(view: &mut View, id: Uuid, state: AllocationState) {
    let allocation = view.allocation(id);
    allocation.state = state;
    allocation.power = None;
    allocation.work = None;
}

fn start(view: &mut View, id: Uuid) -> Result<(), No> {
    match view.allocations[&id].state {
        AllocationState::Provisioning => return Ok(()),
        AllocationState::Reserved => {}
        _ => return Err(No::Conflict),
    }
    if held(view, id)
        .iter()
        .any(|slot| view.slots[slot].status != SlotStatus::Reserved)
    {
        return Err(No::Conflict);
    }
    move_slots(view, id, &[SlotStatus::Reserved], SlotStatus::Provisioning);
    move_claims(view, id, &[ClaimState::Reserved], ClaimState::Provisioning);
    if let Some(node) = bare_metal_node(view, id) {
        retire_evidence(view, node);
    }
    view.allocation(id).state = AllocationState::Provisioning;
    Ok(())
}

fn activate(view: &mut View, id: Uuid, finish: bool) -> Result<(), No> {
    match view.allocations[&id].state {
        AllocationState::Active => {}
        AllocationState::Provisioning => {
            if held(view, id)
                .iter()
                .any(|slot| view.slots[slot].status != SlotStatus::Provisioning)
            {
                return Err(No::Conflict);
            }
            move_slots(view, id, &[SlotStatus::Provisioning], SlotStatus::Active);
            move_claims(view, id, &[ClaimState::Provisioning], ClaimState::Active);
            let allocation = view.allocation(id);
            allocation.state = AllocationState::Active;
            allocation.power = Some("running".to_owned());
            allocation.periods = (1, 1);
        }
        _ => return Err(No::Conflict),
    }
    if finish {
        view.allocation(id).work = None;
    }
    Ok(())
}

fn free_untouched(view: &mut View, id: Uuid) {
    for slot in held(view, id) {
        if matches!(
            view.slots[&slot].status,
            SlotStatus::Reserved | SlotStatus::Provisioning
        ) {
            cleaned(view, slot);
        }
    }
    move_claims(
        view,
        id,
        &[ClaimState::Reserved, ClaimState::Provisioning],
        ClaimState::Released,
    );
    free_node(view, id);
}

fn fail(view: &mut View, id: Uuid, dirty: bool) -> Result<(), No> {
    if !matches!(
        view.allocations[&id].state,
        AllocationState::Reserved | AllocationState::Provisioning
    ) {
        return Err(No::Conflict);
    }
    if dirty {
        let from = [SlotStatus::Reserved, SlotStatus::Provisioning];
        move_slots(view, id, &from, SlotStatus::CleanupBlocked);
        let from = [ClaimState::Reserved, ClaimState::Provisioning];
        move_claims(view, id, &from, ClaimState::CleanupBlocked);
    } else {
        free_untouched(view, id);
    }
    end(view, id, AllocationState::Failed);
    Ok(())
}

fn release(view: &mut View, id: Uuid) -> Result<(), No> {
    match view.allocations[&id].state {
        AllocationState::Releasing | AllocationState::Released => return Ok(()),
        AllocationState::Failed => return Err(No::Conflict),
        AllocationState::Requested => {
            for batch in &mut view.queue {
                batch.members.retain(|member| *member != id);
            }
            view.queue.retain(|batch| !batch.members.is_empty());
            end(view, id, AllocationState::Released);
            return Ok(());
        }
        AllocationState::Reserved => {
            free_untouched(view, id);
            end(view, id, AllocationState::Released);
            return Ok(());
        }
        AllocationState::Provisioning | AllocationState::Active => {}
    }
    let from = [SlotStatus::Provisioning, SlotStatus::Active];
    move_slots(view, id, &from, SlotStatus::Releasing);
    let from = [ClaimState::Provisioning, ClaimState::Active];
    move_claims(view, id, &from, ClaimState::Releasing);
    end(view, id, AllocationState::Releasing);
    let allocation = view.allocation(id);
    let work = match allocation.bare_metal {
        Some(_) => "release_node",
        None => "release",
    };
    allocation.work = Some(work.to_owned());
    allocation.periods.1 = 0;
    Ok(())
}

fn complete(view: &mut View, id: Uuid, proven: bool) -> Result<(), No> {
    let wiped: Vec<Uuid> = held(view, id)
        .into_iter()
        .filter(|slot| view.slots[slot].status == SlotStatus::Releasing)
        .collect();
    if !proven && !wiped.is_empty() {
        return Err(No::Evidence);
    }
    for slot in wiped {
        cleaned(view, slot);
    }
    if let Some(node) = bare_metal_node(view, id) {
        retire_evidence(view, node);
    }
    move_claims(view, id, &[ClaimState::Releasing], ClaimState::Released);
    free_node(view, id);
    end(view, id, AllocationState::Released);
    Ok(())
}

fn repair(view: &mut View, id: Uuid) -> Result<(), No> {
    let slot = &view.slots[&id];
    if slot.status == SlotStatus::Cleanup && slot.repair {
        return Ok(());
    }
    let holder_lives = view.holder(id).is_some_and(|(_, holder)| holder.lives());
    if slot.status != SlotStatus::CleanupBlocked || slot.repair || holder_lives {
        return Err(No::Conflict);
    }
    let slot = view.slot(id);
    slot.status = SlotStatus::Cleanup;
    slot.generation += 1;
    slot.repair = true;
    Ok(())
}

fn repaired(view: &mut View, id: Uuid, destroyed: bool) -> Result<(), No> {
    match view.slots[&id].status {
        SlotStatus::Cleanup => {}
        SlotStatus::Available | SlotStatus::Disabled | SlotStatus::Retired => {
            view.slot(id).repair = false;
            return Ok(());
        }
        _ => return Err(No::Conflict),
    }
    if let Some((holder, _)) = view.holder(id) {
        view.allocation(holder).claims.remove(&id);
    }
    if destroyed {
        view.slot(id).status = SlotStatus::Retired;
        // the database itself lets go of it
        view.held.remove(&id);
    } else {
        cleaned(view, id);
    }
    view.slot(id).repair = false;
    Ok(())
}

fn not_repaired(view: &mut View, id: Uuid) -> Result<(), No> {
    let slot = view.slot(id);
    match slot.status {
        SlotStatus::Cleanup | SlotStatus::CleanupBlocked => {}
        _ => return Err(No::Conflict),
    }
    slot.status = SlotStatus::CleanupBlocked;
    slot.repair = false;
    Ok(())
}

fn intent(view: &mut View, id: Uuid, disabled: bool) -> Result<(), No> {
    let node = view.slot(id).node;
    let tenant = |one: &ClaimState| *one != ClaimState::Reserved;
    let has_tenant = view
        .holders(node)
        .any(|(_, one)| one.bare_metal.as_ref().is_some_and(tenant));
    let slot = view.slot(id);
    if slot.status == SlotStatus::Retired {
        return Err(No::Conflict);
    }
    let offered =
        slot.status == SlotStatus::Disabled && !disabled && slot.clean == Some(slot.generation);
    if offered && has_tenant {
        return Err(No::Conflict);
    }
    slot.disabled = disabled;
    match slot.status {
        SlotStatus::Available if disabled => slot.status = SlotStatus::Disabled,
        _ if offered => slot.status = SlotStatus::Available,
        _ => {}
    }
    Ok(())
}

/// Approves the slots `0..upto`; their ids are made by the fleet, so that the model knows them.
fn approve(view: &mut View, node: usize, upto: i32, fleet: &Fleet) -> Result<(), No> {
    let node_id = fleet.nodes[node].id;
    let has_tenant = view
        .holders(node_id)
        .any(|(_, one)| one.bare_metal.is_some());
    for index in 0..upto {
        let id = fleet.slot_id(node, index);
        let slot = view
            .slots
            .entry(id)
            .or_insert_with(|| super::view::SlotView {
                node: fleet.nodes[node].id,
                index,
                status: SlotStatus::Disabled,
                generation: 0,
                clean: None,
                disabled: false,
                repair: false,
            });
        if slot.status == SlotStatus::Disabled && slot.clean != Some(slot.generation) {
            if has_tenant || slot.repair {
                return Err(No::Conflict);
            }
            slot.status = SlotStatus::Cleanup;
            slot.repair = true;
        }
    }
    Ok(())
}

fn reinstall(view: &mut View, node: Uuid) {
    let slots: Vec<Uuid> = view
        .slots
        .iter()
        .filter(|(_, slot)| slot.node == node)
        .map(|(id, _)| *id)
        .collect();
    for id in slots {
        let slot = view.slot(id);
        match slot.status {
            SlotStatus::Retired | SlotStatus::CleanupBlocked => {}
            SlotStatus::Available | SlotStatus::Disabled => {
                slot.status = SlotStatus::Disabled;
                slot.generation += 1;
            }
            _ => slot.status = SlotStatus::CleanupBlocked,
        }
        if let Some((holder, _)) = view.holder(id) {
            view.allocation(holder)
                .claims
                .insert(id, ClaimState::CleanupBlocked);
        }
    }
    for (_, one) in view
        .allocations
        .iter_mut()
        .filter(|(_, one)| one.node == Some(node))
    {
        // of a blocked allocation of the bare-metal node nothing is left
        one.bare_metal = one
            .bare_metal
            .filter(|state| *state != ClaimState::CleanupBlocked);
    }
    apply_intended_mode(view, node);
}

/// A new intent makes the node what it says, unless something is there or schedulable.
fn mode(view: &mut View, node: Uuid, baremetal: bool) -> Result<(), No> {
    let held = view.holders(node).next().is_some();
    let schedulable = view
        .slots
        .values()
        .any(|slot| slot.node == node && slot.status == SlotStatus::Available);
    let seen = view.node(node);
    if seen.meant_baremetal == baremetal {
        return Ok(());
    }
    if held || schedulable && seen.intent == "enabled" {
        return Err(No::Conflict);
    }
    (seen.baremetal, seen.meant_baremetal) = (baremetal, baremetal);
    Ok(())
}
