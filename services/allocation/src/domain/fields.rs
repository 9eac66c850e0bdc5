//! The small parsed types of a create request: fields of one value, and labels.

use std::collections::BTreeMap;
use std::str::FromStr;

use gpuaas_common::labels;
use gpuaas_common::value::ParseError;

/// A field of the request and the rule it breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {rule}")]
pub struct FieldError {
    /// Path of the field, for example `ssh_public_keys[1]`.
    pub field: String,
    /// The rule, as a sentence part: "must be …".
    pub rule: String,
    /// The field was left out altogether.
    pub missing: bool,
}

impl FieldError {
    /// A value that breaks `rule`.
    pub fn invalid(field: impl Into<String>, rule: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            rule: rule.into(),
            missing: false,
        }
    }

    /// A required field that is empty.
    pub fn required(field: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            rule: "is required".into(),
            missing: true,
        }
    }
}

/// Parses the value of `field`, which must be there.
///
/// # Errors
/// The rule that is broken.
pub fn parse<T: FromStr<Err = ParseError>>(field: &str, value: &str) -> Result<T, FieldError> {
    if value.is_empty() {
        return Err(FieldError::required(field));
    }
    value
        .parse()
        .map_err(|error: ParseError| FieldError::invalid(field, format!("must be {}", error.rule)))
}

/// The caller's own labels within their limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// Parses labels; the first bad one in key order is reported.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn parse<'a>(
        labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Result<Self, FieldError> {
        let labels: BTreeMap<String, String> = labels
            .into_iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        labels::check(&labels).map_err(|error| {
            let (field, rule) = error.fields().first().cloned().unwrap_or_default();
            FieldError::invalid(field, rule)
        })?;
        Ok(Self(labels))
    }

    /// The labels by key.
    #[must_use]
    pub fn as_map(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuaas_common::value::{DnsLabel, ImageSlug};
    use proptest::prelude::*;

    #[test]
    fn names_are_dns_labels() {
        let long = "a".repeat(64);
        let longest = "a".repeat(63);
        for (value, legal) in [
            ("web", true),
            ("a", true),
            ("9-lives", true),
            (longest.as_str(), true),
            ("", false),
            (long.as_str(), false),
            ("-a", false),
            ("a-", false),
            ("A", false),
            ("a.b", false),
            ("a_b", false),
            ("ä", false),
            ("a b", false),
            ("a\n", false),
        ] {
            assert_eq!(parse::<DnsLabel>("name", value).is_ok(), legal, "{value:?}");
        }
        assert!(parse::<DnsLabel>("name", "").unwrap_err().missing);
    }

    #[test]
    fn labels_keep_their_limits() {
        let pair = |k: &str, v: &str| [(k.to_owned(), v.to_owned())];
        let parse = |pairs: &[(String, String)]| Labels::parse(pairs.iter().map(|(k, v)| (k, v)));
        let (name, prefix) = ("n".repeat(63), "p".repeat(253));
        let longest = format!("{prefix}/{name}");
        for legal in [
            "team",
            "Team",
            "costCenter",
            "app.kubernetes.io/managedBy",
            "9-lives",
            "a//b",
            &longest,
        ] {
            assert!(parse(&pair(legal, "ml")).is_ok(), "{legal}");
        }
        let (long_name, long_prefix) = ("n".repeat(64), format!("{prefix}p/n"));
        for illegal in [
            "",
            "-a",
            "/a",
            "a/",
            "a b",
            "ä",
            "a\n",
            "a=b",
            &long_name,
            &long_prefix,
        ] {
            assert_eq!(
                parse(&pair(illegal, "ml")).unwrap_err().field,
                "labels",
                "{illegal:?}"
            );
        }
        assert_eq!(
            parse(&pair("team", "a\nb")).unwrap_err().field,
            "labels[team]"
        );
        assert_eq!(
            parse(&pair("team", &"x".repeat(256))).unwrap_err().field,
            "labels[team]"
        );
        let many: Vec<_> = (0..=labels::MAX_LABELS)
            .map(|i| (format!("k{i}"), String::new()))
            .collect();
        assert!(parse(&many).is_err());
    }

    proptest! {
        #[test]
        fn what_parses_is_kept_as_given(value in "\\PC{0,80}") {
            if let Ok(label) = parse::<DnsLabel>("name", &value) {
                prop_assert_eq!(label.as_str(), value.as_str());
            }
            if let Ok(slug) = parse::<ImageSlug>("image", &value) {
                prop_assert_eq!(slug.as_str(), value.as_str());
            }
        }
    }
}
