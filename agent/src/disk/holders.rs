//! Which processes hold a disk open: `blkdiscard` on a disk in use succeeds silently, so this is checked first.
use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::stack::Device;
use crate::error::{HostResult, io_error};
use crate::host::processes;
use crate::host::root::HostRoot;

/// A process that holds a disk, a partition of it, or something stacked on either open.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DescriptorHolder {
    /// Process id.
    pub pid: u32,
    /// Program name.
    pub program: String,
}

/// Processes that hold one of these devices open, this one excepted.
///
/// # Errors
/// A process is there whose descriptors cannot be read: it could hold the disk (P9). Only a program that the operator
/// `trusts` may be such a one.
pub fn descriptor_holders(
    root: &HostRoot,
    devices: &[Device],
    trusts: &[String],
) -> HostResult<Vec<DescriptorHolder>> {
    let own = std::process::id();
    let mut found = BTreeSet::new();
    for pid in processes::ids(root).map_err(io_error("cannot list /proc"))? {
        if root.is_live() && pid == own {
            continue;
        }
        let program = || {
            root.read_value(format!("/proc/{pid}/comm"))
                .unwrap_or_default()
        };
        match holds(root, pid, devices) {
            Ok(true) => {
                let program = program();
                found.insert(DescriptorHolder { pid, program });
            }
            Ok(false) => {}
            Err(error) => {
                let program = program();
                if !trusts.contains(&program) {
                    let what = format!("cannot read what process {pid} ({program}) holds open");
                    return Err(io_error(what)(error));
                }
            }
        }
    }
    Ok(found.into_iter().collect())
}

fn holds(root: &HostRoot, pid: u32, devices: &[Device]) -> io::Result<bool> {
    // Nearly all threads share one table of descriptors, and following each link of each thread would take several times
    // as long: a table with the numbers of one that was read is taken for that one.
    let mut read = BTreeSet::new();
    for thread in processes::threads(root, pid)? {
        let listed = root.list(format!("{thread}/fd"));
        let numbers = processes::unless_ended(root, &thread, listed)?.unwrap_or_default();
        if read.insert(numbers.clone()) && one_leads_to(root, &thread, &numbers, devices)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn one_leads_to(
    root: &HostRoot,
    thread: &str,
    numbers: &[String],
    devices: &[Device],
) -> io::Result<bool> {
    for number in numbers {
        let link = root.path(format!("{thread}/fd/{number}"));
        if processes::unless_ended(root, thread, is_one_of(root, &link, devices))? == Some(true) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_one_of(root: &HostRoot, link: &Path, devices: &[Device]) -> io::Result<bool> {
    let target = std::fs::read_link(link)?;
    if !target.is_absolute() {
        // a socket, a pipe: none is a disk
        return Ok(false);
    }
    if !root.is_live() {
        return Ok(devices.iter().any(|device| device.is_named(&target)));
    }
    // Through the link itself: a device node of another name or namespace has the same number.
    let metadata = std::fs::metadata(link)?;
    Ok(devices.iter().any(|device| device.is(&metadata)))
}

/// Whether a file is a block device, and its number as sysfs writes it.
pub(super) fn block_number(metadata: &std::fs::Metadata) -> Option<String> {
    let block = metadata.mode() & 0o170_000 == 0o060_000;
    block.then(|| {
        let number = metadata.rdev();
        let (major, minor) = (nix::sys::stat::major(number), nix::sys::stat::minor(number));
        format!("{major}:{minor}")
    })
}
