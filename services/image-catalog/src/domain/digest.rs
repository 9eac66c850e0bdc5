//! The digest of a raw disk image or of a manifest.
use std::fmt;

const PREFIX: &str = "sha256:";
const HEX_LENGTH: usize = 64;

/// A SHA-256 digest, "sha256:" and 64 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Digest(String);

impl Digest {
    /// Parses a digest; `None` unless it has exactly that form.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix(PREFIX)?;
        let valid =
            hex.len() == HEX_LENGTH && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        valid.then(|| Self(text.to_owned()))
    }

    /// From the 32 bytes of a finished hash.
    pub fn from_hash(hash: &[u8]) -> Self {
        Self(format!("{PREFIX}{}", hex::encode(hash)))
    }

    /// With its algorithm.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lower_case_sha256_is_a_digest() {
        let hex = "0123456789abcdef".repeat(4);
        assert!(Digest::parse(&format!("sha256:{hex}")).is_some());
        let upper = hex.to_uppercase();
        for bad in [
            hex.clone(),
            format!("sha512:{hex}"),
            format!("sha256:{upper}"),
            format!("sha256:{hex}0"),
            format!("sha256:{}", &hex[1..]),
            String::new(),
        ] {
            assert_eq!(Digest::parse(&bad), None, "{bad}");
        }
    }
}
