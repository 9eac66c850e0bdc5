//! Ed25519 keys that the host makes: each in a file of its own, readable by the agent alone.
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use russh::keys::PrivateKey;
use russh::keys::ssh_key::LineEnding;
use russh::keys::ssh_key::private::{Ed25519Keypair, KeypairData};

use crate::error::{HostError, HostResult, io_error};

/// The key of a file, made when the file is missing and never overwritten.
///
/// # Errors
/// A file that cannot be read or written, or that holds no OpenSSH private key.
pub fn load_or_create(file: &Path, comment: &str) -> HostResult<PrivateKey> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => create(file, comment)?,
        Err(error) => {
            let what = format!("cannot read {}", file.display());
            return Err(io_error(what)(error));
        }
    };
    PrivateKey::from_openssh(&text).map_err(|_| {
        HostError::host(
            gpuaas_proto::gpuaas::errors::v1::ErrorReason::HostNotReady,
            format!("{} does not hold an OpenSSH private key", file.display()),
        )
    })
}

/// The public half as one line, type and base64.
pub fn public_line(key: &PrivateKey) -> HostResult<String> {
    let mut public = key.public_key().clone();
    public.set_comment("");
    public
        .to_openssh()
        .map(|line| line.trim().to_owned())
        .map_err(|_| HostError::internal("unusable public key"))
}

/// Writes whole files alone: a crash in between leaves none.
fn create(file: &Path, comment: &str) -> HostResult<String> {
    let mut seed = [0_u8; 32];
    getrandom::fill(&mut seed)
        .map_err(|error| HostError::internal(format!("no randomness: {error}")))?;
    let pair = Ed25519Keypair::from_seed(&seed);
    let unusable = |_| HostError::internal("cannot make a key");
    let key = PrivateKey::new(KeypairData::Ed25519(pair), comment).map_err(unusable)?;
    let text = key.to_openssh(LineEnding::LF).map_err(unusable)?;
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(io_error("cannot make a key's folder"))?;
    }
    let mut part = file.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = Path::new(&part);
    let what = format!("cannot write {}", file.display());
    let failed = || io_error(what.clone());
    // what an agent of the same process id left behind
    let _absent_is_fine = std::fs::remove_file(part);
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(part)
        .and_then(|mut out| {
            out.write_all(text.as_bytes())?;
            out.sync_all()
        })
        .map_err(failed())?;
    // a link does not replace: of two agents that start at once, one makes the key and the other reads it
    let linked = std::fs::hard_link(part, file);
    std::fs::remove_file(part).map_err(failed())?;
    match linked {
        Ok(()) => Ok(text.to_string()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            std::fs::read_to_string(file).map_err(failed())
        }
        Err(error) => Err(failed()(error)),
    }
}
