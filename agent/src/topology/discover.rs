//! Discovery: a proposal of slots from what is there. Advisory until approved.
use std::collections::BTreeMap;

use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::SlotBindings;
use sha2::{Digest, Sha256};

use super::nvme::{self, NvmeDisk};
use super::pci::{self, PciDevice, PciKind};
use crate::disk::identity::{KIND_BY_ID, KIND_LAB};
use crate::host::root::HostRoot;
use crate::ids::PciAddress;

/// The findings about a disk, by the same inspection and decision that precede a clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskInspection {
    /// Kernel name, when the identity leads to a device.
    pub name: Option<String>,
    /// Size in bytes.
    pub bytes: u64,
    /// What stands against it.
    pub blockers: Vec<String>,
}

/// Devices of a host.
#[derive(Debug, Clone)]
pub struct Inventory {
    /// GPUs and fabric functions.
    pub pci: Vec<PciDevice>,
    /// NVMe disks.
    pub nvme: Vec<NvmeDisk>,
    /// Identifies the machine in suggested addresses.
    pub machine_id: String,
    /// Network part of the guests' addresses, for example "10.100.0".
    pub subnet: String,
}

/// Reads the devices of a host. `trusts` as in [`crate::disk::facts::gather`].
pub fn inventory(root: &HostRoot, gateway: &str, trusts: &[String]) -> Inventory {
    let subnet = gateway
        .split('/')
        .next()
        .and_then(|ip| ip.rsplit_once('.'))
        .map_or("10.100.0", |(net, _)| net);
    Inventory {
        pci: pci::devices(root),
        nvme: nvme::disks(root, trusts),
        machine_id: root.read_value("/etc/machine-id").unwrap_or_default(),
        subnet: subnet.to_owned(),
    }
}

/// Counts and candidates of a GPU host. `inspections` are of its disks, by stable link. A pure function.
pub fn gpu_report(
    inventory: &Inventory,
    inspections: &BTreeMap<String, DiskInspection>,
) -> pb::TopologyReport {
    let of = |kind| {
        inventory
            .pci
            .iter()
            .filter(move |device| device.kind == kind)
    };
    let mut report = pb::TopologyReport {
        gpu_devices: count(of(PciKind::Gpu)),
        fabric_devices: count(of(PciKind::Fabric)),
        nvme_devices: count(inventory.nvme.iter()),
        mounted_nvme_devices: count(inventory.nvme.iter().filter(|disk| disk.is_mounted())),
        ..pb::TopologyReport::default()
    };
    let mut disks: Vec<&NvmeDisk> = inventory
        .nvme
        .iter()
        .filter(|disk| !disk.is_mounted())
        .collect();
    let mut fabric = functions(of(PciKind::Fabric));
    for (index, gpu) in of(PciKind::Gpu).enumerate() {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let disk = take_near(&mut disks, gpu.numa_node, |disk| disk.numa_node);
        let function = take_near(&mut fabric, gpu.numa_node, |function| {
            function.device.numa_node
        });
        report.candidates.push(candidate(
            inventory,
            inspections,
            index,
            gpu,
            disk,
            function,
        ));
    }
    report
}

/// A virtual function and the device that it is of.
#[derive(Debug, Clone, Copy)]
struct Function<'a> {
    device: &'a PciDevice,
    address: &'a PciAddress,
}

/// Every virtual function of these devices: first the first one of each, then the second ones, so that slots share a
/// device only where there are more slots than devices.
fn functions<'a>(devices: impl Iterator<Item = &'a PciDevice>) -> Vec<Function<'a>> {
    let mut ranked: Vec<(usize, Function<'a>)> = devices
        .filter(|device| device.dead.is_none())
        .flat_map(|device| {
            let of_device = device.functions.iter().enumerate();
            of_device.map(move |(rank, address)| (rank, Function { device, address }))
        })
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, function)| function).collect()
}

/// One slot. What it lacks, or what of it cannot be used, stands against this one alone.
fn candidate(
    inventory: &Inventory,
    inspections: &BTreeMap<String, DiskInspection>,
    index: u32,
    gpu: &PciDevice,
    disk: Option<&NvmeDisk>,
    fabric: Option<Function<'_>>,
) -> pb::CandidateSlot {
    let mut blockers = Vec::new();
    if let Some(dead) = &gpu.dead {
        blockers.push(format!("GPU {} {dead}", gpu.address));
    }
    match disk {
        Some(disk) => blockers.extend(disk_blockers(disk, inspections)),
        None => blockers.push(format!("GPU {} has no disk", gpu.address)),
    }
    if fabric.is_none() {
        blockers.push("no fabric function with a virtual function is left".to_owned());
    }
    let bindings = SlotBindings {
        gpu_pci_address: gpu.address.to_string(),
        numa_node: gpu.numa_node,
        nvme_device: disk.and_then(|disk| disk.by_id.clone()).unwrap_or_default(),
        storage_identity_kind: KIND_BY_ID.to_owned(),
        fabric_device: fabric
            .map(|function| function.device.address.to_string())
            .unwrap_or_default(),
        fabric_vf_pci_address: fabric
            .map(|function| function.address.to_string())
            .unwrap_or_default(),
        fabric_claim_mode: "per_slot_vf".to_owned(),
        nvme_bytes: disk.map_or(0, |disk| disk.facts.bytes),
        ..addresses(inventory, index)
    };
    pb::CandidateSlot {
        slot_index: index,
        slot_class: "h200_sxm".to_owned(),
        bindings: Some(bindings),
        kernel_path: disk
            .map(|disk| format!("/dev/{}", disk.name))
            .unwrap_or_default(),
        blockers,
    }
}

/// What stands against a disk. Without an inspection a disk is not raw and unused.
fn disk_blockers(disk: &NvmeDisk, inspections: &BTreeMap<String, DiskInspection>) -> Vec<String> {
    if let Some(why) = &disk.unreadable {
        return vec![format!("{}: {why}", disk.name)];
    }
    let Some(link) = &disk.by_id else {
        return vec![format!("{} has no nvme-eui link", disk.name)];
    };
    let Some(inspection) = inspections.get(link) else {
        return vec![format!("{} was not inspected", disk.name)];
    };
    if inspection.blockers.is_empty() && inspection.name.as_ref() != Some(&disk.name) {
        return vec![format!("{link} leads elsewhere than to {}", disk.name)];
    }
    inspection
        .blockers
        .iter()
        .map(|blocker| format!("{}: {blocker}", disk.name))
        .collect()
}

/// Candidates of a lab host, in the order of its disks, each with its identity. A pure function.
pub fn lab_report(inventory: &Inventory, disks: &[(String, DiskInspection)]) -> pb::TopologyReport {
    let candidates = disks
        .iter()
        .zip(0_u32..)
        .map(|((identity, disk), index)| pb::CandidateSlot {
            slot_index: index,
            slot_class: "lab".to_owned(),
            bindings: Some(SlotBindings {
                nvme_device: identity.clone(),
                storage_identity_kind: KIND_LAB.to_owned(),
                nvme_bytes: disk.bytes,
                ..addresses(inventory, index)
            }),
            kernel_path: disk
                .name
                .as_ref()
                .map(|name| format!("/dev/{name}"))
                .unwrap_or_default(),
            blockers: disk.blockers.clone(),
        })
        .collect();
    pb::TopologyReport {
        candidates,
        nvme_devices: count(disks.iter()),
        ..pb::TopologyReport::default()
    }
}

/// Suggested MAC and address: the same for the same machine and index every time.
fn addresses(inventory: &Inventory, index: u32) -> SlotBindings {
    let hash = Sha256::digest(inventory.machine_id.as_bytes());
    SlotBindings {
        management_mac: format!("52:54:00:{:02x}:{:02x}:{index:02x}", hash[0], hash[1]),
        private_ip: format!("{}.{}", inventory.subnet, 10 + index),
        destructive_wipe_policy: "blkdiscard".to_owned(),
        ..SlotBindings::default()
    }
}

/// Takes the first of the same NUMA node, else the first.
fn take_near<T: Copy>(
    from: &mut Vec<T>,
    node: Option<u32>,
    of: impl Fn(T) -> Option<u32>,
) -> Option<T> {
    if from.is_empty() {
        return None;
    }
    let near = from
        .iter()
        .position(|item| node.is_some() && of(*item) == node);
    Some(from.remove(near.unwrap_or(0)))
}

fn count<T>(of: impl Iterator<Item = T>) -> u32 {
    u32::try_from(of.count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "discover_tests.rs"]
mod tests;
