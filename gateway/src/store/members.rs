//! Who belongs to an organisation or a project, with which role.
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row as _};
use uuid::Uuid;

use super::principal::{PrincipalKind, Role, decode};

/// What somebody is a member of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// An organisation.
    Organisation(Uuid),
    /// A project.
    Project(Uuid),
}

impl Group {
    /// The id.
    pub fn id(self) -> Uuid {
        match self {
            Self::Organisation(id) | Self::Project(id) => id,
        }
    }

    /// One of two statements.
    fn sql(self, organisation: &'static str, project: &'static str) -> &'static str {
        match self {
            Self::Organisation(_) => organisation,
            Self::Project(_) => project,
        }
    }
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRow {
    /// The principal.
    pub id: Uuid,
    /// Its stable name.
    pub name: String,
    /// For people.
    pub display_name: String,
    /// As its issuer has verified it.
    pub email: String,
    /// User or service account.
    pub kind: PrincipalKind,
    /// It can do nothing.
    pub disabled: bool,
    /// Its role.
    pub role: Role,
    /// Since when.
    pub create_time: Timestamp,
    /// When it last changed.
    pub update_time: Timestamp,
    /// Rises with every change.
    pub version: i64,
    /// Groups of the organisation's identity provider give it.
    pub scim: bool,
}

impl FromRow<'_, PgRow> for MemberRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        read(row)
    }
}

fn read(row: &PgRow) -> sqlx::Result<MemberRow> {
    Ok(MemberRow {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        display_name: row.try_get("display_name")?,
        email: row.try_get("email")?,
        kind: decode(row, "kind", PrincipalKind::parse)?,
        disabled: row.try_get("disabled")?,
        role: decode(row, "role", Role::parse)?,
        create_time: row.try_get("create_time")?,
        update_time: row.try_get("update_time")?,
        version: row.try_get("version")?,
        scim: row.try_get("scim")?,
    })
}

/// What a list of members can be selected by.
pub static MEMBERS: Catalog = Catalog {
    fields: &[
        Field::sortable("principal", Kind::Text, "listed.name"),
        Field::sortable("display_name", Kind::Text, "listed.display_name"),
        Field::new("email", Kind::Text, "listed.email"),
        Field::new(
            "kind",
            Kind::OneOf(&["user", "service_account"]),
            "CASE listed.kind WHEN 'service' THEN 'service_account' ELSE listed.kind END",
        ),
        Field::sortable(
            "role",
            Kind::OneOf(&["owner", "member", "viewer", "billing"]),
            "listed.role",
        ),
        Field::new("disabled", Kind::Flag, "listed.disabled"),
        Field::sortable("create_time", Kind::Time, "listed.create_time"),
        Field::sortable("update_time", Kind::Time, "listed.update_time"),
    ],
    // the order of registration
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "",
};

/// A page of the members that a caller selects, at will only one by name, or those with a role, and the token of the next
/// page. In the order of registration a page touches its own rows alone, however many members there are.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn list_members(
    conn: &mut PgConnection,
    group: Group,
    (principal, role): (Option<&str>, Option<Role>),
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<MemberRow>, String)> {
    let statement = match group {
        Group::Organisation(_) => Statement::new(&[
            "SELECT m.principal_id AS id, p.name, p.display_name, p.email, p.kind,
                    p.disable_time IS NOT NULL AS disabled, m.role, m.create_time, m.update_time, m.version, false AS scim
               FROM organisation_memberships m JOIN principals p ON p.id = m.principal_id
              WHERE m.organisation_id = $1 AND ($2 IS NULL OR m.role = $2)
                AND ($3 IS NULL OR m.principal_id = (SELECT id FROM principals WHERE name = $3))",
        ]),
        Group::Project(_) => Statement::new(&[
            "SELECT m.principal_id AS id, p.name, p.display_name, p.email, p.kind,
                    p.disable_time IS NOT NULL AS disabled, m.role, m.create_time, m.update_time, m.version, m.scim
               FROM memberships m JOIN principals p ON p.id = m.principal_id
              WHERE m.project_id = $1 AND ($2 IS NULL OR m.role = $2)
                AND ($3 IS NULL OR m.principal_id = (SELECT id FROM principals WHERE name = $3))",
        ]),
    };
    let statement = statement
        .bind(group.id())
        .bind(role.map(Role::as_str))
        .bind(principal);
    selection.page(conn, statement, wanted).await
}

/// One member.
///
/// # Errors
/// Database errors.
pub async fn find_member(
    conn: &mut PgConnection,
    group: Group,
    member: Uuid,
) -> sqlx::Result<Option<MemberRow>> {
    let sql = group.sql(
        "SELECT p.id, p.name, p.display_name, p.email, p.kind, p.disable_time IS NOT NULL AS disabled, m.role,
                m.create_time, m.update_time, m.version, false AS scim
           FROM organisation_memberships m JOIN principals p ON p.id = m.principal_id
          WHERE m.organisation_id = $1 AND m.principal_id = $2",
        "SELECT p.id, p.name, p.display_name, p.email, p.kind, p.disable_time IS NOT NULL AS disabled, m.role,
                m.create_time, m.update_time, m.version, m.scim
           FROM memberships m JOIN principals p ON p.id = m.principal_id
          WHERE m.project_id = $1 AND m.principal_id = $2",
    );
    let row = sqlx::query(sql)
        .bind(group.id())
        .bind(member)
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(read).transpose()
}

/// Adds a member; `false` when it is one.
///
/// # Errors
/// Database errors.
pub async fn insert_member(
    conn: &mut PgConnection,
    group: Group,
    principal: Uuid,
    role: Role,
) -> sqlx::Result<bool> {
    let sql = group.sql(
        "INSERT INTO organisation_memberships (organisation_id, principal_id, role) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        "INSERT INTO memberships (project_id, principal_id, role) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
    );
    let done = sqlx::query(sql)
        .bind(group.id())
        .bind(principal)
        .bind(role.as_str())
        .execute(conn)
        .await?;
    Ok(done.rows_affected() == 1)
}

/// Changes a member's role; it is one given by hand from now on.
///
/// # Errors
/// Database errors.
pub async fn set_member_role(
    conn: &mut PgConnection,
    group: Group,
    member: Uuid,
    role: Role,
) -> sqlx::Result<()> {
    let sql = group.sql(
        "UPDATE organisation_memberships SET role = $3 WHERE organisation_id = $1 AND principal_id = $2",
        "UPDATE memberships SET role = $3, scim = false WHERE project_id = $1 AND principal_id = $2",
    );
    sqlx::query(sql)
        .bind(group.id())
        .bind(member)
        .bind(role.as_str())
        .execute(conn)
        .await?;
    Ok(())
}

/// Removes a member.
///
/// # Errors
/// Database errors.
pub async fn delete_member(
    conn: &mut PgConnection,
    group: Group,
    member: Uuid,
) -> sqlx::Result<()> {
    let sql = group.sql(
        "DELETE FROM organisation_memberships WHERE organisation_id = $1 AND principal_id = $2",
        "DELETE FROM memberships WHERE project_id = $1 AND principal_id = $2",
    );
    sqlx::query(sql)
        .bind(group.id())
        .bind(member)
        .execute(conn)
        .await?;
    Ok(())
}

/// Whether a principal is in the organisation, by itself or by one of its projects; of a project: in its organisation.
///
/// # Errors
/// Database errors.
pub async fn is_in_organisation(
    conn: &mut PgConnection,
    group: Group,
    principal: Uuid,
) -> sqlx::Result<bool> {
    let sql = group.sql(
        "SELECT EXISTS (SELECT FROM organisation_memberships WHERE principal_id = $2 AND organisation_id = $1)
             OR EXISTS (SELECT FROM memberships m JOIN projects j ON j.id = m.project_id
                         WHERE m.principal_id = $2 AND j.organisation_id = $1)",
        "SELECT EXISTS (SELECT FROM organisation_memberships m JOIN projects j USING (organisation_id)
                         WHERE m.principal_id = $2 AND j.id = $1)
             OR EXISTS (SELECT FROM memberships m JOIN projects j ON j.id = m.project_id
                          JOIN projects o USING (organisation_id)
                         WHERE m.principal_id = $2 AND o.id = $1)",
    );
    sqlx::query_scalar(sql)
        .bind(group.id())
        .bind(principal)
        .fetch_one(conn)
        .await
}

/// Whether somebody else who is not disabled owns it; a project is owned by the owners of its organisation, too.
///
/// # Errors
/// Database errors.
pub async fn has_other_owner(
    conn: &mut PgConnection,
    group: Group,
    than: Uuid,
) -> sqlx::Result<bool> {
    let sql = group.sql(
        "SELECT EXISTS (SELECT FROM organisation_memberships m JOIN principals p ON p.id = m.principal_id
                         WHERE m.organisation_id = $1 AND m.role = 'owner' AND p.id <> $2 AND p.disable_time IS NULL)",
        "SELECT EXISTS (SELECT FROM memberships m JOIN principals p ON p.id = m.principal_id
                         WHERE m.project_id = $1 AND m.role = 'owner' AND p.id <> $2 AND p.disable_time IS NULL)
             OR EXISTS (SELECT FROM projects j JOIN organisation_memberships m USING (organisation_id)
                          JOIN principals p ON p.id = m.principal_id
                         WHERE j.id = $1 AND m.role = 'owner' AND p.disable_time IS NULL)",
    );
    sqlx::query_scalar(sql)
        .bind(group.id())
        .bind(than)
        .fetch_one(conn)
        .await
}
