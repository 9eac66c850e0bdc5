//! The name of an image.
use std::fmt;

/// Rule of a slug, for people.
pub const RULE: &str = "must be 1 to 63 lower-case letters, digits, '.' or '-', and start and end with a letter or digit";

/// Name of an image, for example "ubuntu-24.04-h200-base" (E-08, E-09). It names files on nodes, so it can hold
/// no path separator.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slug(String);

impl Slug {
    /// Parses a slug; `None` when it breaks [`RULE`].
    pub fn parse(text: &str) -> Option<Self> {
        let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let bytes = text.as_bytes();
        let valid = (1..=63).contains(&bytes.len())
            && bytes
                .iter()
                .all(|&b| alphanumeric(b) || b == b'.' || b == b'-')
            && bytes.first().copied().is_some_and(alphanumeric)
            && bytes.last().copied().is_some_and(alphanumeric);
        valid.then(|| Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path of the raw image on a host (E-14).
    pub fn image_path(&self) -> String {
        gpuaas_common::image::path(&self.0)
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With those of E-08 and E-09; CON-07: the former naming, in capitals, is none.
    #[test]
    fn slugs_are_file_names_at_most() {
        let longest = "a".repeat(63);
        for good in [
            "lab-mini",
            "ubuntu-24.04-h200-cuda",
            "ubuntu-24.04-h200-base",
            "a",
            "0",
            longest.as_str(),
        ] {
            assert!(Slug::parse(good).is_some(), "{good}");
        }
        let too_long = "a".repeat(64);
        for bad in [
            "",
            "-a",
            "a-",
            ".",
            "..",
            "a/b",
            "A",
            "a_b",
            "H200-ubuntu-24.04-gpuaas-slice",
            "a b",
            "ä",
            too_long.as_str(),
        ] {
            assert!(Slug::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_slug_names_one_raw_file() {
        let slug = Slug::parse("ubuntu-24.04-h200-cuda").expect("a slug");
        assert_eq!(
            slug.image_path(),
            "/var/lib/gpuaas/slice-images/ubuntu-24.04-h200-cuda.raw"
        );
    }
}
