//! A disk with everything that hangs on it: partitions, device mapper, md, loop devices, and what is stacked on those
//! in turn. Whoever uses any of it uses the disk (P9).
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use super::holders::block_number;
use crate::error::{HostResult, io_error};
use crate::host::root::HostRoot;

const BLOCK: &str = "/sys/class/block";

/// A block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Kernel name.
    pub name: String,
    /// `major:minor`; empty when the kernel shows none.
    pub number: String,
    /// Device mapper's name for it.
    mapper: Option<String>,
}

impl Device {
    /// Whether this is a name of the device.
    pub fn is_named(&self, path: &Path) -> bool {
        let mapper = self.mapper.as_ref();
        path == Path::new("/dev").join(&self.name)
            || mapper.is_some_and(|mapper| path == Path::new("/dev/mapper").join(mapper))
    }

    /// Whether this is the device's number, as sysfs and `mountinfo` write it.
    pub fn has_number(&self, number: &str) -> bool {
        !self.number.is_empty() && self.number == number
    }

    /// Whether a file is a node of the device.
    pub fn is(&self, file: &Metadata) -> bool {
        block_number(file).is_some_and(|number| self.has_number(&number))
    }

    /// Whether a path names the device, or leads to a node of it on a live host.
    pub fn is_at(&self, root: &HostRoot, path: &str) -> bool {
        let node = || std::fs::metadata(path).is_ok_and(|file| self.is(&file));
        self.is_named(Path::new(path)) || (root.is_live() && path.starts_with("/dev/") && node())
    }
}

/// A disk and what hangs on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Partitions that the kernel has of the disk.
    pub partitions: Vec<String>,
    /// What is stacked on the disk or its partitions, at any height.
    pub above: Vec<String>,
    /// The disk, its partitions, what is above, and the partitions of that.
    pub devices: Vec<Device>,
}

/// Follows holders and slaves from a disk upwards.
///
/// # Errors
/// A part of sysfs that is there and cannot be read.
pub fn stack(root: &HostRoot, disk: &str) -> HostResult<Stack> {
    follow(root, disk).map_err(io_error(format_args!("cannot read what hangs on {disk}")))
}

fn follow(root: &HostRoot, disk: &str) -> io::Result<Stack> {
    let below = below(root)?;
    let partitions = partitions(root, disk)?;
    let mut above = BTreeSet::new();
    let mut found: BTreeSet<String> = BTreeSet::from([disk.to_owned()]);
    found.extend(partitions.iter().cloned());
    let mut next: Vec<String> = found.iter().cloned().collect();
    while let Some(name) = next.pop() {
        let mut on_it = root.list(format!("{BLOCK}/{name}/holders"))?;
        let stands_on = |slaves: &&BTreeSet<String>| slaves.contains(&name);
        let by_slave = below.iter().filter(|(_, slaves)| stands_on(slaves));
        on_it.extend(by_slave.map(|(upper, _)| upper.clone()));
        for upper in on_it {
            above.insert(upper.clone());
            let parts = self::partitions(root, &upper)?;
            for device in parts.into_iter().chain([upper]) {
                if found.insert(device.clone()) {
                    next.push(device);
                }
            }
        }
    }
    let mut devices = vec![device(root, disk)?];
    for name in found.iter().filter(|name| *name != disk) {
        devices.push(device(root, name)?);
    }
    above.remove(disk);
    Ok(Stack {
        partitions,
        above: above.into_iter().collect(),
        devices,
    })
}

/// What every device stands on by its own word: its slaves, and the block device behind a loop device.
fn below(root: &HostRoot) -> io::Result<BTreeMap<String, BTreeSet<String>>> {
    let mut below = BTreeMap::new();
    for name in root.list(BLOCK)? {
        let mut slaves: BTreeSet<String> = root
            .list(format!("{BLOCK}/{name}/slaves"))?
            .into_iter()
            .collect();
        if let Some(file) = root.value(format!("{BLOCK}/{name}/loop/backing_file"))? {
            slaves.extend(behind(root, &file));
        }
        if !slaves.is_empty() {
            below.insert(name, slaves);
        }
    }
    Ok(below)
}

/// Kernel name of the block device that a path below `/dev` leads to, if it is one.
fn behind(root: &HostRoot, path: &str) -> Option<String> {
    let name = Path::new(path.strip_prefix("/dev/")?)
        .file_name()?
        .to_str()?;
    if !root.is_live() {
        return Some(name.to_owned());
    }
    let number = block_number(&std::fs::metadata(path).ok()?)?;
    let link = std::fs::read_link(root.path(format!("/sys/dev/block/{number}"))).ok()?;
    Some(link.file_name()?.to_string_lossy().into_owned())
}

fn partitions(root: &HostRoot, name: &str) -> io::Result<Vec<String>> {
    let children = root.list(format!("{BLOCK}/{name}"))?;
    Ok(children
        .into_iter()
        .filter(|child| root.exists(format!("{BLOCK}/{name}/{child}/partition")))
        .collect())
}

fn device(root: &HostRoot, name: &str) -> io::Result<Device> {
    Ok(Device {
        name: name.to_owned(),
        number: root
            .value(format!("{BLOCK}/{name}/dev"))?
            .unwrap_or_default(),
        mapper: root.value(format!("{BLOCK}/{name}/dm/name"))?,
    })
}

/// Where a partition lies on its disk, in bytes: start and length.
///
/// # Errors
/// The kernel does not say.
pub fn extent(root: &HostRoot, partition: &str) -> HostResult<(u64, u64)> {
    let sectors = |what: &str| -> io::Result<u64> {
        let text = root.read(PathBuf::from(BLOCK).join(partition).join(what))?;
        let sectors: Option<u64> = text.trim().parse().ok();
        sectors
            .and_then(|sectors| sectors.checked_mul(512))
            .ok_or_else(|| io::Error::other(format!("{what} is {text:?}")))
    };
    let both = sectors("start").and_then(|start| Ok((start, sectors("size")?)));
    both.map_err(io_error(format_args!("cannot read where {partition} lies")))
}
