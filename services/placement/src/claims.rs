//! What an allocation holds, with the frozen facts a call to its host needs.
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Result;
use crate::model::{Claim, ClaimState};

/// The claims of an allocation by slot index; the first is the boot slot (D-70). Released ones are included,
/// they are the history.
///
/// # Errors
/// Those of the database.
pub async fn of_allocation(conn: &mut PgConnection, allocation_id: Uuid) -> Result<Vec<Claim>> {
    let rows = sqlx::query_as(
        "SELECT c.id, c.allocation_id, c.kind, c.node_id, c.slot_id, s.slot_index, c.slot_class, c.state,
                c.slot_generation, c.fabric_key, c.snapshot, c.created_at
           FROM claims c LEFT JOIN slots s ON s.id = c.slot_id
          WHERE c.allocation_id = $1 ORDER BY s.slot_index, c.id",
    )
    .bind(allocation_id)
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Whether the host of an allocation was installed anew since its slots were claimed: nothing of it is on that host.
///
/// # Errors
/// Those of the database.
pub async fn on_replaced_host(conn: &mut PgConnection, allocation_id: Uuid) -> Result<bool> {
    Ok(sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM claims c JOIN nodes n ON n.id = c.node_id
                         WHERE c.allocation_id = $1 AND c.state <> 'released'
                           AND (c.snapshot ->> 'instance_id')::uuid <> n.instance_id)",
    )
    .bind(allocation_id)
    .fetch_one(conn)
    .await?)
}

/// Whether a slot that an allocation holds waits for a repair.
///
/// # Errors
/// Those of the database.
pub async fn are_blocked(conn: &mut PgConnection, allocation_id: Uuid) -> Result<bool> {
    Ok(sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM claims WHERE allocation_id = $1 AND state = 'cleanup_blocked')",
    )
    .bind(allocation_id)
    .fetch_one(conn)
    .await?)
}

/// First part of every fencing token: raised when a cell is restored from a backup.
///
/// # Errors
/// Those of the database.
pub async fn cell_epoch(conn: &mut PgConnection) -> Result<i64> {
    Ok(sqlx::query_scalar("SELECT epoch FROM cell")
        .fetch_one(conn)
        .await?)
}

/// The parts of a fencing token that are no slot's: cell epoch, and the highest workflow epoch that was ever given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct Epochs {
    pub cell: i64,
    pub workflow: i64,
}

/// With a slot's generation, what no token of the slot was ever above.
///
/// # Errors
/// Those of the database.
pub async fn epochs(conn: &mut PgConnection) -> Result<Epochs> {
    Ok(sqlx::query_as(
        "SELECT epoch AS cell, (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM workflow_epochs) AS workflow
           FROM cell",
    )
    .fetch_one(conn)
    .await?)
}

/// The claim of one slot that is being released waits for the slot's repair.
pub(crate) async fn block(
    conn: &mut PgConnection,
    allocation_id: Uuid,
    slot_id: Uuid,
) -> Result<()> {
    sqlx::query(
        "UPDATE claims SET state = 'cleanup_blocked', updated_at = greatest(clock_timestamp(), updated_at)
          WHERE allocation_id = $1 AND slot_id = $2 AND state = 'releasing'",
    )
    .bind(allocation_id)
    .bind(slot_id)
    .execute(conn)
    .await?;
    Ok(())
}

/// Moves the live claims of an allocation that are in one of `from`.
pub(crate) async fn transition(
    conn: &mut PgConnection,
    allocation_id: Uuid,
    from: &[ClaimState],
    to: ClaimState,
) -> Result<u64> {
    let from: Vec<&str> = from.iter().map(|state| state.as_str()).collect();
    let done = sqlx::query(
        "UPDATE claims SET state = $3, updated_at = greatest(clock_timestamp(), updated_at),
                released_at = CASE WHEN $3 = 'released' THEN greatest(clock_timestamp(), updated_at) END
          WHERE allocation_id = $1 AND state = ANY ($2)",
    )
    .bind(allocation_id)
    .bind(from)
    .bind(to.as_str())
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}
