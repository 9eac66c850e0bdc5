//! Positions of what watchers observe: which hosts and slots differ from how they were last observed.
use std::collections::HashMap;

use sqlx::{FromRow, PgPool};
use uuid::Uuid;

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "lowercase")]
pub enum Kind {
    /// A host.
    Node,
    Slot,
}

/// How something is observed now.
#[derive(Debug, Clone, Copy)]
pub struct Observed {
    /// What it is.
    pub kind: Kind,
    pub id: Uuid,
    /// SHA-256 of what a watcher is shown of it.
    pub digest: [u8; 32],
}

/// The place of something in the order of differences.
#[derive(Debug, Clone, FromRow)]
pub struct WatchedRow {
    /// What it is.
    pub kind: Kind,
    pub id: Uuid,
    digest: Vec<u8>,
    /// Of the last difference.
    pub position: i64,
    /// Of the first observation.
    pub first_position: i64,
}

/// Gives every difference its position and returns the places of everything, with the highest position.
///
/// # Errors
/// Database errors.
pub async fn record(pool: &PgPool, observed: &[Observed]) -> sqlx::Result<(Vec<WatchedRow>, i64)> {
    let mut tx = pool.begin().await?;
    let mut head: i64 = sqlx::query_scalar("SELECT position FROM watch_head FOR UPDATE")
        .fetch_one(&mut *tx)
        .await?;
    let cached: Vec<WatchedRow> =
        sqlx::query_as("SELECT kind, id, digest, position, first_position FROM watched")
            .fetch_all(&mut *tx)
            .await?;
    let mut places: HashMap<(Kind, Uuid), WatchedRow> = cached
        .into_iter()
        .map(|row| ((row.kind, row.id), row))
        .collect();
    let before = head;
    for one in observed {
        let cached = places.get(&(one.kind, one.id));
        if cached.is_some_and(|cached| cached.digest == one.digest) {
            continue;
        }
        head += 1;
        let row: WatchedRow = sqlx::query_as(
            "INSERT INTO watched (kind, id, digest, position, first_position) VALUES ($1, $2, $3, $4, $4)
             ON CONFLICT (kind, id) DO UPDATE SET digest = excluded.digest, position = excluded.position
             RETURNING kind, id, digest, position, first_position",
        )
        .bind(one.kind)
        .bind(one.id)
        .bind(&one.digest[..])
        .bind(head)
        .fetch_one(&mut *tx)
        .await?;
        places.insert((row.kind, row.id), row);
    }
    if head > before {
        sqlx::query("UPDATE watch_head SET position = $1")
            .bind(head)
            .execute(&mut *tx)
            .await?;
    }
    tx.commit().await?;
    Ok((places.into_values().collect(), head))
}
