//! The SSH host key of a guest (P11): made on the host before the guest's first boot and given to it in its seed, so
//! that the very first login knows whom it must meet. No key is ever learned from whoever answers at an address.
//!
//! The private half is in one file beside the seed, of mode 0600, and in the seed; both are removed once the guest has
//! booted with it. A step that is repeated after a crash finds the file and gives the same key.
use std::path::Path;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use russh::keys::ssh_key::LineEnding;
use russh::keys::{PrivateKey, PublicKey};

use super::key_file;
use crate::error::{HostError, HostResult};

/// The key pair of one guest.
pub struct HostKey {
    private: PrivateKey,
    public: String,
}

impl std::fmt::Debug for HostKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostKey")
            .field("public", &self.public)
            .finish_non_exhaustive()
    }
}

impl HostKey {
    /// The key of this file, made when the file is missing.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn load_or_create(file: &Path) -> HostResult<Self> {
        let private = key_file::load_or_create(file, "gpuaas-guest")?;
        let public = key_file::public_line(&private)?;
        Ok(Self { private, public })
    }

    /// The public half as an OpenSSH line.
    pub fn public(&self) -> &str {
        &self.public
    }

    /// The private half in OpenSSH format, for the seed alone.
    ///
    /// # Errors
    /// Never, for a key of ours.
    pub fn private_text(&self) -> HostResult<String> {
        self.private
            .to_openssh(LineEnding::LF)
            .map(|text| text.to_string())
            .map_err(|_| HostError::internal("unusable host key"))
    }
}

/// Reads the keys that a guest may show; it must show one of them. Earlier agents recorded an empty line for a key that
/// they could not write: it names no key, and is dropped.
///
/// # Errors
/// None is left, or one is no OpenSSH public key.
pub fn parse_pins<'a>(lines: impl IntoIterator<Item = &'a str>) -> HostResult<Vec<PublicKey>> {
    const RULE: &str =
        "must hold the OpenSSH public keys that were recorded when the guest was provisioned";
    let pins: Vec<PublicKey> = lines
        .into_iter()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            PublicKey::from_openssh(line).map_err(|_| HostError::invalid("ssh_host_keys", RULE))
        })
        .collect::<HostResult<_>>()?;
    if pins.is_empty() {
        return Err(HostError::guest(
            ErrorReason::HostKeyMismatch,
            "no SSH host key was recorded when this VM was provisioned, so nobody can be known as it: it cannot be \
             started or rebooted; save its data, release it and launch a new one",
        ));
    }
    Ok(pins)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn p11_a_step_that_is_repeated_gives_the_guest_the_same_key() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("seed/host_key");
        let made = HostKey::load_or_create(&file).unwrap();
        let again = HostKey::load_or_create(&file).unwrap();
        assert_eq!(made.public(), again.public());
        assert_eq!(
            made.private_text().unwrap(),
            std::fs::read_to_string(&file).unwrap()
        );
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let left = std::fs::read_dir(dir.path().join("seed")).unwrap().count();
        assert_eq!(left, 1, "no part of a key is left");
        assert!(!format!("{made:?}").contains("PRIVATE"));
        let other = HostKey::load_or_create(&dir.path().join("other")).unwrap();
        assert_ne!(made.public(), other.public());
    }

    #[test]
    fn p11_a_login_without_a_recorded_key_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let key = HostKey::load_or_create(&dir.path().join("key")).unwrap();
        assert_eq!(parse_pins([key.public()]).unwrap().len(), 1);
        let error = parse_pins([key.public(), "nonsense"]).unwrap_err();
        assert_eq!(error.field, Some("ssh_host_keys"));
        let error = parse_pins(["nonsense"]).unwrap_err();
        assert_eq!(error.field, Some("ssh_host_keys"));
        for lines in [&[][..], &[""], &[" ", "\n"]] {
            let error = parse_pins(lines.iter().copied()).unwrap_err();
            assert_eq!(error.reason, ErrorReason::HostKeyMismatch, "{lines:?}");
            assert!(error.message.contains("no SSH host key was recorded"));
        }
    }

    /// An earlier agent recorded one for a key that it could not write.
    #[test]
    fn p11_an_empty_line_beside_a_recorded_key_keeps_no_guest_from_starting() {
        let dir = tempfile::tempdir().unwrap();
        let key = HostKey::load_or_create(&dir.path().join("key")).unwrap();
        let pins = parse_pins(["", key.public(), " "]).unwrap();
        assert_eq!(pins, parse_pins([key.public()]).unwrap());
    }
}
