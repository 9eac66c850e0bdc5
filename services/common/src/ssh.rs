//! SSH public keys as people give them: one line of OpenSSH, well-formed and of an allowed kind.
use ssh_key::public::KeyData;
use ssh_key::{HashAlg, PublicKey};

/// Longest line, in bytes; an RSA key of 16384 bits needs about 2900.
const MAX_LINE: usize = 8192;
const SHAPE: &str =
    "must be one line of an OpenSSH public key: type, base64 and an optional comment";

/// Reads a line. Options in front of the type, as `authorized_keys` has them, are no part of a key and are refused.
///
/// # Errors
/// The rule that is broken. The key's text is never part of it.
pub fn parse(line: &str, min_rsa_bits: usize) -> Result<PublicKey, String> {
    let line = line.trim();
    if line.is_empty() || line.len() > MAX_LINE || line.chars().any(char::is_control) {
        return Err(SHAPE.to_owned());
    }
    let key = PublicKey::from_openssh(line).map_err(|_| SHAPE.to_owned())?;
    match key.key_data() {
        KeyData::Ed25519(_) | KeyData::Ecdsa(_) => Ok(key),
        KeyData::Rsa(rsa) => {
            let modulus = rsa.n.as_positive_bytes().ok_or(SHAPE)?;
            if bits(modulus) < min_rsa_bits {
                return Err(format!(
                    "must be an RSA key of at least {min_rsa_bits} bits"
                ));
            }
            Ok(key)
        }
        _ => Err(
            "must be of type ssh-ed25519, ecdsa-sha2-nistp256, -nistp384, -nistp521 or ssh-rsa"
                .to_owned(),
        ),
    }
}

/// "SHA256:…", as `ssh-keygen -l` shows it.
#[must_use]
pub fn fingerprint(key: &PublicKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

/// The fingerprint of a line that was read before; empty for any other text.
#[must_use]
pub fn fingerprint_of(line: &str) -> String {
    PublicKey::from_openssh(line).map_or_else(|_| String::new(), |key| fingerprint(&key))
}

/// Bits of a big-endian number without leading zero bytes.
fn bits(bytes: &[u8]) -> usize {
    bytes
        .first()
        .map_or(0, |first| bytes.len() * 8 - first.leading_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ5RIRSWuoMeRQ4lzYiAGnlZlrscLnqIWDRZpUAXh5Bl";

    #[test]
    fn a_line_is_a_key_and_nothing_else() {
        let key = parse(&format!("  {ED} me@home  "), 3072).expect("a key");
        assert_eq!(key.comment(), "me@home");
        assert!(fingerprint(&key).starts_with("SHA256:"));
        assert_eq!(
            fingerprint_of(ED),
            fingerprint(&key),
            "the comment is no part of it"
        );
        assert_eq!(fingerprint_of("rubbish"), "");
        for bad in [
            "",
            "rubbish",
            &format!("command=\"id\" {ED}"),
            &format!("no-pty,restrict {ED}"),
            &format!("{ED}\n{ED}"),
            &format!("{ED} a\u{7}b"),
            &format!("{ED} {}", "x".repeat(10_000)),
            "ssh-dss AAAAB3NzaC1kc3MAAAAA",
            "ssh-ed25519 AAAA",
        ] {
            assert!(parse(bad, 3072).is_err(), "{bad}");
        }
    }
}
