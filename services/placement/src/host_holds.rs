//! Slots that nobody has by the ledger and that their host still holds: after a restore of the ledger or of a host's journal, say.
//!
//! Such a slot is not sold: a launch on it would be refused by its host, and what is on its disk may be somebody's data. It goes
//! to `cleanup_blocked`, and only a repair, with its wipe, brings it back. That is an operator's decision. What the ledger
//! claims is never touched.
use std::collections::BTreeMap;

use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Result;
use crate::model::{Slot, SlotStatus};
use crate::{force_release, slots};

/// A slot that its host holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostHold {
    /// For whom: an allocation, or the slot itself when a repair had it.
    pub holder: Uuid,
    /// Nobody has the slot by the ledger, and nobody works on it, since before the host was asked: the generation that it had.
    pub leaked_at: Option<i64>,
}

/// Notes which slots of a node the host holds that nobody has, and takes those that are offered out of service. `held` are all
/// slots that the host holds. Returns how many slots were changed: notify [`crate::outbox::TOPIC`] after the commit.
///
/// # Errors
/// [`crate::Error::NotFound`] for the node; those of the database.
pub async fn note(
    conn: &mut PgConnection,
    node_id: Uuid,
    held: &BTreeMap<Uuid, HostHold>,
) -> Result<usize> {
    crate::lock::node(conn, node_id).await?;
    let mut changed = 0;
    for slot in slots::lock_all(conn, node_id).await? {
        let leaked = held
            .get(&slot.id)
            .filter(|hold| is_free(&slot) && hold.leaked_at == Some(slot.generation));
        match leaked {
            Some(hold) if slot.host_holder != Some(hold.holder) => {
                set(conn, &slot, Some(hold.holder)).await?;
                block(conn, &slot, hold.holder).await?;
                changed += 1;
            }
            None if slot.host_holder.is_some()
                && !held.contains_key(&slot.id)
                && is_free(&slot) =>
            {
                set(conn, &slot, None).await?;
                changed += 1;
            }
            _ => {}
        }
    }
    Ok(changed)
}

/// Nobody has it, and no workflow works on it.
#[must_use]
pub fn is_free(slot: &Slot) -> bool {
    let idle = [
        SlotStatus::Available,
        SlotStatus::Disabled,
        SlotStatus::CleanupBlocked,
    ];
    slot.allocation_id.is_none() && idle.contains(&slot.status)
}

/// It is sold, or would be once it is enabled.
fn is_offered(slot: &Slot) -> bool {
    let is_clean = slot.clean_generation == Some(slot.generation);
    slot.status == SlotStatus::Available || slot.status == SlotStatus::Disabled && is_clean
}

async fn block(conn: &mut PgConnection, slot: &Slot, holder: Uuid) -> Result<()> {
    if !is_offered(slot) {
        return Ok(());
    }
    let why = format!(
        "The host holds the slot for {holder}, for which the ledger has nothing. Repair the slot: what is left is removed, and its disk is wiped."
    );
    let offered = [SlotStatus::Available, SlotStatus::Disabled];
    let _ = slots::block(conn, &[slot.id], &offered, &why).await?;
    Ok(())
}

async fn set(conn: &mut PgConnection, slot: &Slot, holder: Option<Uuid>) -> Result<()> {
    sqlx::query(
        "UPDATE slots SET host_holder = $2, host_held_since = CASE WHEN $2 IS NOT NULL THEN clock_timestamp() END,
                revision = revision + 1, updated_at = greatest(clock_timestamp(), updated_at)
          WHERE id = $1",
    )
    .bind(slot.id)
    .bind(holder)
    .execute(conn)
    .await?;
    Ok(())
}

/// The allocation by whose id the host knows a slot that nobody has: the one it was found to hold the slot for, whichever had the
/// slot last by the ledger, and otherwise the one that was released by force. None where the ledger knows none of that id.
pub(crate) async fn known_holder(conn: &mut PgConnection, slot_id: Uuid) -> Result<Option<Uuid>> {
    let found: Option<Uuid> = sqlx::query_scalar("SELECT host_holder FROM slots WHERE id = $1")
        .bind(slot_id)
        .fetch_one(&mut *conn)
        .await?;
    let Some(holder) = found else {
        return force_release::last_holder(conn, slot_id).await;
    };
    Ok(
        sqlx::query_scalar("SELECT id FROM allocations WHERE id = $1")
            .bind(holder)
            .fetch_optional(conn)
            .await?,
    )
}
