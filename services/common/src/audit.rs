//! Audit rows, written in the transaction of the effect (P10). The table `audit` is in every schema.
use sqlx::PgConnection;
use uuid::Uuid;

use crate::{Error, Result};

/// Most characters of the reason that a person gives for an action.
const MAX_REASON: usize = 500;

/// One privileged action.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Who.
    pub principal: &'a str,
    /// The access option's action, for example "slot.approve".
    pub action: &'a str,
    /// Kind of resource.
    pub resource: &'a str,
    /// Which one.
    pub resource_id: &'a str,
    /// Of the request.
    pub request_id: &'a str,
    /// What else matters; never a secret.
    pub detail: serde_json::Value,
}

/// Refuses a reason of more than 500 characters.
///
/// # Errors
/// For the field `reason`.
pub fn check_reason(reason: &str) -> Result<()> {
    if reason.chars().count() > MAX_REASON {
        let rule = format!("must be at most {MAX_REASON} characters");
        return Err(Error::invalid("reason", rule));
    }
    Ok(())
}

/// Writes a row; the caller's transaction makes it one with the effect.
///
/// # Errors
/// Database errors.
pub async fn record(conn: &mut PgConnection, entry: Entry<'_>) -> Result<()> {
    sqlx::query(
        "INSERT INTO audit (id, principal, action, resource, resource_id, request_id, detail) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(Uuid::now_v7())
    .bind(entry.principal)
    .bind(entry.action)
    .bind(entry.resource)
    .bind(entry.resource_id)
    .bind(entry.request_id)
    .bind(entry.detail)
    .execute(conn)
    .await?;
    Ok(())
}
