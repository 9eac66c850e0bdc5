//! How many GPUs a project may reserve without an operator.
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Result;

/// A project's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// GPUs of the reservations that it made itself and that are not over.
    pub max_gpus: i64,
    /// GPUs that count against it now.
    pub reserved_gpus: i64,
}

/// Sets a project's limit. Reservations that it has already stay.
///
/// # Errors
/// Those of the database.
pub async fn put_limit(conn: &mut PgConnection, project_id: Uuid, max_gpus: i32) -> Result<Limit> {
    sqlx::query(
        "INSERT INTO reservation_limits (project_id, max_gpus) VALUES ($1, $2)
         ON CONFLICT (project_id) DO UPDATE SET max_gpus = excluded.max_gpus,
                updated_at = greatest(clock_timestamp(), reservation_limits.updated_at)",
    )
    .bind(project_id)
    .bind(max_gpus)
    .execute(&mut *conn)
    .await?;
    limit(conn, project_id).await
}

/// A project's limit; 0 when no operator set one.
///
/// # Errors
/// Those of the database.
pub async fn limit(conn: &mut PgConnection, project_id: Uuid) -> Result<Limit> {
    let (max_gpus, reserved_gpus) = sqlx::query_as(
        "SELECT coalesce((SELECT max_gpus FROM reservation_limits WHERE project_id = $1), 0)::bigint,
                coalesce((SELECT sum(gpu_count - released_gpus) FROM capacity_reservations
                           WHERE project_id = $1 AND made_by_project AND ended_at IS NULL), 0)",
    )
    .bind(project_id)
    .fetch_one(conn)
    .await?;
    Ok(Limit {
        max_gpus,
        reserved_gpus,
    })
}

/// Keeps other reservations of the project from being counted at the same time: the row of its limit is locked, and made
/// where no operator set one. Count after it, in a statement of its own.
pub(super) async fn lock(conn: &mut PgConnection, project_id: Uuid) -> Result<()> {
    let locked =
        sqlx::query("SELECT FROM reservation_limits WHERE project_id = $1 FOR NO KEY UPDATE")
            .bind(project_id)
            .fetch_optional(&mut *conn)
            .await?;
    if locked.is_some() {
        return Ok(());
    }
    // no limit is a limit of 0; the row stays only when the reservation does
    sqlx::query(
        "INSERT INTO reservation_limits (project_id, max_gpus) VALUES ($1, 0)
         ON CONFLICT (project_id) DO UPDATE SET project_id = excluded.project_id",
    )
    .bind(project_id)
    .execute(conn)
    .await?;
    Ok(())
}
