//! Transitions of a slot repair, the only way out of `cleanup_blocked` (CON-25).
use sqlx::PgConnection;
use uuid::Uuid;

use crate::model::{Fence, Outcome, Slot, SlotEvidence, SlotStatus};
use crate::{Error, Result, lock, slots, workflows};

/// The result of a repair request.
#[derive(Debug)]
pub struct Begun {
    /// The slot as it is now.
    pub slot: Slot,
    /// The repair workflow.
    pub workflow_id: Uuid,
    /// Allocation whose hold ends with the repair.
    pub allocation_id: Option<Uuid>,
    /// False when it was running already.
    pub started: bool,
}

/// `cleanup_blocked → cleanup`, generation raised, repair workflow started, all in this transaction. A repair
/// that is running already is returned.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] when the slot is in another status, when the last repair has not ended yet,
/// or when the allocation that holds it has not.
pub async fn begin(
    conn: &mut PgConnection,
    node_id: Uuid,
    slot_id: Uuid,
    traceparent: &str,
    request_id: &str,
) -> Result<Begun> {
    let slot = slots::lock_one(conn, node_id, slot_id).await?;
    let allocation_id = slot.allocation_id;
    let running: Option<Uuid> = sqlx::query_scalar(
        "SELECT id FROM workflows WHERE slot_id = $1 AND kind = 'repair' AND state = 'running'",
    )
    .bind(slot_id)
    .fetch_optional(&mut *conn)
    .await?;
    if let (SlotStatus::Cleanup, Some(workflow_id)) = (slot.status, running) {
        return Ok(Begun {
            slot,
            workflow_id,
            allocation_id,
            started: false,
        });
    }
    if slot.status != SlotStatus::CleanupBlocked {
        return Err(Error::Conflict {
            what: "slot",
            id: slot_id,
            state: slot.status.to_string(),
        });
    }
    if running.is_some() {
        // the last repair has failed and its workflow is about to end
        return Err(Error::Conflict {
            what: "slot",
            id: slot_id,
            state: "still being repaired".to_owned(),
        });
    }
    if let Some(allocation_id) = allocation_id {
        // An ended allocation never changes again, so its row needs no lock.
        let state: String = sqlx::query_scalar("SELECT state FROM allocations WHERE id = $1")
            .bind(allocation_id)
            .fetch_one(&mut *conn)
            .await?;
        if !matches!(state.as_str(), "released" | "failed") {
            return Err(Error::Conflict {
                what: "allocation",
                id: allocation_id,
                state,
            });
        }
    }
    let _ = slots::transition(
        conn,
        &[slot_id],
        &[SlotStatus::CleanupBlocked],
        SlotStatus::Cleanup,
        true,
    )
    .await?;
    let window = workflows::REPAIR_WINDOW_SECONDS;
    let workflow_id = workflows::enqueue(
        conn,
        "repair",
        allocation_id,
        Some(slot_id),
        window,
        traceparent,
        request_id,
    )
    .await?;
    let slot = slots::get(conn, node_id, slot_id).await?;
    Ok(Begun {
        slot,
        workflow_id,
        allocation_id,
        started: true,
    })
}

/// Ends a repair with proof of the slot's present generation: its claim is released and the slot is schedulable,
/// disabled by the operator's intent, or retired when the device was destroyed.
///
/// # Errors
/// [`Error::StaleLease`], [`Error::Conflict`]; [`Error::EvidenceMissing`] when the evidence is of another slot or
/// generation.
pub async fn complete(
    conn: &mut PgConnection,
    fence: Fence,
    slot_id: Uuid,
    evidence: &SlotEvidence,
) -> Result<Outcome> {
    let slot = lock_by_id(conn, slot_id).await?;
    lock::fence(conn, fence).await?;
    match slot.status {
        SlotStatus::Available | SlotStatus::Disabled | SlotStatus::Retired => {
            return Ok(Outcome::Unchanged);
        }
        SlotStatus::Cleanup => {}
        status => {
            return Err(Error::Conflict {
                what: "slot",
                id: slot_id,
                state: status.to_string(),
            });
        }
    }
    if evidence.slot_id != slot_id || evidence.generation != slot.generation {
        return Err(Error::EvidenceMissing(slot_id));
    }
    sqlx::query(
        "UPDATE claims SET state = 'released', updated_at = greatest(clock_timestamp(), updated_at),
                released_at = greatest(clock_timestamp(), updated_at)
          WHERE slot_id = $1 AND state = 'cleanup_blocked'",
    )
    .bind(slot_id)
    .execute(&mut *conn)
    .await?;
    slots::make_clean(conn, evidence).await?;
    Ok(Outcome::Changed)
}

/// Ends a repair without proof: the slot is `cleanup_blocked` again.
///
/// # Errors
/// [`Error::StaleLease`], [`Error::Conflict`].
pub async fn fail(
    conn: &mut PgConnection,
    fence: Fence,
    slot_id: Uuid,
    health_detail: &str,
) -> Result<Outcome> {
    let slot = lock_by_id(conn, slot_id).await?;
    lock::fence(conn, fence).await?;
    match slot.status {
        SlotStatus::CleanupBlocked => Ok(Outcome::Unchanged),
        SlotStatus::Cleanup => {
            slots::block(conn, &[slot_id], &[SlotStatus::Cleanup], health_detail).await
        }
        status => Err(Error::Conflict {
            what: "slot",
            id: slot_id,
            state: status.to_string(),
        }),
    }
}

async fn lock_by_id(conn: &mut PgConnection, slot_id: Uuid) -> Result<Slot> {
    let node_id: Uuid = sqlx::query_scalar("SELECT node_id FROM slots WHERE id = $1")
        .bind(slot_id)
        .fetch_optional(&mut *conn)
        .await?
        .ok_or_else(|| Error::not_found("slot", slot_id))?;
    slots::lock_one(conn, node_id, slot_id).await
}
