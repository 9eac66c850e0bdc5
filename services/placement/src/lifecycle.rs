//! What became of nodes and slots, for operators: who said what, what was proven, who had it.
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Result;

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

/// What the history of a node can be selected by.
pub static NODE_HISTORY: Catalog = Catalog {
    fields: &[
        Field::sortable("time", Kind::Time, "listed.at"),
        Field::new("state", Kind::Text, "listed.state"),
        Field::new("reason", Kind::Text, "listed.reason"),
        Field::new("principal", Kind::Text, "listed.principal"),
    ],
    key: Field::new("seq", Kind::Number, "listed.seq"),
    order: "time desc",
};

/// A page of the entries of a node that a caller selects, the newest first unless the selection says otherwise, each with the
/// token of the page after it; and whether there are more.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; those of the database.
pub async fn of_node(
    conn: &mut PgConnection,
    node_id: Uuid,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<(NodeEntry, String)>, bool)> {
    let statement = Statement::new(&[
        "SELECT seq, at, state, reason, principal FROM node_history WHERE node_id = $1",
    ])
    .bind(node_id);
    selection.page_with_tokens(conn, statement, wanted).await
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

/// What the history of a slot can be selected by.
pub static SLOT_HISTORY: Catalog = Catalog {
    fields: &[
        Field::sortable("time", Kind::Time, "listed.at"),
        Field::new("kind", Kind::Text, "listed.kind"),
        Field::new("generation", Kind::Number, "listed.generation"),
        Field::new("detail", Kind::Text, "listed.detail"),
        Field::new("allocation_id", Kind::Id, "listed.allocation_id"),
        Field::new("principal", Kind::Text, "listed.principal"),
    ],
    // of what happened in one moment: what can only come later
    key: Field::new("place", Kind::Number, "listed.place"),
    order: "time desc",
};

/// A page of the entries of a slot that a caller selects, the newest first unless the selection says otherwise: its claims, its
/// evidence, its health and what operators said of it; and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; those of the database.
pub async fn of_slot(
    conn: &mut PgConnection,
    slot_id: Uuid,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<SlotEntry>, String)> {
    let statement = Statement::new(&[
        "SELECT at, kind, generation, detail, allocation_id, principal, rank * 1000000000000::bigint + seq AS place FROM (
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
               FROM claims c WHERE c.slot_id = $1 AND c.state = 'released') AS entries",
    ])
    .bind(slot_id);
    selection.page(conn, statement, wanted).await
}
