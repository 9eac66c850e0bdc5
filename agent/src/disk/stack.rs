//! A disk with everything that hangs on it: partitions, device mapper, md, loop devices, and what is stacked on those
//! in turn. Whoever uses any of it uses the disk (P9).
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use super::device_number::block_number;
use super::identity::{LoopDevice, loop_devices_here};
use crate::error::{HostResult, io_error};
use crate::host::root::HostRoot;
use crate::ids::PciAddress;
use crate::vm::disk_sources::pci_device;

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
    /// Loop devices over something that cannot be found here: a node in another mount namespace, a file that was
    /// deleted. Each may stand on any disk.
    pub untraced: Vec<String>,
}

/// What a loop device stands on.
#[derive(Debug, PartialEq, Eq)]
enum Behind {
    /// A regular file.
    File,
    /// A block device, by kernel name.
    Device(String),
    /// Nobody knows.
    Untraced,
}

/// Follows holders and slaves from a disk upwards.
///
/// # Errors
/// A part of sysfs that is there and cannot be read.
pub fn stack(root: &HostRoot, disk: &str) -> HostResult<Stack> {
    let failed = || io_error(format!("cannot read what hangs on {disk}"));
    let backing = backing_files(root).map_err(failed())?;
    let seen = match root.is_live() && !backing.is_empty() {
        true => loop_devices_here()?,
        false => Vec::new(),
    };
    follow(root, disk, &backing, &seen).map_err(failed())
}

fn follow(
    root: &HostRoot,
    disk: &str,
    backing: &BTreeMap<String, String>,
    seen: &[LoopDevice],
) -> io::Result<Stack> {
    let mut below = below(root)?;
    let mut untraced = Vec::new();
    for (name, path) in backing {
        let behind = match seen.iter().find(|device| device.is_named(name)) {
            Some(device) if root.is_live() => behind(device, Path::new(path)),
            _ if !root.is_live() => behind_recorded(root, path),
            _ => Behind::Untraced,
        };
        match behind {
            Behind::File => {}
            Behind::Device(lower) => {
                below.entry(name.clone()).or_default().insert(lower);
            }
            // one that was detached meanwhile stands on nothing
            Behind::Untraced if backing_file(root, name)?.is_none() => {}
            Behind::Untraced => untraced.push(name.clone()),
        }
    }
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
        untraced,
    })
}

/// What every device stands on by its own word: its slaves.
fn below(root: &HostRoot) -> io::Result<BTreeMap<String, BTreeSet<String>>> {
    let mut below = BTreeMap::new();
    for name in root.list(BLOCK)? {
        let slaves = root.list(format!("{BLOCK}/{name}/slaves"))?;
        if !slaves.is_empty() {
            below.insert(name, slaves.into_iter().collect());
        }
    }
    Ok(below)
}

/// Loop devices in use, each with the path of what is behind it, as whoever attached it saw it.
fn backing_files(root: &HostRoot) -> io::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for name in root.list(BLOCK)? {
        if let Some(path) = backing_file(root, &name)? {
            found.insert(name, path);
        }
    }
    Ok(found)
}

fn backing_file(root: &HostRoot, name: &str) -> io::Result<Option<String>> {
    root.value(format!("{BLOCK}/{name}/loop/backing_file"))
}

/// The path counts only when the very file that the kernel has behind the loop device is found under it.
fn behind(device: &LoopDevice, path: &Path) -> Behind {
    let Ok(file) = std::fs::metadata(path) else {
        return Behind::Untraced;
    };
    if !device.is_over(&file) {
        return Behind::Untraced;
    }
    let Some(number) = block_number(&file) else {
        return if file.is_file() {
            Behind::File
        } else {
            Behind::Untraced
        };
    };
    let link = std::fs::read_link(Path::new("/sys/dev/block").join(number));
    let name = link.ok().and_then(|link| {
        let name = link.file_name()?;
        Some(name.to_string_lossy().into_owned())
    });
    name.map_or(Behind::Untraced, Behind::Device)
}

/// A recording has no nodes: their names tell.
fn behind_recorded(root: &HostRoot, path: &str) -> Behind {
    let known = |name: &&str| root.exists(format!("{BLOCK}/{name}"));
    match path.strip_prefix("/dev/") {
        Some(name) => match name.rsplit('/').next().filter(known) {
            Some(name) => Behind::Device(name.to_owned()),
            None => Behind::Untraced,
        },
        None if root.path(path).is_file() => Behind::File,
        None => Behind::Untraced,
    }
}

/// PCI devices through which a disk is reached: its controller's, or with native multipath all of its controllers'. An NVMe
/// controller with virtual functions (SR-IOV) may have given the namespace to any of them, so they and their physical function
/// count, whichever of them the host has.
///
/// # Errors
/// A part of sysfs that is there and cannot be read.
pub fn controllers(root: &HostRoot, disk: &str) -> HostResult<BTreeSet<PciAddress>> {
    let of = |link: &str| -> Option<PciAddress> {
        let target = root.link(link)?;
        let mut parts = target.components().rev();
        parts.find_map(|part| part.as_os_str().to_str()?.parse().ok())
    };
    let block = format!("{BLOCK}/{disk}");
    let subsystem = root.list(format!("{block}/device"));
    let subsystem = subsystem.map_err(io_error(format_args!("cannot read {block}/device")))?;
    let paths = subsystem.iter().filter(|name| {
        let number = name.strip_prefix("nvme");
        number.is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
    });
    let paths = paths.filter_map(|name| of(&format!("{block}/device/{name}")));
    let own: BTreeSet<PciAddress> = paths.chain(of(&block)).collect();
    let mut all = own.clone();
    for address in own {
        all.extend(functions(root, &address)?);
    }
    Ok(all)
}

/// The physical function of a PCI device, and all virtual functions of that one; none of a device without.
fn functions(root: &HostRoot, address: &PciAddress) -> HostResult<BTreeSet<PciAddress>> {
    let function = |of: &PciAddress, link: &str| -> Option<PciAddress> {
        root.link_name(format!("{}/{link}", pci_device(of)))?
            .parse()
            .ok()
    };
    let physical = function(address, "physfn").unwrap_or_else(|| address.clone());
    let folder = pci_device(&physical);
    let listed = root.list(&folder);
    let listed = listed.map_err(io_error(format_args!("cannot read {folder}")))?;
    let virtual_ones = listed.iter().filter(|name| name.starts_with("virtfn"));
    let mut found: BTreeSet<_> = virtual_ones
        .filter_map(|name| function(&physical, name))
        .collect();
    found.insert(physical);
    Ok(found)
}

pub fn partitions(root: &HostRoot, name: &str) -> io::Result<Vec<String>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d_34_a_disk_is_reached_through_its_controllers() {
        let dir = tempfile::tempdir().unwrap();
        let block = dir.path().join("sys/class/block");
        let devices = dir.path().join("sys/devices");
        let paths = devices.join("virtual/nvme-subsystem/nvme-subsys2");
        for folder in [&block, &paths.join("nvme2n1")] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let link = |target: &str, at: PathBuf| std::os::unix::fs::symlink(target, at).unwrap();
        let one = "../../devices/pci0000:ae/0000:ae:01.0/0000:af:00.0/nvme/nvme1/nvme1n1";
        link(one, block.join("nvme1n1"));
        let many = "../../devices/virtual/nvme-subsystem/nvme-subsys2/nvme2n1";
        link(many, block.join("nvme2n1"));
        link("..", paths.join("nvme2n1/device"));
        for (name, address) in [("nvme2", "0000:b0:00.0"), ("nvme3", "0000:b1:00.0")] {
            let target = format!("../../../pci0000:ae/{address}/nvme/{name}");
            link(&target, paths.join(name));
        }
        let root = HostRoot::new(dir.path());
        let found = |disk: &str| -> Vec<String> {
            let found = controllers(&root, disk).unwrap();
            found.iter().map(ToString::to_string).collect()
        };
        assert_eq!(found("nvme1n1"), ["0000:af:00.0"]);
        assert_eq!(found("nvme2n1"), ["0000:b0:00.0", "0000:b1:00.0"]);
        assert!(found("loop0").is_empty());

        // a virtual function of the controller may have the namespace too, and so may the physical one of a virtual one
        let pci = dir.path().join("sys/bus/pci/devices");
        for (device, name, other) in [
            ("0000:af:00.0", "virtfn0", "0000:af:00.1"),
            ("0000:af:00.0", "virtfn1", "0000:af:00.2"),
            ("0000:b1:00.3", "physfn", "0000:b1:00.0"),
            ("0000:b1:00.0", "virtfn0", "0000:b1:00.3"),
        ] {
            std::fs::create_dir_all(pci.join(device)).unwrap();
            link(&format!("../{other}"), pci.join(device).join(name));
        }
        assert_eq!(
            found("nvme1n1"),
            ["0000:af:00.0", "0000:af:00.1", "0000:af:00.2"]
        );
        link(
            "../../../pci0000:b0/0000:b1:00.3/nvme/nvme4",
            paths.join("nvme4"),
        );
        let shared = found("nvme2n1");
        assert!(shared.contains(&"0000:b1:00.0".to_owned()), "{shared:?}");
    }

    #[test]
    fn p9_a_loop_device_is_harmless_only_over_the_very_file_that_is_found_here() {
        let dir = tempfile::tempdir().unwrap();
        let (file, other) = (dir.path().join("disk"), dir.path().join("other"));
        std::fs::write(&file, "x").unwrap();
        std::fs::write(&other, "x").unwrap();
        let device = LoopDevice::over("/dev/loop7", &std::fs::metadata(&file).unwrap());
        assert_eq!(behind(&device, &file), Behind::File);
        // what another namespace has under this path is another file here, or none
        assert_eq!(behind(&device, &other), Behind::Untraced);
        assert_eq!(behind(&device, &dir.path().join("gone")), Behind::Untraced);
        let folder = LoopDevice::over("/dev/loop7", &std::fs::metadata(dir.path()).unwrap());
        assert_eq!(behind(&folder, dir.path()), Behind::Untraced);
    }
}
