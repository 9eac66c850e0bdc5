//! Reports of validate-host that operators attached to nodes.
use gpuaas_common::Result;
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use serde_json::Value;
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use crate::domain::host_report::KINDS;

/// How many of a node stay.
pub const KEPT: i64 = 10;

/// A report with who attached it.
#[derive(Debug, Clone, FromRow)]
pub struct ReportRow {
    pub id: Uuid,
    pub node_id: Uuid,
    /// `gpuaas.inventory.v1.HostReport`.
    pub report: Vec<u8>,
    pub principal: String,
    pub attach_time: Timestamp,
}

/// Stores a report, and deletes those of the node that are too many.
///
/// # Errors
/// Database errors.
pub async fn insert(
    conn: &mut PgConnection,
    id: Uuid,
    node_id: Uuid,
    report: &[u8],
    principal: &str,
) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO host_reports (id, node_id, report, principal) VALUES ($1, $2, $3, $4)",
    )
    .bind(id)
    .bind(node_id)
    .bind(report)
    .bind(principal)
    .execute(&mut *conn)
    .await?;
    sqlx::query(
        "DELETE FROM host_reports WHERE node_id = $1 AND id NOT IN (
             SELECT id FROM host_reports WHERE node_id = $1 ORDER BY attach_time DESC, id DESC LIMIT $2)",
    )
    .bind(node_id)
    .bind(KEPT)
    .execute(conn)
    .await?;
    Ok(())
}

/// One report; none: it was one of too many.
///
/// # Errors
/// Database errors.
pub async fn find(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<Option<ReportRow>> {
    sqlx::query_as(
        "SELECT id, node_id, report, principal, attach_time FROM host_reports WHERE id = $1",
    )
    .bind(id)
    .fetch_optional(conn)
    .await
}

/// All reports of a node, at most [`KEPT`].
///
/// # Errors
/// Database errors.
pub async fn of_node(conn: &mut PgConnection, node_id: Uuid) -> sqlx::Result<Vec<ReportRow>> {
    sqlx::query_as(
        "SELECT id, node_id, report, principal, attach_time FROM host_reports WHERE node_id = $1",
    )
    .bind(node_id)
    .fetch_all(conn)
    .await
}

/// What the reports of a node can be selected by. Most of it is in the report itself, which the database does not read.
pub static REPORTS: Catalog = Catalog {
    fields: &[
        Field::new("id", Kind::Id, "listed.id"),
        Field::sortable("kind", Kind::OneOf(&KINDS), "listed.kind"),
        Field::sortable("agent_version", Kind::Text, "listed.agent_version"),
        Field::sortable("time", Kind::Time, "listed.time"),
        Field::sortable("failed_checks", Kind::Number, "listed.failed_checks"),
        Field::new("blocked", Kind::Flag, "listed.blocked"),
        Field::sortable("principal", Kind::Text, "listed.principal"),
        Field::sortable("attach_time", Kind::Time, "listed.attach_time"),
    ],
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "attach_time desc",
};

/// One that is selected.
#[derive(FromRow)]
struct Chosen {
    id: Uuid,
}

/// The ids of a page of those that a caller selects, and the token of the next one; of each, `facts` has the fields of
/// [`REPORTS`].
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn select(
    conn: &mut PgConnection,
    facts: Vec<Value>,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> Result<(Vec<Uuid>, String)> {
    let statement = Statement::new(&[
        "SELECT * FROM jsonb_to_recordset($1) AS attached
            (id uuid, kind text, agent_version text, time timestamptz, failed_checks bigint, blocked boolean,
             principal text, attach_time timestamptz)",
    ])
    .bind(Value::Array(facts));
    let (chosen, next) = selection.page::<Chosen>(conn, statement, wanted).await?;
    Ok((chosen.into_iter().map(|one| one.id).collect(), next))
}
