//! API keys as text: `gpuaas_<cell>_<id>_<secret><checksum>`.
//!
//! The prefix lets scanners of source code find a key that leaked; the checksum lets them, and us, tell a key that was cut
//! short or typed from one that was never given out, without asking the database. What is stored is a digest of the whole:
//! a secret of 256 random bits needs no slow hash.
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;
use uuid::Uuid;

use crate::error::ApiError;

/// What all keys begin with, and no token of an issuer does.
const PREFIX: &str = "gpuaas_";
/// Five bits each: letters and digits that survive a double click and a phone.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// Random bytes of a secret.
pub const SECRET_BYTES: usize = 32;
/// Characters of a secret: 256 bits in fives.
const SECRET_CHARS: usize = 52;
/// Characters of the checksum.
const CHECKSUM_CHARS: usize = 8;
/// No key is longer; longer ones are not parsed.
const MAX_CHARS: usize = 128;

/// A key whose form is right; whether it is good, the database knows.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Under which it is registered.
    pub id: Uuid,
    text: String,
}

impl ApiKey {
    /// A new key from random bytes.
    pub fn new(cell: u16, id: Uuid, random: &[u8; SECRET_BYTES]) -> Self {
        let mut text = prefix_of(cell, id);
        text.push('_');
        text.push_str(&letters(random));
        let sum = checksum(&text);
        text.push_str(&sum);
        Self { id, text }
    }

    /// The whole key, to be shown once.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// What is stored of it.
    pub fn hash(&self) -> [u8; 32] {
        sha256(self.text.as_bytes())
    }

    /// Whether what is stored is of this key; takes the same time for every wrong one.
    pub fn is_of(&self, stored: &[u8]) -> bool {
        verify_slices_are_equal(&self.hash(), stored).is_ok()
    }

    /// Reads a key of this cell.
    ///
    /// # Errors
    /// `CREDENTIAL_INVALID` for one that is not complete or is another cell's.
    pub fn parse(text: &str, cell: u16) -> Result<Self, ApiError> {
        let (of_cell, id) = read(text).ok_or_else(|| refused("it is not complete"))?;
        if of_cell != cell {
            return Err(refused(&format!("it is a key of cell {of_cell}")));
        }
        Ok(Self {
            id,
            text: text.to_owned(),
        })
    }
}

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Whether a credential is meant to be an API key.
pub fn is_api_key(credential: &str) -> bool {
    credential.starts_with(PREFIX)
}

/// What may be shown of a key.
pub fn prefix_of(cell: u16, id: Uuid) -> String {
    format!("{PREFIX}{cell}_{}", id.simple())
}

/// A refusal of a key that says why.
pub fn refused(why: &str) -> ApiError {
    ApiError::new(
        Code::Unauthenticated,
        ErrorReason::CredentialInvalid,
        format!("The API key is not accepted: {why}."),
    )
}

fn read(text: &str) -> Option<(u16, Uuid)> {
    if text.len() > MAX_CHARS || !text.is_ascii() {
        return None;
    }
    let body = text.len().checked_sub(CHECKSUM_CHARS)?;
    let (body, sum) = text.split_at(body);
    if checksum(body) != sum {
        return None;
    }
    let mut parts = body.strip_prefix(PREFIX)?.split('_');
    let (cell, id, secret) = (parts.next()?, parts.next()?, parts.next()?);
    let whole = parts.next().is_none() && secret.len() == SECRET_CHARS;
    whole.then_some((cell.parse().ok()?, Uuid::try_parse(id).ok()?))
}

fn letters(bytes: &[u8; SECRET_BYTES]) -> String {
    let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
    (0..SECRET_CHARS)
        .map(|letter| {
            let five = (0..5).fold(0, |value, at| value << 1 | bit(letter * 5 + at));
            char::from(ALPHABET[usize::from(five)])
        })
        .collect()
}

fn checksum(text: &str) -> String {
    let digest = sha256(text.as_bytes());
    digest[..CHECKSUM_CHARS / 2]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ApiKey {
        let id = Uuid::from_u128(0x0192_f0c1_2d3e_7001_8000_0000_0000_0001);
        ApiKey::new(7, id, &std::array::from_fn(|at| at as u8))
    }

    #[test]
    fn a_key_is_read_back_by_its_own_cell() {
        let key = key();
        let text = key.reveal();
        assert!(is_api_key(text), "{text}");
        assert!(
            text.starts_with("gpuaas_7_0192f0c12d3e70018000000000000001_aaaqea"),
            "{text}"
        );
        assert_eq!(ApiKey::parse(text, 7).expect("its own"), key);
        assert!(key.is_of(&key.hash()));
        let other = ApiKey::new(7, key.id, &[1; SECRET_BYTES]);
        assert!(!other.is_of(&key.hash()));
        assert!(!key.is_of(&[]));
        assert!(!format!("{key:?}").contains("aaaqea"), "no secret in a log");
    }

    #[test]
    fn a_key_that_is_not_whole_is_refused_by_its_form() {
        let text = key().reveal().to_owned();
        let why = |text: &str, cell| {
            let refusal = ApiKey::parse(text, cell).expect_err(text);
            assert_eq!(refusal.reason(), "CREDENTIAL_INVALID");
            refusal.message().to_owned()
        };
        assert!(why(&text, 8).contains("a key of cell 7"));
        for end in 0..text.len() {
            assert!(why(&text[..end], 7).contains("not complete"));
        }
        for at in PREFIX.len()..text.len() {
            let mut typed = text.clone().into_bytes();
            typed[at] = if typed[at] == b'x' { b'y' } else { b'x' };
            let typed = String::from_utf8(typed).expect("ASCII");
            assert!(why(&typed, 7).contains("not complete"), "{typed}");
        }
        for other in [
            format!("{text}a"),
            format!("{text} "),
            text.to_uppercase(),
            text.replace("gpuaas_7_", "gpuaas_07_"),
            "gpuaas_".to_owned(),
            format!("gpuaas_{}", "é".repeat(50)),
            "gpuaas_".repeat(100),
        ] {
            assert!(why(&other, 7).contains("not complete"), "{other}");
        }
    }
}
