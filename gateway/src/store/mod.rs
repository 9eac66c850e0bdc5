//! SQL of the schema `edge`: who may call, and the record of denials.
mod access;
mod bootstrap;
mod projects;

use sqlx::{PgPool, Row as _};
use uuid::Uuid;

use crate::auth::verify::Identity;

pub use access::may_use;
pub use bootstrap::{NewPrincipal, Seeded, seed};
pub use projects::{ProjectRow, find_profile, find_projects, list_projects};

/// A registered principal with the projects it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Stable name, for example "user:alice".
    pub name: String,
    /// Whether it administers the platform.
    pub admin: bool,
    /// Its projects, oldest membership first.
    pub projects: Vec<Uuid>,
}

/// The principal behind a checked token; `None` when it is not registered or disabled.
///
/// # Errors
/// Database errors.
pub async fn find_principal(pool: &PgPool, identity: &Identity) -> sqlx::Result<Option<Principal>> {
    let row = sqlx::query(
        "SELECT p.name, p.platform_admin,
                coalesce(array_agg(m.project_id ORDER BY m.create_time, m.project_id)
                         FILTER (WHERE m.project_id IS NOT NULL), '{}') AS projects
         FROM principals p LEFT JOIN memberships m ON m.principal_id = p.id
         WHERE p.issuer = $1 AND p.subject = $2 AND p.disable_time IS NULL
         GROUP BY p.id",
    )
    .bind(&identity.issuer)
    .bind(&identity.subject)
    .fetch_optional(pool)
    .await?;
    row.map(|row| {
        Ok(Principal {
            name: row.try_get("name")?,
            admin: row.try_get("platform_admin")?,
            projects: row.try_get("projects")?,
        })
    })
    .transpose()
}

/// The issuer's subject of a registered principal, by name; `None` when there is none.
///
/// # Errors
/// Database errors.
pub async fn subject_of(pool: &PgPool, issuer: &str, name: &str) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar(
        "SELECT subject FROM principals WHERE issuer = $1 AND name = $2 AND disable_time IS NULL",
    )
    .bind(issuer)
    .bind(name)
    .fetch_optional(pool)
    .await
}

/// A principal of one issuer, as the development sign-in lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPrincipal {
    /// Stable name, for example "user:alice".
    pub name: String,
    /// Whether it administers the platform.
    pub admin: bool,
    /// Ids and slugs of its projects.
    pub projects: Vec<(Uuid, String)>,
}

/// The principals of an issuer that are not disabled, users before administrators.
///
/// # Errors
/// Database errors.
pub async fn list_principals(pool: &PgPool, issuer: &str) -> sqlx::Result<Vec<KnownPrincipal>> {
    let rows = sqlx::query(
        "SELECT p.name, p.platform_admin,
                coalesce(array_agg(j.id ORDER BY j.slug, j.id) FILTER (WHERE j.id IS NOT NULL), '{}') AS ids,
                coalesce(array_agg(j.slug ORDER BY j.slug, j.id) FILTER (WHERE j.id IS NOT NULL), '{}') AS slugs
         FROM principals p
         LEFT JOIN memberships m ON m.principal_id = p.id
         LEFT JOIN projects j ON j.id = m.project_id
         WHERE p.issuer = $1 AND p.disable_time IS NULL
         GROUP BY p.id ORDER BY p.platform_admin, p.name LIMIT 100",
    )
    .bind(issuer)
    .fetch_all(pool)
    .await?;
    rows.into_iter()
        .map(|row| {
            let ids: Vec<Uuid> = row.try_get("ids")?;
            let slugs: Vec<String> = row.try_get("slugs")?;
            Ok(KnownPrincipal {
                name: row.try_get("name")?,
                admin: row.try_get("platform_admin")?,
                projects: ids.into_iter().zip(slugs).collect(),
            })
        })
        .collect()
}

/// True when the database answers.
pub async fn is_reachable(pool: &PgPool) -> bool {
    sqlx::query("SELECT 1 FROM principals LIMIT 1")
        .fetch_optional(pool)
        .await
        .is_ok()
}
