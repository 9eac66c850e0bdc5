//! Where things live: the checkout, its `.run` folder, and folders that another user can reach.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User, chown};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};

/// Longest folder in which a Unix socket still fits its 107 characters.
const SOCKET_FOLDER_MAX: usize = 80;

/// The root folder of the checkout this program was built in.
pub fn checkout() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// The folder for everything that runs; never committed.
pub fn run_dir() -> PathBuf {
    checkout().join(".run")
}

/// Short stable name of a path, to name things outside the checkout.
pub fn short_hash(path: &Path) -> String {
    hex::encode(&Sha256::digest(path.as_os_str().as_encoded_bytes())[..6])
}

/// Creates a folder (and its parents) if it is missing.
pub fn ensure_dir(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(Error::file("create", path))
}

/// Writes a file that only its owner may read, replacing it as a whole.
pub fn write_secret(path: &Path, content: &[u8]) -> Result<()> {
    write_with_mode(path, content, 0o600)
}

/// Writes a file as a whole: readers see the old or the new content, never a part.
pub fn write_with_mode(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let temporary = path.with_file_name(format!(
        ".{}.{}",
        name.unwrap_or_default(),
        std::process::id()
    ));
    let write = || {
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(&temporary)?;
        file.write_all(content)?;
        std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(mode))?;
        std::fs::rename(&temporary, path)
    };
    write().map_err(Error::file("write", path))
}

/// The user that a server which refuses root is run as: `name` when we are root, else ourselves (`None`).
pub fn other_user(name: &str) -> Result<Option<User>> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    match User::from_name(name) {
        Ok(Some(user)) => Ok(Some(user)),
        _ => Err(Error::other(format!(
            "user {name} does not exist; run deploy/install.sh"
        ))),
    }
}

/// A private folder that `user` owns: `folder` when that user can reach it and sockets fit in it, else one below
/// `/var/lib` named after `folder`, because a checkout may lie in a place that only root may enter.
pub fn folder_for(folder: &Path, user: Option<&User>) -> Result<PathBuf> {
    let short = folder.as_os_str().len() <= SOCKET_FOLDER_MAX;
    let folder = match user {
        _ if short && reachable(folder, user.is_some()) => folder.to_path_buf(),
        Some(_) => Path::new("/var/lib/gpuaas-dev").join(short_hash(folder)),
        None => std::env::temp_dir().join(format!(
            "gpuaas-{}-{}",
            Uid::effective(),
            short_hash(folder)
        )),
    };
    if let Some(parent) = folder.parent() {
        ensure_dir(parent)?;
    }
    match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(Error::file("create", &folder)(error));
        }
        _ => {}
    }
    let owner = user.map_or(Uid::effective(), |user| user.uid);
    if let Some(user) = user {
        chown(&folder, Some(user.uid), Some(user.gid))
            .map_err(|errno| Error::file("own", &folder)(errno.into()))?;
    }
    let metadata = std::fs::symlink_metadata(&folder).map_err(Error::file("inspect", &folder))?;
    if !metadata.is_dir() || metadata.uid() != owner.as_raw() {
        return Err(Error::other(format!(
            "{} is not a folder owned by uid {owner}; remove it",
            folder.display()
        )));
    }
    Ok(folder)
}

/// Whether every existing parent of `path` may be entered by a user other than its owner.
fn reachable(path: &Path, by_another_user: bool) -> bool {
    !by_another_user
        || path
            .ancestors()
            .skip(1)
            .all(|parent| match std::fs::metadata(parent) {
                Ok(metadata) => metadata.permissions().mode() & 0o001 != 0,
                Err(_) => true,
            })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_private_and_replaced_whole() {
        let folder = std::env::temp_dir().join(format!("gpuaas-paths-{}", std::process::id()));
        ensure_dir(&folder).unwrap();
        let file = folder.join("token");
        write_with_mode(&file, b"old", 0o644).unwrap();
        write_secret(&file, b"new").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        assert_eq!(
            std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
