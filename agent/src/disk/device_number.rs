//! Numbers of block devices.
use std::os::unix::fs::MetadataExt as _;

/// Whether a file is a block device, and its number as sysfs writes it.
pub(super) fn block_number(metadata: &std::fs::Metadata) -> Option<String> {
    let block = metadata.mode() & 0o170_000 == 0o060_000;
    block.then(|| {
        let number = metadata.rdev();
        let (major, minor) = (nix::sys::stat::major(number), nix::sys::stat::minor(number));
        format!("{major}:{minor}")
    })
}
