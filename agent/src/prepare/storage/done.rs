//! The transitions that were done, as their manifests tell.
use std::collections::BTreeMap;

use crate::disk::identity::BY_ID;
use crate::host::root::HostRoot;

/// Where a transition is recorded (I-120).
pub const LOG_FOLDER: &str = "/var/log/gpuaas";

/// How the name of a manifest begins; its time follows.
pub const MANIFEST: &str = "slice-storage-transition-";

/// How the line of a step begins that proved a disk raw; the disk's stable link follows.
const PROVEN: &str = "step=prove_raw detail=";

/// The manifest of the last transition that took a disk over to its end, by the disk's stable link. A pure reader; what cannot
/// be read names nothing.
pub fn manifests(root: &HostRoot) -> BTreeMap<String, String> {
    let mut names = root.names(LOG_FOLDER);
    names.retain(|name| is_manifest(name));
    // the times in their names order them; a later one replaces what an earlier one says
    names.sort();
    let mut found = BTreeMap::new();
    for name in names {
        let path = format!("{LOG_FOLDER}/{name}");
        let text = root.read(&path).unwrap_or_default();
        for by_id in taken_over(&text) {
            found.insert(by_id.to_owned(), path.clone());
        }
    }
    found
}

/// Whether a file is a manifest, and no copy that somebody made of one.
fn is_manifest(name: &str) -> bool {
    let stamp = name
        .strip_prefix(MANIFEST)
        .and_then(|rest| rest.strip_suffix(".txt"));
    stamp.is_some_and(|stamp| stamp.len() == 14 && stamp.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The disks that a manifest took over, and not those that were raw before; none while its transition has not ended well.
fn taken_over(text: &str) -> Vec<&str> {
    if text.lines().next_back() != Some("storage_mode=slice") {
        return Vec::new();
    }
    let proven = text.lines().filter_map(|line| line.strip_prefix(PROVEN));
    // an escaped blank ends the link; one that has to be escaped itself is none of a disk of a slot
    proven
        .filter_map(|detail| detail.split_once('\\'))
        .filter(|(by_id, rest)| by_id.starts_with(BY_ID) && rest.starts_with(' '))
        .map(|(by_id, _)| by_id)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::storage::{Profile, manifest};
    use crate::prepare::{Action, Step};

    const DISK: &str = "/dev/disk/by-id/nvme-eui.0025385b91b00001";
    const DONE: &str = "outcome=done\nstorage_ownership=slice\nstorage_mode=slice\n";

    fn written(of: impl Fn(String, String) -> Action, outcome: &str) -> String {
        let step = Step {
            action: of(DISK.to_owned(), "nvme1n1".to_owned()),
            reason: String::new(),
        };
        let profile = Profile {
            approved_by: "infra".to_owned(),
            devices: Vec::new(),
            unmount: Vec::new(),
        };
        manifest::text(&[], &profile, &[step]) + outcome
    }

    fn raw(identity: String, name: String) -> Action {
        Action::ProveRaw { identity, name }
    }

    #[test]
    fn a_105_only_a_transition_that_was_done_is_that_of_the_disks_it_proved_raw() {
        assert_eq!(taken_over(&written(raw, DONE)), [DISK]);
        let unused = |identity, name| Action::ProveUnused { identity, name };
        for text in [
            written(unused, DONE),
            written(raw, ""),
            written(raw, "outcome=failed wipefs\n"),
        ] {
            assert!(taken_over(&text).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_105_the_last_manifest_of_a_disk_counts_and_copies_of_one_do_not() {
        let folder = std::env::temp_dir().join(format!("gpuaas-done-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(folder.join("var/log/gpuaas")).unwrap();
        for (name, outcome) in [
            ("20260101000000.txt", DONE),
            ("20260301000000.txt", DONE),
            ("20260401000000.txt", "outcome=failed umount\n"),
            ("20260301000000.txt~", DONE),
            ("20260301000000.txt.bak", DONE),
            ("20260301000000 (copy).txt", DONE),
        ] {
            let path = folder.join(format!("var/log/gpuaas/{MANIFEST}{name}"));
            std::fs::write(path, written(raw, outcome)).unwrap();
        }
        let found = manifests(&HostRoot::new(&folder));
        std::fs::remove_dir_all(&folder).unwrap();
        let last = format!("/var/log/gpuaas/{MANIFEST}20260301000000.txt");
        assert_eq!(found, BTreeMap::from([(DISK.to_owned(), last)]));
    }
}
