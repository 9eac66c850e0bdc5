//! Space on the host's own file systems: some of it always stays free, for the journal above all. Where more is needed, cached
//! images go that no running operation needs. A VM needs none, and neither does a rescue: each has a copy of its own.
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use gpuaas_common::CancellationToken;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use prost::Message as _;

use super::ImageCache;
use crate::error::{HostError, HostResult, io_error};
use crate::host::blocking;
use crate::ids::Digest;
use crate::journal::{Journal, Kind};

/// Between two looks at what is free.
pub const INTERVAL: Duration = Duration::from_secs(30);

/// Bytes that are free on the file system of a folder.
///
/// # Errors
/// The folder cannot be read.
pub fn free_bytes(folder: &Path) -> HostResult<u64> {
    let space = nix::sys::statvfs::statvfs(folder).map_err(std::io::Error::from);
    let space = space.map_err(io_error(format_args!(
        "cannot read the free space of {}",
        folder.display()
    )))?;
    Ok(space.blocks_available() * space.fragment_size())
}

/// Refuses `bytes` more where `free` are free and `reserve` must stay so.
///
/// # Errors
/// `HOST_NOT_READY` where less would be left.
pub fn leaves_enough(folder: &Path, bytes: u64, free: u64, reserve: u64) -> HostResult<()> {
    if free >= bytes.saturating_add(reserve) {
        return Ok(());
    }
    let mib = |bytes: u64| bytes >> 20;
    let why = format!(
        "{} has {} MiB free, and {} MiB more must leave {} MiB",
        folder.display(),
        mib(free),
        mib(bytes),
        mib(reserve)
    );
    Err(HostError::host(ErrorReason::HostNotReady, why))
}

/// Removes cached images, as [`ImageCache::make_room`] does, while less is free than must be: at once, and after every
/// `interval` until `shutdown`.
pub async fn run(
    images: &ImageCache,
    state_dir: &Path,
    interval: Duration,
    shutdown: CancellationToken,
) {
    let mut failing = false;
    loop {
        let mut outcome = images.make_room(&images.folder, 0).await;
        if outcome.is_ok() {
            outcome = images.make_room(state_dir, 0).await;
        }
        match outcome {
            // once: every report of readiness says it again
            Err(error) if !failing => {
                tracing::error!(%error, "the host has too little free space");
                failing = true;
            }
            Err(_) => {}
            Ok(()) => failing = false,
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
    }
}

impl ImageCache {
    /// Makes sure that `bytes` more on the file system of `folder` leave what must stay free. Where they do not, cached images
    /// go that no running operation needs, those that were used longest ago first; none, where all of them were too few.
    ///
    /// # Errors
    /// `HOST_NOT_READY` where there is too little space; something cannot be read or removed.
    pub async fn make_room(&self, folder: &Path, bytes: u64) -> HostResult<()> {
        let _one_at_a_time = self.space.lock().await;
        self.make_room_alone(folder, bytes).await
    }

    /// Makes room for a file of the cache, and gives it its space, so that no other counts on it. Returns whether it has it: some
    /// file systems give none before it is written.
    pub(super) async fn take_room(&self, file: &tokio::fs::File, bytes: u64) -> HostResult<bool> {
        let _one_at_a_time = self.space.lock().await;
        self.make_room_alone(&self.folder, bytes).await?;
        let length = i64::try_from(bytes).unwrap_or(i64::MAX);
        if length == 0 {
            return Ok(false);
        }
        let taken = blocking::here(|| {
            loop {
                match fallocate(file, FallocateFlags::empty(), 0, length) {
                    // a signal, such as that of a program that has ended
                    Err(Errno::EINTR) => {}
                    taken => break taken,
                }
            }
        });
        match taken {
            Ok(()) => Ok(true),
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => Ok(false),
            Err(error) => Err(io_error("cannot store the image")(error.into())),
        }
    }

    async fn make_room_alone(&self, folder: &Path, bytes: u64) -> HostResult<()> {
        let mut free = blocking::here(|| free_bytes(folder))?;
        let needed = bytes.saturating_add(self.reserve);
        let refusal = leaves_enough(folder, bytes, free, self.reserve);
        if refusal.is_ok() || !blocking::here(|| self.shares_disk_with(folder))? {
            return refusal;
        }
        let unused = self.unused()?;
        let all: u64 = unused.iter().map(|(_, taken)| taken).sum();
        if free.saturating_add(all) < needed {
            return refusal;
        }
        for (digest, taken) in unused {
            if free >= needed {
                break;
            }
            if self.remove_unused(&digest).await? {
                tracing::info!(%digest, bytes = taken, "remove a cached image to make room");
                free = free.saturating_add(taken);
            }
        }
        leaves_enough(folder, bytes, free, self.reserve)
    }

    fn shares_disk_with(&self, folder: &Path) -> HostResult<bool> {
        let device = |folder: &Path| {
            let found = std::fs::metadata(folder);
            let found =
                found.map_err(io_error(format_args!("cannot read {}", folder.display())))?;
            HostResult::Ok(found.dev())
        };
        Ok(device(folder)? == device(&self.folder)?)
    }

    /// Cached images that no running operation needs, those that were used longest ago first, each with what it takes.
    fn unused(&self) -> HostResult<Vec<(Digest, u64)>> {
        let needed = needed_images(&self.journal)?;
        let cached = self.journal.images_by_use()?.into_iter();
        let unused = cached.filter(|(digest, _)| !needed.contains(digest));
        let taken = |(digest, _): (Digest, String)| {
            let file = std::fs::symlink_metadata(self.file(&digest)).ok()?;
            Some((digest, file.blocks() * 512))
        };
        Ok(blocking::here(|| unused.filter_map(taken).collect()))
    }

    /// Removes an image unless somebody needs it by now. Returns whether it did.
    async fn remove_unused(&self, digest: &Digest) -> HostResult<bool> {
        let turn = self.turn(digest).await;
        let Ok(_alone) = turn.try_lock() else {
            return Ok(false);
        };
        // an operation that began meanwhile may have been told that the image is here; one that begins now waits for its turn
        if needed_images(&self.journal)?.contains(digest) {
            return Ok(false);
        }
        blocking::here(|| self.remove(digest))?;
        self.journal.forget_image(digest)?;
        Ok(true)
    }

    /// Removes the file of a digest with the names that lead to it.
    fn remove(&self, digest: &Digest) -> HostResult<()> {
        let failed = || io_error(format!("cannot remove image {digest}"));
        let file = self.file(digest);
        for entry in std::fs::read_dir(&self.folder).map_err(failed())? {
            let entry = entry.map_err(failed())?.path();
            let leads_to = std::fs::read_link(&entry);
            if leads_to.is_ok_and(|target| Some(target.as_os_str()) == file.file_name()) {
                std::fs::remove_file(entry).map_err(failed())?;
            }
        }
        std::fs::remove_file(file).map_err(failed())
    }
}

/// The images that running operations copy from.
fn needed_images(journal: &Journal) -> HostResult<HashSet<Digest>> {
    let malformed = |_| HostError::internal("journal holds a malformed request");
    let mut digests = HashSet::new();
    for row in journal.running_operations()? {
        let request = row.request.as_slice();
        let image = match row.kind {
            Kind::Provision => {
                let request = pb::ProvisionRequest::decode(request).map_err(malformed)?;
                request.image
            }
            Kind::Rescue => {
                let request = pb::PowerRequest::decode(request).map_err(malformed)?;
                request.rescue_image
            }
            _ => None,
        };
        // what is no digest is refused by its operation
        digests.extend(image.and_then(|image| image.digest.parse::<Digest>().ok()));
    }
    Ok(digests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_leaves_the_host_room_for_its_journal() {
        let leaves = |bytes, free| leaves_enough(Path::new("/var"), bytes, free, 1 << 30);
        assert!(leaves(5 << 30, 6 << 30).is_ok());
        let refused = leaves(5 << 30, (6 << 30) - 1).unwrap_err();
        assert_eq!(refused.reason, ErrorReason::HostNotReady);
        assert!(
            refused
                .message
                .contains("/var has 6143 MiB free, and 5120 MiB more must leave 1024 MiB"),
            "{}",
            refused.message
        );
        assert!(leaves(u64::MAX, 6 << 30).is_err());
    }

    #[test]
    fn what_is_free_can_be_told_of_a_folder_that_is_there() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_bytes(folder.path()).unwrap() > 0);
        assert!(free_bytes(&folder.path().join("none")).is_err());
    }
}
