//! What operators make of a node: its configuration, its end, and what the audit trail has of both.
use std::collections::BTreeMap;

use gpuaas_common::Result;
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use super::heartbeats;
use crate::domain::lifecycle::Removed;

/// What an operator configures of a node.
#[derive(Debug, Clone, Copy)]
pub struct NodeConfig<'a> {
    /// `slice` or `baremetal`.
    pub mode: &'a str,
    /// 0: no limit.
    pub max_vms_per_node: i32,
    /// All of them.
    pub labels: &'a BTreeMap<String, String>,
    /// Rack or failure domain; empty: unknown.
    pub rack: &'a str,
}

/// Stores the configuration of a locked node.
///
/// # Errors
/// Database errors.
pub async fn set_config(
    conn: &mut PgConnection,
    id: Uuid,
    config: &NodeConfig<'_>,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE nodes SET mode = $2, max_vms_per_node = $3, labels = $4, rack = $5, revision = revision + 1,
             update_time = greatest(clock_timestamp(), update_time)
         WHERE id = $1 AND (mode, max_vms_per_node, labels, rack) IS DISTINCT FROM ($2, $3, $4, $5)",
    )
    .bind(id)
    .bind(config.mode)
    .bind(config.max_vms_per_node)
    .bind(Json(config.labels))
    .bind(config.rack)
    .execute(&mut *conn)
    .await?;
    heartbeats::forget(conn, &[id]).await
}

/// Takes a node out for good: its host counts for nothing any more, and nobody enrols for it.
///
/// # Errors
/// Database errors; that of the guard when it is gone already.
pub async fn remove(conn: &mut PgConnection, id: Uuid, how: Removed) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE nodes SET removed = $2, remove_time = clock_timestamp(), schedulable = false, revision = revision + 1,
             update_time = greatest(clock_timestamp(), update_time)
         WHERE id = $1",
    )
    .bind(id)
    .bind(how.as_str())
    .execute(&mut *conn)
    .await?;
    sqlx::query("UPDATE enrolment_tokens SET end_time = clock_timestamp() WHERE node_id = $1 AND end_time IS NULL")
        .bind(id)
        .execute(&mut *conn)
        .await?;
    heartbeats::forget(conn, &[id]).await
}

/// What the audit trail has of a node's lifecycle.
#[derive(Debug, Clone, FromRow)]
pub struct HistoryEntry {
    pub at: Timestamp,
    /// `registered`, `enrolled`, `configured` or `retired`.
    pub state: String,
    pub reason: String,
    pub principal: String,
}

/// What the history of a node can be selected by; the ledger has the same of its part.
pub static HISTORY: Catalog = Catalog {
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
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn history(
    conn: &mut PgConnection,
    id: Uuid,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> Result<(Vec<(HistoryEntry, String)>, bool)> {
    let statement = Statement::new(&[
        "SELECT seq, at, CASE action WHEN 'node.create' THEN 'registered' WHEN 'host.enrol' THEN 'enrolled'
                                WHEN 'node.update' THEN 'configured' ELSE 'retired' END AS state,
                coalesce(detail ->> 'reason', '') AS reason, principal
           FROM audit
          WHERE resource = 'node' AND resource_id = $1
            AND action IN ('node.create', 'host.enrol', 'node.update', 'node.retire')",
    ])
    .bind(id.to_string());
    selection.page_with_tokens(conn, statement, wanted).await
}
