//! The caller's own labels on a resource: every label of Kubernetes is one.
use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// Most labels of one resource.
pub const MAX_LABELS: usize = 32;
/// Longest name in a label key, in bytes, as in Kubernetes.
pub const MAX_LABEL_NAME: usize = 63;
/// Longest prefix of a label key, before its last `/`, in bytes, as in Kubernetes.
pub const MAX_LABEL_PREFIX: usize = 253;
/// Longest label value, in bytes.
pub const MAX_LABEL_VALUE: usize = 255;

/// Refuses labels beyond their limits; the first bad one in key order is reported.
///
/// # Errors
/// The rule that is broken, with its field.
pub fn check(labels: &BTreeMap<String, String>) -> Result<()> {
    if labels.len() > MAX_LABELS {
        return Err(Error::invalid(
            "labels",
            format!("must be at most {MAX_LABELS}"),
        ));
    }
    for (key, value) in labels {
        if !is_key(key) {
            return Err(Error::invalid(
                "labels",
                "keys must be names of 1 to 63 characters of A-Z, a-z, 0-9, '-', '_' and '.', with a prefix of up \
                 to 253 characters and '/' if you like, starting with a letter or digit",
            ));
        }
        if value.len() > MAX_LABEL_VALUE || value.chars().any(char::is_control) {
            return Err(Error::invalid(
                format!("labels[{key}]"),
                format!("must be at most {MAX_LABEL_VALUE} bytes without control characters"),
            ));
        }
    }
    Ok(())
}

/// Every label key of Kubernetes is one, capitals included.
fn is_key(key: &str) -> bool {
    let (prefix, name) = key.rsplit_once('/').unwrap_or(("", key));
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/');
    let first = key.as_bytes().first();
    first.is_some_and(u8::is_ascii_alphanumeric)
        && !name.is_empty()
        && name.len() <= MAX_LABEL_NAME
        && prefix.len() <= MAX_LABEL_PREFIX
        && key.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_key_of_kubernetes_is_one_with_capitals_too() {
        let of = |key: &str| check(&BTreeMap::from([(key.to_owned(), "v".to_owned())])).is_ok();
        for good in [
            "Team",
            "costCenter",
            "app.kubernetes.io/PartOf",
            "a_b-C.9",
            &"N".repeat(MAX_LABEL_NAME),
            &format!("{}/n", "p".repeat(MAX_LABEL_PREFIX)),
        ] {
            assert!(of(good), "{good}");
        }
        for bad in [
            "",
            "/n",
            "p/",
            "-a",
            "a b",
            "ä",
            "a\n",
            &"N".repeat(MAX_LABEL_NAME + 1),
            &format!("{}/n", "p".repeat(MAX_LABEL_PREFIX + 1)),
        ] {
            assert!(!of(bad), "{bad:?}");
        }
    }
}
