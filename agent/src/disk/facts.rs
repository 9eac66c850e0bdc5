//! Facts about a disk from sysfs and procfs, below a configurable root.
use super::holders::{DescriptorHolder, DeviceName, descriptor_holders};
use super::mounts::{self, Mount};
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
    /// Mounts of the disk or a partition: device and mount point.
    pub mounts: Vec<(String, String)>,
    /// The disk or a partition is swap.
    pub swaps: Vec<String>,
    /// Device-mapper, md and the like on top of the disk or a partition.
    pub holders: Vec<String>,
    /// Processes that hold it open.
    pub descriptor_holders: Vec<DescriptorHolder>,
    /// An exclusive open was refused: something outside our view has claimed it.
    pub claimed: bool,
    /// Signatures on the disk.
    pub signatures: Vec<String>,
    /// Domains that name it.
    pub domains: Vec<DomainUse>,
}

/// Gathers what the kernel's file systems report about a disk. Signatures, domains and the claim need programs
/// and are added by the caller.
pub fn gather(root: &HostRoot, name: &str) -> DiskFacts {
    let partitions: Vec<String> = root
        .names(format!("/sys/class/block/{name}"))
        .into_iter()
        .filter(|child| root.exists(format!("/sys/class/block/{name}/{child}/partition")))
        .collect();
    let mut devices = vec![device(root, name)];
    devices.extend(partitions.iter().map(|partition| device(root, partition)));
    let mut mounted: Vec<(String, String)> = mounts::all(root)
        .iter()
        .filter_map(|mount| Some((mounted_device(mount, &devices)?, mount.mount_point.clone())))
        .collect();
    mounted.sort();
    mounted.dedup();
    let swaps = mounts::swaps(root)
        .into_iter()
        .filter(|path| {
            devices
                .iter()
                .any(|device| *path == format!("/dev/{}", device.name))
        })
        .collect();
    let holders = devices
        .iter()
        .flat_map(|device| root.names(format!("/sys/class/block/{}/holders", device.name)))
        .collect();
    DiskFacts {
        name: Some(name.to_owned()),
        ambiguous: None,
        diskseq: diskseq(root, name),
        is_block: root.exists(format!("/sys/class/block/{name}/dev")),
        bytes: value(root, &format!("/sys/class/block/{name}/size"))
            .unwrap_or(0)
            .saturating_mul(512),
        read_only: value(root, &format!("/sys/class/block/{name}/ro")) == Some(1),
        partitions,
        mounts: mounted,
        swaps,
        holders,
        descriptor_holders: descriptor_holders(root, &devices),
        claimed: false,
        signatures: Vec::new(),
        domains: Vec::new(),
    }
}

/// See [`DiskFacts::diskseq`].
pub fn diskseq(root: &HostRoot, name: &str) -> Option<u64> {
    value(root, &format!("/sys/class/block/{name}/diskseq"))
}

/// Name and number of a block device.
fn device(root: &HostRoot, name: &str) -> DeviceName {
    let number = root
        .read_value(format!("/sys/class/block/{name}/dev"))
        .unwrap_or_default();
    DeviceName {
        name: name.to_owned(),
        number,
    }
}

fn mounted_device(mount: &Mount, devices: &[DeviceName]) -> Option<String> {
    let found = devices.iter().find(|device| {
        (!device.number.is_empty() && device.number == mount.device_number)
            || mount.source == format!("/dev/{}", device.name)
    })?;
    Some(found.name.clone())
}

fn value(root: &HostRoot, path: &str) -> Option<u64> {
    root.read_value(path)?.parse().ok()
}
