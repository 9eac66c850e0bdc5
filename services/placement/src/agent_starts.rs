//! Starts of agents: what a host had begun before is found by a comparison at once (D-82).
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Result;

/// Topic of wake-ups when an agent was started.
pub const TOPIC: &str = "agent_starts";

/// Notes when the agent of a node was started, if it says so; whether that is news. Notify [`TOPIC`] after the commit.
///
/// # Errors
/// Those of the database.
pub async fn note(
    conn: &mut PgConnection,
    node_id: Uuid,
    started_at: Option<Timestamp>,
) -> Result<bool> {
    let Some(started_at) = started_at else {
        return Ok(false);
    };
    let noted = sqlx::query(
        "INSERT INTO agent_starts AS s (node_id, started_at) VALUES ($1, $2)
         ON CONFLICT (node_id) DO UPDATE SET started_at = excluded.started_at, noted_at = clock_timestamp()
          WHERE s.started_at <> excluded.started_at",
    )
    .bind(node_id)
    .bind(started_at)
    .execute(conn)
    .await?;
    Ok(noted.rows_affected() > 0)
}
