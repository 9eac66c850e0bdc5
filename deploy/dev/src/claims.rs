//! Numbers of this machine (ports, instances) that one process holds at a time, whoever's process it is: a file for each
//! number, which its holder has locked.
use std::fs::{File, Permissions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

/// Where all processes of this machine find what one of them holds. Not `TMPDIR`, which differs from one to the other.
const MACHINE: &str = "/tmp";
/// As `/tmp` itself: everybody adds files to it, and nobody removes another's.
const SHARED: u32 = 0o1777;

/// The folder of these claims, made if it is missing. One that belongs to this user from before others could use it is
/// opened to them.
///
/// # Errors
/// It is not there and cannot be made.
pub fn folder(name: &str) -> Result<PathBuf> {
    let folder = Path::new(MACHINE).join(name);
    share(&folder)?;
    Ok(folder)
}

fn share(folder: &Path) -> Result<()> {
    if let Err(error) = std::fs::create_dir(folder)
        && error.kind() != ErrorKind::AlreadyExists
    {
        return Err(error);
    }
    // not where a link of another user leads
    let there = std::fs::symlink_metadata(folder)?;
    if !there.is_dir() {
        let said = format!("{} is no folder", folder.display());
        return Err(Error::new(ErrorKind::NotADirectory, said));
    }
    // the umask of whoever made it may have closed it
    if there.uid() == geteuid().as_raw() && there.mode() & 0o7777 != SHARED {
        std::fs::set_permissions(folder, Permissions::from_mode(SHARED))?;
    }
    Ok(())
}

/// The lock on a number, until the file is dropped; none when another process has it.
///
/// # Errors
/// The file cannot be opened or made.
pub fn claim(folder: &Path, number: u16) -> Result<Option<File>> {
    let path = folder.join(number.to_string());
    // to lock a file it is enough to read it; one of another user cannot even be opened here with `O_CREAT`
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => make(&path)?,
        // its maker has not opened it to others yet, or never will
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(None),
        opened => opened?,
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(std::fs::TryLockError::WouldBlock) => Ok(None),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Makes a file that everybody can read, whatever the umask is.
fn make(path: &Path) -> Result<File> {
    match File::create_new(path) {
        Ok(file) => {
            file.set_permissions(Permissions::from_mode(0o644))?;
            Ok(file)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => File::open(path),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use nix::unistd::{Gid, Uid, setfsgid, setfsuid};

    use super::*;

    /// Runs this as another user's process would, as far as files are concerned; only root can.
    fn as_another<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                // of this thread alone
                setfsgid(Gid::from_raw(65534));
                setfsuid(Uid::from_raw(65534));
                work()
            });
            other.join().expect("it ends")
        })
    }

    #[test]
    fn users_share_claims_and_none_holds_what_another_has() {
        let folder = std::env::temp_dir().join(format!("gpuaas-claims-{}", std::process::id()));
        share(&folder).unwrap();
        let ours = claim(&folder, 1).unwrap().expect("nobody has it");
        let theirs = as_another(|| {
            share(&folder).unwrap();
            assert!(claim(&folder, 1).unwrap().is_none(), "we have it");
            let second = claim(&folder, 2).unwrap().expect("nobody has it");
            let third = claim(&folder, 3).unwrap().expect("nobody has it");
            drop(third);
            second
        });
        assert!(claim(&folder, 2).unwrap().is_none(), "they have it");
        assert!(claim(&folder, 3).unwrap().is_some(), "nobody has it now");
        drop(ours);
        as_another(|| assert!(claim(&folder, 1).unwrap().is_some(), "nobody has it now"));
        drop(theirs);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_from_before_is_opened_to_others_by_its_owner() {
        let folder = std::env::temp_dir().join(format!("gpuaas-closed-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        share(&folder).unwrap();
        let mode = std::fs::metadata(&folder).unwrap().mode();
        std::fs::remove_dir(&folder).unwrap();
        assert_eq!(mode & 0o7777, SHARED);
        assert!(share(&folder.join("below")).is_err());
    }
}
