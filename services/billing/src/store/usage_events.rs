//! What became of usage, in the order in which it was put on record. Intervals and credits are the log themselves: they are written
//! once and closed once, and the position that closes them moves under one lock.
use jiff_sqlx::Timestamp;
use sqlx::{FromRow, PgConnection};

use super::usage::Interval;

/// The end of an interval, or of time of an open one that is not charged.
#[derive(Debug, Clone, FromRow)]
pub struct UsageEvent {
    /// Place in the order.
    pub position: i64,
    /// "usage.closed" or "usage.credited".
    pub event_type: String,
    /// When it was put on record.
    pub at: Timestamp,
    /// As it was then.
    #[sqlx(flatten)]
    pub interval: Interval,
}

/// Events after a position, in order, at most `limit`. What ends with its interval is told with that; a credit of no time is none.
///
/// # Errors
/// Database errors.
pub async fn read(
    conn: &mut PgConnection,
    after: i64,
    limit: i64,
) -> sqlx::Result<Vec<UsageEvent>> {
    sqlx::query_as(
        "SELECT e.position, e.event_type, e.at, u.id, u.allocation_id, u.project_id, u.sku, u.gpu_count, u.price_version_id,
                p.currency, p.price_nanos, u.started_at, e.ended_at,
                interval_microseconds(u.started_at, e.upto) AS microseconds,
                credited_microseconds(u.id, u.started_at, e.upto) AS credited_microseconds
           FROM ((SELECT i.closed_position AS position, 'usage.closed' AS event_type, i.completed_at AS at, i.id AS interval_id,
                         i.ended_at, i.ended_at AS upto
                    FROM usage_intervals i
                   WHERE i.closed_position > $1 AND i.completed_at IS NOT NULL
                   ORDER BY i.closed_position LIMIT $2)
                 UNION ALL
                 (SELECT c.closed_position, 'usage.credited', c.completed_at, c.interval_id, NULL::timestamptz, c.ended_at
                    FROM usage_credits c JOIN usage_intervals i ON i.id = c.interval_id
                   WHERE c.closed_position > $1 AND c.completed_at IS NOT NULL AND c.ended_at > c.started_at
                     AND i.closed_position IS DISTINCT FROM c.closed_position
                   ORDER BY c.closed_position LIMIT $2)) e
           JOIN usage_intervals u ON u.id = e.interval_id
           JOIN price_versions p ON p.id = u.price_version_id
          ORDER BY e.position LIMIT $2",
    )
    .bind(after)
    .bind(limit)
    .fetch_all(conn)
    .await
}
