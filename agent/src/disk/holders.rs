//! Which processes hold a disk open: `blkdiscard` on a disk in use succeeds silently, so this is checked first.
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use nix::sys::stat::FileStat;

use super::device_number::block_number_of;
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
    // Nearly all threads share one table of descriptors. One may have a table of its own, with the same numbers for other
    // files, so each link of each thread is followed.
    for thread in processes::threads(root, pid)? {
        let folder = format!("{thread}/fd");
        let held = match root.is_live() {
            true => any(root, &thread, root.files(folder), |file: &FileStat| {
                block_number_of(file)
                    .is_some_and(|number| devices.iter().any(|device| device.has_number(&number)))
            }),
            false => any(root, &thread, root.links(folder), |target: &PathBuf| {
                devices.iter().any(|device| device.is_named(target))
            }),
        };
        if held? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether one of the descriptors of a thread leads to what is asked for.
fn any<T>(
    root: &HostRoot,
    thread: &str,
    listed: io::Result<Vec<(String, io::Result<T>)>>,
    is_meant: impl Fn(&T) -> bool,
) -> io::Result<bool> {
    let listed = processes::unless_ended(root, thread, listed)?.unwrap_or_default();
    for (_, found) in listed {
        if processes::unless_ended(root, thread, found)?.is_some_and(|found| is_meant(&found)) {
            return Ok(true);
        }
    }
    Ok(false)
}
