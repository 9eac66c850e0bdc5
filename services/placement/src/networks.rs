//! Whether the VMs of a project reach each other where they are on one host (P11).
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Result;

/// Changes the setting of a project, and returns what it was. Changes of one project come one after the other.
///
/// # Errors
/// Those of the database.
pub async fn put(
    conn: &mut PgConnection,
    project_id: Uuid,
    vms_reach_each_other: bool,
) -> Result<bool> {
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('network ' || $1, 0))")
        .bind(project_id.to_string())
        .execute(&mut *conn)
        .await?;
    let before = self::vms_reach_each_other(&mut *conn, project_id).await?;
    sqlx::query(
        "INSERT INTO project_networks (project_id, vms_reach_each_other) VALUES ($1, $2)
         ON CONFLICT (project_id) DO UPDATE SET vms_reach_each_other = excluded.vms_reach_each_other,
                updated_at = greatest(clock_timestamp(), project_networks.updated_at + interval '1 microsecond')",
    )
    .bind(project_id)
    .bind(vms_reach_each_other)
    .execute(conn)
    .await?;
    Ok(before)
}

/// Whether they do; not unless somebody changed it.
///
/// # Errors
/// Those of the database.
pub async fn vms_reach_each_other(conn: &mut PgConnection, project_id: Uuid) -> Result<bool> {
    let found = sqlx::query_scalar(
        "SELECT vms_reach_each_other FROM project_networks WHERE project_id = $1",
    )
    .bind(project_id)
    .fetch_optional(conn)
    .await?;
    Ok(found.unwrap_or(false))
}

/// Which other VMs of its host a VM may reach.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Group {
    pub allocation_id: Uuid,
    /// Its project, where VMs of that reach each other; empty otherwise.
    pub name: String,
    /// Grows with every change that the project makes; 0: it never made one.
    pub version: i64,
}

/// The network group of each active allocation of a node.
///
/// # Errors
/// Those of the database.
pub async fn groups_of_node(conn: &mut PgConnection, node_id: Uuid) -> Result<Vec<Group>> {
    Ok(sqlx::query_as(
        "SELECT a.id AS allocation_id, CASE WHEN n.vms_reach_each_other THEN a.project_id::text ELSE '' END AS name,
                coalesce(extract(epoch FROM n.updated_at) * 1000000, 0)::bigint AS version
           FROM allocations a LEFT JOIN project_networks n ON n.project_id = a.project_id
          WHERE a.node_id = $1 AND a.state = 'active'",
    )
    .bind(node_id)
    .fetch_all(conn)
    .await?)
}
