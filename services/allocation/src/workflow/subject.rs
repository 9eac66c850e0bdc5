//! What a workflow works on, as it is sent to its host: slots with tokens and bindings, the VM's shape.

use gpuaas_placement::model::{Allocation, Claim, ClaimState, Profile};
use gpuaas_placement::{Scope, allocations, claims, nodes, repair, slots};
use gpuaas_proto::gpuaas::agent::v1::{FailureClass, FencingToken, SlotGrant, SlotToken, VmShape};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use super::failure::StepError;
use super::work::Work;
use crate::domain::wipe::ExpectedWipe;
use crate::store::workflow_rows;

/// Slots of one allocation on one node, under the token of this taking.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The allocation the host knows the slots by.
    pub allocation_id: Uuid,
    pub node_id: Uuid,
    /// The host instance that the work is on: that of the claim.
    pub instance_id: Uuid,
    /// Where its agent answers.
    pub agent_address: String,
    /// The slots, boot slot first (D-70).
    pub grants: Vec<SlotGrant>,
    /// The VM.
    pub shape: VmShape,
}

impl Subject {
    /// Proof that these slots are the caller's to work on.
    pub fn tokens(&self) -> Vec<SlotToken> {
        let token = |grant: &SlotGrant| SlotToken {
            slot_id: grant.slot_id.clone(),
            token: grant.token,
        };
        self.grants.iter().map(token).collect()
    }

    /// What a wipe of these slots must prove.
    pub fn expected_wipes(&self) -> Vec<ExpectedWipe> {
        let expected = |grant: &SlotGrant| {
            let bindings = grant.bindings.clone().unwrap_or_default();
            ExpectedWipe {
                node_id: self.node_id.to_string(),
                instance_id: self.instance_id.to_string(),
                allocation_id: self.allocation_id.to_string(),
                slot_id: grant.slot_id.clone(),
                generation: grant
                    .token
                    .as_ref()
                    .map_or(0, |token| token.slot_generation),
                policy: bindings.destructive_wipe_policy,
                disk_identity: bindings.nvme_device,
                disk_bytes: bindings.nvme_bytes,
            }
        };
        self.grants.iter().map(expected).collect()
    }
}

/// What the work is on: the slot under repair, or what its allocation holds.
///
/// # Errors
/// Those of the ledger.
pub async fn of_work(work: &Work) -> Result<Subject, StepError> {
    match work.taken.slot_id {
        Some(_) => under_repair(work).await,
        None => Ok(of_allocation(work).await?.1),
    }
}

/// The slot under repair.
///
/// # Errors
/// Those of the ledger.
pub async fn under_repair(work: &Work) -> Result<Subject, StepError> {
    let node_id = workflow_rows::node_of(&work.deps.pool, None, Some(work.slot_id()?));
    let node_id = work.deps.within(node_id).await?;
    let unknown = || {
        StepError::fail(
            ErrorReason::SlotNotFound,
            "no such slot",
            FailureClass::Host,
        )
    };
    of_slot(work, node_id.ok_or_else(unknown)?).await
}

/// Loads the allocation and what it still holds. What waits for a repair is part of no work but the removal of residue.
///
/// # Errors
/// Those of the ledger; a failure when it holds nothing, or when its host was installed anew since it was claimed.
pub async fn of_allocation(work: &Work) -> Result<(Allocation, Subject), StepError> {
    let residue = work.taken.kind == "clean_up";
    let held = of_claims(work, |state| match state {
        ClaimState::Released => false,
        ClaimState::CleanupBlocked => residue,
        _ => true,
    });
    work.deps.within(held).await
}

/// What the host lease of the work is for, also when nothing is held any more: the tokens that end it.
///
/// # Errors
/// Those of the ledger; a failure when the host was installed anew since.
pub async fn of_lease(work: &Work) -> Result<Subject, StepError> {
    match work.taken.slot_id {
        Some(_) => under_repair(work).await,
        None => Ok(work.deps.within(of_claims(work, |_| true)).await?.1),
    }
}

async fn of_claims(
    work: &Work,
    worked_on: impl Fn(ClaimState) -> bool,
) -> Result<(Allocation, Subject), StepError> {
    let id = work.allocation_id()?;
    let mut conn = work.conn().await?;
    let allocation = allocations::get(&mut conn, Scope::Platform, id)
        .await
        .map_err(ledger)?;
    let mut held = claims::of_allocation(&mut conn, id).await.map_err(ledger)?;
    held.retain(|claim| claim.slot_id.is_some());
    let Some(claimed) = held.first() else {
        return Err(gone("the allocation holds no slot"));
    };
    let (node_id, instance_id) = (claimed.node_id, claimed.snapshot.instance_id);
    let node = nodes::get(&mut conn, node_id).await.map_err(ledger)?;
    if node.instance_id != instance_id {
        return Err(StepError::replaced());
    }
    held.retain(|claim| worked_on(claim.state));
    let Some(first) = held.first() else {
        return Err(gone("the allocation holds no slot"));
    };
    let shape = shape(&first.snapshot.profile, held.len());
    let cell_epoch = claims::cell_epoch(&mut conn).await.map_err(ledger)?;
    let ids: Vec<Uuid> = held.iter().filter_map(|claim| claim.slot_id).collect();
    let replaced = slots::replaced(&mut conn, &ids).await.map_err(ledger)?;
    let grant = |claim: &Claim| SlotGrant {
        replaced_slot_ids: named(claim.slot_id.and_then(|id| replaced.get(&id))),
        slot_id: claim.slot_id.map(|id| id.to_string()).unwrap_or_default(),
        slot_index: unsigned(claim.slot_index.unwrap_or_default()),
        slot_class: claim
            .slot_class
            .map(|class| class.0.as_str().to_owned())
            .unwrap_or_default(),
        token: Some(token(work, cell_epoch, claim.slot_generation)),
        bindings: Some(claim.snapshot.bindings.clone().into()),
        left_by_tenant: false,
    };
    let grants = held.iter().map(grant).collect();
    Ok((
        allocation,
        Subject {
            allocation_id: id,
            node_id,
            instance_id,
            agent_address: node.agent_address,
            grants,
            shape,
        },
    ))
}

/// Loads the slot under repair, with its own generation: higher than that of the claim it ends.
///
/// # Errors
/// Those of the ledger.
pub async fn of_slot(work: &Work, node_id: Uuid) -> Result<Subject, StepError> {
    work.deps.within(slot_now(work, node_id)).await
}

async fn slot_now(work: &Work, node_id: Uuid) -> Result<Subject, StepError> {
    let slot_id = work.slot_id()?;
    let mut conn = work.conn().await?;
    let slot = slots::get(&mut conn, node_id, slot_id)
        .await
        .map_err(ledger)?;
    let node = nodes::get(&mut conn, node_id).await.map_err(ledger)?;
    if repaired_on(work).is_some_and(|instance_id| instance_id != node.instance_id) {
        return Err(StepError::replaced());
    }
    let cell_epoch = claims::cell_epoch(&mut conn).await.map_err(ledger)?;
    // a slot that nothing holds is repaired under its own id: the host needs an owner for the lease, and knows a slot that it
    // still holds by whom it holds it for
    let holder = work.taken.allocation_id.or(slot.host_holder);
    let allocation_id = holder.unwrap_or(slot_id);
    let replaced = slots::replaced(&mut conn, &[slot_id])
        .await
        .map_err(ledger)?;
    let grant = SlotGrant {
        replaced_slot_ids: named(replaced.get(&slot_id)),
        slot_id: slot_id.to_string(),
        slot_index: unsigned(slot.slot_index),
        slot_class: slot.class.as_str().to_owned(),
        token: Some(token(work, cell_epoch, slot.generation)),
        bindings: Some(slot.bindings.into()),
        left_by_tenant: repair::left_by_tenant(&mut conn, slot_id)
            .await
            .map_err(ledger)?,
    };
    let shape = VmShape {
        vcpus: 1,
        memory_mib: 256,
        ..VmShape::default()
    };
    Ok(Subject {
        allocation_id,
        node_id,
        instance_id: node.instance_id,
        agent_address: node.agent_address,
        grants: vec![grant],
        shape,
    })
}

fn named(ids: Option<&Vec<Uuid>>) -> Vec<String> {
    ids.into_iter().flatten().map(ToString::to_string).collect()
}

/// The host instance that the repair began on; none before it has its lease.
fn repaired_on(work: &Work) -> Option<Uuid> {
    let recorded = work.outputs.get("acquire_lease")?.get("instance_id")?;
    recorded.as_str()?.parse().ok()
}

/// Maps an error of the ledger: a stale fence means the work is another's.
pub fn ledger(error: gpuaas_placement::Error) -> StepError {
    match error {
        gpuaas_placement::Error::StaleLease => StepError::Lost,
        other => gpuaas_common::Error::from(other).into(),
    }
}

fn gone(message: &str) -> StepError {
    StepError::fail(ErrorReason::StateConflict, message, FailureClass::Host)
}

fn token(work: &Work, cell_epoch: i64, generation: i64) -> FencingToken {
    FencingToken {
        cell_epoch: cell_epoch.cast_unsigned(),
        slot_generation: generation.cast_unsigned(),
        workflow_epoch: work.taken.lease_epoch.cast_unsigned(),
    }
}

/// The VM's shape: the profile once per slot (B-10), with one interface, whose limit is that of the VM (D-60).
fn shape(profile: &Profile, slots: usize) -> VmShape {
    let times = u32::try_from(slots).unwrap_or(u32::MAX);
    VmShape {
        vcpus: unsigned(profile.vcpus_per_gpu).saturating_mul(times),
        memory_mib: unsigned(profile.memory_mib_per_gpu).saturating_mul(times),
        hugepages: profile.hugepages,
        network_mbps: profile.network_mbps.map(unsigned),
        network_burst_kb: profile.network_burst_kb.map(unsigned),
    }
}

/// A ledger number that its constraint prevents from being negative.
fn unsigned(value: i32) -> u32 {
    u32::try_from(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b_10_the_shape_is_the_profile_once_per_slot() {
        let profile = Profile {
            name: "p".into(),
            vcpus_per_gpu: 24,
            memory_mib_per_gpu: 65536,
            hugepages: true,
            network_mbps: Some(10_000),
            network_burst_kb: Some(1250),
        };
        assert_eq!(
            shape(&profile, 4),
            VmShape {
                vcpus: 96,
                memory_mib: 262_144,
                hugepages: true,
                network_mbps: Some(10_000),
                network_burst_kb: Some(1250),
            }
        );
    }
}
