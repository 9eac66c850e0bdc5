//! Projects of which nothing starts that is queued or reserved for later: those that are suspended, by themselves or with their
//! organisation. The gateway keeps that, and says it to the ledger as often as it likes and in any order: of a project the
//! highest version counts.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::{Error, Result};

/// What the gateway says of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suspension {
    pub project_id: Uuid,
    pub suspended: bool,
    /// Rises with every change of the project and of its organisation.
    pub version: i64,
}

/// Takes in what is newer than what is known; whether a project is suspended or resumed by it. What is served of these projects
/// at the same time has been served before.
///
/// # Errors
/// Those of the database.
pub async fn put(conn: &mut PgConnection, said: &[Suspension]) -> Result<bool> {
    let ids: Vec<Uuid> = said.iter().map(|one| one.project_id).collect();
    let suspended: Vec<bool> = said.iter().map(|one| one.suspended).collect();
    let versions: Vec<i64> = said.iter().map(|one| one.version).collect();
    let mut changed: Vec<Uuid> = sqlx::query_scalar(
        "SELECT n.project_id FROM unnest($1::uuid[], $2::boolean[], $3::bigint[]) AS n (project_id, suspended, version)
           LEFT JOIN project_suspensions s ON s.project_id = n.project_id
          WHERE n.suspended <> coalesce(s.suspended, false) AND n.version > coalesce(s.version, 0)",
    )
    .bind(&ids)
    .bind(&suspended)
    .bind(&versions)
    .fetch_all(&mut *conn)
    .await?;
    changed.sort_unstable();
    changed.dedup();
    // the first of all locks, which whoever serves a project holds until the end
    sqlx::query(
        "INSERT INTO project_quotas (project_id) SELECT project_id FROM unnest($1::uuid[]) AS p (project_id)
         ON CONFLICT (project_id) DO UPDATE SET project_id = excluded.project_id",
    )
    .bind(&changed)
    .execute(&mut *conn)
    .await?;
    sqlx::query(
        "INSERT INTO project_suspensions (project_id, suspended, version)
         SELECT DISTINCT ON (project_id) project_id, suspended, version
           FROM unnest($1::uuid[], $2::boolean[], $3::bigint[]) AS n (project_id, suspended, version)
          ORDER BY project_id, version DESC
         ON CONFLICT (project_id) DO UPDATE SET suspended = excluded.suspended, version = excluded.version,
                updated_at = greatest(clock_timestamp(), project_suspensions.updated_at)
          WHERE project_suspensions.version < excluded.version",
    )
    .bind(&ids)
    .bind(&suspended)
    .bind(&versions)
    .execute(conn)
    .await?;
    Ok(!changed.is_empty())
}

/// The suspended projects.
///
/// # Errors
/// Those of the database.
pub async fn all(conn: &mut PgConnection) -> Result<Vec<Uuid>> {
    Ok(sqlx::query_scalar(
        "SELECT project_id FROM project_suspensions WHERE suspended ORDER BY project_id",
    )
    .fetch_all(conn)
    .await?)
}

/// Whether a project is suspended.
pub(crate) async fn is_suspended(conn: &mut PgConnection, project_id: Uuid) -> Result<bool> {
    Ok(sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM project_suspensions WHERE project_id = $1 AND suspended)",
    )
    .bind(project_id)
    .fetch_one(conn)
    .await?)
}

/// Lets a project be served that is not suspended. Its quota is locked: it stays so until the end of the transaction.
///
/// # Errors
/// [`Error::Refused`].
pub(crate) async fn check(conn: &mut PgConnection, project_id: Uuid) -> Result<()> {
    if !is_suspended(conn, project_id).await? {
        return Ok(());
    }
    let reason = ErrorReason::ProjectSuspended;
    Err(Error::Refused {
        reason,
        message: crate::error::sentence(reason).to_owned(),
        causes: Vec::new(),
        exceeded: None,
    })
}
