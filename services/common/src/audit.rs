//! Audit rows, written in the transaction of the effect (P10). The table `audit` is in every schema.
//!
//! A row is sealed about a second after its transaction: [`seal`] gives it the next position in the hash chain of its schema,
//! and the digest of [`chain`]. [`read`] and [`serve`] show the rows, [`origin`] says from where a row was caused.
pub mod chain;
pub mod origin;
pub mod read;
pub mod seal;
pub mod serve;

use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::{Error, Result};

/// Most characters of the reason that a person gives for an action.
const MAX_REASON: usize = 500;
/// Where the detail of a row has the project that it is of, in the form that [`Uuid`] prints.
pub const PROJECT: &str = "project_id";

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

/// Adds the digests of a resource before and after its change to the detail of the row: SHA-256 of its message, in hex; none
/// before where it was made. They tell what a later state is to be compared with, without what it contains.
#[must_use]
pub fn with_digests<M: prost::Message>(
    mut detail: serde_json::Value,
    before: Option<&M>,
    after: &M,
) -> serde_json::Value {
    let digest = |one: &M| hex::encode(Sha256::digest(one.encode_to_vec()));
    detail["before_digest"] = before.map(digest).into();
    detail["after_digest"] = digest(after).into();
    detail
}

/// Adds the project that a row is of to its detail: its members read such rows as the activity of the project.
#[must_use]
pub fn in_project(mut detail: serde_json::Value, project_id: Uuid) -> serde_json::Value {
    detail[PROJECT] = project_id.to_string().into();
    detail
}

/// Key of a record's detail: it was done by an operator in that role, whom the members of the project do not see by name.
pub const BY_OPERATOR: &str = "by_operator";

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

/// Writes a row; the caller's transaction makes it one with the effect. From where it was caused is read from
/// [`origin::current`].
///
/// # Errors
/// Database errors.
pub async fn record(conn: &mut PgConnection, entry: Entry<'_>) -> Result<()> {
    let origin = origin::current();
    sqlx::query(
        "INSERT INTO audit (id, principal, action, resource, resource_id, request_id, detail, address, user_agent, region) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(Uuid::now_v7())
    .bind(entry.principal)
    .bind(entry.action)
    .bind(entry.resource)
    .bind(entry.resource_id)
    .bind(entry.request_id)
    .bind(entry.detail)
    .bind(&origin.address)
    .bind(&origin.user_agent)
    .bind(&origin.region)
    .execute(conn)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::inventory::v1::Region;

    use super::*;

    #[test]
    fn digests_tell_whether_a_change_changed_anything() {
        let region = |enabled| Region {
            code: "r".to_owned(),
            enabled,
            ..Region::default()
        };
        let detail = || serde_json::json!({ "enabled": true });
        let made = with_digests(detail(), None, &region(true));
        assert_eq!(
            (&made["enabled"], &made["before_digest"]),
            (&true.into(), &serde_json::Value::Null)
        );
        let same = with_digests(detail(), Some(&region(true)), &region(true));
        assert_eq!(same["before_digest"], same["after_digest"]);
        assert_eq!(same["after_digest"], made["after_digest"]);
        let changed = with_digests(detail(), Some(&region(false)), &region(true));
        assert_ne!(changed["before_digest"], changed["after_digest"]);
    }
}
