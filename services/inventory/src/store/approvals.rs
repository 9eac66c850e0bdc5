//! The record of what an operator approved.
use sqlx::PgConnection;
use uuid::Uuid;

use super::heartbeats;

/// An approval that the ledger has accepted.
#[derive(Debug, Clone)]
pub struct NewApproval<'a> {
    pub id: Uuid,
    pub node_id: Uuid,
    /// Discovery that was reviewed.
    pub discovery_id: Uuid,
    /// Candidates that became slots.
    pub slot_indexes: &'a [i32],
    /// The slots, in the same order.
    pub slot_ids: &'a [Uuid],
    /// Who approved.
    pub principal: &'a str,
}

/// Stores an approval. The host's next report is taken in full: it is judged by the slots there are now.
///
/// # Errors
/// Database errors.
pub async fn insert(conn: &mut PgConnection, approval: &NewApproval<'_>) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO slot_approvals (id, node_id, discovery_id, slot_indexes, slot_ids, principal)
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(approval.id)
    .bind(approval.node_id)
    .bind(approval.discovery_id)
    .bind(approval.slot_indexes)
    .bind(approval.slot_ids)
    .bind(approval.principal)
    .execute(&mut *conn)
    .await?;
    heartbeats::forget(conn, &[approval.node_id]).await
}

/// Slots of an approval.
///
/// # Errors
/// Database errors.
pub async fn slot_ids(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<Option<Vec<Uuid>>> {
    sqlx::query_scalar("SELECT slot_ids FROM slot_approvals WHERE id = $1")
        .bind(id)
        .fetch_optional(conn)
        .await
}
