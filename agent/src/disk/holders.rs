//! Which processes hold a disk open: `blkdiscard` on a disk in use succeeds silently, so this is checked first.
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;

use crate::host::root::HostRoot;

/// A process that holds a disk or one of its partitions open.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DescriptorHolder {
    /// Process id.
    pub pid: u32,
    /// Program name.
    pub program: String,
}

/// A block device, by name and number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceName {
    /// Kernel name.
    pub name: String,
    /// `major:minor`.
    pub number: String,
}

/// Processes that hold one of these devices open, this one excepted.
pub fn descriptor_holders(root: &HostRoot, devices: &[DeviceName]) -> Vec<DescriptorHolder> {
    let own = std::process::id();
    let mut found = BTreeSet::new();
    for pid in root
        .names("/proc")
        .iter()
        .filter_map(|name| name.parse::<u32>().ok())
    {
        if root.is_live() && pid == own {
            continue;
        }
        let holds = root.names(format!("/proc/{pid}/fd")).iter().any(|fd| {
            let link = format!("/proc/{pid}/fd/{fd}");
            is_one_of(root, &link, devices)
        });
        if holds {
            let program = root
                .read_value(format!("/proc/{pid}/comm"))
                .unwrap_or_default();
            found.insert(DescriptorHolder { pid, program });
        }
    }
    found.into_iter().collect()
}

fn is_one_of(root: &HostRoot, link: &str, devices: &[DeviceName]) -> bool {
    if root.is_live() {
        // Through the link itself: a device node of another name or namespace has the same number.
        let Ok(metadata) = std::fs::metadata(root.path(link)) else {
            return false;
        };
        let block = metadata.mode() & 0o170_000 == 0o060_000;
        let number = format!(
            "{}:{}",
            nix::sys::stat::major(metadata.rdev()),
            nix::sys::stat::minor(metadata.rdev())
        );
        return block && devices.iter().any(|device| device.number == number);
    }
    let Some(target) = root.link(link) else {
        return false;
    };
    devices
        .iter()
        .any(|device| target == std::path::Path::new("/dev").join(&device.name))
}
