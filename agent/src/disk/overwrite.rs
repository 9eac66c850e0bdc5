//! Zeroes written over a disk, from where an earlier run of the agent came to.
use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;

use super::verify::CHUNK;
use crate::error::{HostError, HostResult, io_error};

/// Alignment that direct I/O requires.
const ALIGN: usize = 4096;

/// Writes zeroes from `from` to `bytes`, past the page cache. After every `sync_every` bytes, and at the end, what was written
/// is on the medium and `reached` gets the offset. `goes_on` is asked before every piece: a write that nobody waits for any
/// more must not meet what comes after it.
///
/// # Errors
/// The disk cannot be written to; it was broken off.
pub fn overwrite(
    device: &Path,
    from: u64,
    bytes: u64,
    sync_every: u64,
    goes_on: impl Fn() -> bool,
    mut reached: impl FnMut(u64),
) -> HostResult<()> {
    let failed = || io_error("cannot write zeroes over the disk");
    let flags = OFlag::O_DIRECT | OFlag::O_CLOEXEC;
    let mut file = OpenOptions::new()
        .write(true)
        .custom_flags(flags.bits())
        .open(device)
        .map_err(failed())?;
    file.seek(SeekFrom::Start(from)).map_err(failed())?;
    let chunk = usize::try_from(CHUNK).unwrap_or(ALIGN);
    let buffer = vec![0_u8; chunk + ALIGN];
    let skip = buffer.as_ptr().align_offset(ALIGN).min(ALIGN);
    let (mut at, mut synced) = (from, from);
    while at < bytes {
        if !goes_on() {
            return Err(HostError::internal("overwriting the disk was broken off"));
        }
        let length = usize::try_from((bytes - at).min(CHUNK)).unwrap_or(ALIGN);
        file.write_all(&buffer[skip..skip + length])
            .map_err(failed())?;
        at += length as u64;
        if at - synced >= sync_every || at == bytes {
            file.sync_data().map_err(failed())?;
            synced = at;
            reached(at);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    const PIECES: u64 = 5;

    fn full(folder: &tempfile::TempDir) -> std::path::PathBuf {
        let path = folder.path().join("disk");
        let bytes = usize::try_from(PIECES * CHUNK).unwrap();
        std::fs::write(&path, vec![7_u8; bytes]).unwrap();
        path
    }

    fn zeroes(path: &Path) -> Vec<bool> {
        let content = std::fs::read(path).unwrap();
        let pieces = content.chunks(usize::try_from(CHUNK).unwrap());
        pieces
            .map(|piece| piece.iter().all(|byte| *byte == 0))
            .collect()
    }

    #[test]
    fn d_75_an_overwrite_tells_what_is_on_the_medium() {
        let folder = tempfile::tempdir().unwrap();
        let path = full(&folder);
        let mut reported = Vec::new();
        let bytes = PIECES * CHUNK;
        overwrite(&path, 0, bytes, 2 * CHUNK, || true, |at| reported.push(at)).unwrap();
        assert_eq!(reported, [2 * CHUNK, 4 * CHUNK, bytes]);
        assert_eq!(zeroes(&path), [true; 5]);
    }

    #[test]
    fn p5_an_overwrite_goes_on_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = full(&folder);
        let (left, reported) = (Cell::new(3), RefCell::new(0));
        let goes_on = || left.replace(left.get() - 1) > 0;
        let bytes = PIECES * CHUNK;
        let broken_off = overwrite(&path, 0, bytes, CHUNK, goes_on, |at| {
            *reported.borrow_mut() = at;
        });
        assert!(broken_off.is_err());
        assert_eq!(*reported.borrow(), 3 * CHUNK);
        assert_eq!(zeroes(&path), [true, true, true, false, false]);
        // nothing before the offset is written again
        let content = vec![7_u8; usize::try_from(bytes).unwrap()];
        std::fs::write(&path, content).unwrap();
        overwrite(&path, 3 * CHUNK, bytes, CHUNK, || true, |_| {}).unwrap();
        assert_eq!(zeroes(&path), [false, false, false, true, true]);
    }
}
