//! People that an organisation's identity provider keeps by SCIM, and the memberships that its groups give.
use jiff_sqlx::Timestamp;
use serde_json::{Map, Value, json};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};
use uuid::Uuid;

use super::principal::decode;

/// Most changes of memberships that an audit row names one by one.
const MAX_NAMED: usize = 100;

/// The attribute of a SCIM user that is the subject in the issuer's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectAttribute {
    /// `userName`.
    UserName,
    /// `externalId`.
    ExternalId,
}

impl SubjectAttribute {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "user_name" => Some(Self::UserName),
            "external_id" => Some(Self::ExternalId),
            _ => None,
        }
    }

    /// For the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UserName => "user_name",
            Self::ExternalId => "external_id",
        }
    }
}

/// How people of an organisation's SCIM sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScimSettings {
    /// Who proves who they are.
    pub issuer: String,
    /// What of them the issuer names them by.
    pub subject: SubjectAttribute,
    /// When it was set up.
    pub create_time: Timestamp,
    /// When it last changed.
    pub update_time: Timestamp,
    /// Rises with every change.
    pub version: i64,
}

/// The settings of an organisation; `None` when SCIM is not set up.
///
/// # Errors
/// Database errors.
pub async fn scim_settings(
    conn: &mut PgConnection,
    organisation: Uuid,
) -> sqlx::Result<Option<ScimSettings>> {
    let row = sqlx::query("SELECT * FROM scim_settings WHERE organisation_id = $1")
        .bind(organisation)
        .fetch_optional(conn)
        .await?;
    row.map(|row| {
        Ok(ScimSettings {
            issuer: row.try_get("issuer")?,
            subject: decode(&row, "subject_attribute", SubjectAttribute::parse)?,
            create_time: row.try_get("create_time")?,
            update_time: row.try_get("update_time")?,
            version: row.try_get("version")?,
        })
    })
    .transpose()
}

/// Sets up SCIM, or changes how.
///
/// # Errors
/// Database errors.
pub async fn put_scim_settings(
    conn: &mut PgConnection,
    organisation: Uuid,
    issuer: &str,
    subject: SubjectAttribute,
) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO scim_settings (organisation_id, issuer, subject_attribute) VALUES ($1, $2, $3)
         ON CONFLICT (organisation_id) DO UPDATE SET issuer = excluded.issuer, subject_attribute = excluded.subject_attribute",
    )
    .bind(organisation)
    .bind(issuer)
    .bind(subject.as_str())
    .execute(conn)
    .await?;
    Ok(())
}

/// How many SCIM users and groups an organisation has.
///
/// # Errors
/// Database errors.
pub async fn count_scim(conn: &mut PgConnection, organisation: Uuid) -> sqlx::Result<(i64, i64)> {
    sqlx::query_as(
        "SELECT (SELECT count(*) FROM scim_users WHERE organisation_id = $1),
                (SELECT count(*) FROM scim_groups WHERE organisation_id = $1)",
    )
    .bind(organisation)
    .fetch_one(conn)
    .await
}

/// Where a service account is at home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScimHome {
    /// Its project.
    pub project: Uuid,
    /// The organisation of that.
    pub organisation: Uuid,
}

/// Where a service account is at home; `None` for who is none.
///
/// # Errors
/// Database errors.
pub async fn scim_home(conn: &mut PgConnection, principal: Uuid) -> sqlx::Result<Option<ScimHome>> {
    let found: Option<(Uuid, Uuid)> = sqlx::query_as(
        "SELECT j.id, j.organisation_id FROM service_accounts a JOIN projects j ON j.id = a.project_id
          WHERE a.principal_id = $1 AND a.delete_time IS NULL",
    )
    .bind(principal)
    .fetch_optional(conn)
    .await?;
    Ok(found.map(|(project, organisation)| ScimHome {
        project,
        organisation,
    }))
}

/// A SCIM user.
#[derive(Clone, Debug, PartialEq)]
pub struct ScimUserRow {
    /// Id.
    pub id: Uuid,
    /// Who it is here.
    pub principal: Uuid,
    /// Unique in the organisation, whatever the case.
    pub user_name: String,
    /// The identity provider's own id.
    pub external_id: Option<String>,
    /// Not said: not active.
    pub active: Option<bool>,
    /// The other attributes.
    pub attributes: Map<String, Value>,
    /// Ids and names of its groups.
    pub groups: Vec<(Uuid, String)>,
    /// When it was made.
    pub create_time: Timestamp,
    /// When it last changed.
    pub update_time: Timestamp,
    /// Rises with every change.
    pub version: i64,
}

/// All that is read of a user, up to the organisation that follows.
pub(super) const USERS: &str = "SELECT u.*,
        ARRAY(SELECT g.id FROM scim_group_members m JOIN scim_groups g ON g.id = m.group_id
               WHERE m.user_id = u.id ORDER BY g.id) AS group_ids,
        ARRAY(SELECT g.display_name FROM scim_group_members m JOIN scim_groups g ON g.id = m.group_id
               WHERE m.user_id = u.id ORDER BY g.id) AS group_names
   FROM scim_users u WHERE u.organisation_id = ";

pub(super) fn read_user(row: &PgRow) -> sqlx::Result<ScimUserRow> {
    let attributes: Value = row.try_get("attributes")?;
    let ids: Vec<Uuid> = row.try_get("group_ids")?;
    let names: Vec<String> = row.try_get("group_names")?;
    Ok(ScimUserRow {
        id: row.try_get("id")?,
        principal: row.try_get("principal_id")?,
        user_name: row.try_get("user_name")?,
        external_id: row.try_get("external_id")?,
        active: row.try_get("active")?,
        attributes: match attributes {
            Value::Object(attributes) => attributes,
            _ => Map::new(),
        },
        groups: ids.into_iter().zip(names).collect(),
        create_time: row.try_get("create_time")?,
        update_time: row.try_get("update_time")?,
        version: row.try_get("version")?,
    })
}

/// One user of an organisation.
///
/// # Errors
/// Database errors.
pub async fn find_scim_user(
    conn: &mut PgConnection,
    organisation: Uuid,
    id: Uuid,
) -> sqlx::Result<Option<ScimUserRow>> {
    let sql = format!("{USERS} $1 AND u.id = $2");
    let row = sqlx::query(sqlx::AssertSqlSafe(sql))
        .bind(organisation)
        .bind(id)
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(read_user).transpose()
}

/// A SCIM user to make, or as it is to be.
#[derive(Clone, Copy, Debug)]
pub struct NewScimUser<'a> {
    /// Id.
    pub id: Uuid,
    /// Whose.
    pub organisation: Uuid,
    /// Who it is here.
    pub principal: Uuid,
    /// Unique in the organisation.
    pub user_name: &'a str,
    /// The identity provider's own id.
    pub external_id: Option<&'a str>,
    /// Not said: not active.
    pub active: Option<bool>,
    /// The other attributes.
    pub attributes: &'a Map<String, Value>,
}

/// Adds a user; `false` when the organisation has one of the name or of the principal.
///
/// # Errors
/// Database errors.
pub async fn insert_scim_user(
    conn: &mut PgConnection,
    new: &NewScimUser<'_>,
) -> sqlx::Result<bool> {
    let done = sqlx::query(
        "INSERT INTO scim_users (id, organisation_id, principal_id, user_name, external_id, active, attributes)
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
    )
    .bind(new.id)
    .bind(new.organisation)
    .bind(new.principal)
    .bind(new.user_name)
    .bind(new.external_id)
    .bind(new.active)
    .bind(Value::Object(new.attributes.clone()))
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Changes a user; `false` when another one of the organisation has the name. The lock on the organisation keeps it so.
///
/// # Errors
/// Database errors.
pub async fn update_scim_user(conn: &mut PgConnection, to: &NewScimUser<'_>) -> sqlx::Result<bool> {
    let done = sqlx::query(
        "UPDATE scim_users SET user_name = $3, external_id = $4, active = $5, attributes = $6
          WHERE id = $1 AND NOT EXISTS (SELECT FROM scim_users o
                                         WHERE o.organisation_id = $2 AND lower(o.user_name) = lower($3) AND o.id <> $1)",
    )
    .bind(to.id)
    .bind(to.organisation)
    .bind(to.user_name)
    .bind(to.external_id)
    .bind(to.active)
    .bind(Value::Object(to.attributes.clone()))
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Removes a user, from its groups, too.
///
/// # Errors
/// Database errors.
pub async fn delete_scim_user(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<()> {
    for statement in [
        // the groups change with it: their versions say so
        "UPDATE scim_groups SET display_name = display_name
          WHERE id IN (SELECT group_id FROM scim_group_members WHERE user_id = $1)",
        "DELETE FROM scim_users WHERE id = $1",
    ] {
        sqlx::query(statement).bind(id).execute(&mut *conn).await?;
    }
    Ok(())
}

/// What became of a membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipChange {
    /// Whose, by its stable name.
    pub principal: String,
    /// In which project; none: in the organisation itself.
    pub project: Option<Uuid>,
    /// The role before; none: it is new.
    pub before: Option<String>,
    /// The role now; none: it is gone.
    pub after: Option<String>,
}

fn read_change(row: &PgRow) -> sqlx::Result<MembershipChange> {
    Ok(MembershipChange {
        principal: row.try_get("principal")?,
        project: row.try_get("project")?,
        before: row.try_get("before")?,
        after: row.try_get("after")?,
    })
}

/// Changes of memberships for an audit row: their number, and the first of them.
pub fn changes_of(changes: &[MembershipChange]) -> Value {
    let named = changes.iter().take(MAX_NAMED).map(|one| {
        json!({ "principal": one.principal, "project_id": one.project, "before": one.before, "role": one.after })
    });
    json!({ "count": changes.len(), "memberships": named.collect::<Vec<_>>() })
}

/// Brings the memberships of principals to what the groups of an organisation give, and answers what that changed.
///
/// # Errors
/// Database errors.
pub async fn sync_scim(
    conn: &mut PgConnection,
    organisation: Uuid,
    principals: &[Uuid],
) -> sqlx::Result<Vec<MembershipChange>> {
    if principals.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query("SELECT * FROM sync_scim_memberships($1, $2)")
        .bind(organisation)
        .bind(principals)
        .fetch_all(conn)
        .await?;
    rows.iter().map(read_change).collect()
}

/// The same for one principal in the organisation of a project, which is answered, too.
///
/// # Errors
/// Database errors.
pub async fn sync_member(
    conn: &mut PgConnection,
    project: Uuid,
    principal: Uuid,
) -> sqlx::Result<(Uuid, Vec<MembershipChange>)> {
    let organisation: Uuid =
        sqlx::query_scalar("SELECT organisation_id FROM projects WHERE id = $1")
            .bind(project)
            .fetch_one(&mut *conn)
            .await?;
    let changes = sync_scim(conn, organisation, &[principal]).await?;
    Ok((organisation, changes))
}

/// Ends all memberships of a principal in an organisation and its projects, whoever gave them.
///
/// # Errors
/// Database errors.
pub async fn leave_organisation(
    conn: &mut PgConnection,
    organisation: Uuid,
    principal: Uuid,
) -> sqlx::Result<Vec<MembershipChange>> {
    let rows = sqlx::query(
        "WITH of_projects AS (
             DELETE FROM memberships m USING projects j
              WHERE m.principal_id = $2 AND j.id = m.project_id AND j.organisation_id = $1
             RETURNING m.project_id, m.role),
         of_organisation AS (
             DELETE FROM organisation_memberships WHERE principal_id = $2 AND organisation_id = $1 RETURNING role)
         SELECT p.name AS principal, e.project, e.before, NULL::text AS after
           FROM (SELECT NULL::uuid AS project, role AS before FROM of_organisation
                 UNION ALL SELECT project_id, role FROM of_projects) e
           JOIN principals p ON p.id = $2",
    )
    .bind(organisation)
    .bind(principal)
    .fetch_all(conn)
    .await?;
    rows.iter().map(read_change).collect()
}
