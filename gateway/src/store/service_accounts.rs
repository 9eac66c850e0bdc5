//! Service accounts of projects.
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row as _};
use uuid::Uuid;

use super::principal::{Role, decode_optional};

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccountRow {
    /// The principal.
    pub id: Uuid,
    /// Its project.
    pub project: Uuid,
    /// Unique among the project's.
    pub slug: String,
    /// Its stable name.
    pub name: String,
    /// For people.
    pub description: String,
    /// In its project; none: somebody has taken it out.
    pub role: Option<Role>,
    /// Principal who made it.
    pub creator: String,
    /// When it was made.
    pub create_time: Timestamp,
    /// Since when it can do nothing.
    pub disable_time: Option<Timestamp>,
    /// Only an administrator of the platform enables it.
    pub disabled_by_platform: bool,
}

impl FromRow<'_, PgRow> for ServiceAccountRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        read(row)
    }
}

fn read(row: &PgRow) -> sqlx::Result<ServiceAccountRow> {
    Ok(ServiceAccountRow {
        id: row.try_get("id")?,
        project: row.try_get("project_id")?,
        slug: row.try_get("slug")?,
        name: row.try_get("name")?,
        description: row.try_get("description")?,
        role: decode_optional(row, "role", Role::parse)?,
        creator: row.try_get("creator")?,
        create_time: row.try_get("create_time")?,
        disable_time: row.try_get("disable_time")?,
        disabled_by_platform: row.try_get("disabled_by_platform")?,
    })
}

/// A service account to make.
#[derive(Clone, Copy, Debug)]
pub struct NewServiceAccount<'a> {
    /// The principal.
    pub id: Uuid,
    /// Its project.
    pub project: Uuid,
    /// Unique among the project's.
    pub slug: &'a str,
    /// Its stable name.
    pub name: &'a str,
    /// The issuer of this cell's service accounts.
    pub issuer: &'a str,
    /// For people.
    pub description: &'a str,
    /// In its project.
    pub role: Role,
    /// Principal who makes it.
    pub creator: &'a str,
}

/// Adds a service account as a member of its project; `false` when the project has one of the slug.
///
/// # Errors
/// Database errors.
pub async fn insert_service_account(
    conn: &mut PgConnection,
    new: &NewServiceAccount<'_>,
) -> sqlx::Result<bool> {
    sqlx::query(
        "INSERT INTO principals (id, name, issuer, subject, display_name, kind)
         VALUES ($1, $2, $3, $1::text, $4, 'service')",
    )
    .bind(new.id)
    .bind(new.name)
    .bind(new.issuer)
    .bind(new.slug)
    .execute(&mut *conn)
    .await?;
    let done = sqlx::query(
        "INSERT INTO service_accounts (principal_id, project_id, slug, description, creator)
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
    )
    .bind(new.id)
    .bind(new.project)
    .bind(new.slug)
    .bind(new.description)
    .bind(new.creator)
    .execute(&mut *conn)
    .await?;
    if done.rows_affected() == 0 {
        return Ok(false);
    }
    sqlx::query("INSERT INTO memberships (principal_id, project_id, role) VALUES ($1, $2, $3)")
        .bind(new.id)
        .bind(new.project)
        .bind(new.role.as_str())
        .execute(conn)
        .await?;
    Ok(true)
}

/// One service account of a project, unless it is deleted.
///
/// # Errors
/// Database errors.
pub async fn find_service_account(
    conn: &mut PgConnection,
    project: Uuid,
    id: Uuid,
) -> sqlx::Result<Option<ServiceAccountRow>> {
    let row = sqlx::query(
        "SELECT p.id, a.project_id, a.slug, p.name, a.description, m.role, a.creator, a.create_time, p.disable_time,
                p.disabled_by_platform
           FROM service_accounts a JOIN principals p ON p.id = a.principal_id
           LEFT JOIN memberships m ON m.principal_id = p.id AND m.project_id = a.project_id
          WHERE a.project_id = $1 AND a.principal_id = $2 AND a.delete_time IS NULL",
    )
    .bind(project)
    .bind(id)
    .fetch_optional(conn)
    .await?;
    row.as_ref().map(read).transpose()
}

/// What the list of a project's service accounts can be selected by.
pub static SERVICE_ACCOUNTS: Catalog = Catalog {
    fields: &[
        Field::sortable("slug", Kind::Text, "listed.slug"),
        Field::sortable("principal", Kind::Text, "listed.name"),
        Field::new("description", Kind::Text, "listed.description"),
        Field::new(
            "role",
            Kind::OneOf(&["owner", "member", "viewer", "billing"]),
            "listed.role",
        ),
        Field::sortable("creator", Kind::Text, "listed.creator"),
        Field::new("disabled", Kind::Flag, "(listed.disable_time IS NOT NULL)"),
        Field::sortable("create_time", Kind::Time, "listed.create_time"),
    ],
    // the order in which they were made
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "",
};

/// A page of the service accounts of a project that a caller selects, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn list_service_accounts(
    conn: &mut PgConnection,
    project: Uuid,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<ServiceAccountRow>, String)> {
    let statement = Statement::new(&[
        "SELECT p.id, a.project_id, a.slug, p.name, a.description, m.role, a.creator, a.create_time, p.disable_time,
                p.disabled_by_platform
           FROM service_accounts a JOIN principals p ON p.id = a.principal_id
           LEFT JOIN memberships m ON m.principal_id = p.id AND m.project_id = a.project_id
          WHERE a.project_id = $1 AND a.delete_time IS NULL",
    ])
    .bind(project);
    selection.page(conn, statement, wanted).await
}

/// Ends a service account for good, with its memberships and keys. Its principal stays, for the audit trail names it.
///
/// # Errors
/// Database errors.
pub async fn delete_service_account(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<()> {
    for statement in [
        "UPDATE service_accounts SET delete_time = clock_timestamp() WHERE principal_id = $1 AND delete_time IS NULL",
        "UPDATE api_keys SET disable_time = clock_timestamp() WHERE principal_id = $1 AND disable_time IS NULL",
        "DELETE FROM memberships WHERE principal_id = $1",
        "DELETE FROM organisation_memberships WHERE principal_id = $1",
        "UPDATE principals SET disable_time = coalesce(disable_time, clock_timestamp()) WHERE id = $1",
    ] {
        sqlx::query(statement).bind(id).execute(&mut *conn).await?;
    }
    Ok(())
}
