//! Metrics of the queues: lengths, and how waits ended.
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Result;
use crate::model::SlotClass;

/// A queue that is not empty.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct QueueLength {
    pub region_code: String,
    /// Class of slots.
    #[sqlx(try_from = "String")]
    pub slot_class: SlotClass,
    /// Requests; a batch is one.
    pub requests: i64,
    /// GPUs of all of them.
    pub gpus: i64,
    /// Seconds since the oldest was made, by the ledger's clock.
    pub oldest_seconds: f64,
}

/// All queues that are not empty, by region and class.
///
/// # Errors
/// Those of the database.
pub async fn lengths(conn: &mut PgConnection) -> Result<Vec<QueueLength>> {
    Ok(sqlx::query_as(
        "SELECT a.region_code, w.slot_class, count(DISTINCT w.batch_id) AS requests, sum(a.gpu_count) AS gpus,
                greatest(extract(epoch FROM clock_timestamp() - min(a.created_at)), 0)::float8 AS oldest_seconds
           FROM allocations a JOIN queued_allocations w ON w.allocation_id = a.id
          WHERE a.state = 'requested' GROUP BY a.region_code, w.slot_class ORDER BY 1, 2",
    )
    .fetch_all(conn)
    .await?)
}

/// How many allocations of a queue left it in one way.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Outcome {
    pub region_code: String,
    /// Class of slots.
    #[sqlx(try_from = "String")]
    pub slot_class: SlotClass,
    /// `served`, `expired` (its deadline was over) or `impossible` (its constraints cannot be met any more).
    pub how: String,
    pub allocations: i64,
}

/// How these queued allocations left their queues.
///
/// # Errors
/// Those of the database.
pub async fn outcomes(conn: &mut PgConnection, left: &[Uuid]) -> Result<Vec<Outcome>> {
    Ok(sqlx::query_as(
        "SELECT a.region_code, w.slot_class,
                CASE WHEN a.node_id IS NOT NULL THEN 'served'
                     WHEN a.failure ->> 'reason' = 'WAIT_EXPIRED' THEN 'expired' ELSE 'impossible' END AS how,
                count(*) AS allocations
           FROM allocations a JOIN queued_allocations w ON w.allocation_id = a.id
          WHERE a.id = ANY ($1) GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
    )
    .bind(left)
    .fetch_all(conn)
    .await?)
}
