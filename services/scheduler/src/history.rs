//! The task that writes the history of the fleet's capacity.
use std::time::Duration;

use gpuaas_common::{CancellationToken, db};
use gpuaas_placement::{Result, history};
use sqlx::PgPool;
use tokio::time::Instant;

/// Writes a sample at the start of every minute and removes those older than `days`, until `shutdown`. Any number of
/// replicas may run: the first one writes the minute.
pub async fn write(pool: PgPool, days: u32, shutdown: CancellationToken) {
    if days == 0 {
        return;
    }
    let keep = Duration::from_secs(u64::from(days) * 24 * 3600);
    let mut pause = Duration::ZERO;
    while shutdown
        .run_until_cancelled(tokio::time::sleep(pause))
        .await
        .is_some()
    {
        match shutdown.run_until_cancelled(minute(&pool, keep)).await {
            Some(Ok(())) | None => {}
            Some(Err(error)) => {
                let error = gpuaas_common::Error::from(error);
                tracing::warn!("leave this minute out of the capacity history: {error:?}");
            }
        }
        pause = until_next_minute(jiff::Timestamp::now());
    }
}

async fn minute(pool: &PgPool, keep: Duration) -> Result<()> {
    let mut conn = pool.acquire().await?;
    if db::within(db::PASS, history::sample(&mut conn)).await? == 0 {
        return Ok(());
    }
    drop(conn);
    // what is left when the next sample is due goes after it
    let due = Instant::now() + until_next_minute(jiff::Timestamp::now());
    loop {
        let mut conn = pool.acquire().await?;
        let gone = db::within(db::PASS, history::prune(&mut conn, keep)).await?;
        if gone < history::PRUNED_AT_ONCE || Instant::now() >= due {
            return Ok(());
        }
    }
}

fn until_next_minute(now: jiff::Timestamp) -> Duration {
    let into = now.as_millisecond().rem_euclid(60_000);
    Duration::from_millis(60_000 - into.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_sample_is_due_when_the_next_minute_begins() {
        let at = |text: &str| until_next_minute(text.parse().expect("a time"));
        assert_eq!(at("2026-11-21T10:00:00Z"), Duration::from_secs(60));
        assert_eq!(at("2026-11-21T10:00:59.250Z"), Duration::from_millis(750));
    }
}
