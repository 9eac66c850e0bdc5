//! Groups that an organisation's identity provider keeps by SCIM, and the roles in projects that they are mapped on.
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row as _};
use uuid::Uuid;

use super::principal::{Role, decode};

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScimGroupRow {
    /// Id.
    pub id: Uuid,
    /// Unique in the organisation, whatever the case.
    pub display_name: String,
    /// The identity provider's own id.
    pub external_id: Option<String>,
    /// When it was made.
    pub create_time: Timestamp,
    /// When it last changed.
    pub update_time: Timestamp,
    /// Rises with every change.
    pub version: i64,
}

pub(super) fn read_group(row: &PgRow) -> sqlx::Result<ScimGroupRow> {
    Ok(ScimGroupRow {
        id: row.try_get("id")?,
        display_name: row.try_get("display_name")?,
        external_id: row.try_get("external_id")?,
        create_time: row.try_get("create_time")?,
        update_time: row.try_get("update_time")?,
        version: row.try_get("version")?,
    })
}

/// One group of an organisation.
///
/// # Errors
/// Database errors.
pub async fn find_scim_group(
    conn: &mut PgConnection,
    organisation: Uuid,
    id: Uuid,
) -> sqlx::Result<Option<ScimGroupRow>> {
    let row = sqlx::query("SELECT * FROM scim_groups WHERE organisation_id = $1 AND id = $2")
        .bind(organisation)
        .bind(id)
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(read_group).transpose()
}

/// A group with the number of its members.
#[derive(Clone, Debug)]
pub struct CountedGroup {
    /// The group.
    pub group: ScimGroupRow,
    /// How many users it has.
    pub members: i64,
}

impl FromRow<'_, PgRow> for CountedGroup {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            group: read_group(row)?,
            members: row.try_get("members")?,
        })
    }
}

/// What the list of an organisation's groups can be selected by.
pub static SCIM_GROUPS: Catalog = Catalog {
    fields: &[
        Field::sortable("display_name", Kind::Text, "listed.display_name"),
        Field::new("external_id", Kind::Text, "listed.external_id"),
        Field::sortable("member_count", Kind::Number, "listed.members"),
        Field::sortable("create_time", Kind::Time, "listed.create_time"),
        Field::sortable("update_time", Kind::Time, "listed.update_time"),
    ],
    // the order in which they came
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "",
};

/// A page of the groups of an organisation that a caller selects, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn list_scim_groups_of(
    conn: &mut PgConnection,
    organisation: Uuid,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<CountedGroup>, String)> {
    let statement = Statement::new(&[
        "SELECT g.*, (SELECT count(*) FROM scim_group_members m WHERE m.group_id = g.id) AS members
           FROM scim_groups g WHERE g.organisation_id = $1",
    ])
    .bind(organisation);
    selection.page(conn, statement, wanted).await
}

/// Adds a group; `false` when the organisation has one of the name.
///
/// # Errors
/// Database errors.
pub async fn insert_scim_group(
    conn: &mut PgConnection,
    organisation: Uuid,
    id: Uuid,
    (display_name, external_id): (&str, Option<&str>),
) -> sqlx::Result<bool> {
    let done = sqlx::query(
        "INSERT INTO scim_groups (id, organisation_id, display_name, external_id) VALUES ($1, $2, $3, $4)
         ON CONFLICT DO NOTHING",
    )
    .bind(id)
    .bind(organisation)
    .bind(display_name)
    .bind(external_id)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Changes a group, or notes that its members have changed; `false` when another one of the organisation has the name. The
/// lock on the organisation keeps it so.
///
/// # Errors
/// Database errors.
pub async fn update_scim_group(
    conn: &mut PgConnection,
    organisation: Uuid,
    id: Uuid,
    (display_name, external_id): (&str, Option<&str>),
) -> sqlx::Result<bool> {
    let done = sqlx::query(
        "UPDATE scim_groups SET display_name = $3, external_id = $4
          WHERE id = $1 AND NOT EXISTS (SELECT FROM scim_groups o
                                         WHERE o.organisation_id = $2 AND lower(o.display_name) = lower($3) AND o.id <> $1)",
    )
    .bind(id)
    .bind(organisation)
    .bind(display_name)
    .bind(external_id)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Removes a group with what it is mapped on.
///
/// # Errors
/// Database errors.
pub async fn delete_scim_group(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<()> {
    sqlx::query("DELETE FROM scim_groups WHERE id = $1")
        .bind(id)
        .execute(conn)
        .await?;
    Ok(())
}

/// The users of a group, by id.
///
/// # Errors
/// Database errors.
pub async fn scim_members(conn: &mut PgConnection, group: Uuid) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar(
        "SELECT user_id FROM scim_group_members WHERE group_id = $1 ORDER BY user_id",
    )
    .bind(group)
    .fetch_all(conn)
    .await
}

/// Those of these users that the organisation has.
///
/// # Errors
/// Database errors.
pub async fn known_scim_users(
    conn: &mut PgConnection,
    organisation: Uuid,
    users: &[Uuid],
) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar("SELECT id FROM scim_users WHERE organisation_id = $1 AND id = ANY ($2)")
        .bind(organisation)
        .bind(users)
        .fetch_all(conn)
        .await
}

/// Adds users to a group.
///
/// # Errors
/// Database errors.
pub async fn add_scim_members(
    conn: &mut PgConnection,
    group: Uuid,
    users: &[Uuid],
) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO scim_group_members (group_id, user_id) SELECT $1, id FROM unnest($2::uuid[]) id ON CONFLICT DO NOTHING",
    )
    .bind(group)
    .bind(users)
    .execute(conn)
    .await?;
    Ok(())
}

/// Takes users out of a group.
///
/// # Errors
/// Database errors.
pub async fn remove_scim_members(
    conn: &mut PgConnection,
    group: Uuid,
    users: &[Uuid],
) -> sqlx::Result<()> {
    sqlx::query("DELETE FROM scim_group_members WHERE group_id = $1 AND user_id = ANY ($2)")
        .bind(group)
        .bind(users)
        .execute(conn)
        .await?;
    Ok(())
}

/// Who these users are here.
///
/// # Errors
/// Database errors.
pub async fn principals_of_users(
    conn: &mut PgConnection,
    users: &[Uuid],
) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar("SELECT principal_id FROM scim_users WHERE id = ANY ($1)")
        .bind(users)
        .fetch_all(conn)
        .await
}

/// What a group is mapped on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingRow {
    /// Id.
    pub id: Uuid,
    /// The group.
    pub group: Uuid,
    /// The project.
    pub project: Uuid,
    /// Its slug.
    pub slug: String,
    /// What members of the group are there.
    pub role: Role,
    /// Principal who made it.
    pub creator: String,
    /// When it was made.
    pub create_time: Timestamp,
}

/// The mappings of these groups, in the order in which they were made.
///
/// # Errors
/// Database errors.
pub async fn list_mappings(
    conn: &mut PgConnection,
    groups: &[Uuid],
) -> sqlx::Result<Vec<MappingRow>> {
    let rows = sqlx::query(
        "SELECT g.*, j.slug FROM scim_group_mappings g JOIN projects j ON j.id = g.project_id
          WHERE g.group_id = ANY ($1) ORDER BY g.id",
    )
    .bind(groups)
    .fetch_all(conn)
    .await?;
    let read = |row: &PgRow| {
        Ok(MappingRow {
            id: row.try_get("id")?,
            group: row.try_get("group_id")?,
            project: row.try_get("project_id")?,
            slug: row.try_get("slug")?,
            role: decode(row, "role", Role::parse)?,
            creator: row.try_get("creator")?,
            create_time: row.try_get("create_time")?,
        })
    };
    rows.iter().map(read).collect()
}

/// Maps a group on a role in a project; `false` when it is mapped there.
///
/// # Errors
/// Database errors.
pub async fn insert_mapping(
    conn: &mut PgConnection,
    id: Uuid,
    (group, project): (Uuid, Uuid),
    role: Role,
    creator: &str,
) -> sqlx::Result<bool> {
    let done = sqlx::query(
        "INSERT INTO scim_group_mappings (id, group_id, project_id, role, creator) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT DO NOTHING",
    )
    .bind(id)
    .bind(group)
    .bind(project)
    .bind(role.as_str())
    .bind(creator)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Removes a mapping.
///
/// # Errors
/// Database errors.
pub async fn delete_mapping(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<()> {
    sqlx::query("DELETE FROM scim_group_mappings WHERE id = $1")
        .bind(id)
        .execute(conn)
        .await?;
    Ok(())
}
