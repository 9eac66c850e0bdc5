//! Reports of validate-host that operators attached to nodes.
use jiff_sqlx::Timestamp;
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

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

/// The latest reports of a node, the newest first.
///
/// # Errors
/// Database errors.
pub async fn latest(
    conn: &mut PgConnection,
    node_id: Uuid,
    limit: i64,
) -> sqlx::Result<Vec<ReportRow>> {
    sqlx::query_as(
        "SELECT id, node_id, report, principal, attach_time FROM host_reports
          WHERE node_id = $1 ORDER BY attach_time DESC, id DESC LIMIT $2",
    )
    .bind(node_id)
    .bind(limit)
    .fetch_all(conn)
    .await
}
