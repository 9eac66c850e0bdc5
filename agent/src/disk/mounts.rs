//! What is mounted or used as swap, read from `mountinfo` of every mount namespace we can see.
use std::collections::BTreeSet;

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

/// Parses `mountinfo`; lines that do not parse are skipped, since the kernel wrote them.
pub fn parse(text: &str) -> Vec<Mount> {
    text.lines()
        .filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let left: Vec<&str> = left.split(' ').collect();
            let right: Vec<&str> = right.split(' ').collect();
            Some(Mount {
                device_number: (*left.get(2)?).to_owned(),
                source: unescape(right.get(1)?),
                mount_point: unescape(left.get(4)?),
            })
        })
        .collect()
}

/// Undoes the kernel's octal escapes of blanks.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\")
}

/// All mounts of all mount namespaces that processes of this host live in.
pub fn all(root: &HostRoot) -> Vec<Mount> {
    let mut mounts: BTreeSet<Mount> = BTreeSet::new();
    let mut seen = BTreeSet::new();
    mounts.extend(parse(
        &root.read("/proc/self/mountinfo").unwrap_or_default(),
    ));
    for pid in root
        .names("/proc")
        .iter()
        .filter(|name| name.bytes().all(|b| b.is_ascii_digit()))
    {
        let namespace = root.link(format!("/proc/{pid}/ns/mnt"));
        if namespace.is_some_and(|namespace| seen.insert(namespace)) {
            mounts.extend(parse(
                &root
                    .read(format!("/proc/{pid}/mountinfo"))
                    .unwrap_or_default(),
            ));
        }
    }
    mounts.into_iter().collect()
}

/// Devices used as swap.
pub fn swaps(root: &HostRoot) -> Vec<String> {
    let text = root.read("/proc/swaps").unwrap_or_default();
    text.lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_with_optional_fields_and_blanks() {
        let text = "36 35 259:3 / /share2 rw,noatime master:1 - ext4 /dev/nvme0n1p2 rw\n\
                    37 35 0:45 / /a\\040b rw - btrfs /dev/nvme1n1 rw\nnonsense\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].device_number, "259:3");
        assert_eq!(mounts[0].source, "/dev/nvme0n1p2");
        assert_eq!(mounts[1].mount_point, "/a b");
    }
}
