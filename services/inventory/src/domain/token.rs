//! The single-use secret with which a host's agent enrols.
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// Bytes of randomness in a token.
pub const ENTROPY_BYTES: usize = 32;

/// A token in the clear. It is shown once; only its digest is stored.
pub struct Token(String);

impl Token {
    /// The token made of these random bytes.
    #[must_use]
    pub fn from_entropy(entropy: [u8; ENTROPY_BYTES]) -> Self {
        Self(URL_SAFE_NO_PAD.encode(entropy))
    }

    /// The text to hand to the operator.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// What is stored of a token, and what a presented one is found by.
#[must_use]
pub fn digest(presented: &str) -> [u8; 32] {
    Sha256::digest(presented.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_07_a_token_does_not_show_in_debug_output() {
        let token = Token::from_entropy([7; ENTROPY_BYTES]);
        assert!(!format!("{token:?}").contains(token.reveal()));
        assert_eq!(token.reveal().len(), 43);
    }

    #[test]
    fn different_tokens_have_different_digests() {
        assert_ne!(digest("a"), digest("b"));
        assert_eq!(digest("a"), digest("a"));
    }
}
