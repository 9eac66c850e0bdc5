//! The priority class that an operator sets for a project's queued requests.
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Result;
use crate::model::Priority;

/// Sets a project's class; it also applies to requests that are queued already.
///
/// # Errors
/// Those of the database.
pub async fn put(conn: &mut PgConnection, project_id: Uuid, priority: Priority) -> Result<()> {
    sqlx::query(
        "INSERT INTO project_priorities (project_id, priority) VALUES ($1, $2)
         ON CONFLICT (project_id) DO UPDATE SET priority = excluded.priority,
                updated_at = greatest(clock_timestamp(), project_priorities.updated_at)",
    )
    .bind(project_id)
    .bind(priority.as_str())
    .execute(conn)
    .await?;
    Ok(())
}

/// A project's class.
///
/// # Errors
/// Those of the database.
pub async fn get(conn: &mut PgConnection, project_id: Uuid) -> Result<Priority> {
    let priority: Option<Priority> =
        sqlx::query_scalar("SELECT priority FROM project_priorities WHERE project_id = $1")
            .bind(project_id)
            .fetch_optional(conn)
            .await?;
    Ok(priority.unwrap_or(Priority::Normal))
}
