//! The kernel's exclusive claim on a disk: while it is held nothing can mount the disk or a partition of it, or stack
//! anything on it. It closes the time between the proof and the end of a long write (P9).
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{fstat, major, minor};

use super::decide::{Blocker, ProvenDisk, refusal};
use crate::error::{HostResult, io_error};

/// A proven disk that is claimed until this value is dropped. Only [`super::DiskProbe::claim`] makes one, which has
/// checked again, under the claim, that it is the disk that was proven. Only a claimed disk is cloned to or wiped.
#[derive(Debug)]
pub struct ClaimedDisk {
    disk: ProvenDisk,
    file: File,
}

impl ClaimedDisk {
    /// Claims a disk. Programs that open it without claiming it, such as `qemu-img`, still can.
    ///
    /// # Errors
    /// `DISK_UNSAFE` when something has claimed it since it was proven.
    pub(super) fn take(disk: ProvenDisk) -> HostResult<Self> {
        match open_exclusively(&disk.device()) {
            Ok(file) => Ok(Self { disk, file }),
            Err(error) if is_claimed(&error) => Err(refusal(disk.identity(), &[Blocker::Claimed])),
            Err(error) => Err(io_error(format_args!(
                "cannot claim {}",
                disk.device().display()
            ))(error)),
        }
    }

    /// The claim for a thread that writes: it lasts until this is closed as well, whatever became of the value by then.
    ///
    /// # Errors
    /// The process has too many open files.
    pub(super) fn share(&self) -> HostResult<File> {
        self.file
            .try_clone()
            .map_err(io_error("cannot share the claim of the disk"))
    }

    /// Number of the device that is claimed, as sysfs writes it ("259:3").
    pub(super) fn number(&self) -> HostResult<String> {
        let stat = fstat(&self.file).map_err(|error| {
            io_error("cannot inspect the claimed disk")(io::Error::from_raw_os_error(error as i32))
        })?;
        Ok(format!("{}:{}", major(stat.st_rdev), minor(stat.st_rdev)))
    }
}

impl Deref for ClaimedDisk {
    type Target = ProvenDisk;
    fn deref(&self) -> &ProvenDisk {
        &self.disk
    }
}

/// Whether a device is claimed: it is mounted, stacked on, or claimed where we cannot see it.
///
/// # Errors
/// The device cannot be opened for another reason, so nobody knows.
pub fn is_claimed_by_others(device: &Path) -> HostResult<bool> {
    match open_exclusively(device) {
        Ok(_) => Ok(false),
        Err(error) if is_claimed(&error) => Ok(true),
        Err(error) => Err(io_error(format_args!(
            "cannot tell whether {} is claimed",
            device.display()
        ))(error)),
    }
}

fn open_exclusively(device: &Path) -> io::Result<File> {
    let flags = OFlag::O_EXCL | OFlag::O_CLOEXEC;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(device)
}

fn is_claimed(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::EBUSY as i32)
}
