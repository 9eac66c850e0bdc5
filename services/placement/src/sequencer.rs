//! The sequencer gives events their positions.
//!
//! Neither a sequence nor a transaction id is an order that readers can follow: both can show a later event
//! first. Positions are handed out after the commit, under one lock, so they have no gap and no inversion
//! however many sequencers run.
use sqlx::PgPool;

use crate::error::Result;

/// Events sequenced in one go.
const BATCH: u64 = 1000;

/// Sequences pending events and returns how many got their position. Wake readers
/// ([`crate::events::TOPIC`]) when it is more than zero.
///
/// # Errors
/// Those of the database, a lock timeout included: another sequencer is at work, come back later.
pub async fn run_once(pool: &PgPool) -> Result<u64> {
    let mut total = 0;
    loop {
        let mut tx = pool.begin().await?;
        // A statement of its own: the next one must see what was committed before the lock was got.
        sqlx::query_scalar::<_, i64>("SELECT position FROM outbox_head FOR UPDATE")
            .fetch_one(&mut *tx)
            .await?;
        let sequenced: Option<i64> = sqlx::query_scalar(
            "WITH n AS (SELECT seq, row_number() OVER (ORDER BY seq) AS rn FROM outbox
                         WHERE position IS NULL ORDER BY seq LIMIT 1000),
                  u AS (UPDATE outbox o SET position = h.position + n.rn FROM n, outbox_head h
                         WHERE o.seq = n.seq RETURNING o.position)
             UPDATE outbox_head SET position = (SELECT max(position) FROM u) WHERE EXISTS (SELECT FROM u)
             RETURNING (SELECT count(*) FROM u)",
        )
        .fetch_optional(&mut *tx)
        .await?;
        tx.commit().await?;
        let sequenced = u64::try_from(sequenced.unwrap_or(0)).unwrap_or(0);
        total += sequenced;
        if sequenced < BATCH {
            return Ok(total);
        }
    }
}
