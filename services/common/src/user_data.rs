//! User data of a launch: what cloud-init takes in a VM beside the platform's own part. It may hold secrets of the tenant,
//! so that its type shows none of it.
use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::value::ParseError;

/// Name of the field, wherever a request carries it.
pub const FIELD: &str = "user_data";
/// Most bytes, as on EC2.
pub const MAX_BYTES: usize = 16 << 10;
/// What the first line must begin with; cloud-init passes over anything else in silence.
const BEGINNINGS: [&str; 8] = [
    "#!",
    "#cloud-config",
    "#cloud-boothook",
    "#include",
    "#part-handler",
    "## template:",
    "Content-Type:",
    "MIME-Version:",
];

/// Text that cloud-init knows by its first line: `#cloud-config`, `#!` and a program, or a MIME message of several. Written
/// out ([`fmt::Debug`]) it is its size alone.
#[derive(Clone, PartialEq, Eq)]
pub struct UserData(String);

impl UserData {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its size in bytes, at most [`MAX_BYTES`].
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// `sha256:` and 64 hex digits.
    #[must_use]
    pub fn digest(&self) -> String {
        format!("sha256:{}", hex::encode(Sha256::digest(&self.0)))
    }

    /// Whether it is a MIME message, with parts of its own.
    #[must_use]
    pub fn is_mime(&self) -> bool {
        !self.0.starts_with('#')
    }

    /// The user data of a request; empty text is none.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn optional(text: &str) -> Result<Option<Self>, ParseError> {
        (!text.is_empty()).then(|| text.parse()).transpose()
    }
}

impl FromStr for UserData {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let broken = |rule| ParseError { what: FIELD, rule };
        if text.len() > MAX_BYTES {
            return Err(broken("at most 16384 bytes"));
        }
        if text.contains('\0') {
            return Err(broken("text without NUL"));
        }
        if !BEGINNINGS.iter().any(|known| text.starts_with(known)) {
            return Err(broken(
                "plain text, not base64, that begins with #cloud-config, with #! and a program, or with the header of a MIME message",
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for UserData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserData({} bytes)", self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cloud_init_knows_is_taken_as_it_is() {
        let most = format!("#!{}", "x".repeat(MAX_BYTES - 2));
        for (text, mime) in [
            ("#cloud-config\npackages: [jq]\n", false),
            ("#!/bin/sh\necho \u{e4}\n", false),
            ("Content-Type: multipart/mixed; boundary=b\n\n--b--\n", true),
            ("MIME-Version: 1.0\n", true),
            (most.as_str(), false),
        ] {
            let data: UserData = text.parse().expect(text);
            assert_eq!((data.as_str(), data.is_mime()), (text, mime));
        }
        assert_eq!(UserData::optional(""), Ok(None));
    }

    #[test]
    fn anything_else_is_refused_by_field_and_rule() {
        let long = format!("#{}", "x".repeat(MAX_BYTES));
        let megabyte = "#".repeat(1 << 20);
        for (text, rule) in [
            (long.as_str(), "at most 16384 bytes"),
            (megabyte.as_str(), "at most 16384 bytes"),
            ("#!/bin/sh\n\0", "text without NUL"),
            ("I2Nsb3VkLWNvbmZpZwo=", "plain text, not base64"),
            (" #cloud-config", "plain text"),
            ("\n", "plain text"),
        ] {
            let error = text.parse::<UserData>().expect_err(rule);
            assert_eq!(error.what, "user_data");
            assert!(error.rule.starts_with(rule), "{}", error.rule);
        }
    }

    #[test]
    fn it_is_written_out_by_its_size_alone() {
        let data: UserData = "#!/bin/sh\nsecret".parse().expect("user data");
        assert_eq!(format!("{data:?}"), "UserData(16 bytes)");
        let digest = data.digest();
        assert!(
            digest.starts_with("sha256:") && digest.len() == 71,
            "{digest}"
        );
    }
}
