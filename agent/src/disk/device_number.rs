//! Numbers of block devices.
use std::os::unix::fs::MetadataExt as _;

use nix::sys::stat::{FileStat, SFlag, major, minor};

/// Whether a file is a block device, and its number as sysfs writes it.
pub(super) fn block_number(metadata: &std::fs::Metadata) -> Option<String> {
    written(metadata.mode(), metadata.rdev())
}

/// The same of a file that was asked by its descriptor.
pub(super) fn block_number_of(file: &FileStat) -> Option<String> {
    written(file.st_mode, file.st_rdev)
}

fn written(mode: u32, number: u64) -> Option<String> {
    let kind = SFlag::from_bits_truncate(mode) & SFlag::S_IFMT;
    (kind == SFlag::S_IFBLK).then(|| format!("{}:{}", major(number), minor(number)))
}
