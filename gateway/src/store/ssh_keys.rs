//! SSH public keys by name.
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, PgPool, Row as _};
use uuid::Uuid;

/// Whose keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOwner {
    /// A principal's own.
    Principal(Uuid),
    /// A project's, for all of its members.
    Project(Uuid),
}

impl KeyOwner {
    /// Principal and project: one of them.
    fn columns(self) -> (Option<Uuid>, Option<Uuid>) {
        match self {
            Self::Principal(id) => (Some(id), None),
            Self::Project(id) => (None, Some(id)),
        }
    }
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshKeyRow {
    /// Id.
    pub id: Uuid,
    /// Unique among the owner's.
    pub name: String,
    /// Type, base64, comment.
    pub public_key: String,
    /// "SHA256:…".
    pub fingerprint: String,
    /// When it was kept.
    pub create_time: Timestamp,
    /// Project that owns it; none: a principal does.
    pub project: Option<Uuid>,
}

impl FromRow<'_, PgRow> for SshKeyRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        read(row)
    }
}

fn read(row: &PgRow) -> sqlx::Result<SshKeyRow> {
    Ok(SshKeyRow {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        public_key: row.try_get("public_key")?,
        fingerprint: row.try_get("fingerprint")?,
        create_time: row.try_get("create_time")?,
        project: row.try_get("project_id")?,
    })
}

/// Adds a key; `false` when the owner has one of the name.
///
/// # Errors
/// Database errors.
pub async fn insert_ssh_key(
    conn: &mut PgConnection,
    owner: KeyOwner,
    id: Uuid,
    (name, public_key, fingerprint): (&str, &str, &str),
) -> sqlx::Result<bool> {
    let (principal, project) = owner.columns();
    let done = sqlx::query(
        "INSERT INTO ssh_keys (id, principal_id, project_id, name, public_key, fingerprint)
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
    )
    .bind(id)
    .bind(principal)
    .bind(project)
    .bind(name)
    .bind(public_key)
    .bind(fingerprint)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// What a list of SSH keys can be selected by.
pub static SSH_KEYS: Catalog = Catalog {
    fields: &[
        NAME,
        Field::new("public_key", Kind::Text, "listed.public_key"),
        Field::new("fingerprint", Kind::Text, "listed.fingerprint"),
        Field::sortable("create_time", Kind::Time, "listed.create_time"),
    ],
    key: NAME,
    order: "name",
};

const NAME: Field = Field::sortable("name", Kind::Text, "listed.name");

/// A page of the keys of an owner that a caller selects, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn list_ssh_keys(
    conn: &mut PgConnection,
    owner: KeyOwner,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<SshKeyRow>, String)> {
    let (principal, project) = owner.columns();
    let statement =
        Statement::new(&["SELECT * FROM ssh_keys WHERE (principal_id = $1 OR project_id = $2)"])
            .bind(principal)
            .bind(project);
    selection.page(conn, statement, wanted).await
}

/// How many keys an owner has.
///
/// # Errors
/// Database errors.
pub async fn count_ssh_keys(conn: &mut PgConnection, owner: KeyOwner) -> sqlx::Result<i64> {
    let (principal, project) = owner.columns();
    sqlx::query_scalar("SELECT count(*) FROM ssh_keys WHERE principal_id = $1 OR project_id = $2")
        .bind(principal)
        .bind(project)
        .fetch_one(conn)
        .await
}

/// One key of an owner.
///
/// # Errors
/// Database errors.
pub async fn find_ssh_key(
    conn: &mut PgConnection,
    owner: KeyOwner,
    id: Uuid,
) -> sqlx::Result<Option<SshKeyRow>> {
    let (principal, project) = owner.columns();
    let row = sqlx::query(
        "SELECT * FROM ssh_keys WHERE id = $1 AND (principal_id = $2 OR project_id = $3)",
    )
    .bind(id)
    .bind(principal)
    .bind(project)
    .fetch_optional(conn)
    .await?;
    row.as_ref().map(read).transpose()
}

/// Removes a key.
///
/// # Errors
/// Database errors.
pub async fn delete_ssh_key(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<()> {
    sqlx::query("DELETE FROM ssh_keys WHERE id = $1")
        .bind(id)
        .execute(conn)
        .await?;
    Ok(())
}

/// Issuers and subjects of the people who keep a key of this fingerprint as their own, disabled or not, who kept it first before
/// the others; at most `limit`. A project's keys are nobody's, and a service account calls with API keys, which have scopes.
///
/// # Errors
/// Database errors.
pub async fn people_with_ssh_key(
    pool: &PgPool,
    fingerprint: &str,
    limit: i64,
) -> sqlx::Result<Vec<(String, String)>> {
    sqlx::query_as(
        "SELECT p.issuer, p.subject FROM ssh_keys k JOIN principals p ON p.id = k.principal_id
          WHERE k.fingerprint = $1 AND k.principal_id IS NOT NULL AND p.kind = 'user'
          GROUP BY p.id ORDER BY min(k.create_time), p.id LIMIT $2",
    )
    .bind(fingerprint)
    .bind(limit)
    .fetch_all(pool)
    .await
}

/// The keys of these names that a launch may name: a principal's own and a project's.
///
/// # Errors
/// Database errors.
pub async fn named_ssh_keys(
    conn: &mut PgConnection,
    principal: Uuid,
    project: Uuid,
    names: &[String],
) -> sqlx::Result<Vec<SshKeyRow>> {
    let rows = sqlx::query(
        "SELECT * FROM ssh_keys WHERE (principal_id = $1 OR project_id = $2) AND name = ANY ($3)",
    )
    .bind(principal)
    .bind(project)
    .bind(names)
    .fetch_all(conn)
    .await?;
    rows.iter().map(read).collect()
}
