//! Principals as administrators see them, and their changes.
use std::collections::HashMap;

use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row as _};
use uuid::Uuid;

use super::principal::{
    PlatformRole, PrincipalKind, decode, decode_optional, parse_platform_role, platform_role_name,
};
use crate::auth::verify::Identity;

/// A principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrincipalRow {
    /// Id.
    pub id: Uuid,
    /// Stable name.
    pub name: String,
    /// For people.
    pub display_name: String,
    /// As its issuer has verified it.
    pub email: String,
    /// User or service account.
    pub kind: PrincipalKind,
    /// On the whole platform.
    pub platform_role: Option<PlatformRole>,
    /// Who proves who it is.
    pub issuer: String,
    /// The issuer's name for it.
    pub subject: String,
    /// It can do nothing since then.
    pub disable_time: Option<Timestamp>,
    /// When it was registered.
    pub create_time: Timestamp,
    /// When it last changed.
    pub update_time: Timestamp,
    /// Rises with every change.
    pub version: i64,
}

impl FromRow<'_, PgRow> for PrincipalRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        read(row)
    }
}

fn read(row: &PgRow) -> sqlx::Result<PrincipalRow> {
    Ok(PrincipalRow {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        display_name: row.try_get("display_name")?,
        email: row.try_get("email")?,
        kind: decode(row, "kind", PrincipalKind::parse)?,
        platform_role: decode_optional(row, "platform_role", parse_platform_role)?,
        issuer: row.try_get("issuer")?,
        subject: row.try_get("subject")?,
        disable_time: row.try_get("disable_time")?,
        create_time: row.try_get("create_time")?,
        update_time: row.try_get("update_time")?,
        version: row.try_get("version")?,
    })
}

/// A user to register.
#[derive(Clone, Debug)]
pub struct NewUser<'a> {
    /// Id.
    pub id: Uuid,
    /// Stable name.
    pub name: &'a str,
    /// For people.
    pub display_name: &'a str,
    /// As its issuer has verified it; empty otherwise.
    pub email: &'a str,
    /// Who proves who it is.
    pub issuer: &'a str,
    /// The issuer's name for it.
    pub subject: &'a str,
}

/// Registers a user; `false` when the name or the identity is taken.
///
/// # Errors
/// Database errors.
pub async fn insert_user(conn: &mut PgConnection, new: &NewUser<'_>) -> sqlx::Result<bool> {
    let done = sqlx::query(
        "INSERT INTO principals (id, name, issuer, subject, display_name, email, kind)
         VALUES ($1, $2, $3, $4, $5, $6, 'user') ON CONFLICT DO NOTHING",
    )
    .bind(new.id)
    .bind(new.name)
    .bind(new.issuer)
    .bind(new.subject)
    .bind(new.display_name)
    .bind(new.email)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// One principal.
///
/// # Errors
/// Database errors.
pub async fn get_principal(
    conn: &mut PgConnection,
    id: Uuid,
) -> sqlx::Result<Option<PrincipalRow>> {
    let row = sqlx::query("SELECT * FROM principals WHERE id = $1")
        .bind(id)
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(read).transpose()
}

/// One principal by its stable name.
///
/// # Errors
/// Database errors.
pub async fn principal_by_name(
    conn: &mut PgConnection,
    name: &str,
) -> sqlx::Result<Option<PrincipalRow>> {
    let row = sqlx::query("SELECT * FROM principals WHERE name = $1")
        .bind(name)
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(read).transpose()
}

/// One principal by its identity.
///
/// # Errors
/// Database errors.
pub async fn principal_by_identity(
    conn: &mut PgConnection,
    issuer: &str,
    subject: &str,
) -> sqlx::Result<Option<PrincipalRow>> {
    let row = sqlx::query("SELECT * FROM principals WHERE issuer = $1 AND subject = $2")
        .bind(issuer)
        .bind(subject)
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(read).transpose()
}

/// Which principals to list; absent: all.
#[derive(Clone, Debug, Default)]
pub struct PrincipalFilter {
    /// Only this one.
    pub name: Option<String>,
    /// Only these.
    pub kind: Option<PrincipalKind>,
    /// Only those with this role.
    pub platform_role: Option<PlatformRole>,
    /// Only those that are disabled, or that are not.
    pub disabled: Option<bool>,
}

/// What the list of principals can be selected by.
pub static PRINCIPALS: Catalog = Catalog {
    fields: &[
        Field::sortable("name", Kind::Text, "listed.name"),
        Field::sortable("display_name", Kind::Text, "listed.display_name"),
        Field::new("email", Kind::Text, "listed.email"),
        Field::new(
            "kind",
            Kind::OneOf(&["user", "service_account"]),
            "CASE listed.kind WHEN 'service' THEN 'service_account' ELSE listed.kind END",
        ),
        Field::new(
            "platform_role",
            Kind::OneOf(&["admin", "operator", "auditor"]),
            "listed.platform_role",
        ),
        Field::new("issuer", Kind::Text, "listed.issuer"),
        Field::new("subject", Kind::Text, "listed.subject"),
        Field::new("disabled", Kind::Flag, "(listed.disable_time IS NOT NULL)"),
        Field::sortable("create_time", Kind::Time, "listed.create_time"),
        Field::sortable("update_time", Kind::Time, "listed.update_time"),
    ],
    // the order of registration
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "",
};

/// A page of the principals that a caller selects, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn select_principals(
    conn: &mut PgConnection,
    filter: PrincipalFilter,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<PrincipalRow>, String)> {
    let statement = Statement::new(&["SELECT * FROM principals
          WHERE ($1 IS NULL OR name = $1) AND ($2 IS NULL OR kind = $2)
            AND ($3 IS NULL OR platform_role = $3) AND ($4 IS NULL OR (disable_time IS NOT NULL) = $4)"])
    .bind(filter.name)
    .bind(filter.kind.map(PrincipalKind::as_str))
    .bind(filter.platform_role.map(platform_role_name))
    .bind(filter.disabled);
    selection.page(conn, statement, wanted).await
}

/// Ids and kinds of those of these principals that there are, by name.
///
/// # Errors
/// Database errors.
pub async fn principals_by_name(
    conn: &mut PgConnection,
    names: &[&str],
) -> sqlx::Result<HashMap<String, (Uuid, PrincipalKind)>> {
    let rows = sqlx::query("SELECT id, name, kind FROM principals WHERE name = ANY ($1)")
        .bind(names)
        .fetch_all(conn)
        .await?;
    rows.iter()
        .map(|row| {
            let kind = decode(row, "kind", PrincipalKind::parse)?;
            Ok((row.try_get("name")?, (row.try_get("id")?, kind)))
        })
        .collect()
}

/// Locks the administrators until the end of the transaction, and answers whether there is one besides this principal that is
/// not disabled.
///
/// # Errors
/// Database errors.
pub async fn lock_other_admins(conn: &mut PgConnection, than: Uuid) -> sqlx::Result<bool> {
    let admins: Vec<(Uuid, bool)> = sqlx::query_as(
        "SELECT id, disable_time IS NULL FROM principals WHERE platform_role = 'admin' ORDER BY id FOR UPDATE",
    )
    .fetch_all(conn)
    .await?;
    Ok(admins.iter().any(|(id, enabled)| *enabled && *id != than))
}

/// Locks a principal until the end of the transaction.
///
/// # Errors
/// Database errors.
pub async fn lock_principal(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<()> {
    sqlx::query("SELECT FROM principals WHERE id = $1 FOR UPDATE")
        .bind(id)
        .execute(conn)
        .await?;
    Ok(())
}

/// Whether a principal can do nothing, and who said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disabled {
    /// It may call.
    No,
    /// The owners of its project, who may change their mind.
    ByProject,
    /// An administrator of the platform: only one enables it again.
    ByPlatform,
}

/// Refuses a principal from now on, or lets it in again. The time of the first refusal stays.
///
/// # Errors
/// Database errors.
pub async fn set_disabled(
    conn: &mut PgConnection,
    id: Uuid,
    disabled: Disabled,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE principals SET disable_time = CASE WHEN $2 THEN coalesce(disable_time, clock_timestamp()) END,
                disabled_by_platform = $3 WHERE id = $1",
    )
    .bind(id)
    .bind(disabled != Disabled::No)
    .bind(disabled == Disabled::ByPlatform)
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores the address that an issuer has verified for somebody, as a token says that was issued `issued` seconds after 1970;
/// `false` when it is stored, when a newer token has said another one, or when the identity is not the principal's any more.
///
/// # Errors
/// Database errors.
pub async fn set_verified_email(
    conn: &mut PgConnection,
    id: Uuid,
    identity: &Identity,
    (email, issued): (&str, i64),
) -> sqlx::Result<bool> {
    let done = sqlx::query(
        "UPDATE principals SET email = $2, email_issue_time = to_timestamp($3::bigint)
          WHERE id = $1 AND issuer = $4 AND subject = $5 AND kind = 'user' AND email <> $2
            AND (email_issue_time IS NULL OR email_issue_time < to_timestamp($3::bigint))",
    )
    .bind(id)
    .bind(email)
    .bind(issued)
    .bind(&identity.issuer)
    .bind(&identity.subject)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Gives a role on the whole platform, or takes it.
///
/// # Errors
/// Database errors; also for a service account that would be an administrator.
pub async fn set_platform_role(
    conn: &mut PgConnection,
    id: Uuid,
    role: Option<PlatformRole>,
) -> sqlx::Result<()> {
    sqlx::query("UPDATE principals SET platform_role = $2 WHERE id = $1")
        .bind(id)
        .bind(role.map(platform_role_name))
        .execute(conn)
        .await?;
    Ok(())
}
