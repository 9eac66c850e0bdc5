//! Wipes that were proven, with what the hosts signed of them: read from the evidence, which never changes.
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::Result;

/// A wipe of a slot's disk.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Wipe {
    pub slot_id: Uuid,
    /// Of the slot, while the wipe was its proof.
    pub generation: i64,
    /// Wipe policy of the slot.
    pub policy: String,
    /// How it was wiped; empty when the host did not tell.
    pub erase_method: String,
    /// What the host signed; empty when it signed none.
    pub certificate: String,
    /// When the proof was accepted.
    pub at: Timestamp,
}

/// The wipes that ended an allocation, in order of the slots' index. A wipe that was proven by a repair afterwards is the
/// allocation's as well: nobody had the slot meanwhile.
///
/// # Errors
/// Those of the database.
pub async fn of_allocation(conn: &mut PgConnection, allocation_id: Uuid) -> Result<Vec<Wipe>> {
    Ok(sqlx::query_as(
        "SELECT e.slot_id, e.generation, e.method AS policy, coalesce(e.detail ->> 'erase_method', '') AS erase_method,
                coalesce(e.detail ->> 'certificate', '') AS certificate, e.at
           FROM claims c JOIN slots s ON s.id = c.slot_id
                CROSS JOIN LATERAL (SELECT * FROM clean_evidence
                                     WHERE slot_id = c.slot_id AND generation >= c.slot_generation
                                     ORDER BY generation LIMIT 1) e
          WHERE c.allocation_id = $1 AND e.kind = 'wiped' ORDER BY s.slot_index",
    )
    .bind(allocation_id)
    .fetch_all(conn)
    .await?)
}

/// The wipes of a slot's disk before a generation, newest first.
///
/// # Errors
/// Those of the database.
pub async fn of_slot(
    conn: &mut PgConnection,
    slot_id: Uuid,
    before: i64,
    most: i64,
) -> Result<Vec<Wipe>> {
    Ok(sqlx::query_as(
        "SELECT slot_id, generation, method AS policy, coalesce(detail ->> 'erase_method', '') AS erase_method,
                coalesce(detail ->> 'certificate', '') AS certificate, at
           FROM clean_evidence
          WHERE slot_id = $1 AND generation < $2 AND kind = 'wiped' ORDER BY generation DESC LIMIT $3",
    )
    .bind(slot_id)
    .bind(before)
    .bind(most)
    .fetch_all(conn)
    .await?)
}
