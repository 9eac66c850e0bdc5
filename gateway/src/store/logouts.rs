//! Who has signed out at an issuer while tokens of the sign-in are still valid.
use std::time::Duration;

use sqlx::PgPool;

use crate::auth::verify::Identity;

/// A sign-in that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logout {
    /// As principals are registered with it.
    pub issuer: String,
    /// The issuer's id of this message.
    pub jti: String,
    /// Whose.
    pub subject: Option<String>,
    /// Which; every one of the subject when absent.
    pub sid: Option<String>,
    /// When, by the issuer's clock, in seconds since 1970.
    pub issued: i64,
    /// Days for which it is remembered.
    pub days: u16,
}

/// Puts the end of a sign-in on record, and forgets those that are old enough; false when this one was there already.
///
/// # Errors
/// Database errors.
pub async fn end_sign_in(pool: &PgPool, logout: &Logout) -> sqlx::Result<bool> {
    let mut tx = pool.begin().await?;
    sqlx::query("DELETE FROM logouts WHERE expire_time < clock_timestamp()")
        .execute(&mut *tx)
        .await?;
    let inserted = sqlx::query(
        "INSERT INTO logouts (issuer, jti, subject, sid, issue_time, expire_time)
         VALUES ($1, $2, $3, $4, to_timestamp($5::bigint), clock_timestamp() + make_interval(days => $6))
         ON CONFLICT DO NOTHING",
    )
    .bind(&logout.issuer)
    .bind(&logout.jti)
    .bind(&logout.subject)
    .bind(&logout.sid)
    .bind(logout.issued)
    .bind(i32::from(logout.days))
    .execute(&mut *tx)
    .await?
    .rows_affected();
    tx.commit().await?;
    Ok(inserted == 1)
}

/// Whether the sign-in that a token comes from has ended. An SSH key is good without one.
///
/// # Errors
/// Database errors.
pub async fn has_signed_out(pool: &PgPool, identity: &Identity) -> sqlx::Result<bool> {
    if identity.ssh_key.is_some() {
        return Ok(false);
    }
    sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM logouts WHERE issuer = $1 AND sid = $3)
             OR EXISTS (SELECT FROM logouts WHERE issuer = $1 AND subject = $2
                           AND issue_time >= to_timestamp($4::bigint)
                           AND (sid IS NULL OR $3::text IS NULL))",
    )
    .bind(&identity.issuer)
    .bind(&identity.subject)
    .bind(&identity.sid)
    .bind(identity.issued)
    .fetch_one(pool)
    .await
}

/// Whether a principal has signed out within this time.
///
/// # Errors
/// Database errors.
pub async fn signed_out_within(
    pool: &PgPool,
    principal: &str,
    time: Duration,
) -> sqlx::Result<bool> {
    sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM logouts l JOIN principals p ON p.issuer = l.issuer AND p.subject = l.subject
                         WHERE p.name = $1 AND l.create_time >= clock_timestamp() - make_interval(secs => $2))",
    )
    .bind(principal)
    .bind(time.as_secs_f64())
    .fetch_one(pool)
    .await
}
