//! Where an image is published: "oci://host/namespace/name:tag" or "…@sha256:…" (E-15, E-16).
use std::fmt;

use oci_client::Reference;

use gpuaas_common::value::Digest;

const SCHEME: &str = "oci://";

/// A tag or a manifest digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Version {
    /// A name that can move.
    Tag(String),
    /// A manifest, for ever.
    Digest(Digest),
}

/// A reference to a published image. It always names its registry: there is no default one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    registry: String,
    repository: String,
    version: Version,
}

/// Why a text is not a [`Source`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Another scheme or none.
    #[error("must start with \"oci://\"")]
    Scheme,
    /// The registry is not "host" or "host:port".
    #[error("must name a registry as host or host:port")]
    Registry,
    /// The repository is not a path of lower-case names.
    #[error("must name a repository as lower-case names separated by '/'")]
    Repository,
    /// Neither tag nor digest, or a malformed one.
    #[error("must end with \":tag\" or \"@sha256:\" and 64 hex digits")]
    Version,
}

impl Source {
    /// Parses "oci://host[:port]/path(:tag|@sha256:…)".
    ///
    /// # Errors
    /// [`SourceError`] says which part breaks its rule.
    pub fn parse(uri: &str) -> Result<Self, SourceError> {
        Self::parse_reference(uri.strip_prefix(SCHEME).ok_or(SourceError::Scheme)?)
    }

    /// Parses the same without the scheme.
    ///
    /// # Errors
    /// [`SourceError`] says which part breaks its rule.
    pub fn parse_reference(reference: &str) -> Result<Self, SourceError> {
        let (registry, rest) = reference.split_once('/').ok_or(SourceError::Repository)?;
        if !is_registry(registry) {
            return Err(SourceError::Registry);
        }
        let (repository, version) = match rest.split_once('@') {
            Some((repository, digest)) => (
                repository,
                Version::Digest(digest.parse().map_err(|_| SourceError::Version)?),
            ),
            None => {
                let (repository, tag) = rest.rsplit_once(':').ok_or(SourceError::Version)?;
                if !is_tag(tag) {
                    return Err(SourceError::Version);
                }
                (repository, Version::Tag(tag.to_owned()))
            }
        };
        if repository.len() > 200 || !repository.split('/').all(is_repository_name) {
            return Err(SourceError::Repository);
        }
        Ok(Self {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            version,
        })
    }

    /// The registry, "host" or "host:port".
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The tag or digest.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// The same artifact for ever, whatever happens to the tag.
    #[must_use]
    pub fn pinned(&self, manifest: Digest) -> Self {
        Self {
            version: Version::Digest(manifest),
            ..self.clone()
        }
    }

    /// The same artifact at another address of its registry, "host" or "host:port" (E-32).
    ///
    /// # Errors
    /// [`SourceError::Registry`].
    pub fn at(&self, registry: &str) -> Result<Self, SourceError> {
        if !is_registry(registry) {
            return Err(SourceError::Registry);
        }
        Ok(Self {
            registry: registry.to_owned(),
            ..self.clone()
        })
    }

    /// Without the scheme: what OCI tools call a reference.
    pub fn reference(&self) -> String {
        match &self.version {
            Version::Tag(tag) => format!("{}/{}:{tag}", self.registry, self.repository),
            Version::Digest(digest) => format!("{}/{}@{digest}", self.registry, self.repository),
        }
    }

    /// For the registry client.
    pub(crate) fn to_oci(&self) -> Reference {
        let (registry, repository) = (self.registry.clone(), self.repository.clone());
        match &self.version {
            Version::Tag(tag) => Reference::with_tag(registry, repository, tag.clone()),
            Version::Digest(digest) => {
                Reference::with_digest(registry, repository, digest.to_string())
            }
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.reference())
    }
}

fn is_registry(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    host.len() <= 253
        && host.split('.').all(label)
        && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

fn is_repository_name(name: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes
        .iter()
        .all(|&b| alphanumeric(b) || matches!(b, b'.' | b'_' | b'-'))
        && bytes.first().copied().is_some_and(alphanumeric)
        && bytes.last().copied().is_some_and(alphanumeric)
}

fn is_tag(tag: &str) -> bool {
    (1..=128).contains(&tag.len())
        && tag
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        && !tag.starts_with(['.', '-'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn e_16_sources_are_parsed_or_refused_with_the_rule() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        let pinned = format!("oci://registry.example:5000/slice-guest-images/base@{digest}");
        for good in [
            "oci://127.0.0.1:5000/slice-guest-images/lab-mini:2026-11-20t10.00.00z",
            "oci://registry.example/base:v1",
            "oci://registry/a/b/c_d:latest",
            pinned.as_str(),
        ] {
            let source = Source::parse(good).unwrap_or_else(|error| panic!("{good}: {error}"));
            assert_eq!(source.to_string(), good);
        }
        let table = [
            ("", SourceError::Scheme),
            ("https://registry/base:v1", SourceError::Scheme),
            ("docker://registry/base:v1", SourceError::Scheme),
            ("OCI://registry/base:v1", SourceError::Scheme),
            ("oci://base:v1", SourceError::Repository),
            ("oci:///base:v1", SourceError::Registry),
            ("oci://user@registry/base:v1", SourceError::Registry),
            ("oci://registry:0/base:v1", SourceError::Registry),
            ("oci://registry:70000/base:v1", SourceError::Registry),
            ("oci://-registry/base:v1", SourceError::Registry),
            ("oci://registry/:v1", SourceError::Repository),
            ("oci://registry/Base:v1", SourceError::Repository),
            ("oci://registry/../etc:v1", SourceError::Repository),
            ("oci://registry/a//b:v1", SourceError::Repository),
            ("oci://registry/base", SourceError::Version),
            ("oci://registry/base:", SourceError::Version),
            ("oci://registry/base:.v1", SourceError::Version),
            ("oci://registry/base:v 1", SourceError::Version),
            ("oci://registry/base@sha256:abc", SourceError::Version),
            ("oci://registry/base@sha512:abc", SourceError::Version),
        ];
        for (bad, expected) in table {
            assert_eq!(Source::parse(bad), Err(expected), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_parses_means_the_same_to_the_registry_client(uri in "oci://[a-z0-9.:-]{1,20}/[a-z0-9/_.-]{1,30}:[a-z0-9.]{1,8}") {
            if let Ok(source) = Source::parse(&uri) {
                let reference = source.to_oci();
                prop_assert_eq!(reference.registry(), source.registry());
                prop_assert_eq!(reference.whole(), source.reference());
            }
        }
    }
}
