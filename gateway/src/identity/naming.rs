//! Names of people who are registered without an administrator.
use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::parse;
use crate::auth::verify::Identity;

/// Names for an identity, best first: its address, else its subject; and with a part that no other identity has. Characters
/// that no name has are left out.
pub(crate) fn names(identity: &Identity) -> [String; 2] {
    let plain = identity.email.as_deref().unwrap_or(&identity.subject);
    let kept: String = plain
        .chars()
        .filter(|c| u8::try_from(*c).is_ok_and(parse::is_name_byte))
        .take(100)
        .collect();
    let whole = format!("{}\n{}", identity.issuer, identity.subject);
    let digest = digest::digest(&digest::SHA256, whole.as_bytes());
    let unique = URL_SAFE_NO_PAD
        .encode(&digest.as_ref()[..9])
        .replace('_', ".");
    let unique = format!("user:{kept}-{unique}");
    // an address is somebody's own; a subject of one issuer may be somebody else of another
    if identity.email.is_some() && kept == plain {
        [format!("user:{kept}"), unique]
    } else {
        [unique.clone(), unique]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(subject: &str, email: Option<&str>) -> Identity {
        Identity {
            issuer: "https://idp.test".to_owned(),
            subject: subject.to_owned(),
            email: email.map(str::to_owned),
            ..Identity::default()
        }
    }

    #[test]
    fn every_identity_has_a_name_that_the_database_takes() {
        let first = |identity: &Identity| names(identity)[0].clone();
        let alice = identity("4711", Some("alice@example.com"));
        assert_eq!(names(&alice)[0], "user:alice@example.com");
        assert_ne!(names(&alice)[0], names(&alice)[1]);
        let long = "x".repeat(10_000);
        let strange = [
            identity("auth0|5f7", None),
            identity("अनुज", None),
            identity(&long, None),
            identity("s", Some("иван@example.com")),
            identity("s+1", Some("a+b@example.com")),
        ];
        for one in &strange {
            let name = first(one);
            assert!(parse::user_name(&name).is_ok(), "{name}");
        }
        // what is left of two is the same, and the names are not
        assert_ne!(
            first(&identity("名前", None)),
            first(&identity("氏名", None))
        );
        assert_ne!(
            first(&identity("1", Some("a+b@x.org"))),
            first(&identity("2", Some("a+b@x.org")))
        );
    }
}
