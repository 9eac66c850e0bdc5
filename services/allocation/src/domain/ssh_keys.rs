//! SSH public keys of a create request: well-formed, of an allowed kind, no two the same.

use ssh_key::PublicKey;
use ssh_key::public::KeyData;

use super::FieldError;

/// Most keys of one allocation.
pub const MAX_KEYS: usize = 10;
/// Longest line, in bytes; an RSA key of 16384 bits needs about 2900.
const MAX_LINE: usize = 8192;
/// Fewest bits of an RSA modulus.
const MIN_RSA_BITS: usize = 2048;
const FIELD: &str = "ssh_public_keys";

/// One to [`MAX_KEYS`] keys in canonical form: type, base64 and comment, single spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshKeys(Vec<String>);

impl SshKeys {
    /// Parses the keys in their order; the first bad one is reported as `ssh_public_keys[i]`.
    ///
    /// # Errors
    /// The rule that is broken. The key's text is never part of the error.
    pub fn parse(lines: &[String]) -> Result<Self, FieldError> {
        if lines.is_empty() {
            return Err(FieldError::required(FIELD));
        }
        if lines.len() > MAX_KEYS {
            return Err(FieldError::invalid(
                FIELD,
                format!("must be at most {MAX_KEYS} keys"),
            ));
        }
        let mut parsed: Vec<PublicKey> = Vec::with_capacity(lines.len());
        for (index, line) in lines.iter().enumerate() {
            let refuse = |rule: String| FieldError::invalid(format!("{FIELD}[{index}]"), rule);
            let key = parse_line(line).map_err(|rule| refuse(rule.to_owned()))?;
            // the comment is no part of a key: the same key under two names is still one key
            if let Some(first) = parsed
                .iter()
                .position(|other| other.key_data() == key.key_data())
            {
                return Err(refuse(format!("must not repeat {FIELD}[{first}]")));
            }
            parsed.push(key);
        }
        let canonical = |key: &PublicKey| {
            key.to_openssh()
                .map_err(|_| FieldError::invalid(FIELD, "must be an OpenSSH public key"))
        };
        parsed
            .iter()
            .map(canonical)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The keys, one line each.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        &self.0
    }
}

fn parse_line(line: &str) -> Result<PublicKey, &'static str> {
    const SHAPE: &str =
        "must be one line of an OpenSSH public key: type, base64 and an optional comment";
    let line = line.trim();
    if line.is_empty() || line.len() > MAX_LINE || line.chars().any(char::is_control) {
        return Err(SHAPE);
    }
    let key = PublicKey::from_openssh(line).map_err(|_| SHAPE)?;
    match key.key_data() {
        KeyData::Ed25519(_) | KeyData::Ecdsa(_) => Ok(key),
        KeyData::Rsa(rsa) => {
            let modulus = rsa.n.as_positive_bytes().ok_or(SHAPE)?;
            if bits(modulus) < MIN_RSA_BITS {
                return Err("must be an RSA key of at least 2048 bits");
            }
            Ok(key)
        }
        _ => {
            Err("must be of type ssh-ed25519, ecdsa-sha2-nistp256, -nistp384, -nistp521 or ssh-rsa")
        }
    }
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
    const ECDSA: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBDibbjZ7YbnY1zV5Sk7NQVB3vJ6eufjU1bymhyR50jXanORHAxF9x9KtgHyrzCWWWcMmC3WgWnQ1hNDk/Df63YA=";

    fn rsa(bits: usize) -> String {
        use ssh_key::Mpint;
        let mut modulus = vec![0_u8; bits / 8];
        modulus[0] = 0x80;
        modulus[bits / 8 - 1] = 1;
        let key = ssh_key::public::RsaPublicKey {
            e: Mpint::from_positive_bytes(&[1, 0, 1]).expect("positive"),
            n: Mpint::from_positive_bytes(&modulus).expect("positive"),
        };
        PublicKey::new(KeyData::Rsa(key), "")
            .to_openssh()
            .expect("encodes")
    }

    fn field_of(lines: &[&str]) -> String {
        let lines: Vec<String> = lines.iter().map(|l| (*l).to_owned()).collect();
        SshKeys::parse(&lines).map_or_else(|error| error.field, |_| "ok".to_owned())
    }

    #[test]
    fn keys_are_well_formed_and_of_an_allowed_kind() {
        let (big, small) = (rsa(2048), rsa(1024));
        for (lines, want) in [
            (vec![ED], "ok"),
            (vec![ED, ECDSA, &big], "ok"),
            (vec![], "ssh_public_keys"),
            (vec![""], "ssh_public_keys[0]"),
            (vec!["hello"], "ssh_public_keys[0]"),
            (vec![ED, &ED[..40]], "ssh_public_keys[1]"),
            (vec![small.as_str()], "ssh_public_keys[0]"),
            (vec!["ssh-dss AAAAB3NzaC1kc3MAAAAA"], "ssh_public_keys[0]"),
        ] {
            assert_eq!(field_of(&lines), want, "{lines:?}");
        }
    }

    #[test]
    fn one_key_is_one_line_without_options() {
        assert_eq!(
            field_of(&[&format!("{ED} me\n{ECDSA}")]),
            "ssh_public_keys[0]"
        );
        assert_eq!(
            field_of(&[&format!("command=\"x\" {ED}")]),
            "ssh_public_keys[0]"
        );
        assert_eq!(field_of(&[&format!("{ED} me\n")]), "ok");
    }

    #[test]
    fn a_repeated_key_is_found_by_its_data_not_its_comment() {
        assert_eq!(
            field_of(&[ED, ECDSA, &format!("{ED} other@host")]),
            "ssh_public_keys[2]"
        );
    }

    #[test]
    fn at_most_ten() {
        let lines: Vec<String> = (0..11).map(|i| format!("{ED} {i}")).collect();
        assert_eq!(SshKeys::parse(&lines).unwrap_err().field, "ssh_public_keys");
    }
}
