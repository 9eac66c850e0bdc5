//! Facts about a disk from sysfs and procfs, below a configurable root.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::holders::{DescriptorHolder, descriptor_holders};
use super::mounts::{self, Mount};
use super::stack::{Stack, stack};
use crate::error::{HostError, HostResult, io_error};
use crate::host::root::HostRoot;

/// Use of a disk by a libvirt domain, running or shut off (D-34).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainUse {
    /// Domain name.
    pub name: String,
    /// "running", "shut off", …
    pub state: String,
}

/// All observations of a disk at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskFacts {
    /// Kernel name; `None` when the identity leads nowhere.
    pub name: Option<String>,
    /// More than one device answers to the identity, or none that is a disk and not a partition.
    pub ambiguous: Option<String>,
    /// Number the kernel gives to each disk that appears and to none again; older kernels give none.
    pub diskseq: Option<u64>,
    /// The device node is a block device.
    pub is_block: bool,
    /// Size in bytes.
    pub bytes: u64,
    /// The kernel refuses writes.
    pub read_only: bool,
    /// Partitions that the kernel has.
    pub partitions: Vec<String>,
    /// Mounts of the disk, a partition or what is stacked on them: device and mount point.
    pub mounts: Vec<(String, String)>,
    /// The disk, a partition or what is stacked on them is swap.
    pub swaps: Vec<String>,
    /// Device-mapper, md and the like on top of the disk or a partition, at any height.
    pub holders: Vec<String>,
    /// Loop devices of which nobody knows whether they stand on it.
    pub untraced: Vec<String>,
    /// Processes that hold any of it open.
    pub descriptor_holders: Vec<DescriptorHolder>,
    /// An exclusive open was refused: something outside our view has it open.
    pub busy: bool,
    /// Signatures on the disk.
    pub signatures: Vec<String>,
    /// Signatures in its partitions: partition and signature.
    pub partition_signatures: Vec<(String, String)>,
    /// Domains that name it.
    pub domains: Vec<DomainUse>,
}

/// Gathers what the kernel's file systems report about a disk. Signatures, domains and the exclusive open need programs
/// and are added by the caller. `trusts` are programs that hold no disk, though nobody can see that they do not.
///
/// # Errors
/// Anything that is there and cannot be read: what is not seen is not taken for free (P9).
pub fn gather(root: &HostRoot, name: &str, trusts: &[String]) -> HostResult<DiskFacts> {
    let stack = stack(root, name)?;
    let descriptor_holders = descriptor_holders(root, &stack.devices, trusts)?;
    let (mounts, swaps) = (mounts::all(root)?, mounts::swaps(root)?);
    Ok(DiskFacts {
        descriptor_holders,
        ..of_stack(root, name, stack, &mounts, &swaps)?
    })
}

/// The same but who holds the disk open, which is costly to find out; `mounts` and `swaps` are those of the host.
///
/// # Errors
/// As [`gather`].
pub fn attributes(
    root: &HostRoot,
    name: &str,
    mounts: &[Mount],
    swaps: &[String],
) -> HostResult<DiskFacts> {
    of_stack(root, name, stack(root, name)?, mounts, swaps)
}

fn of_stack(
    root: &HostRoot,
    name: &str,
    stack: Stack,
    mounts: &[Mount],
    swaps: &[String],
) -> HostResult<DiskFacts> {
    let Stack {
        partitions,
        above,
        devices,
        untraced,
    } = stack;
    let mut mounted: Vec<(String, String)> = mounts
        .iter()
        .filter_map(|mount| {
            let device = devices.iter().find(|device| {
                device.has_number(&mount.device_number) || device.is_at(root, &mount.source)
            })?;
            Some((device.name.clone(), mount.mount_point.clone()))
        })
        .collect();
    mounted.sort();
    mounted.dedup();
    let swaps = swaps
        .iter()
        .filter(|path| devices.iter().any(|device| device.is_at(root, path)))
        .cloned()
        .collect();
    Ok(DiskFacts {
        name: Some(name.to_owned()),
        ambiguous: None,
        diskseq: diskseq(root, name)?,
        is_block: root.exists(format!("/sys/class/block/{name}/dev")),
        bytes: number(root, name, "size")?.unwrap_or(0).saturating_mul(512),
        read_only: number(root, name, "ro")? == Some(1),
        partitions,
        mounts: mounted,
        swaps,
        holders: above,
        untraced,
        descriptor_holders: Vec::new(),
        busy: false,
        signatures: Vec::new(),
        partition_signatures: Vec::new(),
        domains: Vec::new(),
    })
}

/// See [`DiskFacts::diskseq`].
pub fn diskseq(root: &HostRoot, name: &str) -> HostResult<Option<u64>> {
    number(root, name, "diskseq")
}

/// An attribute of a block device, `None` when it has none of this name.
fn number(root: &HostRoot, name: &str, attribute: &str) -> HostResult<Option<u64>> {
    let path = format!("/sys/class/block/{name}/{attribute}");
    let text = root
        .value(&path)
        .map_err(io_error(format_args!("cannot read {path}")))?;
    let parse = |text: String| {
        text.parse().map_err(|_| {
            let message = format!("{path} is {text:?} and no number");
            HostError::device(ErrorReason::DiskUnsafe, message)
        })
    };
    text.map(parse).transpose()
}
