//! The email address of a person: what the issuer has verified, as the newest sign-in says.
use std::time::Duration;

use gpuaas_common::audit::{self, with_digests};
use gpuaas_common::{Result, db};
use serde_json::json;

use super::{parse, wire};
use crate::app::App;
use crate::auth::verify::Identity;
use crate::store::{self, Principal, PrincipalKind};

/// The action on record.
const ACTION: &str = "principal.verify_email";
/// Longest wait of a sign-in for who else changes the person; the next one tries again.
const LIMIT: Duration = Duration::from_secs(2);

/// Stores the address of a sign-in, when it is another one than before. `now` is in seconds since 1970. A sign-in counts
/// whether or not that succeeds.
pub(crate) async fn note_address(
    app: &App,
    (identity, principal): (&Identity, &Principal),
    now: i64,
    request_id: &str,
) {
    let Some(said) = newer(identity, principal, now) else {
        return;
    };
    let stored = put(app, (identity, principal), said, request_id);
    if let Err(error) = db::within(LIMIT, stored).await {
        let principal = &principal.name;
        tracing::warn!(principal, "store a verified address: {}", error.chain());
    }
}

/// The address that a token says, and when it was issued, if it is another one than a newer token has said. One that is not the
/// issuer's to verify, or none at all, changes nothing.
fn newer(identity: &Identity, principal: &Principal, now: i64) -> Option<(String, i64)> {
    // a token of the future would keep out all others until then
    let issued = identity.issued.min(now);
    if principal.kind != PrincipalKind::User || issued <= principal.email_issued {
        return None;
    }
    let email = parse::email(identity.email.as_deref()?).ok()?;
    (email != principal.email).then_some((email, issued))
}

async fn put(
    app: &App,
    (identity, principal): (&Identity, &Principal),
    (email, issued): (String, i64),
    request_id: &str,
) -> Result<()> {
    let mut tx = app.pool.begin().await?;
    store::lock_principal(&mut tx, principal.id).await?;
    let before = store::get_principal(&mut tx, principal.id).await?;
    let to = (email.as_str(), issued);
    // of two requests with one token the second finds it done
    if !store::set_verified_email(&mut tx, principal.id, identity, to).await? {
        return Ok(());
    }
    let after = store::get_principal(&mut tx, principal.id).await?;
    let (before, after) = (before.map(wire::principal), after.map(wire::principal));
    let detail = json!({ "principal": principal.name, "issuer": identity.issuer });
    let entry = audit::Entry {
        principal: &principal.name,
        action: ACTION,
        resource: "principal",
        resource_id: &principal.id.to_string(),
        request_id,
        detail: with_digests(detail, before.as_ref(), after.as_ref()),
    };
    audit::record(&mut tx, entry).await?;
    Ok(tx.commit().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(email: &str, issued: i64) -> Identity {
        Identity {
            email: Some(email.to_owned()),
            issued,
            ..Identity::default()
        }
    }

    fn principal(email: &str, email_issued: i64) -> Principal {
        Principal {
            email: email.to_owned(),
            email_issued,
            ..Principal::default()
        }
    }

    #[test]
    fn only_another_address_of_a_newer_token_is_stored() {
        let said = |email: &str, at| Some((email.to_owned(), at));
        let long = format!("{}@example.com", "a".repeat(250));
        for (token, person, expected) in [
            (identity("a@x.org", 5), principal("", 0), said("a@x.org", 5)),
            (
                identity(" A@X.org", 5),
                principal("", 0),
                said("a@x.org", 5),
            ),
            (identity("A@x.org", 5), principal("a@x.org", 1), None),
            (
                identity("b@x.org", 5),
                principal("a@x.org", 4),
                said("b@x.org", 5),
            ),
            (identity("b@x.org", 5), principal("a@x.org", 5), None),
            (identity("b@x.org", 5), principal("a@x.org", 6), None),
            // what an administrator has written no token has said
            (
                identity("b@x.org", 5),
                principal("a@x.org", 0),
                said("b@x.org", 5),
            ),
            // it does not say when, or says that it will be
            (identity("b@x.org", 0), principal("", 0), None),
            (identity("b@x.org", -5), principal("", 0), None),
            (
                identity("b@x.org", i64::MAX),
                principal("", 0),
                said("b@x.org", 9),
            ),
            (identity("b@x.org", i64::MAX), principal("a@x.org", 9), None),
            (identity("", 5), principal("", 0), None),
            (identity("no address", 5), principal("a@x.org", 1), None),
            (identity(&long, 5), principal("a@x.org", 1), None),
        ] {
            let found = newer(&token, &person, 9);
            assert_eq!(found, expected, "{token:?} {person:?}");
        }
        let unverified = Identity {
            issued: 5,
            ..Identity::default()
        };
        assert_eq!(newer(&unverified, &principal("", 0), 9), None);
        let program = Principal {
            kind: PrincipalKind::ServiceAccount,
            ..Principal::default()
        };
        assert_eq!(newer(&identity("a@x.org", 5), &program, 9), None);
    }
}
