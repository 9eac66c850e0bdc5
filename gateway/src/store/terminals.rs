//! By which sign-in or API key a terminal was opened.
use sqlx::{PgPool, Row as _};
use uuid::Uuid;

use crate::auth::verify::Identity;

/// Days for which it is remembered: no terminal lives as long.
const DAYS: i32 = 30;

/// Notes who opened a terminal, and forgets old ones. Who opened it first stays: a repeated call shows no ticket.
///
/// # Errors
/// Database errors.
pub async fn note_terminal(pool: &PgPool, session: Uuid, identity: &Identity) -> sqlx::Result<()> {
    sqlx::query(
        "WITH old AS (DELETE FROM terminal_credentials WHERE create_time < clock_timestamp() - make_interval(days => $7))
         INSERT INTO terminal_credentials (session_id, issuer, subject, sid, issue_time, api_key_id)
         VALUES ($1, $2, $3, $4, to_timestamp($5::bigint), $6) ON CONFLICT DO NOTHING",
    )
    .bind(session)
    .bind(&identity.issuer)
    .bind(&identity.subject)
    .bind(&identity.sid)
    .bind(identity.issued)
    .bind(identity.key)
    .bind(DAYS)
    .execute(pool)
    .await?;
    Ok(())
}

/// Who opened a terminal; `None` when a gateway of the release before took the call.
///
/// # Errors
/// Database errors.
pub async fn terminal_opener(pool: &PgPool, session: Uuid) -> sqlx::Result<Option<Identity>> {
    let row = sqlx::query(
        "SELECT issuer, subject, sid, extract(epoch FROM issue_time)::bigint AS issued, api_key_id
           FROM terminal_credentials WHERE session_id = $1",
    )
    .bind(session)
    .fetch_optional(pool)
    .await?;
    row.map(|row| {
        Ok(Identity {
            issuer: row.try_get("issuer")?,
            subject: row.try_get("subject")?,
            sid: row.try_get("sid")?,
            issued: row.try_get("issued")?,
            key: row.try_get("api_key_id")?,
            ..Identity::default()
        })
    })
    .transpose()
}
