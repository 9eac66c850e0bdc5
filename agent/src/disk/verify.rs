//! Proof that a disk is empty (D-78): it is read back past the page cache and must be zero, completely up to a size,
//! a larger one at both ends and in samples at random offsets.
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use nix::fcntl::OFlag;

use crate::error::{HostError, HostResult, io_error};

/// Bytes read at a time, and the size of a sample.
pub const CHUNK: u64 = 4 << 20;
/// Alignment that direct I/O requires.
const ALIGN: usize = 4096;

/// How much of a disk is read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyLimits {
    /// Disks up to this size are read completely.
    pub full_bytes: u64,
    /// Bytes read of a larger disk.
    pub sample_bytes: u64,
}

/// A piece of a disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    /// First byte.
    pub start: u64,
    pub length: u64,
}

/// Which pieces are read, in order and without overlap. `random` are the offsets of the samples.
pub fn ranges(
    bytes: u64,
    limits: VerifyLimits,
    random: impl IntoIterator<Item = u64>,
) -> Vec<Range> {
    if bytes <= limits.full_bytes.max(4 * CHUNK) {
        return vec![Range {
            start: 0,
            length: bytes,
        }];
    }
    let chunks = bytes.div_ceil(CHUNK);
    let count = (limits.sample_bytes / CHUNK).clamp(4, chunks);
    // A quarter at each end, where partition tables and superblocks are; the rest anywhere.
    let end = count / 4;
    let mut picked: std::collections::BTreeSet<u64> =
        (0..end).chain(chunks - end..chunks).collect();
    for place in random {
        if picked.len() as u64 >= count {
            break;
        }
        picked.insert(place % chunks);
    }
    picked
        .into_iter()
        .map(|chunk| Range {
            start: chunk * CHUNK,
            length: CHUNK.min(bytes - chunk * CHUNK),
        })
        .collect()
}

/// Reads the pieces of an open disk; returns the bytes read when all are zero, else where the first other byte's piece is.
/// `progress` gets percent and decides whether to go on: a verification that nobody needs must not block the disk.
pub fn read_zero(
    disk: &File,
    ranges: &[Range],
    mut progress: impl FnMut(u32) -> bool,
) -> HostResult<u64> {
    let total: u64 = ranges.iter().map(|range| range.length).sum();
    let mut file = past_cache(disk)?;
    let zeros = vec![0_u8; usize::try_from(CHUNK).unwrap_or(ALIGN)];
    let mut buffer = vec![0_u8; zeros.len() + ALIGN];
    let skip = buffer.as_ptr().align_offset(ALIGN).min(ALIGN);
    let mut done = 0_u64;
    for range in ranges {
        file.seek(SeekFrom::Start(range.start))
            .map_err(io_error("cannot read the disk back"))?;
        let mut at = range.start;
        let mut left = range.length;
        while left > 0 {
            let length = usize::try_from(left.min(CHUNK)).unwrap_or(ALIGN);
            let piece = &mut buffer[skip..skip + length];
            file.read_exact(piece)
                .map_err(io_error("cannot read the disk back"))?;
            if *piece != zeros[..length] {
                return Err(HostError::device(
                    ErrorReason::WipeNotProven,
                    format!(
                        "bytes other than zero were read back between {at} and {}",
                        at + length as u64
                    ),
                ));
            }
            at += length as u64;
            left -= length as u64;
            done += length as u64;
            if !progress(u32::try_from(done * 100 / total.max(1)).unwrap_or(100)) {
                return Err(HostError::internal("reading the disk back was broken off"));
            }
        }
    }
    Ok(done)
}

/// The very disk that is open, past the page cache: its name may be another disk's by now.
fn past_cache(disk: &File) -> HostResult<File> {
    let flags = OFlag::O_DIRECT | OFlag::O_CLOEXEC;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(format!("/proc/self/fd/{}", disk.as_raw_fd()))
        .map_err(io_error("cannot open the disk to read it back"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn d_78_a_small_disk_is_read_whole() {
        let limits = VerifyLimits {
            full_bytes: 16 * GIB,
            sample_bytes: GIB,
        };
        assert_eq!(
            ranges(2 * GIB, limits, []),
            [Range {
                start: 0,
                length: 2 * GIB
            }]
        );
    }

    #[test]
    fn d_78_a_byte_that_is_not_zero_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let mut content = vec![0_u8; 3 * 4096];
        std::fs::write(&path, &content).unwrap();
        let whole = [Range {
            start: 0,
            length: 3 * 4096,
        }];
        let disk = File::open(&path).unwrap();
        assert_eq!(read_zero(&disk, &whole, |_| true).unwrap(), 3 * 4096);
        content[2 * 4096 + 17] = 1;
        std::fs::write(&path, &content).unwrap();
        let error = read_zero(&disk, &whole, |_| true).unwrap_err();
        assert_eq!(error.reason, ErrorReason::WipeNotProven);
        // another disk has the name by now
        let other = dir.path().join("other");
        std::fs::write(&other, vec![0_u8; 3 * 4096]).unwrap();
        std::fs::rename(other, &path).unwrap();
        assert!(read_zero(&disk, &whole, |_| true).is_err());
    }

    #[test]
    fn a_verification_that_nobody_waits_for_ends_at_its_next_piece() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::write(&path, vec![0_u8; 3 * 4096]).unwrap();
        let pieces = [0, 4096, 8192].map(|start| Range {
            start,
            length: 4096,
        });
        let mut reports = 0;
        let disk = File::open(&path).unwrap();
        let broken_off = read_zero(&disk, &pieces, |_| {
            reports += 1;
            false
        });
        assert!(broken_off.is_err());
        assert_eq!(reports, 1);
    }

    proptest! {
        #[test]
        fn d_78_pieces_cover_both_ends_without_overlap(
            chunks in 5..100_000_u64,
            tail in 1..CHUNK / 512,
            sample in 0..2 * GIB,
            random in prop::collection::vec(any::<u64>(), 0..2000),
        ) {
            let bytes = (chunks - 1) * CHUNK + tail * 512;
            let pieces = ranges(bytes, VerifyLimits { full_bytes: 0, sample_bytes: sample }, random);
            prop_assert_eq!(pieces.first().unwrap().start, 0);
            let last = pieces.last().unwrap();
            prop_assert_eq!(last.start + last.length, bytes);
            for pair in pieces.windows(2) {
                prop_assert!(pair[0].start + pair[0].length <= pair[1].start);
            }
        }
    }
}
