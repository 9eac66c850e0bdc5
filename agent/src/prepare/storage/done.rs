//! The transitions that were done, as their manifests tell.
use std::collections::BTreeMap;

use super::LOG_FOLDER;
use crate::host::root::HostRoot;
use crate::parity::line::escape;

/// How the name of a manifest begins; its time follows.
pub const MANIFEST: &str = "slice-storage-transition-";

/// The manifest of the last transition that took a disk over to its end, by the disk's stable link. A pure reader; what cannot
/// be read names nothing.
pub fn manifests(root: &HostRoot) -> BTreeMap<String, String> {
    let mut names = root.names(LOG_FOLDER);
    names.retain(|name| name.starts_with(MANIFEST));
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

/// The disks that a manifest took over; none while its transition has not ended well.
fn taken_over(text: &str) -> Vec<&str> {
    if text.lines().next_back() != Some("storage_mode=slice") {
        return Vec::new();
    }
    let approved = text
        .lines()
        .filter(|line| line.starts_with("disk=") && line.contains(" role=approved "));
    let by_id = approved.filter_map(|line| {
        let mut words = line.split(' ');
        words.find_map(|word| word.strip_prefix("by_id="))
    });
    // a link that would have to be escaped is none of a disk of a slot
    by_id
        .filter(|by_id| escape(by_id) == **by_id && *by_id != "''")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: &str = "/dev/disk/by-id/nvme-eui.0025385b91b00001";

    fn manifest(role: &str, outcome: &str) -> String {
        format!(
            "# Storage transition\napproved_by=infra\ndisk=/dev/nvme1n1 by_id={DISK} role={role} bytes=9 model=M serial=S\n{outcome}"
        )
    }

    #[test]
    fn a_105_only_a_transition_that_was_done_is_that_of_its_approved_disks() {
        let done = "outcome=done\nstorage_ownership=slice\nstorage_mode=slice\n";
        assert_eq!(taken_over(&manifest("approved", done)), [DISK]);
        for (role, outcome) in [
            ("system", done),
            ("other", done),
            ("approved", ""),
            ("approved", "outcome=failed wipefs\n"),
        ] {
            let none: [&str; 0] = [];
            assert_eq!(
                taken_over(&manifest(role, outcome)),
                none,
                "{role} {outcome}"
            );
        }
    }

    #[test]
    fn a_105_the_last_manifest_of_a_disk_counts() {
        let folder = std::env::temp_dir().join(format!("gpuaas-done-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(folder.join("var/log/gpuaas")).unwrap();
        let done = "outcome=done\nstorage_ownership=slice\nstorage_mode=slice\n";
        for (stamp, outcome) in [
            ("20260101000000", done),
            ("20260301000000", done),
            ("20260401000000", "outcome=failed umount\n"),
        ] {
            let path = folder.join(format!("var/log/gpuaas/{MANIFEST}{stamp}.txt"));
            std::fs::write(path, manifest("approved", outcome)).unwrap();
        }
        let found = manifests(&HostRoot::new(&folder));
        std::fs::remove_dir_all(&folder).unwrap();
        let last = format!("/var/log/gpuaas/{MANIFEST}20260301000000.txt");
        assert_eq!(found, BTreeMap::from([(DISK.to_owned(), last)]));
    }
}
