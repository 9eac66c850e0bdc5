//! SSH public keys of a create request: well-formed, of an allowed kind, no two the same.

use gpuaas_common::ssh;
use ssh_key::PublicKey;

use super::FieldError;

/// Most keys of one allocation.
pub const MAX_KEYS: usize = gpuaas_common::launch::MAX_SSH_KEYS;
/// Fewest bits of an RSA modulus.
const MIN_RSA_BITS: usize = 2048;
const FIELD: &str = "ssh_public_keys";
const NAMES: &str = "ssh_key_names";

/// One to [`MAX_KEYS`] keys in canonical form: type, base64 and comment, single spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshKeys {
    lines: Vec<String>,
    names: Vec<String>,
}

impl SshKeys {
    /// Parses the keys in their order; the first bad one is reported as `ssh_public_keys[i]`. The gateway has put the keys of
    /// `names` behind those that the launch gave itself.
    ///
    /// # Errors
    /// The rule that is broken. The key's text is never part of the error.
    pub fn parse(lines: &[String], names: &[String]) -> Result<Self, FieldError> {
        if lines.is_empty() {
            return Err(FieldError::required(FIELD));
        }
        if lines.len() > MAX_KEYS {
            return Err(FieldError::invalid(
                FIELD,
                format!("must be at most {MAX_KEYS} keys"),
            ));
        }
        let unnamed = lines
            .len()
            .checked_sub(names.len())
            .ok_or_else(|| FieldError::invalid(NAMES, "must be names of keys that are kept"))?;
        let aligned = if names.is_empty() {
            Vec::new()
        } else {
            let unnamed = std::iter::repeat_n(String::new(), unnamed);
            unnamed.chain(names.iter().cloned()).collect()
        };
        let mut parsed: Vec<PublicKey> = Vec::with_capacity(lines.len());
        for (index, line) in lines.iter().enumerate() {
            let refuse = |rule: String| FieldError::invalid(format!("{FIELD}[{index}]"), rule);
            let key = ssh::parse(line, MIN_RSA_BITS).map_err(refuse)?;
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
            .map(|lines| Self {
                lines,
                names: aligned,
            })
    }

    /// The keys, one line each.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Their names in the same order, empty for a key without one; none at all: none has one.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ5RIRSWuoMeRQ4lzYiAGnlZlrscLnqIWDRZpUAXh5Bl";
    const ECDSA: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBDibbjZ7YbnY1zV5Sk7NQVB3vJ6eufjU1bymhyR50jXanORHAxF9x9KtgHyrzCWWWcMmC3WgWnQ1hNDk/Df63YA=";

    fn rsa(bits: usize) -> String {
        use ssh_key::Mpint;
        use ssh_key::public::KeyData;
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
        SshKeys::parse(&lines, &[]).map_or_else(|error| error.field, |_| "ok".to_owned())
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
    fn names_are_those_of_the_last_keys() {
        let text = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        let parse = |names: &[&str]| SshKeys::parse(&text(&[ED, ECDSA]), &text(names));
        for (given, names) in [
            (&[][..], &[][..]),
            (&["laptop"], &["", "laptop"]),
            (&["laptop", "team"], &["laptop", "team"]),
        ] {
            assert_eq!(parse(given).expect("keys").names(), text(names));
        }
        let error = parse(&["a", "b", "c"]).expect_err("a name without a key");
        assert_eq!(error.field, "ssh_key_names");
    }

    #[test]
    fn at_most_ten() {
        let lines: Vec<String> = (0..11).map(|i| format!("{ED} {i}")).collect();
        assert_eq!(
            SshKeys::parse(&lines, &[]).unwrap_err().field,
            "ssh_public_keys"
        );
    }
}
