//! What the CLI remembers on this machine: which key belongs to an allocation, and its pinned host keys.
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// `$XDG_STATE_HOME/gpuaas` or `~/.local/state/gpuaas`, made when missing.
fn folder() -> io::Result<PathBuf> {
    let base = std::env::var_os("XDG_STATE_HOME")
        .filter(|v| !v.is_empty())
        .map(PathBuf::from);
    let base = base.or_else(|| std::env::home_dir().map(|home| home.join(".local/state")));
    let folder = base
        .ok_or_else(|| io::Error::other("no home folder"))?
        .join("gpuaas");
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)?;
    Ok(folder)
}

/// Remembers the private key that an allocation was launched for.
///
/// # Errors
/// The state folder cannot be written.
pub fn remember_identity(allocation: &str, private_key: &Path) -> io::Result<()> {
    let file = folder()?.join(format!("{allocation}.identity"));
    fs::write(file, private_key.as_os_str().as_encoded_bytes())
}

/// The remembered private key, when the file is still there.
pub fn identity(allocation: &str) -> Option<PathBuf> {
    let text = fs::read_to_string(folder().ok()?.join(format!("{allocation}.identity"))).ok()?;
    Some(PathBuf::from(text)).filter(|path| path.exists())
}

/// Writes the file of known hosts of one allocation; answers its path.
///
/// # Errors
/// The state folder cannot be written.
pub fn pin_host_keys(allocation: &str, lines: &str) -> io::Result<PathBuf> {
    let file = folder()?.join(format!("{allocation}.known_hosts"));
    if fs::read_to_string(&file).is_ok_and(|known| known == lines) {
        return Ok(file);
    }
    fs::write(&file, lines)?;
    Ok(file)
}

/// Forgets an allocation that is gone.
pub fn forget(allocation: &str) {
    if let Ok(folder) = folder() {
        for kind in ["identity", "known_hosts"] {
            // most allocations were launched elsewhere: nothing to remove is the usual case
            let _ = fs::remove_file(folder.join(format!("{allocation}.{kind}")));
        }
    }
}
