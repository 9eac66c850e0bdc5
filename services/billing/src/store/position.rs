//! Position in the ledger's event log; it moves in the transaction of the events' effects.
use sqlx::{PgConnection, PgExecutor};

/// Name of the one consumer of this schema.
pub(super) const CONSUMER: &str = "usage";

/// Position up to which all effects are complete.
///
/// # Errors
/// Database errors.
pub async fn read(executor: impl PgExecutor<'_>) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT position FROM consumer_position WHERE consumer = $1")
        .bind(CONSUMER)
        .fetch_one(executor)
        .await
}

/// The same, and the mark of the event that it is of, where that is on record.
///
/// # Errors
/// Database errors.
pub async fn marked(executor: impl PgExecutor<'_>) -> sqlx::Result<(i64, Option<String>)> {
    sqlx::query_as("SELECT position, last_event FROM consumer_position WHERE consumer = $1")
        .bind(CONSUMER)
        .fetch_one(executor)
        .await
}

/// The position, and keeps other replicas from moving it until the transaction ends.
///
/// # Errors
/// Database errors.
pub async fn lock(conn: &mut PgConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT position FROM consumer_position WHERE consumer = $1 FOR UPDATE")
        .bind(CONSUMER)
        .fetch_one(conn)
        .await
}

/// Moves it to an event with this mark.
///
/// # Errors
/// Database errors.
pub async fn store(conn: &mut PgConnection, position: i64, mark: &str) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE consumer_position SET position = $2, last_event = $3, updated_at = clock_timestamp() WHERE consumer = $1",
    )
        .bind(CONSUMER)
        .bind(position)
        .bind(mark)
        .execute(conn)
        .await?;
    Ok(())
}
