//! What an image is to the decision.

/// The first eight bytes of the digest of an image, as `nodes.image_keys` has them: short, since every node is compared.
/// What is started is proven by its full digest on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ImageKey(i64);

impl ImageKey {
    /// The key with these bits, as it is stored.
    #[must_use]
    pub fn from_bits(bits: i64) -> Self {
        Self(bits)
    }

    /// The key of a digest, "sha256:…"; none when it is not one, which no node has.
    #[must_use]
    pub fn of(digest: &str) -> Option<Self> {
        let hex = digest.strip_prefix("sha256:")?.get(..16)?;
        let digits = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = u64::from_str_radix(hex, 16).ok().filter(|_| digits)?;
        Some(Self(bits.cast_signed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_first_eight_bytes() {
        let digest = |start: &str| format!("sha256:{start:0<64}");
        assert_eq!(ImageKey::of(&digest("ff")), Some(ImageKey(-(1 << 56))));
        assert_ne!(ImageKey::of(&digest("a")), ImageKey::of(&digest("b")));
        for bad in [
            "",
            "sha256:",
            "sha256:aa",
            "sha512:00000000000000000",
            "sha256:+000000000000000",
        ] {
            assert_eq!(ImageKey::of(bad), None, "{bad}");
        }
    }
}
