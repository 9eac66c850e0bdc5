//! The model: what each call makes of the ledger, told once more and without the library.
use std::collections::BTreeMap;

use gpuaas_placement::model::{AllocationState, ClaimState, SlotStatus};
use uuid::Uuid;

use super::calls::Call;
use super::fleet::{Fleet, GROUPS};
use super::view::{AllocationView, View};

/// Why nothing changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

/// What a call leads to; `Ok(None)` for a create, whose slots the ledger chooses.
pub type Prediction = Result<Option<View>, No>;

pub fn predict(call: &Call, before: &View, fleet: &Fleet) -> Prediction {
    let mut view = before.clone();
    match call {
        Call::Create {
            project,
            count,
            name_of,
        } => return create(*project, *count, *name_of, before, fleet),
        Call::Again {
            other_body: true, ..
        } => return Err(No::Key),
        Call::Again { .. }
        | Call::Gate { .. }
        | Call::Drain { .. }
        | Call::Quota { .. }
        | Call::Stamp => {}
        Call::Stale(_) => return Err(No::Stale),
        Call::Start(id) => start(&mut view, *id)?,
        Call::Activate { of, finish } => activate(&mut view, *of, *finish)?,
        Call::Fail { of, dirty } => fail(&mut view, *of, *dirty)?,
        Call::Release(id) => release(&mut view, *id)?,
        Call::Complete { of, proven } => complete(&mut view, *of, *proven)?,
        Call::Block(id) => {
            move_slots(
                &mut view,
                *id,
                &[SlotStatus::Releasing],
                SlotStatus::CleanupBlocked,
            );
            move_claims(
                &mut view,
                *id,
                &[ClaimState::Releasing],
                ClaimState::CleanupBlocked,
            );
            end(&mut view, *id, AllocationState::Released);
        }
        Call::Power { of, action } => {
            let (from, meanwhile, _) = action.powers();
            let allocation = view.allocation(*of);
            if allocation.power.as_deref() != Some(from) {
                return Err(No::Conflict);
            }
            allocation.power = Some(meanwhile.to_owned());
            allocation.work = Some(action.as_str().to_owned());
        }
        Call::Settle { of, power } => {
            let allocation = view.allocation(*of);
            allocation.power = Some((*power).to_owned());
            allocation.work = None;
        }
        Call::Repair(slot) => repair(&mut view, *slot)?,
        Call::Repaired { slot, destroyed } => repaired(&mut view, *slot, *destroyed)?,
        Call::NotRepaired(slot) => not_repaired(&mut view, *slot)?,
        Call::Intent { slot, disabled } => intent(&mut view, *slot, *disabled)?,
        Call::Approve { node, upto } => approve(&mut view, *node, *upto, fleet),
        Call::Reinstall(node) => reinstall(&mut view, fleet.nodes[*node].id),
    }
    Ok(Some(view))
}

fn create(
    project: usize,
    count: u32,
    name_of: Option<Uuid>,
    view: &View,
    fleet: &Fleet,
) -> Prediction {
    let used: u32 = view
        .allocations
        .iter()
        .filter(|(id, one)| one.lives() && fleet.sold[id].0 == project)
        .map(|(id, _)| fleet.sold[id].1)
        .sum();
    if used + count > fleet.quotas[project] {
        return Err(No::Quota);
    }
    if (0..fleet.nodes.len()).all(|node| legal(view, fleet, node, count).is_empty()) {
        return Err(No::Capacity);
    }
    // a name is of a project: only there it is taken
    if name_of.is_some_and(|id| fleet.sold[&id].0 == project && view.allocations[&id].lives()) {
        return Err(No::Name);
    }
    Ok(None)
}

/// Every set of slot indexes of a node that may be sold together now.
pub fn legal(view: &View, fleet: &Fleet, node: usize, count: u32) -> Vec<Vec<i32>> {
    let node = &fleet.nodes[node];
    let vms = view
        .allocations
        .values()
        .filter(|one| {
            one.claims.iter().any(|(slot, state)| {
                *state != ClaimState::CleanupBlocked && view.slots[slot].node == node.id
            })
        })
        .count();
    if node.draining
        || !node.schedulable
        || !node.healthy
        || (node.max_vms > 0 && vms >= node.max_vms)
    {
        return Vec::new();
    }
    let free: Vec<i32> = view
        .slots
        .values()
        .filter(|slot| slot.node == node.id && slot.status == SlotStatus::Available)
        .map(|slot| slot.index)
        .collect();
    if count == 1 {
        return free.into_iter().map(|index| vec![index]).collect();
    }
    GROUPS
        .iter()
        .filter(|group| group.len() == count as usize)
        .map(|group| {
            group
                .iter()
                .map(|module| *module as i32 - 1)
                .collect::<Vec<_>>()
        })
        .filter(|group| group.iter().all(|index| free.contains(index)))
        .collect()
}

/// A create that took these slots.
pub fn created(before: &View, id: Uuid, slots: impl IntoIterator<Item = Uuid>) -> View {
    let mut view = before.clone();
    let mut claims = BTreeMap::new();
    for slot in slots {
        claims.insert(slot, ClaimState::Reserved);
        let slot = view.slot(slot);
        slot.status = SlotStatus::Reserved;
        slot.generation += 1;
    }
    let allocation = AllocationView {
        state: AllocationState::Reserved,
        power: None,
        claims,
        work: Some("provision".to_owned()),
        periods: (0, 0),
    };
    view.allocations.insert(id, allocation);
    view
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
    for state in view
        .allocation(id)
        .claims
        .values_mut()
        .filter(|state| from.contains(state))
    {
        *state = to;
    }
    view.allocation(id)
        .claims
        .retain(|_, state| *state != ClaimState::Released);
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

fn end(view: &mut View, id: Uuid, state: AllocationState) {
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

fn give_back_untouched(view: &mut View, id: Uuid) {
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
        give_back_untouched(view, id);
    }
    end(view, id, AllocationState::Failed);
    Ok(())
}

fn release(view: &mut View, id: Uuid) -> Result<(), No> {
    match view.allocations[&id].state {
        AllocationState::Releasing | AllocationState::Released => return Ok(()),
        AllocationState::Requested | AllocationState::Failed => return Err(No::Conflict),
        AllocationState::Reserved => {
            give_back_untouched(view, id);
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
    allocation.work = Some("release".to_owned());
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
    move_claims(view, id, &[ClaimState::Releasing], ClaimState::Released);
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
    let slot = view.slot(id);
    if slot.status == SlotStatus::Retired {
        return Err(No::Conflict);
    }
    slot.disabled = disabled;
    match slot.status {
        SlotStatus::Available if disabled => slot.status = SlotStatus::Disabled,
        SlotStatus::Disabled if !disabled && slot.clean == Some(slot.generation) => {
            slot.status = SlotStatus::Available;
        }
        _ => {}
    }
    Ok(())
}

/// Approves the slots `0..upto`; their ids are made by the fleet, so that the model knows them.
fn approve(view: &mut View, node: usize, upto: i32, fleet: &Fleet) {
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
            cleaned(view, id);
        }
    }
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
}
