//! The host's own key into its guests (D-86..D-88): made when missing, never overwritten.
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use russh::keys::PrivateKey;
use russh::keys::ssh_key::LineEnding;
use russh::keys::ssh_key::private::{Ed25519Keypair, KeypairData};

use crate::error::{HostError, HostResult, io_error};

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
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => create(file)?,
            Err(error) => return Err(io_error("cannot read the terminal relay key")(error)),
        };
        let key = PrivateKey::from_openssh(&text).map_err(|_| {
            HostError::host(
                ErrorReason::HostNotReady,
                format!("{} does not hold an OpenSSH private key", file.display()),
            )
        })?;
        let public = key
            .public_key()
            .to_openssh()
            .map_err(|_| HostError::internal("unusable relay key"))?;
        Ok(Self {
            key: Arc::new(key),
            public: public.trim().to_owned(),
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

fn create(file: &Path) -> HostResult<String> {
    let mut seed = [0_u8; 32];
    getrandom::fill(&mut seed)
        .map_err(|error| HostError::internal(format!("no randomness: {error}")))?;
    let pair = Ed25519Keypair::from_seed(&seed);
    let unusable = |_| HostError::internal("cannot make the terminal relay key");
    let key =
        PrivateKey::new(KeypairData::Ed25519(pair), "gpuaas-terminal-relay").map_err(unusable)?;
    let text = key.to_openssh(LineEnding::LF).map_err(unusable)?;
    let public = key.public_key().to_openssh().map_err(unusable)?;
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(io_error("cannot make the relay key's folder"))?;
    }
    // `create_new`: of two agents that start at once, one makes the key and the other reads it.
    match OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
    {
        Ok(mut out) => {
            out.write_all(text.as_bytes())
                .and_then(|()| out.sync_all())
                .map_err(io_error("cannot write the relay key"))?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return std::fs::read_to_string(file)
                .map_err(io_error("cannot read the terminal relay key"));
        }
        Err(error) => return Err(io_error("cannot write the relay key")(error)),
    }
    let mut beside = file.as_os_str().to_owned();
    beside.push(".pub");
    std::fs::write(beside, format!("{}\n", public.trim()))
        .map_err(io_error("cannot write the relay key"))?;
    Ok(text.to_string())
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
