//! Who compares which node with its host now: one replica at a time, and not sooner again than the interval.

use sqlx::PgPool;
use uuid::Uuid;

/// Takes a node for `lease_seconds`, unless somebody is there or was there within `interval_seconds`. Returns the visit.
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
            AND v.visited_at <= clock_timestamp() - make_interval(secs => $4)
         RETURNING epoch",
    )
    .bind(node_id)
    .bind(owner)
    .bind(lease_seconds)
    .bind(interval_seconds)
    .fetch_optional(pool)
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
