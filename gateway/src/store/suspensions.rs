//! Projects that are suspended, by themselves or with their organisation.
use sqlx::PgPool;
use uuid::Uuid;

/// Whether a project is suspended, as of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct SuspensionRow {
    /// Its id.
    pub project_id: Uuid,
    /// Nothing that is queued in it starts.
    pub suspended: bool,
    /// Rises with every change of the project and of its organisation.
    pub version: i64,
}

macro_rules! select {
    ($which:literal) => {
        concat!(
            "SELECT j.id AS project_id, j.version + o.version AS version,
                    'suspended' IN (j.state, o.state) AND 'closed' NOT IN (j.state, o.state) AS suspended
               FROM projects j JOIN organisations o ON o.id = j.organisation_id WHERE ",
            $which
        )
    };
}

/// All that are suspended.
///
/// # Errors
/// Database errors.
pub async fn suspended_projects(pool: &PgPool) -> sqlx::Result<Vec<SuspensionRow>> {
    sqlx::query_as(select!(
        "'suspended' IN (j.state, o.state) AND 'closed' NOT IN (j.state, o.state) ORDER BY j.id"
    ))
    .fetch_all(pool)
    .await
}

/// How these are now.
///
/// # Errors
/// Database errors.
pub async fn suspensions_of(pool: &PgPool, ids: &[Uuid]) -> sqlx::Result<Vec<SuspensionRow>> {
    sqlx::query_as(select!("j.id = ANY ($1) ORDER BY j.id"))
        .bind(ids)
        .fetch_all(pool)
        .await
}
