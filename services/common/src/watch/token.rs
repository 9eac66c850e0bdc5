//! Resume tokens: where a stream was, and a hash of what it watched.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::Code;

use crate::error::{Error, Result};
use crate::page::{self, Foreign};

const FIELD: &str = "resume_token";

/// A token to go on after `place`. `query` are the parts of the request that say what is watched.
pub fn encode<P: Serialize>(place: &P, query: &[&str]) -> String {
    page::encode(place, query)
}

/// The place in a token; `None` for an empty one.
///
/// # Errors
/// `RESUME_TOKEN_INVALID` when it is malformed or was made for another watch.
pub fn decode<P: DeserializeOwned>(token: &str, query: &[&str]) -> Result<Option<P>> {
    page::open(token, query).map_err(|foreign| {
        let rule = match foreign {
            Foreign::Malformed => "is not a token this API gave out",
            Foreign::OtherQuery => "belongs to another watch; watch again without it",
        };
        Error::new(
            Code::InvalidArgument,
            ErrorReason::ResumeTokenInvalid,
            format!("{FIELD}: {rule}"),
        )
        .field(FIELD, rule)
    })
}

/// What happened since the token is not known any more.
#[must_use]
pub fn expired() -> Error {
    let rule = "is too old: what happened since is not kept any more; watch again without it";
    Error::new(
        Code::OutOfRange,
        ErrorReason::ResumeTokenExpired,
        format!("{FIELD}: {rule}"),
    )
    .field(FIELD, rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_both_ways_for_the_same_watch_only() {
        let token = encode(&(7i64, 3i64), &["project", "false"]);
        assert!(
            token
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)),
            "{token}"
        );
        let place: Option<(i64, i64)> = decode(&token, &["project", "false"]).expect("own");
        assert_eq!(place, Some((7, 3)));
        for (token, query) in [
            (token.as_str(), ["project", "true"]),
            ("%%", ["project", "false"]),
        ] {
            let error = decode::<(i64, i64)>(token, &query).expect_err("refused");
            assert_eq!(error.reason(), ErrorReason::ResumeTokenInvalid);
            assert_eq!(error.fields()[0].0, "resume_token");
        }
        assert_eq!(decode::<(i64, i64)>("", &["x"]).expect("none"), None);
    }
}
