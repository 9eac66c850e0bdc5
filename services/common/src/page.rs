//! Keyset pages: a token holds the last row's key and a hash of the query it belongs to.
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tonic::Code;

use crate::error::{Error, Result};

/// Page size when none is requested for.
pub const DEFAULT_PAGE_SIZE: i64 = 50;
/// Largest page.
pub const MAX_PAGE_SIZE: i64 = 500;
/// NUL as JSON writes it.
const ESCAPED_NUL: &[u8] = b"\\u0000";

/// The number of rows of a page: 0 is the default, more than the maximum is the maximum.
///
/// # Errors
/// A negative size, naming `page_size`.
pub fn page_size(requested: i32) -> Result<i64> {
    match requested {
        n if n < 0 => Err(Error::invalid("page_size", "must not be negative")),
        0 => Ok(DEFAULT_PAGE_SIZE),
        n => Ok(i64::from(n).min(MAX_PAGE_SIZE)),
    }
}

#[derive(Serialize, Deserialize)]
struct Envelope<K> {
    k: K,
    q: String,
}

fn query_hash(query: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in query {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    URL_SAFE_NO_PAD.encode(&hash.finalize()[..12])
}

/// A token for the page after the row with this key. `query` are the parts of the request that select rows.
pub fn encode<K: Serialize>(key: &K, query: &[&str]) -> String {
    let envelope = Envelope {
        k: key,
        q: query_hash(query),
    };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&envelope).expect("keys are plain data"))
}

/// The key in a token; `None` for an empty token (first page).
///
/// # Errors
/// `PAGE_TOKEN_INVALID` when the token is malformed or was made for another query.
pub fn decode<K: DeserializeOwned>(token: &str, query: &[&str]) -> Result<Option<K>> {
    open(token, query).map_err(refused)
}

/// The error of a token whose key no row can have.
#[must_use]
pub fn not_ours() -> Error {
    refused(Foreign::Malformed)
}

fn refused(foreign: Foreign) -> Error {
    let rule = match foreign {
        Foreign::Malformed => "is not a token this API gave out",
        Foreign::OtherQuery => "belongs to another query; start again without it",
    };
    Error::new(
        Code::InvalidArgument,
        ErrorReason::PageTokenInvalid,
        format!("page_token: {rule}"),
    )
    .field("page_token", rule)
}

/// Why a token is not taken.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Foreign {
    Malformed,
    OtherQuery,
}

/// The key in a token; `None` for an empty one.
pub(crate) fn open<K: DeserializeOwned>(token: &str, query: &[&str]) -> Result<Option<K>, Foreign> {
    if token.is_empty() {
        return Ok(None);
    }
    let envelope: Envelope<K> = URL_SAFE_NO_PAD
        .decode(token)
        .ok()
        // the key becomes part of a statement, and PostgreSQL's text cannot hold NUL; we write none
        .filter(|bytes| {
            !bytes
                .windows(ESCAPED_NUL.len())
                .any(|part| part == ESCAPED_NUL)
        })
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .ok_or(Foreign::Malformed)?;
    if envelope.q != query_hash(query) {
        return Err(Foreign::OtherQuery);
    }
    Ok(Some(envelope.k))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_goes_both_ways_for_the_same_query_only() {
        let token = encode(&(5i64, "x"), &["p1", "sku"]);
        assert_eq!(
            decode::<(i64, String)>(&token, &["p1", "sku"]).expect("ok"),
            Some((5, "x".to_owned()))
        );
        let error = decode::<(i64, String)>(&token, &["p1s", "ku"]).expect_err("other query");
        assert_eq!(error.reason(), ErrorReason::PageTokenInvalid);
        assert!(decode::<(i64, String)>("!!", &[]).is_err());
        let nul = encode(&(5i64, "a\0b"), &[]);
        assert!(
            decode::<(i64, String)>(&nul, &[]).is_err(),
            "no text has it"
        );
        assert_eq!(decode::<i64>("", &[]).expect("first page"), None);
    }

    #[test]
    fn sizes() {
        assert_eq!(page_size(0).expect("default"), 50);
        assert_eq!(page_size(9999).expect("capped"), 500);
        assert_eq!(
            page_size(-1).expect_err("refused").fields()[0].0,
            "page_size"
        );
    }
}
