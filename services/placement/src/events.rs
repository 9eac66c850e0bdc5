//! Reading the event log: a total order without gaps.
use jiff_sqlx::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Result;

/// Redis topic that wakes readers. Notified by the sequencer, never the record (P8).
pub const TOPIC: &str = "events";

/// An event with its position.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Event {
    /// Place in the order.
    pub position: i64,
    /// For example "allocation.active".
    #[sqlx(rename = "type")]
    pub kind: String,
    /// Allocation or slot.
    pub aggregate_id: Uuid,
    /// Grows within the aggregate.
    pub revision: i64,
    /// Ledger time of the change.
    pub at: Timestamp,
    /// Project, for events of allocations and quotas.
    pub project_id: Option<Uuid>,
    /// What it is about; an object.
    pub data: Value,
    /// Of the work that caused it.
    pub traceparent: String,
}

/// Events after a position, in order, at most `limit`, and the highest position assigned so far.
///
/// # Errors
/// Those of the database.
pub async fn read(conn: &mut PgConnection, after: i64, limit: i64) -> Result<(Vec<Event>, i64)> {
    let events: Vec<Event> = sqlx::query_as(
        "SELECT position, type, aggregate_id, revision, at, project_id, data, traceparent
           FROM outbox WHERE position > $1 ORDER BY position LIMIT $2",
    )
    .bind(after)
    .bind(limit)
    .fetch_all(&mut *conn)
    .await?;
    let head = sqlx::query_scalar("SELECT position FROM outbox_head")
        .fetch_one(conn)
        .await?;
    Ok((events, head))
}

/// What the log retains: the first position that can be read on from, and the highest one assigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct Kept {
    /// Everything after it is retained.
    pub from: i64,
    /// The last event.
    pub head: i64,
}

impl Kept {
    /// Whether everything after a position can still be read. One above the head is of another log.
    #[must_use]
    pub fn reaches(&self, position: i64) -> bool {
        (self.from..=self.head).contains(&position)
    }
}

/// What the log retains.
///
/// # Errors
/// Those of the database.
pub async fn kept(conn: &mut PgConnection) -> Result<Kept> {
    Ok(sqlx::query_as(
        "SELECT coalesce((SELECT min(position) - 1 FROM outbox), position) AS \"from\", position AS head
           FROM outbox_head",
    )
    .fetch_one(conn)
    .await?)
}

/// An allocation that has events after a position.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Touched {
    /// The allocation.
    pub id: Uuid,
    /// Its last event that was read.
    pub position: i64,
    /// Position of its first event, when that is among them.
    pub created: Option<i64>,
    /// Events of it that were read.
    pub events: i64,
}

/// A project's allocations that have events after a position, by their last one. Looks at `limit` events: nothing
/// before the last position returned is left out.
///
/// # Errors
/// Those of the database.
pub async fn touched(
    conn: &mut PgConnection,
    project_id: Uuid,
    after: i64,
    limit: i64,
) -> Result<Vec<Touched>> {
    Ok(sqlx::query_as(
        "SELECT aggregate_id AS id, max(position) AS position, min(position) FILTER (WHERE revision = 1) AS created,
                count(*) AS events
           FROM (SELECT aggregate_id, position, revision FROM outbox
                  WHERE project_id = $1 AND position > $2 AND type LIKE 'allocation.%'
                  ORDER BY position LIMIT $3) AS e
          GROUP BY aggregate_id ORDER BY max(position)",
    )
    .bind(project_id)
    .bind(after)
    .bind(limit)
    .fetch_all(conn)
    .await?)
}
