//! The sealer: gives audit rows their place in the hash chain of the schema, outside the transactions that write them, so that
//! no transaction waits for another's row (P10).
//!
//! Every process with a database runs one. A transaction's advisory lock lets one of them seal at a time; a sealer that dies
//! leaves what it had not committed to the next. Rows are sealed in the order in which they were written as far as their
//! transactions had ended: a row of a long transaction comes after rows that were written later and committed sooner.
use std::time::Duration;

use opentelemetry::metrics::Meter;
use sqlx::{PgConnection, PgPool, Row as _};
use tokio_util::sync::CancellationToken;

use super::chain::{self, Digest};
use super::read::{COLUMNS, to_record};
use crate::db;
use crate::error::{Error, Result};

/// Time between two rounds.
const INTERVAL: Duration = Duration::from_secs(1);
/// Most rows of one transaction.
const BATCH: i64 = 500;
/// Time between two removals of rows whose retention is over.
const RETIRE_INTERVAL: Duration = Duration::from_secs(3600);
/// Most rows that one transaction removes.
const RETIRE_BATCH: i32 = 5000;

/// Seals the oldest rows that are not sealed, at most so many, and returns how many. None while somebody else does.
///
/// # Errors
/// Those of the database.
pub async fn seal(pool: &PgPool, most: i64) -> Result<u64> {
    let mut tx = pool.begin().await?;
    if !lock(&mut tx).await? {
        return Ok(0);
    }
    // statements from here on see what the holder before has committed
    let head = sqlx::query(
        "(SELECT position, digest FROM audit WHERE position IS NOT NULL ORDER BY position DESC LIMIT 1)
         UNION ALL (SELECT position, digest FROM audit_checkpoint)
         ORDER BY position DESC LIMIT 1",
    )
    .fetch_one(&mut *tx)
    .await?;
    let mut position: i64 = head.try_get("position")?;
    let mut digest: Digest = head
        .try_get::<Vec<u8>, _>("digest")?
        .try_into()
        .map_err(|_| Error::internal("a digest is not of 32 bytes"))?;
    let mut query = sqlx::QueryBuilder::<sqlx::Postgres>::new("SELECT ");
    query.push(COLUMNS);
    query.push(" FROM audit WHERE position IS NULL ORDER BY seq LIMIT ");
    let rows = query.push_bind(most).build().fetch_all(&mut *tx).await?;
    let (mut seqs, mut positions, mut digests) = (Vec::new(), Vec::new(), Vec::new());
    for row in &rows {
        position += 1;
        let mut record = to_record(row)?;
        record.position = position;
        digest = chain::digest(&digest, &record);
        seqs.push(row.try_get::<i64, _>("seq")?);
        positions.push(position);
        digests.push(digest.to_vec());
    }
    if seqs.is_empty() {
        // not by leaving it: the lock would be held until the pool gets to the connection
        tx.rollback().await?;
        return Ok(0);
    }
    let sealed = sqlx::query(
        "UPDATE audit SET position = s.position, digest = s.digest
           FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS s (seq, position, digest)
          WHERE audit.seq = s.seq AND audit.position IS NULL",
    )
    .bind(&seqs)
    .bind(positions)
    .bind(digests)
    .execute(&mut *tx)
    .await?
    .rows_affected();
    if sealed != seqs.len() as u64 {
        return Err(Error::internal(
            "an audit row was sealed by somebody without the lock",
        ));
    }
    tx.commit().await?;
    Ok(sealed)
}

/// Takes the lock of the schema's chain until the transaction ends, unless somebody has it: nobody waits for a sealer.
async fn lock(conn: &mut PgConnection) -> Result<bool> {
    Ok(sqlx::query_scalar(
        "SELECT pg_try_advisory_xact_lock(hashtextextended('audit of ' || current_schema(), 0))",
    )
    .fetch_one(conn)
    .await?)
}

/// Removes rows older than so many days, from the oldest on, and returns how many. The digest of the last one stays, so that
/// what follows can be verified. None while somebody seals: there is another time.
///
/// # Errors
/// Those of the database, which refuses fewer than 30 days.
pub async fn retire(pool: &PgPool, keep_days: u32) -> Result<u64> {
    let days = i32::try_from(keep_days).unwrap_or(i32::MAX);
    let mut total = 0;
    loop {
        let mut tx = pool.begin().await?;
        if !lock(&mut tx).await? {
            return Ok(total);
        }
        let gone: i64 = sqlx::query_scalar("SELECT retire_audit($1, $2)")
            .bind(days)
            .bind(RETIRE_BATCH)
            .fetch_one(&mut *tx)
            .await?;
        tx.commit().await?;
        total += u64::try_from(gone).unwrap_or_default();
        if gone < i64::from(RETIRE_BATCH) {
            return Ok(total);
        }
    }
}

/// Age in seconds of the oldest row that is not sealed; nothing when all are.
async fn waiting(pool: &PgPool) -> Result<Option<f64>> {
    Ok(sqlx::query_scalar(
        "SELECT extract(epoch FROM clock_timestamp() - at)::float8 FROM audit
          WHERE position IS NULL ORDER BY seq LIMIT 1",
    )
    .fetch_optional(pool)
    .await?)
}

/// Seals and retires until `shutdown`.
pub async fn run(pool: PgPool, keep_days: u32, meter: Meter, shutdown: CancellationToken) {
    let age = meter
        .f64_gauge("audit_unsealed_seconds")
        .with_description("Age of the oldest audit row that has no digest yet")
        .build();
    let work = async {
        let mut rounds = tokio::time::interval(INTERVAL);
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut retire_at = tokio::time::Instant::now() + crate::retention::FIRST_SWEEP;
        let mut failing = false;
        loop {
            rounds.tick().await;
            let round = async {
                while let Some(seconds) = waiting(&pool).await? {
                    age.record(seconds.max(0.0), &[]);
                    if seal(&pool, BATCH).await? == 0 {
                        return Ok(());
                    }
                }
                age.record(0.0, &[]);
                if retire_at <= tokio::time::Instant::now() {
                    retire_at = tokio::time::Instant::now() + RETIRE_INTERVAL;
                    let gone = retire(&pool, keep_days).await?;
                    if gone > 0 {
                        tracing::info!(
                            gone,
                            keep_days,
                            "remove audit rows whose retention is over"
                        );
                    }
                }
                Ok::<(), Error>(())
            };
            match db::within(db::SWEEP, round).await {
                Ok(()) => failing = false,
                Err(error) => {
                    if !failing {
                        tracing::warn!("seal audit rows later: {}", error.chain());
                    }
                    failing = true;
                }
            }
        }
    };
    shutdown.run_until_cancelled(work).await;
}
