//! NVMe disks from sysfs and their stable links.
use gpuaas_proto::gpuaas::common::v1 as common;

use super::pci;
use crate::disk::facts::{DiskFacts, gather};
use crate::disk::identity::{BY_ID, is_nvme_disk};
use crate::disk::stack::controllers;
use crate::host::root::HostRoot;
use crate::ids::PciAddress;

/// An NVMe disk.
#[derive(Debug, Clone, PartialEq)]
pub struct NvmeDisk {
    /// Kernel name now; advisory.
    pub name: String,
    /// Stable link, `/dev/disk/by-id/nvme-eui.…`.
    pub by_id: Option<String>,
    /// Address of its controller.
    pub pci: Option<PciAddress>,
    /// NUMA node of its controller.
    pub numa_node: Option<u32>,
    /// The buses and bridges above its controller, from the root.
    pub above: Vec<String>,
    /// State of its controller; "live" for one that works, none where the kernel tells none.
    pub state: Option<String>,
    /// The kernel's attributes; empty for a disk that cannot be read.
    pub facts: DiskFacts,
    /// Why it cannot be read. It is a disk of this host all the same, and nobody else's slot waits for it.
    pub unreadable: Option<String>,
    /// What it was when a VM got its controller, which has it now: the kernel shows nothing of it meanwhile.
    pub passed_through: Option<common::NvmeDisk>,
    /// Why its controller cannot be given to a VM, on a host whose VMs have the controllers.
    pub passthrough_faults: Vec<String>,
}

impl NvmeDisk {
    /// Mounted, itself or a partition.
    pub fn is_mounted(&self) -> bool {
        !self.facts.mounts.is_empty() || !self.facts.swaps.is_empty()
    }
}

/// All NVMe disks, by the address of their controllers: kernel names change across reboots (INC-15). `trusts` as in
/// [`gather`].
pub fn disks(root: &HostRoot, trusts: &[String]) -> Vec<NvmeDisk> {
    let mut disks: Vec<NvmeDisk> = root
        .names("/sys/class/block")
        .into_iter()
        .filter(|name| is_nvme_disk(name))
        .map(|name| disk(root, &name, trusts))
        .collect();
    sort(&mut disks);
    disks
}

/// By the address of their controllers.
pub fn sort(disks: &mut [NvmeDisk]) {
    disks.sort_by(|one, other| (&one.pci, &one.name).cmp(&(&other.pci, &other.name)));
}

/// One of them, by its kernel name.
pub fn disk(root: &HostRoot, name: &str, trusts: &[String]) -> NvmeDisk {
    let by_id = root
        .names(BY_ID)
        .into_iter()
        .filter(|link| link.starts_with("nvme-eui."))
        .find(|link| root.link_name(format!("{BY_ID}/{link}")).as_deref() == Some(name))
        .map(|link| format!("{BY_ID}/{link}"));
    let target = root
        .link(format!("/sys/class/block/{name}"))
        .unwrap_or_default();
    let mut pci: Option<PciAddress> = target
        .components()
        .rev()
        .find_map(|part| part.as_os_str().to_str()?.parse().ok());
    let mut above = pci::above(&target);
    if pci.is_none() {
        // with native multipath the disk is below no controller; the only one is that of the disk
        let all = controllers(root, name).unwrap_or_default();
        pci = all.first().filter(|_| all.len() == 1).cloned();
        let link = pci
            .as_ref()
            .and_then(|address| root.link(pci::folder(address)));
        above = pci::above(&link.unwrap_or_default());
    }
    let numa_node = pci
        .as_ref()
        .and_then(|address| pci::numa_node(root, &pci::folder(address)));
    let (facts, unreadable) = match gather(root, name, trusts) {
        Ok(facts) => (facts, None),
        Err(error) => (DiskFacts::default(), Some(error.message)),
    };
    NvmeDisk {
        state: state(root, name),
        above,
        name: name.to_owned(),
        by_id,
        pci,
        numa_node,
        facts,
        unreadable,
        passed_through: None,
        passthrough_faults: Vec::new(),
    }
}

/// A disk whose controller a VM has, as it was on record. It is named by the controller: the kernel may have given its name to
/// another disk.
pub fn passed_through(root: &HostRoot, address: PciAddress, disk: common::NvmeDisk) -> NvmeDisk {
    let link = root.link(pci::folder(&address)).unwrap_or_default();
    NvmeDisk {
        name: address.to_string(),
        by_id: Some(disk.by_id.clone()),
        numa_node: pci::numa_node(root, &pci::folder(&address)),
        above: pci::above(&link),
        state: Some(match pci::dead(root, &pci::folder(&address)) {
            None => "live".to_owned(),
            Some(_) => "dead".to_owned(),
        }),
        facts: DiskFacts {
            bytes: disk.bytes,
            ..DiskFacts::default()
        },
        unreadable: None,
        passed_through: Some(disk),
        passthrough_faults: Vec::new(),
        pci: Some(address),
    }
}

/// The controller's state; with native multipath, where a disk has several, that of the worst.
fn state(root: &HostRoot, name: &str) -> Option<String> {
    let device = format!("/sys/class/block/{name}/device");
    if let Some(state) = root.read_value(format!("{device}/state")) {
        return Some(state);
    }
    let is_controller = |name: &String| {
        let number = name.strip_prefix("nvme");
        number.is_some_and(|number| {
            !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
        })
    };
    let names = root.names(&device).into_iter().filter(is_controller);
    let states: Option<Vec<String>> = names
        .map(|name| root.read_value(format!("{device}/{name}/state")))
        .collect();
    let mut states = states?;
    states.sort_by_key(|state| state == "live");
    states.into_iter().next()
}
