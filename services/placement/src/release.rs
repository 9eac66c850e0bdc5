//! Transitions of a release: billing stops when it is accepted, slots return only with proof (P2).
use jiff_sqlx::Timestamp;
use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::allocations::{Change, advance};
use crate::error::{Error, Result};
use crate::model::{
    Allocation, AllocationState, ClaimState, Fence, Outcome, Scope, Shape, SlotEvidence, SlotStatus,
};
use crate::provision::{conflict, free_node, free_untouched, held};
use crate::{claims, lock, nodes, slots, timeline, workflows};

/// What accepting a release led to.
#[derive(Debug)]
pub struct Begun {
    /// The allocation as it is now.
    pub allocation: Allocation,
    /// The release workflow that was started now. None when the release had begun before, or when no host had
    /// been touched: then the allocation is `released` already.
    pub workflow_id: Option<Uuid>,
}

/// Accepts a release. The billable period ends at this moment, or at the release time when that has come; a running
/// provision workflow loses its lease and the release workflow is started, both in this transaction. A queued one leaves the
/// queue and is released at once. Repeating it changes nothing.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] for an allocation that failed.
pub async fn begin(
    conn: &mut PgConnection,
    scope: Scope,
    id: Uuid,
    traceparent: &str,
    request_id: &str,
) -> Result<Begun> {
    let allocation = lock::allocation(conn, scope, id).await?;
    match allocation.state {
        AllocationState::Releasing | AllocationState::Released => {
            return Ok(Begun {
                allocation,
                workflow_id: None,
            });
        }
        AllocationState::Reserved | AllocationState::Provisioning | AllocationState::Active => {}
        AllocationState::Requested => {
            // it is queued: nothing is claimed, no host knows of it
            timeline::end_running(conn, id, "The request was canceled.").await?;
            let allocation =
                advance(conn, id, AllocationState::Released, Change::default()).await?;
            return Ok(Begun {
                allocation,
                workflow_id: None,
            });
        }
        AllocationState::Failed => return Err(conflict(&allocation)),
    }
    if !workflows::cancel(conn, id).await?.is_empty() {
        timeline::end_running(conn, id, "Stopped: the allocation is being released.").await?;
    }
    if allocation.state == AllocationState::Reserved {
        // A workflow leaves `reserved` before it first calls the host, so no host knows of this allocation.
        advance(conn, id, AllocationState::Releasing, Change::default()).await?;
        free_untouched(conn, &allocation, &json!({"released_in_state": "reserved"})).await?;
        let allocation = advance(conn, id, AllocationState::Released, Change::default()).await?;
        return Ok(Begun {
            allocation,
            workflow_id: None,
        });
    }
    let from = [SlotStatus::Provisioning, SlotStatus::Active];
    let ids = held(conn, id).await?;
    let _ = slots::transition(conn, &ids, &from, SlotStatus::Releasing, false).await?;
    claims::transition(
        conn,
        id,
        &[ClaimState::Provisioning, ClaimState::Active],
        ClaimState::Releasing,
    )
    .await?;
    let change = Change {
        billed_until: due(conn, id).await?,
        window_seconds: Some(workflows::RELEASE_WINDOW_SECONDS),
        ..Change::default()
    };
    let allocation = advance(conn, id, AllocationState::Releasing, change).await?;
    sqlx::query("UPDATE allocation_periods SET ended_at = greatest($2, started_at) WHERE allocation_id = $1 AND ended_at IS NULL")
        .bind(id)
        .bind(allocation.billed_until.or(allocation.releasing_at))
        .execute(&mut *conn)
        .await?;
    let window = workflows::RELEASE_WINDOW_SECONDS;
    let workflow = workflows::New {
        kind: workflows::release_of(allocation.capacity_shape),
        allocation_id: Some(id),
        deadline_seconds: window,
        traceparent,
        request_id,
        ..workflows::New::default()
    };
    let workflow_id = workflows::enqueue(conn, &workflow).await?;
    Ok(Begun {
        allocation,
        workflow_id: Some(workflow_id),
    })
}

/// The release time of an active allocation, once it has come: the platform was to release it then, and what it is late by is
/// not its owner's to pay. Not before it became active.
async fn due(conn: &mut PgConnection, id: Uuid) -> Result<Option<Timestamp>> {
    let due = sqlx::query_scalar(
        "SELECT CASE WHEN state = 'active' AND auto_release_at <= clock_timestamp()
                     THEN greatest(active_at, auto_release_at) END FROM allocations WHERE id = $1",
    )
    .bind(id)
    .fetch_one(conn)
    .await?;
    Ok(due)
}

/// Ends a release with proof for every slot: slots schedulable (or disabled by the operator's intent), claims
/// and allocation `released`. Slots that a reinstall of the host blocked meanwhile stay blocked.
///
/// # Errors
/// [`Error::StaleLease`], [`Error::Conflict`]; [`Error::EvidenceMissing`] when a slot has no evidence of its
/// present generation, and then nothing is changed.
pub async fn complete(
    conn: &mut PgConnection,
    fence: Fence,
    id: Uuid,
    evidence: &[SlotEvidence],
) -> Result<Outcome> {
    let allocation = lock::allocation(conn, Scope::Platform, id).await?;
    lock::fence(conn, fence).await?;
    match allocation.state {
        AllocationState::Released => return Ok(Outcome::Unchanged),
        AllocationState::Releasing => {}
        _ => return Err(conflict(&allocation)),
    }
    let mut proven = Vec::new();
    for slot in slots::held_by(conn, id)
        .await?
        .into_iter()
        .filter(|slot| slot.status == SlotStatus::Releasing)
    {
        let proof = evidence
            .iter()
            .find(|proof| proof.slot_id == slot.id && proof.generation == slot.generation)
            .ok_or(Error::EvidenceMissing(slot.id))?;
        proven.push(proof);
    }
    let ids: Vec<Uuid> = proven.iter().map(|proof| proof.slot_id).collect();
    let _ = slots::transition(
        conn,
        &ids,
        &[SlotStatus::Releasing],
        SlotStatus::Cleanup,
        false,
    )
    .await?;
    claims::transition(conn, id, &[ClaimState::Releasing], ClaimState::Released).await?;
    for proof in proven {
        slots::make_clean(conn, proof).await?;
    }
    if let (Shape::Baremetal, Some(node_id)) = (allocation.capacity_shape, allocation.node_id) {
        // what was approved under the tenant proves nothing of what the tenant left
        nodes::retire_evidence(conn, node_id).await?;
    }
    free_node(conn, &allocation).await?;
    advance(conn, id, AllocationState::Released, Change::default()).await?;
    Ok(Outcome::Changed)
}

/// Takes one slot out of a release whose other slots are proven: it and its claim wait for a repair. [`complete`] ends the
/// others in the same transaction.
///
/// # Errors
/// [`Error::StaleLease`].
pub async fn block_slot(
    conn: &mut PgConnection,
    fence: Fence,
    id: Uuid,
    slot_id: Uuid,
    health_detail: &str,
) -> Result<()> {
    lock::allocation(conn, Scope::Platform, id).await?;
    lock::fence(conn, fence).await?;
    let held = held(conn, id).await?;
    let own: Vec<Uuid> = held.into_iter().filter(|one| *one == slot_id).collect();
    let _ = slots::block(conn, &own, &[SlotStatus::Releasing], health_detail).await?;
    claims::block(conn, id, slot_id).await
}

/// Ends a release whose guest is gone but whose disks were not proven empty: the allocation is `released`, its
/// slots and claims wait for a repair.
///
/// # Errors
/// [`Error::StaleLease`], [`Error::Conflict`].
pub async fn block(
    conn: &mut PgConnection,
    fence: Fence,
    id: Uuid,
    health_detail: &str,
) -> Result<Outcome> {
    let allocation = lock::allocation(conn, Scope::Platform, id).await?;
    lock::fence(conn, fence).await?;
    match allocation.state {
        AllocationState::Released => return Ok(Outcome::Unchanged),
        AllocationState::Releasing => {}
        _ => return Err(conflict(&allocation)),
    }
    let ids = held(conn, id).await?;
    let _ = slots::block(conn, &ids, &[SlotStatus::Releasing], health_detail).await?;
    claims::transition(
        conn,
        id,
        &[ClaimState::Releasing],
        ClaimState::CleanupBlocked,
    )
    .await?;
    advance(conn, id, AllocationState::Released, Change::default()).await?;
    Ok(Outcome::Changed)
}
