//! Time of usage intervals that is not charged: opened and closed by ledger events.
use jiff_sqlx::ToSqlx as _;
use sqlx::PgConnection;
use uuid::Uuid;

/// Begins to credit the open interval of an allocation, unless that is being done; not before the interval's start.
///
/// # Errors
/// Database errors, among them every constraint of the table.
pub async fn open(
    conn: &mut PgConnection,
    id: Uuid,
    allocation_id: Uuid,
    since: jiff::Timestamp,
    position: i64,
) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO usage_credits (id, interval_id, reason, started_at, opened_position)
         SELECT $1, u.id, 'host_lost',
                greatest($3, u.started_at, (SELECT max(c.ended_at) FROM usage_credits c WHERE c.interval_id = u.id)), $4
           FROM usage_intervals u
          WHERE u.allocation_id = $2 AND u.ended_at IS NULL
            AND NOT EXISTS (SELECT FROM usage_credits c WHERE c.interval_id = u.id AND c.ended_at IS NULL)",
    )
    .bind(id)
    .bind(allocation_id)
    .bind(since.to_sqlx())
    .bind(position)
    .execute(conn)
    .await?;
    Ok(())
}

/// Ends what is being credited of an allocation, if anything is.
///
/// # Errors
/// Database errors, among them every constraint of the table.
pub async fn close(
    conn: &mut PgConnection,
    allocation_id: Uuid,
    at: jiff::Timestamp,
    position: i64,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE usage_credits c SET ended_at = greatest($2, c.started_at), closed_position = $3
           FROM usage_intervals u
          WHERE u.allocation_id = $1 AND c.interval_id = u.id AND c.ended_at IS NULL",
    )
    .bind(allocation_id)
    .bind(at.to_sqlx())
    .bind(position)
    .execute(conn)
    .await?;
    Ok(())
}

/// Ends what is being credited of an allocation at a time, if it began before that: a loss that is told once more, as when its
/// reason changes, is the same one.
///
/// # Errors
/// Database errors, among them every constraint of the table.
pub async fn close_earlier(
    conn: &mut PgConnection,
    allocation_id: Uuid,
    at: jiff::Timestamp,
    position: i64,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE usage_credits c SET ended_at = $2, closed_position = $3
           FROM usage_intervals u
          WHERE u.allocation_id = $1 AND c.interval_id = u.id AND c.ended_at IS NULL AND c.started_at < $2",
    )
    .bind(allocation_id)
    .bind(at.to_sqlx())
    .bind(position)
    .execute(conn)
    .await?;
    Ok(())
}
