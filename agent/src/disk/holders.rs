//! Which processes hold a disk open: `blkdiscard` on a disk in use succeeds silently, so this is checked first.
use std::collections::BTreeSet;
use std::io;
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
    let scan = processes::Scan::begin();
    let mut found = BTreeSet::new();
    for pid in processes::ids(root).map_err(io_error("cannot list /proc"))? {
        if root.is_live() && pid == own {
            continue;
        }
        let program = || {
            root.read_value(format!("/proc/{pid}/comm"))
                .unwrap_or_default()
        };
        // of a program that is trusted it need not be known
        let held = match holds(root, pid, devices) {
            Err(_) if !trusts.contains(&program()) => {
                scan.when_allowed(|| holds(root, pid, devices))
            }
            held => held,
        };
        match held {
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
    // Nearly all threads share one table of descriptors and one tree of mounts. A thread with tables of its own may have the
    // same numbers for other files, so each link of each thread is read; what it leads to is looked at once. Two descriptors
    // of one name may be two files: the node of a disk that went away and of the one that came in its place.
    let mut followed = BTreeSet::new();
    for thread in processes::threads(root, pid)? {
        let listed = root.links(format!("{thread}/fd"));
        let links = processes::unless_ended(root, &thread, listed)?.unwrap_or_default();
        let mounts = root.link(format!("{thread}/ns/mnt"));
        for (number, target) in links {
            let target = processes::unless_ended(root, &thread, target)?;
            // a socket, a pipe: none is a disk
            let Some(target) = target.filter(|target| target.is_absolute()) else {
                continue;
            };
            // nobody may see which mounts a thread has: then its names are its own
            let of = mounts.clone().unwrap_or_else(|| thread.clone().into());
            let link = root.path(format!("{thread}/fd/{number}"));
            if followed.insert((of, number, target.clone())) {
                let found = is_one_of(root, &link, &target, devices);
                if processes::unless_ended(root, &thread, found)? == Some(true) {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

fn is_one_of(root: &HostRoot, link: &Path, target: &Path, devices: &[Device]) -> io::Result<bool> {
    if !root.is_live() {
        return Ok(devices.iter().any(|device| device.is_named(target)));
    }
    // Through the link itself: a device node of another name or namespace has the same number.
    let metadata = std::fs::metadata(link)?;
    Ok(devices.iter().any(|device| device.is(&metadata)))
}
