//! The host's own key into its guests (D-86, D-87): made when missing, never overwritten.
use std::path::Path;
use std::sync::Arc;

use russh::keys::PrivateKey;

use super::key_file;
use crate::error::{HostResult, io_error};

/// The relay key. Its private half never leaves this process and its file.
#[derive(Clone)]
pub struct RelayKey {
    key: Arc<PrivateKey>,
    public: String,
}

impl std::fmt::Debug for RelayKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelayKey")
            .field("public", &self.public)
            .finish_non_exhaustive()
    }
}

impl RelayKey {
    /// Loads the key, making it when there is none. A file that is there and does not parse is an error, never
    /// a reason to write a new one: guests that trust the old one would lose their console.
    pub fn load_or_create(file: &Path) -> HostResult<Self> {
        let key = key_file::load_or_create(file, "gpuaas-terminal-relay")?;
        let public = key
            .public_key()
            .to_openssh()
            .map_err(|_| crate::error::HostError::internal("unusable relay key"))?
            .trim()
            .to_owned();
        let mut beside = file.as_os_str().to_owned();
        beside.push(".pub");
        if !Path::new(&beside).exists() {
            std::fs::write(beside, format!("{public}\n"))
                .map_err(io_error("cannot write the relay key"))?;
        }
        Ok(Self {
            key: Arc::new(key),
            public,
        })
    }

    /// The public half as an `authorized_keys` line.
    pub fn public(&self) -> &str {
        &self.public
    }

    /// The key, for a login.
    pub fn private(&self) -> Arc<PrivateKey> {
        Arc::clone(&self.key)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn d_86_d_87_the_key_is_made_once_and_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("terminal/id_ed25519");
        let made = RelayKey::load_or_create(&file).unwrap();
        let text = std::fs::read(&file).unwrap();
        assert_eq!(
            std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let again = RelayKey::load_or_create(&file).unwrap();
        assert_eq!(made.public(), again.public());
        assert_eq!(text, std::fs::read(&file).unwrap());
        assert!(made.public().starts_with("ssh-ed25519 "));
        assert!(!format!("{made:?}").contains("PRIVATE"));
    }

    #[test]
    fn d_87_a_file_that_is_no_key_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("id_ed25519");
        std::fs::write(&file, "precious").unwrap();
        assert!(RelayKey::load_or_create(&file).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    }
}
