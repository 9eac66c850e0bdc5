//! Organisations as people see them, and their changes.
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row as _};
use uuid::Uuid;

use super::principal::{Role, decode, decode_optional};
use super::tenant::TenantState;

/// An organisation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrganisationRow {
    /// Id.
    pub id: Uuid,
    /// Unique.
    pub slug: String,
    /// For people.
    pub display_name: String,
    /// Its state.
    pub state: TenantState,
    /// Why it is not active.
    pub state_reason: String,
    /// When it was created.
    pub create_time: Timestamp,
    /// When it last changed.
    pub update_time: Timestamp,
    /// Rises with every change.
    pub version: i64,
    /// The role of whoever asks in the organisation itself.
    pub role: Option<Role>,
    /// Whoever asks is in a project of it.
    pub has_project: bool,
}

impl FromRow<'_, PgRow> for OrganisationRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        read(row)
    }
}

fn read(row: &PgRow) -> sqlx::Result<OrganisationRow> {
    Ok(OrganisationRow {
        id: row.try_get("id")?,
        slug: row.try_get("slug")?,
        display_name: row.try_get("display_name")?,
        state: decode(row, "state", TenantState::parse)?,
        state_reason: row.try_get("state_reason")?,
        create_time: row.try_get("create_time")?,
        update_time: row.try_get("update_time")?,
        version: row.try_get("version")?,
        role: decode_optional(row, "role", Role::parse)?,
        has_project: row.try_get("has_project")?,
    })
}

/// An organisation as a principal has it.
///
/// # Errors
/// Database errors.
pub async fn find_organisation(
    conn: &mut PgConnection,
    id: Uuid,
    principal: Uuid,
) -> sqlx::Result<Option<OrganisationRow>> {
    let row = sqlx::query(
        "SELECT o.*, m.role, EXISTS (SELECT FROM memberships p JOIN projects j ON j.id = p.project_id
                                      WHERE p.principal_id = $2 AND j.organisation_id = o.id) AS has_project
           FROM organisations o
           LEFT JOIN organisation_memberships m ON m.organisation_id = o.id AND m.principal_id = $2
          WHERE o.id = $1",
    )
    .bind(id)
    .bind(principal)
    .fetch_optional(conn)
    .await?;
    row.as_ref().map(read).transpose()
}

/// Locks the organisation of a project, and no other change of what its groups give is made until the end of the transaction.
/// It comes before the lock on the project, for everybody.
///
/// # Errors
/// Database errors.
pub async fn lock_organisation_of(conn: &mut PgConnection, project: Uuid) -> sqlx::Result<()> {
    sqlx::query(
        "SELECT FROM organisations WHERE id = (SELECT organisation_id FROM projects WHERE id = $1) FOR UPDATE",
    )
    .bind(project)
    .execute(conn)
    .await?;
    Ok(())
}

/// Keeps the locks on an organisation's projects from others until the end of the transaction: who changes memberships in
/// several waits before the first of them, and never between two.
///
/// # Errors
/// Database errors.
pub async fn hold_projects_of(conn: &mut PgConnection, organisation: Uuid) -> sqlx::Result<()> {
    sqlx::query("SELECT FROM projects WHERE organisation_id = $1 ORDER BY id FOR KEY SHARE")
        .bind(organisation)
        .execute(conn)
        .await?;
    Ok(())
}

/// Locks an organisation until the end of the transaction: its changes, and those of who owns it, are one after the other.
///
/// # Errors
/// Database errors.
pub async fn lock_organisation(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<()> {
    sqlx::query("SELECT FROM organisations WHERE id = $1 FOR UPDATE")
        .bind(id)
        .execute(conn)
        .await?;
    Ok(())
}

/// What a list of organisations can be selected by.
pub static ORGANISATIONS: Catalog = Catalog {
    fields: &[
        SLUG,
        Field::sortable("display_name", Kind::Text, "listed.display_name"),
        Field::sortable(
            "state",
            Kind::OneOf(&["active", "suspended", "closed"]),
            "listed.state",
        ),
        Field::sortable("create_time", Kind::Time, "listed.create_time"),
        Field::sortable("update_time", Kind::Time, "listed.update_time"),
    ],
    key: SLUG,
    order: "slug",
};

const SLUG: Field = Field::sortable("slug", Kind::Text, "listed.slug");

/// A page of the organisations that a caller selects, and the token of the next one: of all, or of those that a principal is
/// a member of or has a project in.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn list_organisations(
    conn: &mut PgConnection,
    member: Option<Uuid>,
    state: Option<TenantState>,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<OrganisationRow>, String)> {
    let statement = Statement::new(&[
        "SELECT o.*, m.role, false AS has_project
           FROM organisations o
           LEFT JOIN organisation_memberships m ON m.organisation_id = o.id AND m.principal_id = $1
          WHERE ($2 IS NULL OR o.state = $2)
            AND ($1 IS NULL OR o.id IN (
                SELECT organisation_id FROM organisation_memberships WHERE principal_id = $1
                UNION ALL
                SELECT j.organisation_id FROM memberships p JOIN projects j ON j.id = p.project_id WHERE p.principal_id = $1))",
    ])
    .bind(member)
    .bind(state.map(TenantState::as_str));
    selection.page(conn, statement, wanted).await
}

/// Adds an organisation; `false` when the slug is taken.
///
/// # Errors
/// Database errors.
pub async fn insert_organisation(
    conn: &mut PgConnection,
    id: Uuid,
    slug: &str,
    display_name: &str,
) -> sqlx::Result<bool> {
    let done = sqlx::query(
        "INSERT INTO organisations (id, slug, display_name) VALUES ($1, $2, $3) ON CONFLICT (slug) DO NOTHING",
    )
    .bind(id)
    .bind(slug)
    .bind(display_name)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Changes the display name.
///
/// # Errors
/// Database errors.
pub async fn rename_organisation(
    conn: &mut PgConnection,
    id: Uuid,
    display_name: &str,
) -> sqlx::Result<()> {
    sqlx::query("UPDATE organisations SET display_name = $2 WHERE id = $1")
        .bind(id)
        .bind(display_name)
        .execute(conn)
        .await?;
    Ok(())
}

/// Changes the state.
///
/// # Errors
/// Database errors; also for a closed organisation.
pub async fn set_organisation_state(
    conn: &mut PgConnection,
    id: Uuid,
    state: TenantState,
    reason: &str,
) -> sqlx::Result<()> {
    sqlx::query("UPDATE organisations SET state = $2, state_reason = $3 WHERE id = $1")
        .bind(id)
        .bind(state.as_str())
        .bind(reason)
        .execute(conn)
        .await?;
    Ok(())
}

/// How many projects of an organisation are not closed.
///
/// # Errors
/// Database errors.
pub async fn count_open_projects(conn: &mut PgConnection, organisation: Uuid) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "SELECT count(*) FROM projects WHERE organisation_id = $1 AND state <> 'closed'",
    )
    .bind(organisation)
    .fetch_one(conn)
    .await
}

/// Slugs of projects of an organisation that are not closed, at most so many.
///
/// # Errors
/// Database errors.
pub async fn open_projects(
    conn: &mut PgConnection,
    organisation: Uuid,
    limit: i64,
) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar(
        "SELECT slug FROM projects WHERE organisation_id = $1 AND state <> 'closed' ORDER BY slug LIMIT $2",
    )
    .bind(organisation)
    .bind(limit)
    .fetch_all(conn)
    .await
}
