//! Whether a principal may use a project now.
use sqlx::PgPool;
use uuid::Uuid;

/// Whether a registered principal is not disabled and belongs to the project.
///
/// # Errors
/// Database errors.
pub async fn may_use(pool: &PgPool, principal: &str, project_id: Uuid) -> sqlx::Result<bool> {
    sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM principals p JOIN memberships m ON m.principal_id = p.id
                         WHERE p.name = $1 AND p.disable_time IS NULL AND m.project_id = $2)",
    )
    .bind(principal)
    .bind(project_id)
    .fetch_one(pool)
    .await
}
