//! Tickets: kept as hashes, burnt by being shown, their time measured by the database's clock.
use jiff_sqlx::Timestamp;
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use crate::domain::kind::Kind;
use crate::domain::message::SecretHash;

/// Who a ticket is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewTicket<'a> {
    pub(crate) session_id: Uuid,
    pub(crate) allocation_id: Uuid,
    pub(crate) project_id: Uuid,
    pub(crate) principal: &'a str,
    pub(crate) origin: &'a str,
    pub(crate) kind: Kind,
}

/// A ticket as it was given out.
#[derive(Debug, Clone, FromRow)]
pub(crate) struct Ticket {
    pub(crate) session_id: Uuid,
    pub(crate) allocation_id: Uuid,
    pub(crate) project_id: Uuid,
    pub(crate) principal: String,
    pub(crate) origin: String,
    /// Name of what it opens.
    pub(crate) kind: String,
    /// It had expired when it was shown.
    pub(crate) expired: bool,
}

/// How many tickets of a principal can still be used.
pub(crate) async fn usable(conn: &mut PgConnection, principal: &str) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "SELECT count(*) FROM tickets
          WHERE principal = $1 AND consume_time IS NULL AND expire_time > clock_timestamp()",
    )
    .bind(principal)
    .fetch_one(conn)
    .await
}

/// Writes a ticket that can be used for `seconds`; returns when it expires.
pub(crate) async fn insert(
    conn: &mut PgConnection,
    hash: SecretHash,
    ticket: &NewTicket<'_>,
    seconds: u32,
) -> sqlx::Result<Timestamp> {
    sqlx::query_scalar(
        "WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS t)
         INSERT INTO tickets (hash, session_id, allocation_id, project_id, principal, origin, create_time, expire_time, kind)
         SELECT $1, $2, $3, $4, $5, $6, t, t + make_interval(secs => $7), $8 FROM clock RETURNING expire_time",
    )
    .bind(hash.0.as_slice())
    .bind(ticket.session_id)
    .bind(ticket.allocation_id)
    .bind(ticket.project_id)
    .bind(ticket.principal)
    .bind(ticket.origin)
    .bind(f64::from(seconds))
    .bind(ticket.kind.name())
    .fetch_one(conn)
    .await
}

/// When the ticket of a session expires, and its project; `None` when it has been swept.
pub(crate) async fn issued(
    conn: &mut PgConnection,
    session_id: Uuid,
) -> sqlx::Result<Option<(Timestamp, Uuid)>> {
    sqlx::query_as("SELECT expire_time, project_id FROM tickets WHERE session_id = $1")
        .bind(session_id)
        .fetch_optional(conn)
        .await
}

/// Burns a ticket that nobody has shown before; `None` when there is none. Of several at once, one gets it.
pub(crate) async fn burn(
    conn: &mut PgConnection,
    hash: SecretHash,
) -> sqlx::Result<Option<Ticket>> {
    sqlx::query_as(
        "UPDATE tickets SET consume_time = clock_timestamp() WHERE hash = $1 AND consume_time IS NULL
         RETURNING session_id, allocation_id, project_id, principal, origin, kind, expire_time <= clock_timestamp() AS expired",
    )
    .bind(hash.0.as_slice())
    .fetch_optional(conn)
    .await
}

/// Removes tickets that expired an hour ago.
pub(crate) async fn sweep(conn: &mut PgConnection) -> sqlx::Result<u64> {
    let done = sqlx::query(
        "DELETE FROM tickets WHERE expire_time < clock_timestamp() - interval '1 hour'",
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}
