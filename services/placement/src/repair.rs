//! Transitions of a slot repair: the only way out of `cleanup_blocked` (A-80, A-138, CON-25, INC-03), and the first wipe of an approved slot.
use gpuaas_common::drift::Kind;
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::model::{Fence, Outcome, Slot, SlotEvidence, SlotStatus};
use crate::{host_holds, lock, slots, workflows};

/// What causes a wipe, for its workflow's trace and log.
#[derive(Debug, Clone, Copy, Default)]
pub struct Origin<'a> {
    /// W3C trace context; empty: none.
    pub traceparent: &'a str,
    /// Of the request; empty: none.
    pub request_id: &'a str,
}

/// What operators read of a slot that was approved and is not proven empty yet.
const FIRST_WIPE: &str = "The disk is being wiped and verified before its first use.";

/// `disabled → cleanup` of a locked slot that nobody has, and its repair workflow, all in this transaction. The generation
/// remains: evidence of it is written in `cleanup` only, so there is none yet. The health is unknown until then.
pub(crate) async fn first_wipe(
    conn: &mut PgConnection,
    slot_id: Uuid,
    origin: Origin<'_>,
) -> Result<()> {
    sqlx::query("UPDATE slots SET cleanup_health = 'unknown', health_detail = $2 WHERE id = $1")
        .bind(slot_id)
        .bind(FIRST_WIPE)
        .execute(&mut *conn)
        .await?;
    let from = [SlotStatus::Disabled];
    let _ = slots::transition(conn, &[slot_id], &from, SlotStatus::Cleanup, false).await?;
    let window = workflows::REPAIR_WINDOW_SECONDS;
    let Origin {
        traceparent,
        request_id,
    } = origin;
    // its host may still know it by an allocation that is over
    let holder = host_holds::known_holder(conn, slot_id).await?;
    let slot = Some(slot_id);
    let workflow = workflows::New {
        kind: "repair",
        allocation_id: holder,
        slot_id: slot,
        deadline_seconds: window,
        traceparent,
        request_id,
        ..workflows::New::default()
    };
    workflows::enqueue(conn, &workflow).await?;
    Ok(())
}

/// Takes a free slot that a release before this one offered on an operator's word out of service and starts its wipe. Returns
/// how many slots it found. The host touched no disk of them yet: since their approval nobody has had them, or each who had
/// them was proven to have touched nothing.
///
/// # Errors
/// Those of the database.
pub async fn wipe_unproven(conn: &mut PgConnection) -> Result<usize> {
    let found: Vec<(Uuid, Uuid)> = sqlx::query_as(
        "SELECT s.node_id, s.id FROM slots s
          WHERE s.status = 'available' AND 'approved' =
                (SELECT e.kind FROM clean_evidence e WHERE e.slot_id = s.id AND e.kind <> 'untouched'
                  ORDER BY e.generation DESC LIMIT 1)
            AND NOT EXISTS (SELECT FROM claims c
                             WHERE c.node_id = s.node_id AND c.kind = 'node_exclusive' AND c.state <> 'released')
          ORDER BY s.node_id, s.id",
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut started = 0;
    for (node_id, slot_id) in found {
        match wipe_one_unproven(conn, node_id, slot_id).await {
            Ok(begun) => started += usize::from(begun),
            // the others do not stay schedulable by this one
            Err(error) => {
                tracing::warn!(%node_id, %slot_id, "retry the wipe of a slot that was never wiped: {error}");
            }
        }
    }
    Ok(started)
}

/// Whether the wipe was begun: not when somebody took the slot or its node since it was found.
async fn wipe_one_unproven(conn: &mut PgConnection, node_id: Uuid, slot_id: Uuid) -> Result<bool> {
    let mut tx = conn.begin().await?;
    let slot = slots::lock_one(&mut tx, node_id, slot_id).await?;
    if slot.status != SlotStatus::Available || is_bare_metal(&mut tx, node_id).await? {
        return Ok(false);
    }
    let (free, out) = ([SlotStatus::Available], SlotStatus::Disabled);
    let _ = slots::transition(&mut tx, &[slot_id], &free, out, true).await?;
    first_wipe(&mut tx, slot_id, Origin::default()).await?;
    tx.commit().await?;
    Ok(true)
}

async fn is_bare_metal(conn: &mut PgConnection, node_id: Uuid) -> Result<bool> {
    Ok(sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM claims WHERE node_id = $1 AND kind = 'node_exclusive' AND state <> 'released')",
    )
    .bind(node_id)
    .fetch_one(conn)
    .await?)
}

/// Whether the disks of a node may be a bare-metal tenant's: none of its slots is offered meanwhile.
pub(crate) async fn has_bare_metal_tenant(conn: &mut PgConnection, node_id: Uuid) -> Result<bool> {
    Ok(sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM claims WHERE node_id = $1 AND kind = 'node_exclusive'
                           AND state NOT IN ('reserved', 'released'))",
    )
    .bind(node_id)
    .fetch_one(conn)
    .await?)
}

/// Starts the first wipe of a locked, disabled slot that was never wiped, in place of making it available. Returns whether
/// the slot is such a one; on a node that is in use as bare metal it remains disabled.
pub(crate) async fn wipe_at_enabling(conn: &mut PgConnection, slot: &Slot) -> Result<bool> {
    if slot.status != SlotStatus::Disabled {
        return Ok(false);
    }
    let was_wiped: bool = sqlx::query_scalar(
        "SELECT 'wiped' IS NOT DISTINCT FROM (SELECT kind FROM clean_evidence WHERE slot_id = $1 AND kind <> 'untouched'
                                               ORDER BY generation DESC LIMIT 1)",
    )
    .bind(slot.id)
    .fetch_one(&mut *conn)
    .await?;
    if was_wiped {
        return Ok(false);
    }
    if !is_bare_metal(conn, slot.node_id).await? {
        // no evidence of the present generation may be there before the wipe
        let same = [SlotStatus::Disabled];
        let _ = slots::transition(conn, &[slot.id], &same, SlotStatus::Disabled, true).await?;
        first_wipe(conn, slot.id, Origin::default()).await?;
    }
    Ok(true)
}

/// Whether what is on the disk of a slot is a tenant's of this platform: one had the slot and is not proven to have touched
/// nothing, or was active on the bare-metal node, and no wipe was proven since. The bindings of a slot never change, so it is the
/// same disk.
///
/// # Errors
/// Those of the database.
pub async fn left_by_tenant(conn: &mut PgConnection, slot_id: Uuid) -> Result<bool> {
    Ok(sqlx::query_scalar(
        // two questions, so that each has its index
        "WITH slot AS (SELECT id, node_id, created_at FROM slots WHERE id = $1),
              wiped AS (SELECT coalesce(max(at), '-infinity') AS at FROM clean_evidence WHERE slot_id = $1 AND kind = 'wiped')
         SELECT EXISTS (SELECT FROM claims c
                         WHERE c.slot_id = $1 AND c.created_at > (SELECT at FROM wiped)
                           AND NOT EXISTS (SELECT FROM clean_evidence e WHERE e.slot_id = $1
                                              AND e.generation = c.slot_generation AND e.kind = 'untouched'))
             OR EXISTS (SELECT FROM slot s
                          JOIN claims c ON c.node_id = s.node_id AND c.kind = 'node_exclusive' AND c.created_at >= s.created_at
                          JOIN allocations a ON a.id = c.allocation_id
                         WHERE a.active_at IS NOT NULL AND c.created_at > (SELECT at FROM wiped))",
    )
    .bind(slot_id)
    .fetch_one(conn)
    .await?)
}

/// Whether nobody has the slot and its repair ends what differs on its host: a device is bound to another driver. A disk that is
/// out of sight is not repaired before it is back, and a device that a domain has stays with it.
#[must_use]
pub fn may_rebind(slot: &Slot) -> bool {
    let is_free = matches!(slot.status, SlotStatus::Available | SlotStatus::Disabled)
        && slot.allocation_id.is_none();
    let kinds = || slot.drift.iter().map(|one| one.drift.kind);
    let stays = |kind: Kind| kind.needs_wipe() || kind == Kind::UnknownDomain;
    is_free && kinds().any(|kind| kind == Kind::DriverRebound) && !kinds().any(stays)
}

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
/// that is running already is returned. A disabled slot whose allocation was released by force is repaired in the same way, and
/// so is a free slot that the host can bind to VFIO again ([`may_rebind`]).
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
    let mut slot = slots::lock_one(conn, node_id, slot_id).await?;
    let mut allocation_id = slot.allocation_id;
    if allocation_id.is_none() {
        // its host may still have the VM of an allocation that was released by force, or hold the slot for one that is over,
        // and knows the slot by that
        allocation_id = host_holds::known_holder(conn, slot_id).await?;
        let is_on_host = allocation_id.is_some() || slot.host_holder.is_some();
        if is_on_host && slot.status == SlotStatus::Disabled {
            let disabled = [SlotStatus::Disabled];
            let _ = slots::block(conn, &[slot_id], &disabled, &slot.health_detail).await?;
            slot = slots::get(conn, node_id, slot_id).await?;
        }
    }
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
    let rebinds = may_rebind(&slot) && !is_bare_metal(conn, node_id).await?;
    if slot.status != SlotStatus::CleanupBlocked && !rebinds {
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
    if rebinds {
        // nothing proves the disk of a slot that is being worked on: not the evidence of before, either
        let free = [SlotStatus::Available, SlotStatus::Disabled];
        let _ = slots::transition(conn, &[slot_id], &free, SlotStatus::Disabled, true).await?;
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
    let (from, raise) = match rebinds {
        true => (SlotStatus::Disabled, false),
        false => (SlotStatus::CleanupBlocked, true),
    };
    let _ = slots::transition(conn, &[slot_id], &[from], SlotStatus::Cleanup, raise).await?;
    let window = workflows::REPAIR_WINDOW_SECONDS;
    let workflow = workflows::New {
        kind: "repair",
        allocation_id,
        slot_id: Some(slot_id),
        deadline_seconds: window,
        traceparent,
        request_id,
        ..workflows::New::default()
    };
    let workflow_id = workflows::enqueue(conn, &workflow).await?;
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
