//! Audit rows, written in the transaction of the effect (P10). The table `audit` is in every schema.
//!
//! A row is sealed about a second after its transaction: [`seal`] gives it the next position in the hash chain of its schema,
//! and the digest of [`chain`]. [`read`] and [`serve`] show the rows, [`origin`] says from where a row was caused.
pub mod chain;
mod changes;
pub mod read;
pub mod seal;
pub mod serve;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;
use uuid::Uuid;

use changes::DIGESTS_IN;
pub use changes::{AFTER_DIGEST, BEFORE_DIGEST};

use crate::error::{Error, Result};
use crate::origin;
use crate::text::is_deceptive;

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
    pub detail: Value,
}

/// Adds the digests of a resource before and after its change to the detail of the row: SHA-256 of its message, in hex; none
/// before where it was made, none after where it was removed. They tell what a later state is to be compared with, without what
/// it contains. Nothing that is secret and short may be in the message: who guesses it sees by the digest whether that was right.
#[must_use]
pub fn with_digests<M: prost::Message>(
    detail: Value,
    before: Option<&M>,
    after: Option<&M>,
) -> Value {
    let bytes = |one: &M| one.encode_to_vec();
    digested(detail, before.map(bytes), after.map(bytes))
}

/// The same for a resource that is no message: of its JSON without white space, the names of each object sorted.
#[must_use]
pub fn with_digests_of_json(detail: Value, before: Option<Value>, after: Option<Value>) -> Value {
    let bytes = |mut one: Value| {
        one.sort_all_objects();
        one.to_string().into_bytes()
    };
    digested(detail, before.map(bytes), after.map(bytes))
}

fn digested(mut detail: Value, before: Option<Vec<u8>>, after: Option<Vec<u8>>) -> Value {
    for (name, bytes) in [(BEFORE_DIGEST, before), (AFTER_DIGEST, after)] {
        if let Some(bytes) = bytes {
            detail[name] = hex::encode(Sha256::digest(bytes)).into();
        }
    }
    detail
}

/// Says of a change that another service made that its own row, with the same request id, has the digests: that of this schema.
#[must_use]
pub fn with_digests_elsewhere(mut detail: Value, source: &str) -> Value {
    detail[DIGESTS_IN] = source.into();
    detail
}

/// Adds the project that a row is of to its detail: its members read such rows as the activity of the project.
#[must_use]
pub fn in_project(mut detail: Value, project_id: Uuid) -> Value {
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

/// A reason that must be given: short, one line.
///
/// # Errors
/// For the field `reason`.
pub fn reason(text: &str) -> Result<&str> {
    let reason = text.trim();
    if reason.is_empty() {
        return Err(Error::required("reason"));
    }
    check_reason(reason)?;
    if reason.chars().any(is_deceptive) {
        return Err(Error::invalid("reason", "must be one line"));
    }
    Ok(reason)
}

/// Writes a row; the caller's transaction makes it one with the effect. From where it was caused is read from
/// [`origin::current`].
///
/// # Errors
/// Database errors; in a development build a change without the digests that it has to have, so that its test fails.
pub async fn record(conn: &mut PgConnection, entry: Entry<'_>) -> Result<()> {
    if cfg!(debug_assertions) && changes::lacks_digests(entry.action, &entry.detail) {
        let action = entry.action;
        return Err(Error::internal(format!(
            "the audit row of {action} lacks the digests of before and after"
        )));
    }
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
    use serde_json::json;

    use super::*;

    #[test]
    fn digests_tell_whether_a_change_changed_anything() {
        let region = |enabled| Region {
            code: "r".to_owned(),
            enabled,
            ..Region::default()
        };
        let detail = || json!({ "enabled": true });
        let made = with_digests(detail(), None, Some(&region(true)));
        assert_eq!(
            (&made["enabled"], made.get("before_digest")),
            (&true.into(), None)
        );
        let same = with_digests(detail(), Some(&region(true)), Some(&region(true)));
        assert_eq!(same["before_digest"], same["after_digest"]);
        assert_eq!(same["after_digest"], made["after_digest"]);
        let changed = with_digests(detail(), Some(&region(false)), Some(&region(true)));
        assert_ne!(changed["before_digest"], changed["after_digest"]);
        let removed = with_digests(detail(), Some(&region(true)), None);
        assert_eq!(removed["before_digest"], made["after_digest"]);
        assert_eq!(removed.get("after_digest"), None);
    }

    #[test]
    fn digests_of_json_are_those_of_its_canonical_form() {
        let digests = |before, after| with_digests_of_json(json!({}), Some(before), Some(after));
        let same = digests(
            json!({ "b": [{ "d": 1, "c": 2 }], "a": "ä" }),
            json!({ "a": "ä", "b": [{ "c": 2, "d": 1 }] }),
        );
        assert_eq!(same["before_digest"], same["after_digest"]);
        // printf '{"a":1}' | sha256sum
        const KNOWN: &str = "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862";
        let known = digests(json!({ "a": 1 }), json!({ "a": 2 }));
        assert_eq!(known["before_digest"], KNOWN);
        assert_ne!(known["after_digest"], KNOWN);
    }
}
