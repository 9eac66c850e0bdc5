//! What became of nodes and slots, for operators: who said what, what was proven, who had it.
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::Result;

/// An entry of a node's history.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct NodeEntry {
    /// Grows with every entry.
    pub seq: i64,
    pub at: Timestamp,
    /// An operator's intent, or "ready" or "validating".
    pub state: String,
    pub reason: String,
    /// Empty: the host's own report.
    pub principal: String,
}

/// The latest entries of a node, newest first.
///
/// # Errors
/// Those of the database.
pub async fn of_node(conn: &mut PgConnection, node_id: Uuid, limit: i64) -> Result<Vec<NodeEntry>> {
    Ok(sqlx::query_as(
        "SELECT seq, at, state, reason, principal FROM node_history WHERE node_id = $1 ORDER BY seq DESC LIMIT $2",
    )
    .bind(node_id)
    .bind(limit)
    .fetch_all(conn)
    .await?)
}

/// When the latest entry of a node was made.
///
/// # Errors
/// Those of the database.
pub async fn latest(conn: &mut PgConnection, node_id: Uuid) -> Result<Option<Timestamp>> {
    Ok(sqlx::query_scalar(
        "SELECT at FROM node_history WHERE node_id = $1 ORDER BY seq DESC LIMIT 1",
    )
    .bind(node_id)
    .fetch_optional(conn)
    .await?)
}

/// An entry of a slot's history.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct SlotEntry {
    pub at: Timestamp,
    /// "health", "enabled", "disabled", "retired", "claimed", "released" or "evidence".
    pub kind: String,
    /// Of a claim and of evidence.
    pub generation: Option<i64>,
    /// Health then, method of the evidence, or the reason.
    pub detail: String,
    /// Who had it.
    pub allocation_id: Option<Uuid>,
    pub principal: String,
}

/// The latest entries of a slot, newest first: its claims, its evidence, its health and what operators said of it.
///
/// # Errors
/// Those of the database.
pub async fn of_slot(conn: &mut PgConnection, slot_id: Uuid, limit: i64) -> Result<Vec<SlotEntry>> {
    Ok(sqlx::query_as(
        "SELECT at, kind, generation, detail, allocation_id, principal FROM (
             SELECT at, kind, NULL::bigint AS generation,
                    CASE kind WHEN 'health' THEN health::text || CASE detail WHEN '' THEN '' ELSE ': ' || detail END
                              ELSE detail END AS detail,
                    NULL::uuid AS allocation_id, principal, 2 AS rank, seq FROM slot_history WHERE slot_id = $1
             UNION ALL
             SELECT at, 'evidence', generation, kind || ': ' || method, NULL, coalesce(detail ->> 'principal', ''), 1, 0
               FROM clean_evidence WHERE slot_id = $1
             UNION ALL
             SELECT c.created_at, 'claimed', c.slot_generation, '', c.allocation_id, a.principal, 0, 0
               FROM claims c JOIN allocations a ON a.id = c.allocation_id WHERE c.slot_id = $1
             UNION ALL
             SELECT c.released_at, 'released', c.slot_generation, '', c.allocation_id, '', 3, 0
               FROM claims c WHERE c.slot_id = $1 AND c.state = 'released') AS entries
          ORDER BY at DESC, rank DESC, seq DESC LIMIT $2",
    )
    .bind(slot_id)
    .bind(limit)
    .fetch_all(conn)
    .await?)
}
