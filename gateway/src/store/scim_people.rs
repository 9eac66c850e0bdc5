//! The principals behind SCIM users: who may be changed by an organisation's SCIM, and how.
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};
use uuid::Uuid;

use super::principals::NewUser;

/// A principal as SCIM may change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// Id.
    pub id: Uuid,
    /// Stable name.
    pub name: String,
    /// It is no program.
    pub is_user: bool,
    /// It has a role on the whole platform.
    pub has_platform_role: bool,
    /// It can do nothing.
    pub is_disabled: bool,
    /// An administrator of the platform said so.
    pub disabled_by_platform: bool,
    /// The organisation whose SCIM registered it.
    pub registered_by: Option<Uuid>,
    /// The issuer's name for it.
    pub subject: String,
}

impl Person {
    /// Whether an organisation's SCIM may disable it and change its names: it registered it, and the platform has given it
    /// nothing.
    pub fn is_kept_by(&self, organisation: Uuid) -> bool {
        self.registered_by == Some(organisation) && !self.has_platform_role
    }
}

fn read_person(row: &PgRow) -> sqlx::Result<Person> {
    Ok(Person {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        is_user: row.try_get("is_user")?,
        has_platform_role: row.try_get("has_platform_role")?,
        is_disabled: row.try_get("is_disabled")?,
        disabled_by_platform: row.try_get("disabled_by_platform")?,
        registered_by: row.try_get("scim_organisation_id")?,
        subject: row.try_get("subject")?,
    })
}

/// The principal of an identity, locked until the end of the transaction.
///
/// # Errors
/// Database errors.
pub async fn person_by_identity(
    conn: &mut PgConnection,
    issuer: &str,
    subject: &str,
) -> sqlx::Result<Option<Person>> {
    let row = sqlx::query(
        "SELECT id, name, kind = 'user' AS is_user, platform_role IS NOT NULL AS has_platform_role, subject,
                disable_time IS NOT NULL AS is_disabled, disabled_by_platform, scim_organisation_id
           FROM principals WHERE issuer = $1 AND subject = $2 FOR UPDATE",
    )
    .bind(issuer)
    .bind(subject)
    .fetch_optional(conn)
    .await?;
    row.as_ref().map(read_person).transpose()
}

/// A principal, locked until the end of the transaction.
///
/// # Errors
/// Database errors; also when there is none.
pub async fn person_by_id(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<Person> {
    let row = sqlx::query(
        "SELECT id, name, kind = 'user' AS is_user, platform_role IS NOT NULL AS has_platform_role, subject,
                disable_time IS NOT NULL AS is_disabled, disabled_by_platform, scim_organisation_id
           FROM principals WHERE id = $1 FOR UPDATE",
    )
    .bind(id)
    .fetch_one(conn)
    .await?;
    read_person(&row)
}

/// Registers a person for an organisation's SCIM; `false` when the name or the identity is taken.
///
/// # Errors
/// Database errors.
pub async fn register_person(
    conn: &mut PgConnection,
    new: &NewUser<'_>,
    organisation: Uuid,
) -> sqlx::Result<bool> {
    let done = sqlx::query(
        "INSERT INTO principals (id, name, issuer, subject, display_name, email, kind, scim_organisation_id)
         VALUES ($1, $2, $3, $4, $5, $6, 'user', $7) ON CONFLICT DO NOTHING",
    )
    .bind(new.id)
    .bind(new.name)
    .bind(new.issuer)
    .bind(new.subject)
    .bind(new.display_name)
    .bind(new.email)
    .bind(organisation)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Changes what the issuer and people call somebody.
///
/// # Errors
/// Database errors; also for a subject that somebody else has.
pub async fn update_person(
    conn: &mut PgConnection,
    id: Uuid,
    (subject, display_name): (&str, &str),
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE principals SET subject = $2, display_name = $3
          WHERE id = $1 AND (subject, display_name) IS DISTINCT FROM ($2, $3)",
    )
    .bind(id)
    .bind(subject)
    .bind(display_name)
    .execute(conn)
    .await?;
    Ok(())
}

/// Whether a principal has what no group of an identity provider gives: a membership by hand, a grant for an allocation or an SSH
/// key. The lock on the principal keeps one from beginning meanwhile.
///
/// # Errors
/// Database errors.
pub async fn has_rights_by_hand(conn: &mut PgConnection, principal: Uuid) -> sqlx::Result<bool> {
    sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM organisation_memberships WHERE principal_id = $1)
             OR EXISTS (SELECT FROM memberships WHERE principal_id = $1 AND NOT scim)
             OR EXISTS (SELECT FROM allocation_grants WHERE principal_id = $1 AND expire_time > clock_timestamp())
             OR EXISTS (SELECT FROM ssh_keys WHERE principal_id = $1)",
    )
    .bind(principal)
    .fetch_one(conn)
    .await
}

/// Whether a principal has a membership outside an organisation. The lock on the principal keeps one from beginning meanwhile.
///
/// # Errors
/// Database errors.
pub async fn is_member_elsewhere(
    conn: &mut PgConnection,
    organisation: Uuid,
    principal: Uuid,
) -> sqlx::Result<bool> {
    sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM organisation_memberships WHERE principal_id = $1 AND organisation_id <> $2)
             OR EXISTS (SELECT FROM memberships m JOIN projects j ON j.id = m.project_id
                         WHERE m.principal_id = $1 AND j.organisation_id <> $2)",
    )
    .bind(principal)
    .bind(organisation)
    .fetch_one(conn)
    .await
}
