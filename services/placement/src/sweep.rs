//! Deletes rows past their retention in bounded batches, so that no transaction holds much for long.
use sqlx::PgPool;

use crate::error::Result;

/// Removes workflows with their steps and calls to hosts, and timelines, that ended so many days ago, and returns how many
/// workflows and timelines went. What bills and audits need stays, and so does all work of an allocation that still holds
/// something.
///
/// # Errors
/// Those of the database, which refuses fewer than 30 days.
pub async fn work(pool: &PgPool, retention_days: u32) -> Result<u64> {
    past(
        "SELECT sweep_work(make_interval(days => $1), $2)",
        pool,
        retention_days,
    )
    .await
}

/// Removes entries of the histories of nodes and slots, and times of bad health that ended, which are older than so many
/// days, and returns how many. The latest entry of each stays.
///
/// # Errors
/// Those of the database, which refuses fewer than 30 days.
pub async fn histories(pool: &PgPool, retention_days: u32) -> Result<u64> {
    past(
        "SELECT sweep_histories(make_interval(days => $1), $2)",
        pool,
        retention_days,
    )
    .await
}

async fn past(sql: &'static str, pool: &PgPool, retention_days: u32) -> Result<u64> {
    let mut total = 0;
    for _ in 0..BATCHES {
        let gone: i64 = sqlx::query_scalar(sql)
            .bind(i32::try_from(retention_days).unwrap_or(i32::MAX))
            .bind(BATCH)
            .fetch_one(pool)
            .await?;
        total += gone.unsigned_abs();
        if gone < i64::from(BATCH) {
            break;
        }
    }
    Ok(total)
}

/// Rows of one transaction.
const BATCH: i32 = 1000;
/// Transactions of one run: the next run does the rest.
const BATCHES: u32 = 100;

/// Removes events that are older than 90 days and have their position, and returns how many. The database itself
/// retains younger ones, those without position and the latest, whoever calls.
///
/// # Errors
/// Those of the database.
pub async fn outbox(pool: &PgPool) -> Result<u64> {
    let mut total = 0;
    for _ in 0..BATCHES {
        let gone: i64 = sqlx::query_scalar("SELECT sweep_outbox($1)")
            .bind(BATCH)
            .fetch_one(pool)
            .await?;
        total += gone.unsigned_abs();
        if gone < i64::from(BATCH) {
            break;
        }
    }
    Ok(total)
}
