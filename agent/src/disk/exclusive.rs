//! A disk that is open exclusively (`O_EXCL`): as long as it is, nothing can mount the disk or a partition of it, or stack
//! anything on it. It closes the time between the proof and the end of a long write (P9).
//!
//! A disk that does not answer keeps whoever opens or closes it waiting until its kernel gives up, for a minute and more. So none is
//! opened or closed on a thread that serves calls.
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{fstat, major, minor};

use super::decide::{Blocker, ProvenDisk, refusal};
use crate::error::{HostError, HostResult, io_error};
use crate::host::blocking;

/// A proven disk that is open exclusively until this value is dropped. Only [`super::DiskProbe::open_exclusively`] makes one, which has
/// checked again, with the disk open, that it is the one that was proven. Only such a disk is cloned to or wiped.
#[derive(Debug)]
pub struct ExclusiveDisk {
    disk: ProvenDisk,
    /// None only while it is dropped.
    file: Option<File>,
}

impl Drop for ExclusiveDisk {
    fn drop(&mut self) {
        let file = self.file.take();
        blocking::here(|| drop(file));
    }
}

impl ExclusiveDisk {
    /// Opens a disk exclusively. Programs that open it in another way, such as `qemu-img`, still can.
    ///
    /// # Errors
    /// `DISK_UNSAFE` when something has opened it exclusively since it was proven.
    pub(super) async fn open(disk: ProvenDisk) -> HostResult<Self> {
        match open_apart(disk.device()).await {
            Ok(file) => Ok(Self {
                disk,
                file: Some(file),
            }),
            Err(error) if is_ebusy(&error) => Err(refusal(disk.identity(), &[Blocker::Busy])),
            Err(error) => Err(io_error(format_args!(
                "cannot open {} exclusively",
                disk.device().display()
            ))(error)),
        }
    }

    /// For a thread that writes or reads: the disk stays open until this is closed as well, whatever became of the value by then.
    ///
    /// # Errors
    /// The process has too many open files.
    pub(crate) fn share(&self) -> HostResult<File> {
        self.file()?
            .try_clone()
            .map_err(io_error("cannot share the open disk"))
    }

    fn file(&self) -> HostResult<&File> {
        let file = self.file.as_ref();
        file.ok_or_else(|| HostError::internal("the disk is closed"))
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
        let stat = fstat(self.file()?).map_err(|error| {
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

/// The same as [`is_busy`] for callers that serve calls.
///
/// # Errors
/// As of [`is_busy`].
pub(super) async fn is_busy_apart(device: PathBuf) -> HostResult<bool> {
    blocking::run(move || is_busy(&device)).await
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

async fn open_apart(device: PathBuf) -> io::Result<File> {
    let opened = tokio::task::spawn_blocking(move || open_exclusively(&device)).await;
    opened.unwrap_or_else(|panicked| Err(io::Error::other(panicked)))
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::Poll;
    use std::time::Duration;

    use nix::sys::stat::Mode;

    use super::*;

    /// A pipe takes the place of a disk that does not answer: it is opened when somebody opens its other end, which happens once the
    /// thread that serves calls is free for it. What `open` gives is returned.
    async fn opened_apart<T>(open: impl AsyncFnOnce(PathBuf) -> T) -> T {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("disk");
        nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        let (free, is_free) = mpsc::channel();
        let end = pipe.clone();
        let other_end = std::thread::spawn(move || {
            // long after a thread that waits for the open has failed
            let _free_or_late = is_free.recv_timeout(Duration::from_secs(60));
            OpenOptions::new().write(true).open(end)
        });
        let mut opening = std::pin::pin!(open(pipe));
        let is_pending = std::future::poll_fn(|context| {
            Poll::Ready(opening.as_mut().poll(context).is_pending())
        });
        assert!(is_pending.await, "the thread waited for the open");
        free.send(()).unwrap();
        let opened = opening.await;
        other_end.join().unwrap().unwrap();
        opened
    }

    #[tokio::test]
    async fn p5_a_disk_that_does_not_answer_holds_up_no_call() {
        assert!(!opened_apart(is_busy_apart).await.unwrap());
        assert!(opened_apart(open_apart).await.is_ok());
    }
}
