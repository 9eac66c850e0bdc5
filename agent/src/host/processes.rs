//! Processes as `/proc` shows them, for questions whose answer must not be a guess (P9).
use std::io;

use nix::errno::Errno;

use super::root::HostRoot;

/// Ids of all processes.
///
/// # Errors
/// `/proc` cannot be read.
pub fn ids(root: &HostRoot) -> io::Result<Vec<u32>> {
    let names = root.list("/proc")?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}

/// What a read below `/proc/<pid>` gave: `None` for a process that ended meanwhile, which has nothing open and nothing
/// mounted. Every other failure stays one.
///
/// # Errors
/// The process is there and what was read of it cannot be.
pub fn unless_ended<T>(root: &HostRoot, pid: u32, read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_gone(&error) || has_ended(root, pid) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ESRCH as i32)
}

/// Gone, or a zombie that nobody has waited for.
fn has_ended(root: &HostRoot, pid: u32) -> bool {
    match root.read(format!("/proc/{pid}/stat")) {
        Ok(text) => {
            let state = text.rsplit(')').next().unwrap_or_default().trim_start();
            state.starts_with(['Z', 'X'])
        }
        Err(error) => is_gone(&error) && !root.exists(format!("/proc/{pid}")),
    }
}
