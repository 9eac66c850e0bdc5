//! What mounts the disks at the next start is taken out of `/etc/fstab`, as a comment (I-115, I-117).
use std::collections::BTreeSet;

use super::manifest::Disk;
use super::profile::Profile;
use crate::error::{HostResult, io_error};
use crate::host::root::HostRoot;
use crate::prepare::Machine;

pub const FILE: &str = "/etc/fstab";
/// What an entry that is taken out begins with.
const MARKER: &str = "# gpuaas-slice-storage-disabled ";

/// The edit.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// The whole new text; `None` when nothing is to be changed.
    pub text: Option<String>,
    /// Entries of the disks that the profile does not give up.
    pub refusals: Vec<String>,
}

/// Plans it.
///
/// # Errors
/// The file cannot be read.
pub fn plan(machine: &Machine, disks: &[&Disk], profile: &Profile) -> HostResult<Edit> {
    let text = machine.root.read(FILE);
    let text = match text {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Edit::default()),
        Err(error) => return Err(io_error(format_args!("cannot read {FILE}"))(error)),
    };
    let mut devices: BTreeSet<&str> = BTreeSet::new();
    for disk in disks {
        devices.insert(&disk.name);
        devices.extend(disk.facts.partitions.iter().map(String::as_str));
    }
    Ok(edit(&machine.root, &text, &devices, profile))
}

fn edit(root: &HostRoot, text: &str, devices: &BTreeSet<&str>, profile: &Profile) -> Edit {
    let mut changed = false;
    let mut refusals = Vec::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut fields = line.split_whitespace();
        let (spec, at) = (fields.next(), fields.next());
        let (Some(spec), Some(at)) = (spec.filter(|spec| !spec.starts_with('#')), at) else {
            lines.push(line.to_owned());
            continue;
        };
        let at = at.replace("\\040", " ");
        let is_ours = device(root, spec).is_some_and(|name| devices.contains(name.as_str()));
        if profile.gives_up(&at) && (is_ours || devices.is_empty() || is_unresolved(root, spec)) {
            changed = true;
            lines.push(format!("{MARKER}{line}"));
            continue;
        }
        if is_ours {
            refusals.push(format!(
                "{FILE} uses {spec} for {at}, which the approved storage profile does not give up"
            ));
        }
        lines.push(line.to_owned());
    }
    let mut text = lines.join("\n");
    text.push('\n');
    Edit {
        text: changed.then_some(text),
        refusals,
    }
}

/// What a first field leads to now, by kernel name.
fn device(root: &HostRoot, spec: &str) -> Option<String> {
    let spec = spec.trim_matches('"');
    let by = |folder: &str, value: &str| {
        let value = value.trim_matches('"');
        root.link_name(format!("/dev/disk/{folder}/{value}"))
    };
    for (key, folder) in [
        ("UUID=", "by-uuid"),
        ("LABEL=", "by-label"),
        ("PARTUUID=", "by-partuuid"),
        ("PARTLABEL=", "by-partlabel"),
    ] {
        if let Some(value) = spec.strip_prefix(key) {
            return by(folder, value);
        }
    }
    let name = spec.strip_prefix("/dev/")?;
    let linked = root.link_name(spec);
    Some(linked.unwrap_or_else(|| name.to_owned()))
}

/// Whether an entry leads to no device that is there: a disk that was repartitioned, or is gone.
fn is_unresolved(root: &HostRoot, spec: &str) -> bool {
    match device(root, spec) {
        None => spec.contains('='),
        Some(name) => !root.exists(format!("/sys/class/block/{name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i_117_only_entries_of_the_disks_that_are_given_up_become_comments() {
        let dir = tempfile::tempdir().unwrap();
        let by_uuid = dir.path().join("dev/disk/by-uuid");
        std::fs::create_dir_all(&by_uuid).unwrap();
        for (uuid, name) in [("aaaa", "nvme2n1p1"), ("bbbb", "nvme4n1p2")] {
            std::os::unix::fs::symlink(format!("../../{name}"), by_uuid.join(uuid)).unwrap();
        }
        for name in ["nvme2n1p1", "nvme4n1p2", "nvme5n1p1"] {
            std::fs::create_dir_all(dir.path().join("sys/class/block").join(name)).unwrap();
        }
        let root = HostRoot::new(dir.path());
        let profile = Profile {
            approved_by: "x".into(),
            devices: Vec::new(),
            unmount: vec!["/share1".into(), "/share3".into(), "/share6".into()],
        };
        let devices = BTreeSet::from(["nvme2n1", "nvme2n1p1"]);
        let before = "# a comment of /share3\nUUID=bbbb / ext4 defaults 0 1\nUUID=aaaa /share3 ext4 defaults 0 2\n\
                      UUID=gone /share1 ext4 nofail 0 2\n/dev/nvme5n1p1 /share6 ext4 defaults 0 2\n";
        let found = edit(&root, before, &devices, &profile);
        let after = found.text.unwrap();
        assert!(found.refusals.is_empty());
        assert_eq!(
            after,
            "# a comment of /share3\nUUID=bbbb / ext4 defaults 0 1\n\
             # gpuaas-slice-storage-disabled UUID=aaaa /share3 ext4 defaults 0 2\n\
             # gpuaas-slice-storage-disabled UUID=gone /share1 ext4 nofail 0 2\n\
             /dev/nvme5n1p1 /share6 ext4 defaults 0 2\n",
            "/share6 is another disk's, which is not part of this transition"
        );
        assert_eq!(edit(&root, &after, &devices, &profile), Edit::default());

        let other = "/dev/nvme2n1p1 /data ext4 defaults 0 2\n";
        let found = edit(&root, other, &devices, &profile);
        assert_eq!((found.text, found.refusals.len()), (None, 1));
    }
}
