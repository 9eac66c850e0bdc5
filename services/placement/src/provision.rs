//! Transitions of a provision workflow: `reserved → provisioning → active`, or `failed`.
use gpuaas_common::readiness;
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::allocations::{self, Change, UPDATED, advance};
use crate::error::{Error, Result};
use crate::model::{
    Allocation, AllocationState, ClaimState, EvidenceKind, Failure, Fence, GuestAccess, Outcome,
    Scope, Shape, SlotEvidence, SlotStatus,
};
use crate::{claims, lock, lost, nodes, outbox, slots, workflows};

/// What a failed provision left on its host.
#[derive(Debug, Clone)]
pub enum HostState<'a> {
    /// Proven: no effect ever began on any disk. The slots become schedulable.
    Untouched {
        /// What the proof is.
        detail: Value,
    },
    /// The disk may hold tenant data (INC-14). The slots wait for a repair.
    Dirty {
        /// For operators.
        health_detail: &'a str,
    },
}

/// `reserved → provisioning`. Call before the first call that can have an effect on the host.
///
/// # Errors
/// [`Error::StaleLease`], [`Error::Conflict`].
pub async fn start(conn: &mut PgConnection, fence: Fence, id: Uuid) -> Result<Outcome> {
    let allocation = lock::allocation(conn, Scope::Platform, id).await?;
    lock::fence(conn, fence).await?;
    match allocation.state {
        AllocationState::Provisioning => return Ok(Outcome::Unchanged),
        AllocationState::Reserved => {}
        _ => return Err(conflict(&allocation)),
    }
    let ids = held_in(conn, id, SlotStatus::Reserved).await?;
    let _ = slots::transition(
        conn,
        &ids,
        &[SlotStatus::Reserved],
        SlotStatus::Provisioning,
        false,
    )
    .await?;
    claims::transition(conn, id, &[ClaimState::Reserved], ClaimState::Provisioning).await?;
    if let (Shape::Baremetal, Some(node_id)) = (allocation.capacity_shape, allocation.node_id) {
        nodes::retire_evidence(conn, node_id).await?;
    }
    let change = Change {
        window_seconds: Some(workflows::PROVISION_WINDOW_SECONDS),
        ..Change::default()
    };
    advance(conn, id, AllocationState::Provisioning, change).await?;
    Ok(Outcome::Changed)
}

/// `provisioning → active`: the billable period opens at this moment and the event records it. `access` is how its owner
/// logs in; none: no login. `boot_id` is the boot id that the guest's kernel reported, if it did. What is on a host that is
/// lost becomes active, and billed, when the host is back.
///
/// # Errors
/// [`Error::StaleLease`], [`Error::Conflict`]; `HOST_UNREACHABLE` while the host of a slice is lost.
pub async fn activate(
    conn: &mut PgConnection,
    fence: Fence,
    id: Uuid,
    access: Option<&GuestAccess>,
    boot_id: Option<Uuid>,
) -> Result<Outcome> {
    let allocation = lock::allocation(conn, Scope::Platform, id).await?;
    lock::fence(conn, fence).await?;
    match allocation.state {
        AllocationState::Active => return Ok(Outcome::Unchanged),
        AllocationState::Provisioning => {}
        _ => return Err(conflict(&allocation)),
    }
    let ids = held_in(conn, id, SlotStatus::Provisioning).await?;
    lost::refuse(conn, &allocation).await?;
    let _ = slots::transition(
        conn,
        &ids,
        &[SlotStatus::Provisioning],
        SlotStatus::Active,
        false,
    )
    .await?;
    claims::transition(conn, id, &[ClaimState::Provisioning], ClaimState::Active).await?;
    let active = advance(
        conn,
        id,
        AllocationState::Active,
        Change {
            access,
            boot_id,
            ..Change::default()
        },
    )
    .await?;
    sqlx::query(
        "INSERT INTO allocation_periods (id, allocation_id, project_id, sku, gpu_count, price, started_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(Uuid::now_v7())
    .bind(id)
    .bind(active.project_id)
    .bind(&active.sku)
    .bind(active.gpu_count.column())
    .bind(active.price.as_ref().map(|price| Json(&price.0)))
    .bind(active.active_at)
    .execute(conn)
    .await?;
    Ok(Outcome::Changed)
}

/// Records what came of the readiness checks of the allocation's image, before it is `active` or `failed` (D-45).
///
/// # Errors
/// [`Error::StaleLease`], [`Error::Conflict`].
pub async fn record_readiness(
    conn: &mut PgConnection,
    fence: Fence,
    id: Uuid,
    found: &[readiness::Outcome],
) -> Result<Outcome> {
    let allocation = lock::allocation(conn, Scope::Platform, id).await?;
    lock::fence(conn, fence).await?;
    if allocation.state != AllocationState::Provisioning {
        return Err(conflict(&allocation));
    }
    if allocation.readiness.0 == found {
        return Ok(Outcome::Unchanged);
    }
    sqlx::query(
        "UPDATE allocations
            SET readiness = $2, revision = revision + 1, updated_at = greatest(clock_timestamp(), updated_at)
          WHERE id = $1",
    )
    .bind(id)
    .bind(Json(found))
    .execute(&mut *conn)
    .await?;
    let allocation = allocations::get(conn, Scope::Platform, id).await?;
    outbox::append_allocation(conn, &format!("allocation.{UPDATED}"), &allocation).await?;
    Ok(Outcome::Changed)
}

/// Ends a provision that did not succeed: the allocation is `failed` with its reason (C-05), nothing was billed.
///
/// # Errors
/// [`Error::StaleLease`], [`Error::Conflict`].
pub async fn fail(
    conn: &mut PgConnection,
    fence: Fence,
    id: Uuid,
    failure: &Failure,
    host: HostState<'_>,
) -> Result<Outcome> {
    let allocation = lock::allocation(conn, Scope::Platform, id).await?;
    lock::fence(conn, fence).await?;
    match allocation.state {
        AllocationState::Failed => return Ok(Outcome::Unchanged),
        AllocationState::Reserved | AllocationState::Provisioning => {}
        _ => return Err(conflict(&allocation)),
    }
    match host {
        HostState::Untouched { detail } => free_untouched(conn, &allocation, &detail).await?,
        HostState::Dirty { health_detail } => {
            let from = [SlotStatus::Reserved, SlotStatus::Provisioning];
            let ids = held(conn, id).await?;
            let _ = slots::block(conn, &ids, &from, health_detail).await?;
            claims::transition(
                conn,
                id,
                &[ClaimState::Reserved, ClaimState::Provisioning],
                ClaimState::CleanupBlocked,
            )
            .await?;
        }
    }
    advance(
        conn,
        id,
        AllocationState::Failed,
        Change {
            failure: Some(failure),
            ..Change::default()
        },
    )
    .await?;
    Ok(Outcome::Changed)
}

/// Ends the claims and makes the slots schedulable, with evidence that nothing touched them.
pub(crate) async fn free_untouched(
    conn: &mut PgConnection,
    allocation: &Allocation,
    detail: &Value,
) -> Result<()> {
    let id = allocation.id;
    let untouched: Vec<_> = slots::held_by(conn, id)
        .await?
        .into_iter()
        .filter(|slot| matches!(slot.status, SlotStatus::Reserved | SlotStatus::Provisioning))
        .collect();
    let ids: Vec<Uuid> = untouched.iter().map(|slot| slot.id).collect();
    // The tables know no shortcut out of `provisioning`: it goes by way of the release, all in this transaction.
    let _ = slots::transition(
        conn,
        &ids,
        &[SlotStatus::Provisioning],
        SlotStatus::Releasing,
        false,
    )
    .await?;
    let _ = slots::transition(
        conn,
        &ids,
        &[SlotStatus::Releasing],
        SlotStatus::Cleanup,
        false,
    )
    .await?;
    claims::transition(conn, id, &[ClaimState::Provisioning], ClaimState::Releasing).await?;
    claims::transition(
        conn,
        id,
        &[ClaimState::Reserved, ClaimState::Releasing],
        ClaimState::Released,
    )
    .await?;
    for slot in untouched {
        let proof = SlotEvidence {
            slot_id: slot.id,
            generation: slot.generation,
            kind: EvidenceKind::Untouched,
            method: "no host effect".to_owned(),
            detail: detail.clone(),
        };
        slots::make_clean(conn, &proof).await?;
    }
    free_node(conn, allocation).await
}

/// A bare-metal node whose claim has ended goes back to what it is meant to be.
pub(crate) async fn free_node(conn: &mut PgConnection, allocation: &Allocation) -> Result<()> {
    match (allocation.capacity_shape, allocation.node_id) {
        (Shape::Baremetal, Some(node_id)) => nodes::apply_intended_mode(conn, node_id).await,
        _ => Ok(()),
    }
}

/// Ids of the slots an allocation holds.
pub(crate) async fn held(conn: &mut PgConnection, id: Uuid) -> Result<Vec<Uuid>> {
    Ok(slots::held_by(conn, id)
        .await?
        .into_iter()
        .map(|slot| slot.id)
        .collect())
}

/// Ids of the slots an allocation holds, all of which must be in this status: a reinstall of the host may have
/// blocked them since.
async fn held_in(conn: &mut PgConnection, id: Uuid, status: SlotStatus) -> Result<Vec<Uuid>> {
    let slots = slots::held_by(conn, id).await?;
    match slots.iter().find(|slot| slot.status != status) {
        Some(slot) => Err(Error::Conflict {
            what: "slot",
            id: slot.id,
            state: slot.status.to_string(),
        }),
        None => Ok(slots.into_iter().map(|slot| slot.id).collect()),
    }
}

pub(crate) fn conflict(allocation: &Allocation) -> Error {
    Error::Conflict {
        what: "allocation",
        id: allocation.id,
        state: allocation.state.to_string(),
    }
}
