//! The desired state of the ledger's rows, stored until the ledger has confirmed it.
//!
//! The row holds the whole desired message, written in the transaction of the change. A version that grows with every
//! change shows what is still to be pushed; only the newest state matters, so an older message is never queued.
use std::time::Duration;

use sqlx::{FromRow, PgConnection, PgPool};

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `PutRegionRequest`, by code.
    Region,
    /// `PutNodeRequest`, by id.
    Node,
}

impl Kind {
    /// Name in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Region => "region",
            Self::Node => "node",
        }
    }
}

/// Stores the desired state of a row of the ledger. Returns whether it changed.
///
/// With `new_instance` a reimage is sent until the ledger has confirmed the version this makes.
///
/// # Errors
/// Database errors.
pub async fn set_desired(
    conn: &mut PgConnection,
    kind: Kind,
    key: &str,
    message: &[u8],
    new_instance: bool,
) -> sqlx::Result<bool> {
    let done = sqlx::query(
        "INSERT INTO ledger_sync AS s (kind, key, desired, new_instance_version)
         VALUES ($1, $2, $3, CASE WHEN $4 THEN 1 ELSE 0 END)
         ON CONFLICT (kind, key) DO UPDATE SET
             desired = EXCLUDED.desired,
             version = s.version + 1,
             new_instance_version = CASE WHEN $4 THEN s.version + 1 ELSE s.new_instance_version END,
             not_before = clock_timestamp(),
             attempts = 0
         WHERE s.desired IS DISTINCT FROM EXCLUDED.desired OR $4",
    )
    .bind(kind.as_str())
    .bind(key)
    .bind(message)
    .bind(new_instance)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// A push that this process does until its lease ends.
#[derive(Debug, Clone, FromRow)]
pub struct ClaimedPush {
    /// `region` or `node`.
    pub kind: String,
    /// Code or id.
    pub key: String,
    /// Encoded message.
    pub desired: Vec<u8>,
    /// Version of the message.
    pub version: i64,
    /// The ledger has not confirmed the reimage yet.
    pub new_instance: bool,
    /// This claim.
    pub lease_epoch: i64,
    /// How often it was tried since the last success, this time included.
    pub attempts: i32,
}

/// Takes the next push that is due, regions before nodes; or this very one, due or not.
///
/// # Errors
/// Database errors.
pub async fn claim(
    pool: &PgPool,
    only: Option<(Kind, &str)>,
    lease_seconds: u32,
) -> sqlx::Result<Option<ClaimedPush>> {
    sqlx::query_as(
        "UPDATE ledger_sync s SET lease_epoch = s.lease_epoch + 1, attempts = s.attempts + 1,
             lease_until = clock_timestamp() + make_interval(secs => $3)
         FROM (SELECT kind, key FROM ledger_sync
               WHERE pushed_version < version AND (lease_until IS NULL OR lease_until <= clock_timestamp())
                 AND CASE WHEN $1::text IS NULL THEN not_before <= clock_timestamp()
                          ELSE kind = $1 AND key = $2 END
               ORDER BY kind DESC, not_before LIMIT 1 FOR UPDATE SKIP LOCKED) due
         WHERE s.kind = due.kind AND s.key = due.key
         RETURNING s.kind, s.key, s.desired, s.version, s.new_instance_version > s.pushed_version AS new_instance,
             s.lease_epoch, s.attempts",
    )
    .bind(only.map(|(kind, _)| kind.as_str()))
    .bind(only.map(|(_, key)| key))
    .bind(f64::from(lease_seconds))
    .fetch_optional(pool)
    .await
}

/// Notes that the ledger has confirmed a version.
///
/// # Errors
/// Database errors.
pub async fn confirm(pool: &PgPool, push: &ClaimedPush) -> sqlx::Result<()> {
    let done = sqlx::query(
        "UPDATE ledger_sync SET pushed_version = greatest(pushed_version, $4), lease_until = NULL, attempts = 0,
             not_before = clock_timestamp()
         WHERE kind = $1 AND key = $2 AND lease_epoch = $3",
    )
    .bind(&push.kind)
    .bind(&push.key)
    .bind(push.lease_epoch)
    .bind(push.version)
    .execute(pool)
    .await?;
    if done.rows_affected() == 0 {
        // The lease ended meanwhile: this message may have arrived after a newer one. The newest is sent again.
        sqlx::query(
            "UPDATE ledger_sync SET version = version + 1, not_before = clock_timestamp() WHERE kind = $1 AND key = $2
                AND desired <> '' AND NOT EXISTS (SELECT FROM nodes WHERE $1 = 'node' AND id::text = $2 AND removed IS NOT NULL)",
        )
        .bind(&push.kind)
        .bind(&push.key)
        .execute(pool)
        .await?;
    }
    Ok(())
}

/// Gives a push back, to be tried after a pause.
///
/// # Errors
/// Database errors.
pub async fn postpone(pool: &PgPool, push: &ClaimedPush, pause: Duration) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE ledger_sync SET lease_until = NULL, not_before = clock_timestamp() + make_interval(secs => $4)
         WHERE kind = $1 AND key = $2 AND lease_epoch = $3",
    )
    .bind(&push.kind)
    .bind(&push.key)
    .bind(push.lease_epoch)
    .bind(pause.as_secs_f64())
    .execute(pool)
    .await?;
    Ok(())
}

/// What keeps a state from being sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendLock {
    /// Nobody else sends it for so long as was requested. None: there is nothing to send.
    Ours(Option<i64>),
    /// It is being sent now.
    InFlight,
}

/// Keeps everybody from sending a state for so many seconds, unless it is being sent now.
///
/// # Errors
/// Database errors.
pub async fn hold(
    pool: &PgPool,
    (kind, key): (Kind, &str),
    seconds: u32,
) -> sqlx::Result<SendLock> {
    let (exists, epoch): (bool, Option<i64>) = sqlx::query_as(
        "WITH held AS (UPDATE ledger_sync SET lease_epoch = lease_epoch + 1,
                              lease_until = clock_timestamp() + make_interval(secs => $3)
                        WHERE kind = $1 AND key = $2 AND (lease_until IS NULL OR lease_until <= clock_timestamp())
                       RETURNING lease_epoch)
         SELECT EXISTS (SELECT FROM ledger_sync WHERE kind = $1 AND key = $2), (SELECT lease_epoch FROM held)",
    )
    .bind(kind.as_str())
    .bind(key)
    .bind(f64::from(seconds))
    .fetch_one(pool)
    .await?;
    Ok(if exists && epoch.is_none() {
        SendLock::InFlight
    } else {
        SendLock::Ours(epoch)
    })
}

/// Lets a held state be sent again.
///
/// # Errors
/// Database errors.
pub async fn let_go(pool: &PgPool, (kind, key): (Kind, &str), epoch: i64) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE ledger_sync SET lease_until = NULL WHERE kind = $1 AND key = $2 AND lease_epoch = $3",
    )
    .bind(kind.as_str())
    .bind(key)
    .bind(epoch)
    .execute(pool)
    .await?;
    Ok(())
}

/// A held state is sent again after the hold: the ledger may have lost it by then.
///
/// # Errors
/// Database errors.
pub async fn send_again(pool: &PgPool, (kind, key): (Kind, &str), epoch: i64) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE ledger_sync SET version = version + 1, not_before = clock_timestamp()
          WHERE kind = $1 AND key = $2 AND lease_epoch = $3 AND desired <> ''",
    )
    .bind(kind.as_str())
    .bind(key)
    .bind(epoch)
    .execute(pool)
    .await?;
    Ok(())
}

/// Nothing of a held state is sent again until there is another one: what it is about is gone, and may come again as it was.
/// False, and nothing changed: it is not held any more.
///
/// # Errors
/// Database errors.
pub async fn forget(
    conn: &mut PgConnection,
    (kind, key): (Kind, &str),
    epoch: i64,
) -> sqlx::Result<bool> {
    let done = sqlx::query(
        "UPDATE ledger_sync SET desired = '', version = version + 1, pushed_version = version + 1, lease_until = NULL
          WHERE kind = $1 AND key = $2 AND lease_epoch = $3",
    )
    .bind(kind.as_str())
    .bind(key)
    .bind(epoch)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Nothing of this is sent again: what it is about is gone.
///
/// # Errors
/// Database errors.
pub async fn give_up(conn: &mut PgConnection, kind: Kind, key: &str) -> sqlx::Result<()> {
    sqlx::query("UPDATE ledger_sync SET pushed_version = version WHERE kind = $1 AND key = $2")
        .bind(kind.as_str())
        .bind(key)
        .execute(conn)
        .await?;
    Ok(())
}

/// Whether the ledger has confirmed the newest state of this.
///
/// # Errors
/// Database errors.
pub async fn is_confirmed(pool: &PgPool, kind: Kind, key: &str) -> sqlx::Result<bool> {
    let confirmed: Option<bool> = sqlx::query_scalar(
        "SELECT pushed_version = version FROM ledger_sync WHERE kind = $1 AND key = $2",
    )
    .bind(kind.as_str())
    .bind(key)
    .fetch_optional(pool)
    .await?;
    Ok(confirmed.unwrap_or(false))
}
