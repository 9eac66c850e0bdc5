//! What a key set is, and why one is not usable.
use std::path::PathBuf;

use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet, PublicKeyUse};

/// Longest key set that is read.
pub(super) const MAX_JWKS_BYTES: usize = 256 * 1024;

/// Why an issuer's keys are not usable.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The file cannot be read.
    #[error("cannot read the key set {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// What was read is no key set.
    #[error("the key set is malformed")]
    Malformed(#[from] serde_json::Error),
    /// The address does not answer.
    #[error("cannot fetch the key set")]
    Fetch(#[from] reqwest::Error),
    /// The answer is far larger than a key set.
    #[error("the key set has more than {MAX_JWKS_BYTES} bytes")]
    TooLarge,
    /// Nothing in the set verifies a token.
    #[error("the key set has no key that verifies a token")]
    Empty,
    /// No key of the issuer is known yet.
    #[error("no key set was fetched yet")]
    None,
    /// The last set is too old to be used.
    #[error("the last key set is older than its expire_seconds")]
    Expired,
    /// The key is not in the set, and a newer set is being fetched or could not be fetched.
    #[error("the key is not in the last key set, which may be outdated")]
    Outdated,
}

/// Reads a key set with at least one key that verifies a token.
pub(super) fn parse(text: &[u8]) -> Result<JwkSet, KeysError> {
    let keys: JwkSet = serde_json::from_slice(text)?;
    if keys.keys.iter().any(is_usable) {
        Ok(keys)
    } else {
        Err(KeysError::Empty)
    }
}

/// Whether a key may verify a token: it is public, not meant for something else, and well-formed.
fn is_usable(key: &Jwk) -> bool {
    let is_public = !matches!(key.algorithm, AlgorithmParameters::OctetKey(_));
    let meant_for = key.common.public_key_use.as_ref();
    is_public
        && meant_for.is_none_or(|usage| *usage == PublicKeyUse::Signature)
        && DecodingKey::from_jwk(key).is_ok()
}

/// The key of an id; without an id the only key there is.
pub(super) fn pick(keys: &JwkSet, key_id: Option<&str>) -> Option<Jwk> {
    match (key_id, keys.keys.as_slice()) {
        (Some(id), _) => keys.find(id).cloned(),
        (None, [only]) => Some(only.clone()),
        (None, _) => None,
    }
}
