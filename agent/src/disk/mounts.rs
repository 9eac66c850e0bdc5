//! What is mounted or used as swap, read from `mountinfo` of every mount namespace we can see. What cannot be read is
//! an error, never "nothing is mounted" (P9).
use std::collections::BTreeSet;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::error::{HostError, HostResult, io_error};
use crate::host::processes;
use crate::host::root::HostRoot;

/// The fields of a `mountinfo` line that matter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mount {
    /// `major:minor`; some file systems show a number of their own here.
    pub device_number: String,
    /// What was mounted, for example `/dev/nvme0n1p2`.
    pub source: String,
    /// Where.
    pub mount_point: String,
}

/// Parses `mountinfo`.
///
/// # Errors
/// A line that is not one of `mountinfo`: it could be the mount that matters.
pub fn parse(text: &str) -> HostResult<Vec<Mount>> {
    text.lines()
        .map(|line| {
            parse_line(line).ok_or_else(|| {
                HostError::host(
                    ErrorReason::HostNotReady,
                    format!("mountinfo has a line that cannot be read: {line:?}"),
                )
            })
        })
        .collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let left: Vec<&str> = left.split(' ').collect();
    let right: Vec<&str> = right.split(' ').collect();
    Some(Mount {
        device_number: (*left.get(2)?).to_owned(),
        source: unescape(right.get(1)?),
        mount_point: unescape(left.get(4)?),
    })
}

/// Undoes the kernel's octal escapes of blanks.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\")
}

/// All mounts of all mount namespaces that threads of this host live in.
///
/// # Errors
/// A `mountinfo` that cannot be read, except that of a process which has ended.
pub fn all(root: &HostRoot) -> HostResult<Vec<Mount>> {
    let own = root.read("/proc/self/mountinfo");
    let own = own.map_err(io_error("cannot read /proc/self/mountinfo"))?;
    let mut mounts: BTreeSet<Mount> = parse(&own)?.into_iter().collect();
    let mut seen = BTreeSet::new();
    for pid in processes::ids(root).map_err(io_error("cannot list /proc"))? {
        let threads = processes::threads(root, pid);
        for thread in threads.map_err(io_error(format_args!("cannot list /proc/{pid}/task")))? {
            let namespace = std::fs::read_link(root.path(format!("{thread}/ns/mnt")));
            match processes::unless_ended(root, &thread, namespace) {
                Ok(None) => continue,
                Ok(Some(namespace)) if !seen.insert(namespace.clone()) => continue,
                // whose namespace is unknown may have one of its own
                Ok(Some(_)) | Err(_) => {}
            }
            let text = root.read(format!("{thread}/mountinfo"));
            let text = processes::unless_ended(root, &thread, text)
                .map_err(io_error(format_args!("cannot read {thread}/mountinfo")))?;
            mounts.extend(parse(&text.unwrap_or_default())?);
        }
    }
    Ok(mounts.into_iter().collect())
}

/// Devices used as swap.
///
/// # Errors
/// `/proc/swaps` cannot be read.
pub fn swaps(root: &HostRoot) -> HostResult<Vec<String>> {
    let text = root.read("/proc/swaps");
    let text = text.map_err(io_error("cannot read /proc/swaps"))?;
    Ok(text
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .map(unescape)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_with_optional_fields_and_blanks() {
        let text = "36 35 259:3 / /share2 rw,noatime master:1 - ext4 /dev/nvme0n1p2 rw\n\
                    37 35 0:45 / /a\\040b rw - btrfs /dev/nvme1n1 rw\n";
        let mounts = parse(text).unwrap();
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].device_number, "259:3");
        assert_eq!(mounts[0].source, "/dev/nvme0n1p2");
        assert_eq!(mounts[1].mount_point, "/a b");
        let error = parse(&format!("{text}nonsense\n")).unwrap_err();
        assert!(error.message.contains("nonsense"), "{error}");
    }
}
