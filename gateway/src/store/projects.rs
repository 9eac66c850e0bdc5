//! Projects as people see them.
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, FromRow, PgConnection, PgPool, Row as _};
use uuid::Uuid;

use super::principal::{Role, decode, decode_optional};
use super::tenant::TenantState;

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
    /// Its organisation.
    pub organisation_id: Uuid,
    /// Its own.
    pub own_state: TenantState,
    /// That of its organisation.
    pub organisation_state: TenantState,
    /// Why it is not active.
    pub state_reason: String,
    /// Only an administrator of the platform resumes it.
    pub suspended_by_platform: bool,
    /// When it was created.
    pub create_time: Timestamp,
    /// When it last changed.
    pub update_time: Timestamp,
    /// Rises with every change.
    pub version: i64,
    /// The role of whoever asks.
    pub role: Option<Role>,
}

/// Columns of a [`ProjectRow`] but the role, of `projects j` and `organisations o`.
pub(super) const COLUMNS: &str =
    "j.id, j.slug, j.display_name, o.slug AS organisation, j.organisation_id, j.state, o.state AS organisation_state,
     CASE WHEN j.state = 'active' THEN o.state_reason ELSE j.state_reason END AS state_reason,
     j.suspended_by_platform, j.create_time, j.update_time, j.version";

impl FromRow<'_, PgRow> for ProjectRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        read(row)
    }
}

pub(super) fn read(row: &PgRow) -> sqlx::Result<ProjectRow> {
    Ok(ProjectRow {
        id: row.try_get("id")?,
        slug: row.try_get("slug")?,
        display_name: row.try_get("display_name")?,
        organisation: row.try_get("organisation")?,
        organisation_id: row.try_get("organisation_id")?,
        own_state: decode(row, "state", TenantState::parse)?,
        organisation_state: decode(row, "organisation_state", TenantState::parse)?,
        state_reason: row.try_get("state_reason")?,
        suspended_by_platform: row.try_get("suspended_by_platform")?,
        create_time: row.try_get("create_time")?,
        update_time: row.try_get("update_time")?,
        version: row.try_get("version")?,
        role: decode_optional(row, "role", Role::parse)?,
    })
}

impl ProjectRow {
    /// Its state, with that of its organisation.
    pub fn state(&self) -> TenantState {
        self.own_state.max(self.organisation_state)
    }
}

/// Those of these projects that there are.
///
/// # Errors
/// Database errors.
pub async fn find_projects(pool: &PgPool, ids: &[Uuid]) -> sqlx::Result<Vec<ProjectRow>> {
    let sql = format!(
        "SELECT {COLUMNS}, NULL AS role FROM projects j JOIN organisations o ON o.id = j.organisation_id
          WHERE j.id = ANY ($1)"
    );
    let rows = sqlx::query(AssertSqlSafe(sql))
        .bind(ids)
        .fetch_all(pool)
        .await?;
    rows.iter().map(read).collect()
}

/// The projects of a principal that are not closed, oldest membership first.
///
/// # Errors
/// Database errors.
pub async fn projects_of(pool: &PgPool, principal: Uuid) -> sqlx::Result<Vec<ProjectRow>> {
    let sql = format!(
        "SELECT {COLUMNS}, a.role FROM access_of($1) a JOIN projects j ON j.id = a.project_id
           JOIN organisations o ON o.id = j.organisation_id
          WHERE a.state <> 'closed'
          ORDER BY a.since, j.id"
    );
    let rows = sqlx::query(AssertSqlSafe(sql))
        .bind(principal)
        .fetch_all(pool)
        .await?;
    rows.iter().map(read).collect()
}

/// What a list of projects can be selected by.
pub static PROJECTS: Catalog = Catalog {
    fields: &[
        Field::sortable("slug", Kind::Text, "listed.slug"),
        Field::sortable("display_name", Kind::Text, "listed.display_name"),
        Field::sortable("organisation", Kind::Text, "listed.organisation"),
        Field::new("organisation_id", Kind::Id, "listed.organisation_id"),
        Field::new(
            "state",
            Kind::OneOf(&["active", "suspended", "closed"]),
            "CASE WHEN 'closed' IN (listed.state, listed.organisation_state) THEN 'closed'
                  WHEN 'suspended' IN (listed.state, listed.organisation_state) THEN 'suspended' ELSE 'active' END",
        ),
        Field::sortable("create_time", Kind::Time, "listed.create_time"),
        Field::sortable("update_time", Kind::Time, "listed.update_time"),
    ],
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "organisation, slug",
};

/// Which projects to list, beside what the caller selects.
#[derive(Clone, Debug, Default)]
pub struct ProjectFilter {
    /// Those that this principal is a member of; `None`: all.
    pub member: Option<Uuid>,
    /// Those of one organisation.
    pub organisation: Option<Uuid>,
    /// Those in this state, by themselves or by their organisation.
    pub state: Option<TenantState>,
}

/// A page of the projects that a caller selects, and the token of the next one. To a member its closed projects are shown,
/// too.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn list_projects(
    conn: &mut PgConnection,
    filter: &ProjectFilter,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<ProjectRow>, String)> {
    const CONDITIONS: &str = " JOIN organisations o ON o.id = j.organisation_id
          WHERE ($1 IS NULL OR j.organisation_id = $1)
            AND ($2 IS NULL OR $2 = CASE WHEN 'closed' IN (j.state, o.state) THEN 'closed'
                                         WHEN 'suspended' IN (j.state, o.state) THEN 'suspended' ELSE 'active' END)";
    let statement = match filter.member {
        None => Statement::new(&[
            "SELECT ",
            COLUMNS,
            ", NULL AS role FROM projects j",
            CONDITIONS,
        ]),
        Some(_) => Statement::new(&[
            "SELECT ",
            COLUMNS,
            ", a.role FROM access_of($3) a JOIN projects j ON j.id = a.project_id",
            CONDITIONS,
        ]),
    };
    let mut statement = statement
        .bind(filter.organisation)
        .bind(filter.state.map(TenantState::as_str));
    if let Some(member) = filter.member {
        statement = statement.bind(member);
    }
    selection.page(conn, statement, wanted).await
}

/// A project as a principal has it.
///
/// # Errors
/// Database errors.
pub async fn find_project(
    conn: &mut PgConnection,
    id: Uuid,
    principal: Uuid,
) -> sqlx::Result<Option<ProjectRow>> {
    let sql = format!(
        "SELECT {COLUMNS}, (SELECT a.role FROM access_of($2) a WHERE a.project_id = j.id) AS role
           FROM projects j JOIN organisations o ON o.id = j.organisation_id WHERE j.id = $1"
    );
    let row = sqlx::query(AssertSqlSafe(sql))
        .bind(id)
        .bind(principal)
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(read).transpose()
}

/// Locks a project until the end of the transaction: its changes, and those of who owns it, are one after the other.
///
/// # Errors
/// Database errors.
pub async fn lock_project(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<()> {
    sqlx::query("SELECT FROM projects WHERE id = $1 FOR UPDATE")
        .bind(id)
        .execute(conn)
        .await?;
    Ok(())
}

/// Adds a project; `false` when the slug is taken in the organisation.
///
/// # Errors
/// Database errors.
pub async fn insert_project(
    conn: &mut PgConnection,
    id: Uuid,
    organisation: Uuid,
    slug: &str,
    display_name: &str,
) -> sqlx::Result<bool> {
    let done = sqlx::query(
        "INSERT INTO projects (id, organisation_id, slug, display_name) VALUES ($1, $2, $3, $4)
         ON CONFLICT (organisation_id, slug) DO NOTHING",
    )
    .bind(id)
    .bind(organisation)
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
pub async fn rename_project(
    conn: &mut PgConnection,
    id: Uuid,
    display_name: &str,
) -> sqlx::Result<()> {
    sqlx::query("UPDATE projects SET display_name = $2 WHERE id = $1")
        .bind(id)
        .bind(display_name)
        .execute(conn)
        .await?;
    Ok(())
}

/// Changes the state.
///
/// # Errors
/// Database errors; also for a closed project.
pub async fn set_project_state(
    conn: &mut PgConnection,
    id: Uuid,
    state: TenantState,
    reason: &str,
    by_platform: bool,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE projects SET state = $2, state_reason = $3, suspended_by_platform = $4 WHERE id = $1",
    )
    .bind(id)
    .bind(state.as_str())
    .bind(reason)
    .bind(by_platform)
    .execute(conn)
    .await?;
    Ok(())
}
