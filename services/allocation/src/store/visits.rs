//! Who compares which node with its host now: one replica at a time, and not sooner again than the interval.

use sqlx::PgPool;
use uuid::Uuid;

/// Visits in a row that are tried again ahead of the round, 1, 2, 4, 8 and 16 seconds after each has failed.
const RETRIES: i32 = 5;

/// Takes a node for `lease_seconds`, unless somebody is there, or was there within `interval_seconds` and since its agent was
/// started, and did not fail. Returns the visit.
///
/// # Errors
/// Those of the database.
pub async fn take(
    pool: &PgPool,
    node_id: Uuid,
    owner: &str,
    lease_seconds: f64,
    interval_seconds: f64,
) -> sqlx::Result<Option<i64>> {
    // what failed before the agent was started says nothing of the one that runs
    sqlx::query_scalar(
        "INSERT INTO node_visits AS v (node_id, owner, expires_at)
         VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))
         ON CONFLICT (node_id) DO UPDATE
            SET owner = excluded.owner, expires_at = excluded.expires_at, epoch = v.epoch + 1, visited_at = clock_timestamp(),
                retry_at = NULL,
                failures = CASE WHEN v.visited_at < (SELECT noted_at FROM agent_starts s WHERE s.node_id = v.node_id)
                                THEN 0 ELSE v.failures END
          WHERE (v.expires_at IS NULL OR v.expires_at < clock_timestamp())
            AND (v.visited_at <= clock_timestamp() - make_interval(secs => $4)
                 OR v.retry_at <= clock_timestamp()
                 OR v.visited_at < (SELECT noted_at FROM agent_starts s WHERE s.node_id = v.node_id))
         RETURNING epoch",
    )
    .bind(node_id)
    .bind(owner)
    .bind(lease_seconds)
    .bind(interval_seconds)
    .fetch_optional(pool)
    .await
}

/// The slice nodes whose agent was started after their last visit, and those whose visits since then have failed and are due
/// again.
///
/// # Errors
/// Those of the database.
pub async fn started_since(pool: &PgPool) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar(
        "SELECT s.node_id FROM agent_starts s JOIN nodes n ON n.id = s.node_id AND n.mode = 'slice'
           LEFT JOIN node_visits v ON v.node_id = s.node_id
          WHERE v.visited_at < s.noted_at OR v.node_id IS NULL OR v.retry_at <= clock_timestamp()
          ORDER BY s.node_id",
    )
    .fetch_all(pool)
    .await
}

/// Seconds until the next of the failed visits is due again; none has to be.
///
/// # Errors
/// Those of the database.
pub async fn next_retry(pool: &PgPool) -> sqlx::Result<Option<f64>> {
    sqlx::query_scalar(
        "SELECT extract(epoch FROM min(greatest(now(), v.retry_at)) - now())::float8
           FROM node_visits v JOIN nodes n ON n.id = v.node_id AND n.mode = 'slice'
          WHERE v.expires_at IS NULL AND v.retry_at IS NOT NULL",
    )
    .fetch_one(pool)
    .await
}

/// Ends a visit, if it still is this one. One that has failed is due again soon while none has come to its end since the agent
/// of its node was started.
///
/// # Errors
/// Those of the database.
pub async fn end(pool: &PgPool, node_id: Uuid, epoch: i64, failed: bool) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE node_visits v
            SET expires_at = NULL,
                failures = CASE WHEN $3 THEN least(v.failures, $4) + 1 ELSE 0 END,
                compared_at = CASE WHEN $3 THEN v.compared_at ELSE v.visited_at END,
                retry_at = CASE WHEN $3 AND v.failures < $4
                                 AND EXISTS (SELECT FROM agent_starts s WHERE s.node_id = v.node_id
                                                AND s.noted_at > coalesce(v.compared_at, '-infinity'))
                                THEN clock_timestamp() + make_interval(secs => 2 ^ least(v.failures, $4)) END
          WHERE node_id = $1 AND epoch = $2",
    )
    .bind(node_id)
    .bind(epoch)
    .bind(failed)
    .bind(RETRIES)
    .execute(pool)
    .await?;
    Ok(())
}
