//! Projects as people see them.
use sqlx::postgres::PgRow;
use sqlx::{PgPool, Row as _};
use uuid::Uuid;

/// A project with the slug of its organisation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectRow {
    /// Id.
    pub id: Uuid,
    /// Unique in the organisation.
    pub slug: String,
    /// For people.
    pub display_name: String,
    /// Slug of the organisation.
    pub organisation: String,
}

fn read(row: &PgRow) -> sqlx::Result<ProjectRow> {
    Ok(ProjectRow {
        id: row.try_get("id")?,
        slug: row.try_get("slug")?,
        display_name: row.try_get("display_name")?,
        organisation: row.try_get("organisation")?,
    })
}

/// The display name of a principal and its projects, oldest membership first.
///
/// # Errors
/// Database errors; also when there is no such principal.
pub async fn find_profile(
    pool: &PgPool,
    principal: &str,
) -> sqlx::Result<(String, Vec<ProjectRow>)> {
    let display_name = sqlx::query_scalar("SELECT display_name FROM principals WHERE name = $1")
        .bind(principal)
        .fetch_one(pool)
        .await?;
    let rows = sqlx::query(
        "SELECT j.id, j.slug, j.display_name, o.slug AS organisation
           FROM memberships m
           JOIN principals p ON p.id = m.principal_id
           JOIN projects j ON j.id = m.project_id
           JOIN organisations o ON o.id = j.organisation_id
          WHERE p.name = $1
          ORDER BY m.create_time, m.project_id",
    )
    .bind(principal)
    .fetch_all(pool)
    .await?;
    Ok((
        display_name,
        rows.iter().map(read).collect::<sqlx::Result<_>>()?,
    ))
}

/// Those of these projects that there are.
///
/// # Errors
/// Database errors.
pub async fn find_projects(pool: &PgPool, ids: &[Uuid]) -> sqlx::Result<Vec<ProjectRow>> {
    let rows = sqlx::query(
        "SELECT j.id, j.slug, j.display_name, o.slug AS organisation
           FROM projects j JOIN organisations o ON o.id = j.organisation_id
          WHERE j.id = ANY ($1)",
    )
    .bind(ids)
    .fetch_all(pool)
    .await?;
    rows.iter().map(read).collect()
}

/// The projects after one, given as slugs of its organisation and itself, in that order.
///
/// # Errors
/// Database errors.
pub async fn list_projects(
    pool: &PgPool,
    after: &(String, String),
    limit: i64,
) -> sqlx::Result<Vec<ProjectRow>> {
    let rows = sqlx::query(
        "SELECT j.id, j.slug, j.display_name, o.slug AS organisation
           FROM projects j JOIN organisations o ON o.id = j.organisation_id
          WHERE (o.slug, j.slug) > ($1, $2)
          ORDER BY o.slug, j.slug LIMIT $3",
    )
    .bind(&after.0)
    .bind(&after.1)
    .bind(limit)
    .fetch_all(pool)
    .await?;
    rows.iter().map(read).collect()
}
