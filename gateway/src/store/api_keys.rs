//! API keys of service accounts.
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, PgPool, Row as _};
use uuid::Uuid;

use super::scope::Scope;

/// A key, without what could be used of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKeyRow {
    /// Id.
    pub id: Uuid,
    /// Its service account.
    pub account: Uuid,
    /// For people.
    pub display_name: String,
    /// What it is good for.
    pub scopes: Vec<Scope>,
    /// Principal who made it.
    pub creator: String,
    /// When it was made.
    pub create_time: Timestamp,
    /// When it ends by itself.
    pub expire_time: Option<Timestamp>,
    /// When somebody ended it.
    pub disable_time: Option<Timestamp>,
    /// To the minute.
    pub last_used_time: Option<Timestamp>,
    /// The key in whose place it came.
    pub replaces: Option<Uuid>,
    /// Another one has come in its place.
    pub is_replaced: bool,
}

/// Scopes of a column; names that this release does not know allow nothing.
pub(super) fn scopes(row: &PgRow, column: &str) -> sqlx::Result<Vec<Scope>> {
    let names: Vec<String> = row.try_get(column)?;
    Ok(names
        .iter()
        .filter_map(|name| Scope::from_name(name))
        .collect())
}

impl FromRow<'_, PgRow> for ApiKeyRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        read(row)
    }
}

fn read(row: &PgRow) -> sqlx::Result<ApiKeyRow> {
    Ok(ApiKeyRow {
        id: row.try_get("id")?,
        account: row.try_get("principal_id")?,
        display_name: row.try_get("display_name")?,
        scopes: scopes(row, "scopes")?,
        creator: row.try_get("creator")?,
        create_time: row.try_get("create_time")?,
        expire_time: row.try_get("expire_time")?,
        disable_time: row.try_get("disable_time")?,
        last_used_time: row.try_get("last_used_time")?,
        replaces: row.try_get("replaces")?,
        is_replaced: row.try_get("is_replaced")?,
    })
}

/// A key to make.
#[derive(Clone, Copy, Debug)]
pub struct NewApiKey<'a> {
    /// Id.
    pub id: Uuid,
    /// Its service account.
    pub account: Uuid,
    /// For people.
    pub display_name: &'a str,
    /// Digest of the whole key.
    pub hash: &'a [u8],
    /// What it is good for.
    pub scopes: &'a [Scope],
    /// Principal who makes it.
    pub creator: &'a str,
    /// When it ends by itself.
    pub expire_time: Option<Timestamp>,
    /// The key in whose place it comes.
    pub replaces: Option<Uuid>,
}

/// Adds a key.
///
/// # Errors
/// Database errors.
pub async fn insert_api_key(conn: &mut PgConnection, new: &NewApiKey<'_>) -> sqlx::Result<()> {
    let scopes: Vec<&str> = new.scopes.iter().map(|scope| scope.name()).collect();
    sqlx::query(
        "INSERT INTO api_keys (id, principal_id, display_name, hash, scopes, creator, expire_time, replaces)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(new.id)
    .bind(new.account)
    .bind(new.display_name)
    .bind(new.hash)
    .bind(scopes)
    .bind(new.creator)
    .bind(new.expire_time)
    .bind(new.replaces)
    .execute(conn)
    .await?;
    Ok(())
}

/// One key of a service account.
///
/// # Errors
/// Database errors.
pub async fn find_api_key(
    conn: &mut PgConnection,
    account: Uuid,
    id: Uuid,
) -> sqlx::Result<Option<ApiKeyRow>> {
    let row = sqlx::query(
        "SELECT k.*, EXISTS (SELECT FROM api_keys n WHERE n.replaces = k.id) AS is_replaced
           FROM api_keys k WHERE k.principal_id = $1 AND k.id = $2",
    )
    .bind(account)
    .bind(id)
    .fetch_optional(conn)
    .await?;
    row.as_ref().map(read).transpose()
}

/// What the list of a service account's keys can be selected by.
pub static API_KEYS: Catalog = Catalog {
    fields: &[
        Field::sortable("display_name", Kind::Text, "listed.display_name"),
        Field::sortable("creator", Kind::Text, "listed.creator"),
        Field::new("disabled", Kind::Flag, "(listed.disable_time IS NOT NULL)"),
        Field::sortable("create_time", Kind::Time, "listed.create_time"),
        Field::new("expire_time", Kind::Time, "listed.expire_time"),
        Field::new("last_used_time", Kind::Time, "listed.last_used_time"),
    ],
    // the order in which they were made
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "",
};

/// A page of the keys of a service account that a caller selects, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn list_api_keys(
    conn: &mut PgConnection,
    account: Uuid,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<ApiKeyRow>, String)> {
    let statement = Statement::new(&[
        "SELECT k.*, EXISTS (SELECT FROM api_keys n WHERE n.replaces = k.id) AS is_replaced
           FROM api_keys k WHERE k.principal_id = $1",
    ])
    .bind(account);
    selection.page(conn, statement, wanted).await
}

/// A key with the scope for SCIM, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScimKeyRow {
    /// The key.
    pub key: ApiKeyRow,
    /// Project of its service account.
    pub project: Uuid,
    /// Slug of the project.
    pub project_slug: String,
    /// Slug of the service account.
    pub account_slug: String,
    /// Nobody calls with any key of it.
    pub is_account_disabled: bool,
}

impl FromRow<'_, PgRow> for ScimKeyRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            key: read(row)?,
            project: row.try_get("project_id")?,
            project_slug: row.try_get("project_slug")?,
            account_slug: row.try_get("account_slug")?,
            is_account_disabled: row.try_get("is_account_disabled")?,
        })
    }
}

/// What the list of an organisation's keys for SCIM can be selected by.
pub static SCIM_KEYS: Catalog = Catalog {
    fields: &[
        Field::sortable("display_name", Kind::Text, "listed.display_name"),
        Field::sortable("project", Kind::Text, "listed.project_slug"),
        Field::sortable("service_account", Kind::Text, "listed.account_slug"),
        Field::sortable("creator", Kind::Text, "listed.creator"),
        Field::new("disabled", Kind::Flag, "(listed.disable_time IS NOT NULL)"),
        Field::sortable("create_time", Kind::Time, "listed.create_time"),
        Field::new("expire_time", Kind::Time, "listed.expire_time"),
        Field::new("last_used_time", Kind::Time, "listed.last_used_time"),
    ],
    // the order in which they were made
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "",
};

/// A page of the keys for SCIM of all projects of an organisation that a caller selects, and the token of the next one. Those of
/// service accounts that were deleted are worth nothing, and not among them.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn list_scim_keys(
    conn: &mut PgConnection,
    organisation: Uuid,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<ScimKeyRow>, String)> {
    let statement = Statement::new(&[
        "SELECT k.*, EXISTS (SELECT FROM api_keys n WHERE n.replaces = k.id) AS is_replaced, a.project_id,
                p.slug AS project_slug, a.slug AS account_slug, w.disable_time IS NOT NULL AS is_account_disabled
           FROM api_keys k JOIN service_accounts a ON a.principal_id = k.principal_id
           JOIN projects p ON p.id = a.project_id JOIN principals w ON w.id = a.principal_id
          WHERE p.organisation_id = $1 AND a.delete_time IS NULL AND 'scim' = ANY (k.scopes)",
    ])
    .bind(organisation);
    selection.page(conn, statement, wanted).await
}

/// Ends a key now.
///
/// # Errors
/// Database errors.
pub async fn disable_api_key(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<()> {
    sqlx::query("UPDATE api_keys SET disable_time = clock_timestamp() WHERE id = $1 AND disable_time IS NULL")
        .bind(id)
        .execute(conn)
        .await?;
    Ok(())
}

/// Lets a key end by itself, no later than it would have.
///
/// # Errors
/// Database errors.
pub async fn expire_api_key(
    conn: &mut PgConnection,
    id: Uuid,
    expire_time: Timestamp,
) -> sqlx::Result<()> {
    sqlx::query("UPDATE api_keys SET expire_time = least(expire_time, $2) WHERE id = $1")
        .bind(id)
        .bind(expire_time)
        .execute(conn)
        .await?;
    Ok(())
}

/// What is stored of a key that somebody calls with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredKey {
    /// Digest of the whole key.
    pub hash: Vec<u8>,
    /// The issuer of its service account.
    pub issuer: String,
    /// The issuer's name for it.
    pub subject: String,
    /// When it ends by itself, in seconds since 1970.
    pub expires: Option<i64>,
    /// Somebody ended it, or its account.
    pub is_disabled: bool,
}

/// The key of an id.
///
/// # Errors
/// Database errors.
pub async fn known_key(pool: &PgPool, id: Uuid) -> sqlx::Result<Option<StoredKey>> {
    let row = sqlx::query(
        "SELECT k.hash, p.issuer, p.subject, floor(extract(epoch FROM k.expire_time))::bigint AS expires,
                k.disable_time IS NOT NULL OR p.disable_time IS NOT NULL AS is_disabled
           FROM api_keys k JOIN principals p ON p.id = k.principal_id WHERE k.id = $1",
    )
    .bind(id)
    .fetch_optional(pool)
    .await?;
    row.map(|row| {
        Ok(StoredKey {
            hash: row.try_get("hash")?,
            issuer: row.try_get("issuer")?,
            subject: row.try_get("subject")?,
            expires: row.try_get("expires")?,
            is_disabled: row.try_get("is_disabled")?,
        })
    })
    .transpose()
}

/// Notes that a key was used, to the minute: most calls write nothing.
///
/// # Errors
/// Database errors.
pub async fn note_use(pool: &PgPool, id: Uuid) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE api_keys SET last_used_time = date_trunc('minute', clock_timestamp())
          WHERE id = $1 AND (last_used_time IS NULL OR last_used_time < date_trunc('minute', clock_timestamp()))",
    )
    .bind(id)
    .execute(pool)
    .await?;
    Ok(())
}
