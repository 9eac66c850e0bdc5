//! Parts of recordings.
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// Stores a part and counts it, in one statement.
pub(crate) async fn append(
    pool: &PgPool,
    session_id: Uuid,
    seq: i32,
    data: &str,
) -> sqlx::Result<()> {
    sqlx::query(
        "WITH part AS (INSERT INTO recording_chunks (session_id, seq, data) VALUES ($1, $2, $3))
         UPDATE sessions SET recording_bytes = recording_bytes + octet_length($3) WHERE id = $1",
    )
    .bind(session_id)
    .bind(seq)
    .bind(data)
    .execute(pool)
    .await
    .map(drop)
}

/// Parts from `seq` on, until they add up to a page; the number of the next part when there is one.
pub(crate) async fn page(
    pool: &PgPool,
    session_id: Uuid,
    seq: i32,
) -> sqlx::Result<(String, Option<i32>)> {
    const PARTS: i64 = 8;
    const PAGE_BYTES: usize = 1 << 20;
    let parts: Vec<(i32, String)> = sqlx::query_as(
        "SELECT seq, data FROM recording_chunks WHERE session_id = $1 AND seq >= $2 ORDER BY seq LIMIT $3",
    )
    .bind(session_id)
    .bind(seq)
    .bind(PARTS)
    .fetch_all(pool)
    .await?;
    let full = parts.len() as i64 == PARTS;
    let mut text = String::new();
    for (at, data) in parts {
        if !text.is_empty() && text.len() + data.len() > PAGE_BYTES {
            return Ok((text, Some(at)));
        }
        text.push_str(&data);
        if full && at - seq == PARTS as i32 - 1 {
            return Ok((text, Some(at + 1)));
        }
    }
    Ok((text, None))
}

/// Forgets recordings of sessions that ended more than `days` ago; returns how many.
pub(crate) async fn expire(conn: &mut PgConnection, days: u32) -> sqlx::Result<u64> {
    let old: Vec<Uuid> = sqlx::query_scalar(
        "UPDATE sessions SET recording = 'expired'
          WHERE id IN (SELECT id FROM sessions WHERE recording = 'kept'
                          AND close_time < clock_timestamp() - make_interval(days => $1) LIMIT 100)
         RETURNING id",
    )
    .bind(i32::try_from(days).unwrap_or(i32::MAX))
    .fetch_all(&mut *conn)
    .await?;
    sqlx::query("DELETE FROM recording_chunks WHERE session_id = ANY ($1)")
        .bind(&old)
        .execute(conn)
        .await?;
    Ok(old.len() as u64)
}
