//! Caller-given idempotency keys, stored with the effect in one transaction, in the schema of the effect (P4).
//!
//! Scope is principal, method and key; the hash covers the canonical request. A replay returns the resource
//! in its current form. The table `idempotency` is in every schema; the role's search path finds it.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sha2::{Digest as _, Sha256};
use sqlx::{PgConnection, PgPool, Row as _};
use tonic::Code;

use crate::error::{Error, Result};

/// What a key is known for.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Not seen: go on, and [`record`] it in the same transaction as the effect.
    Fresh,
    /// Seen with this very request; the effect's resource.
    Replay {
        /// As given to [`record`].
        resource_id: String,
    },
}

/// Who asks for what under which key.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The caller.
    pub principal: &'a str,
    /// Method name, for example "CreateAllocation".
    pub method: &'a str,
    /// The key.
    pub key: &'a str,
}

/// SHA-256 of a request in its canonical encoding.
pub fn hash(request: &impl prost::Message) -> Vec<u8> {
    Sha256::digest(request.encode_to_vec()).to_vec()
}

/// Looks a key up.
///
/// # Errors
/// `IDEMPOTENCY_KEY_REUSED` when it was used with another request.
pub async fn lookup(conn: &mut PgConnection, scope: Scope<'_>, hash: &[u8]) -> Result<Lookup> {
    let row = sqlx::query(
        "SELECT request_hash, resource_id FROM idempotency WHERE principal = $1 AND method = $2 AND key = $3",
    )
    .bind(scope.principal)
    .bind(scope.method)
    .bind(scope.key)
    .fetch_optional(conn)
    .await?;
    match row {
        None => Ok(Lookup::Fresh),
        Some(row) if row.get::<Vec<u8>, _>(0) == hash => Ok(Lookup::Replay {
            resource_id: row.get(1),
        }),
        Some(_) => Err(reused()),
    }
}

/// Takes a key for the effect of this transaction, whose resource is known before it is made: one statement when the
/// key is new. A call with a key that another transaction has taken waits here for that one's end.
///
/// # Errors
/// `IDEMPOTENCY_KEY_REUSED` as [`lookup`]; `ABORTED` when the row went away in between.
pub async fn take(
    conn: &mut PgConnection,
    scope: Scope<'_>,
    hash: &[u8],
    resource_id: &str,
) -> Result<Lookup> {
    if insert(conn, scope, hash, resource_id).await? {
        return Ok(Lookup::Fresh);
    }
    match lookup(conn, scope, hash).await? {
        Lookup::Fresh => Err(in_use()),
        replay => Ok(replay),
    }
}

/// Points a key that this transaction has [taken](take) at another resource: what a call leads to may be known only later.
///
/// # Errors
/// Those of the database.
pub async fn point(
    conn: &mut PgConnection,
    scope: Scope<'_>,
    hash: &[u8],
    resource_id: &str,
) -> Result<()> {
    // no service may change a row
    sqlx::query("DELETE FROM idempotency WHERE principal = $1 AND method = $2 AND key = $3")
        .bind(scope.principal)
        .bind(scope.method)
        .bind(scope.key)
        .execute(&mut *conn)
        .await?;
    record(conn, scope, hash, resource_id).await
}

/// Records a key with its effect. A concurrent call with the same key waits here for the other's commit and
/// then fails with `ABORTED`; looked up again it is a replay.
///
/// # Errors
/// `ABORTED` when another call recorded the key first.
pub async fn record(
    conn: &mut PgConnection,
    scope: Scope<'_>,
    hash: &[u8],
    resource_id: &str,
) -> Result<()> {
    if insert(conn, scope, hash, resource_id).await? {
        return Ok(());
    }
    Err(in_use())
}

/// Whether the key was new.
async fn insert(
    conn: &mut PgConnection,
    scope: Scope<'_>,
    hash: &[u8],
    resource_id: &str,
) -> Result<bool> {
    let done = sqlx::query(
        "INSERT INTO idempotency (principal, method, key, request_hash, resource_id) \
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
    )
    .bind(scope.principal)
    .bind(scope.method)
    .bind(scope.key)
    .bind(hash)
    .bind(resource_id)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

fn in_use() -> Error {
    Error::new(
        Code::Aborted,
        ErrorReason::Overloaded,
        "the same idempotency key is being used right now; try again",
    )
}

/// Rows of one transaction of [`sweep`].
const SWEEP_BATCH: u64 = 1000;
/// Transactions of one [`sweep`]: what is left over waits for the next.
const SWEEP_BATCHES: u32 = 100;

/// Removes keys that are older than seven days, in bounded batches, and returns how many. A key may be used for
/// another request after that.
///
/// # Errors
/// Those of the database.
pub async fn sweep(pool: &PgPool) -> sqlx::Result<u64> {
    let mut total = 0;
    for _ in 0..SWEEP_BATCHES {
        let gone = sqlx::query(
            "DELETE FROM idempotency WHERE ctid = ANY (ARRAY(
                 SELECT ctid FROM idempotency WHERE created_at < clock_timestamp() - interval '7 days'
                  ORDER BY created_at LIMIT 1000))",
        )
        .execute(pool)
        .await?
        .rows_affected();
        total += gone;
        if gone < SWEEP_BATCH {
            break;
        }
    }
    Ok(total)
}

fn reused() -> Error {
    Error::new(
        Code::AlreadyExists,
        ErrorReason::IdempotencyKeyReused,
        "this idempotency key was used with another request; use a new key",
    )
    .field(
        "X-Idempotency-Key",
        "must not be reused for a different request",
    )
}
