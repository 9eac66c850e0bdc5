//! Who compares which node with its host now: one replica at a time, and not sooner again than the interval.

use sqlx::PgPool;
use uuid::Uuid;

/// Takes a node for `lease_seconds`, unless somebody is there, or was there within `interval_seconds` and since its agent was
/// started. Returns the visit.
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
    sqlx::query_scalar(
        "INSERT INTO node_visits AS v (node_id, owner, expires_at)
         VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))
         ON CONFLICT (node_id) DO UPDATE
            SET owner = excluded.owner, expires_at = excluded.expires_at, epoch = v.epoch + 1, visited_at = clock_timestamp()
          WHERE (v.expires_at IS NULL OR v.expires_at < clock_timestamp())
            AND (v.visited_at <= clock_timestamp() - make_interval(secs => $4)
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

/// The slice nodes whose agent was started after their last visit.
///
/// # Errors
/// Those of the database.
pub async fn started_since(pool: &PgPool) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar(
        "SELECT s.node_id FROM agent_starts s JOIN nodes n ON n.id = s.node_id AND n.mode = 'slice'
           LEFT JOIN node_visits v ON v.node_id = s.node_id
          WHERE v.visited_at < s.noted_at OR v.node_id IS NULL
          ORDER BY s.node_id",
    )
    .fetch_all(pool)
    .await
}

/// Ends a visit, if it still is this one.
///
/// # Errors
/// Those of the database.
pub async fn end(pool: &PgPool, node_id: Uuid, epoch: i64) -> sqlx::Result<()> {
    sqlx::query("UPDATE node_visits SET expires_at = NULL WHERE node_id = $1 AND epoch = $2")
        .bind(node_id)
        .bind(epoch)
        .execute(pool)
        .await?;
    Ok(())
}
