//! A disk that is open exclusively (`O_EXCL`): as long as it is, nothing can mount the disk or a partition of it, or stack
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

/// A proven disk that is open exclusively until this value is dropped. Only [`super::DiskProbe::open_exclusively`] makes one, which has
/// checked again, with the disk open, that it is the one that was proven. Only such a disk is cloned to or wiped.
#[derive(Debug)]
pub struct ExclusiveDisk {
    disk: ProvenDisk,
    file: File,
}

impl ExclusiveDisk {
    /// Opens a disk exclusively. Programs that open it in another way, such as `qemu-img`, still can.
    ///
    /// # Errors
    /// `DISK_UNSAFE` when something has opened it exclusively since it was proven.
    pub(super) fn open(disk: ProvenDisk) -> HostResult<Self> {
        match open_exclusively(&disk.device()) {
            Ok(file) => Ok(Self { disk, file }),
            Err(error) if is_ebusy(&error) => Err(refusal(disk.identity(), &[Blocker::Busy])),
            Err(error) => Err(io_error(format_args!(
                "cannot open {} exclusively",
                disk.device().display()
            ))(error)),
        }
    }

    /// For a thread that writes: the disk stays open until this is closed as well, whatever became of the value by then.
    ///
    /// # Errors
    /// The process has too many open files.
    pub(super) fn share(&self) -> HostResult<File> {
        self.file
            .try_clone()
            .map_err(io_error("cannot share the open disk"))
    }

    /// Has the disk write to its medium what it holds in a volatile cache. Neither a discard nor a command that has it write
    /// zeroes does that, and what is read back may come from that cache.
    ///
    /// # Errors
    /// The disk does not confirm it.
    pub(super) async fn flush(&self) -> HostResult<()> {
        let file = self.share()?;
        let flushed = tokio::task::spawn_blocking(move || file.sync_all()).await;
        flushed
            .unwrap_or_else(|panicked| Err(io::Error::other(panicked)))
            .map_err(io_error("cannot flush the disk's cache"))
    }

    /// Number of the device that is open, as sysfs writes it ("259:3").
    pub(super) fn number(&self) -> HostResult<String> {
        let stat = fstat(&self.file).map_err(|error| {
            io_error("cannot inspect the open disk")(io::Error::from_raw_os_error(error as i32))
        })?;
        Ok(format!("{}:{}", major(stat.st_rdev), minor(stat.st_rdev)))
    }
}

impl Deref for ExclusiveDisk {
    type Target = ProvenDisk;
    fn deref(&self) -> &ProvenDisk {
        &self.disk
    }
}

/// Whether a device is busy: it is mounted, stacked on, or open exclusively where we cannot see it.
///
/// # Errors
/// The device cannot be opened for another reason, so nobody knows.
pub fn is_busy(device: &Path) -> HostResult<bool> {
    match open_exclusively(device) {
        Ok(_) => Ok(false),
        Err(error) if is_ebusy(&error) => Ok(true),
        Err(error) => Err(io_error(format_args!(
            "cannot tell whether {} is busy",
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

fn is_ebusy(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::EBUSY as i32)
}
