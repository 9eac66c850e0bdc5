//! Discovery: a proposal of slots from what is there. Advisory until approved. A slot's
//! disk is proposed by its stable link.
use std::collections::BTreeMap;

use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::SlotBindings;
use sha2::{Digest, Sha256};

use super::device_faults;
use super::disk_details::{self, Answers, health_faults};
use super::model::slot_class;
use super::nvme::{self, NvmeDisk};
use super::pci::{PciDevice, PciKind};
use super::platform::Platform;
use crate::disk::identity::{KIND_BY_ID, KIND_LAB};
use crate::disk::passthrough::{self, Given};
use crate::disk::policy::WipePolicy;
use crate::gpu_fabric::GpuFabric;
use crate::host::root::HostRoot;
use crate::host::{blocking, recording};
use crate::ids::{PciAddress, VM_PREFIX};
use crate::vm::Domain;
use crate::vm::disk_sources::pci_device;

/// What is found of a disk, by the same inspection and decision that precede a clone.
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
    /// What NVIDIA's programs tell of the board.
    pub platform: Platform,
    /// What the disks said of themselves, by kernel name.
    pub answers: BTreeMap<String, Answers>,
    /// Identifies the machine in suggested addresses.
    pub machine_id: String,
    /// Network part of the guests' addresses, for example "10.100.0".
    pub subnet: String,
}

/// Reads the devices of a host. `trusts` as in [`crate::disk::facts::gather`].
pub async fn inventory(
    root: &HostRoot,
    gateway: &str,
    trusts: &[String],
    fabric: Option<&GpuFabric>,
) -> Inventory {
    let platform = Platform::read(root, fabric).await;
    let mut inventory = blocking::here(|| devices(root, gateway, trusts, platform));
    if root.is_live() || recording::is_replay() {
        let ask = |disk: &NvmeDisk| {
            let name = disk.name.clone();
            async move { (name.clone(), disk_details::ask(root, &name).await) }
        };
        let answers = futures::future::join_all(inventory.nvme.iter().map(ask)).await;
        inventory.answers = answers.into_iter().collect();
    }
    inventory
}

fn devices(root: &HostRoot, gateway: &str, trusts: &[String], platform: Platform) -> Inventory {
    let subnet = gateway
        .split('/')
        .next()
        .and_then(|ip| ip.rsplit_once('.'))
        .map_or("10.100.0", |(net, _)| net);
    Inventory {
        pci: device_faults::inspected(root),
        nvme: nvme::disks(root, trusts),
        platform,
        answers: BTreeMap::new(),
        machine_id: root.read_value("/etc/machine-id").unwrap_or_default(),
        subnet: subnet.to_owned(),
    }
}

impl Inventory {
    /// Adds disks that VMs have, each in its place: what a GPU is paired with is the same as while the host has them. A
    /// domain that is none of ours stands against its disk.
    pub fn give(&mut self, root: &HostRoot, given: Vec<Given>, domains: &[Domain]) {
        let foreign = |domain: &&Domain| !domain.name.starts_with(VM_PREFIX);
        let disks = given.into_iter().map(|one| {
            let device = pci_device(&one.controller);
            let users = domains.iter().filter(foreign);
            let users = users.filter(|domain| domain.disk_sources.contains(&device));
            NvmeDisk {
                passthrough_faults: users
                    .map(|domain| format!("domain {} has its controller", domain.name))
                    .collect(),
                ..nvme::passed_through(root, one.controller, one.disk)
            }
        });
        self.nvme.extend(disks);
        nvme::sort(&mut self.nvme);
    }

    /// Notes why disks cannot be given to VMs by their controllers.
    pub fn judge_passthrough(&mut self, root: &HostRoot) {
        let own = |disk: &&mut NvmeDisk| disk.passed_through.is_none();
        for disk in self.nvme.iter_mut().filter(own) {
            let facts = self
                .answers
                .get(&disk.name)
                .and_then(|one| one.wipe.as_ref());
            disk.passthrough_faults = passthrough::faults(root, &disk.name, facts);
        }
    }

    /// The legal groups of the GPUs, or why there are none. A GPU that fell off the bus is in none, although Fabric Manager
    /// offers all partitions of an H100 or later whatever its GPUs are like.
    pub fn legal_groups(&self) -> Result<Vec<Vec<u32>>, String> {
        let gpus = self.pci.iter();
        let gpus = gpus.filter(|device| device.kind == PciKind::Gpu && device.dead.is_none());
        let gpus: Vec<PciAddress> = gpus.map(|gpu| gpu.address.clone()).collect();
        self.platform.legal_groups(&gpus)
    }
}

/// Counts, legal groups and candidates of a GPU host. `inspections` are of its disks, by stable link. A pure function.
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
        legal_groups: inventory
            .legal_groups()
            .unwrap_or_default()
            .into_iter()
            .map(|module_ids| pb::LegalGroup { module_ids })
            .collect(),
        inspected_devices: inspected(inventory, inspections),
        ..pb::TopologyReport::default()
    };
    let gpus: Vec<&PciDevice> = of(PciKind::Gpu).collect();
    let places: Vec<Place<'_>> = gpus.iter().map(|gpu| Place::of(gpu)).collect();
    let disks: Vec<(Place<'_>, &NvmeDisk)> = inventory
        .nvme
        .iter()
        .filter(|disk| !disk.is_mounted())
        .map(|disk| (Place::of_disk(disk), disk))
        .collect();
    let disks = pair(&places, &disks);
    let fabric = pair(&places, &functions(of(PciKind::Fabric)));
    for (index, gpu) in gpus.into_iter().enumerate() {
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let (disk, function) = (disks[index], fabric[index]);
        report.candidates.push(candidate(
            inventory,
            inspections,
            number,
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

impl Function<'_> {
    /// What stands against it.
    fn blockers(&self) -> Vec<String> {
        let (device, address) = (&self.device.address, self.address);
        let of_device = self.device.fabric_faults.iter();
        let of_device = of_device.map(|why| format!("fabric device {device} {why}"));
        let own = self
            .device
            .function_faults
            .get(address)
            .into_iter()
            .flatten();
        let own = own.map(|why| format!("fabric function {address} {why}"));
        of_device.chain(own).collect()
    }
}

/// Where a device is in the machine.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    /// What must be taken by none while a lower one is free.
    rank: usize,
    numa_node: Option<u32>,
    above: &'a [String],
}

impl<'a> Place<'a> {
    fn of(device: &'a PciDevice) -> Self {
        Self {
            rank: 0,
            numa_node: device.numa_node,
            above: &device.above,
        }
    }

    fn of_disk(disk: &'a NvmeDisk) -> Self {
        Self {
            rank: 0,
            numa_node: disk.numa_node,
            above: &disk.above,
        }
    }

    /// The NUMA node first, then how much of the way to the processor is shared.
    fn distance(&self, other: &Place<'_>) -> (bool, usize) {
        let near = self.numa_node.is_some() && self.numa_node == other.numa_node;
        let both = self.above.iter().zip(other.above);
        let shared = both.take_while(|(one, other)| one == other).count();
        (!near, usize::MAX - shared)
    }
}

/// Gives each GPU what is nearest to it, nearest pairs first, so that what a GPU lacks takes nothing from the others:
/// their pairs are the same as before.
fn pair<T: Copy>(gpus: &[Place<'_>], items: &[(Place<'_>, T)]) -> Vec<Option<T>> {
    let mut pairs: Vec<_> = gpus
        .iter()
        .enumerate()
        .flat_map(|(gpu, place)| {
            let all = items.iter().enumerate();
            all.map(move |(item, (other, _))| (other.rank, place.distance(other), gpu, item))
        })
        .collect();
    pairs.sort_unstable();
    let mut found = vec![None; gpus.len()];
    let mut taken = vec![false; items.len()];
    for (_, _, gpu, item) in pairs {
        if found[gpu].is_none() && !taken[item] {
            found[gpu] = Some(items[item].1);
            taken[item] = true;
        }
    }
    found
}

/// Every virtual function of these devices: first the first one of each, then the second ones, so that slots share a
/// device only where there are more slots than devices.
fn functions<'a>(devices: impl Iterator<Item = &'a PciDevice>) -> Vec<(Place<'a>, Function<'a>)> {
    let mut ranked: Vec<(Place<'a>, Function<'a>)> = devices
        .filter(|device| device.dead.is_none())
        .flat_map(|device| {
            let of_device = device.functions.iter().enumerate();
            of_device.map(move |(rank, address)| {
                let place = Place {
                    rank,
                    ..Place::of(device)
                };
                (place, Function { device, address })
            })
        })
        .collect();
    ranked.sort_by_key(|(place, _)| place.rank);
    ranked
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
    let class = slot_class(gpu.model);
    if class.is_none() {
        blockers.push(format!(
            "GPU {} is a 10de:{:04x}, of which no slot class is made",
            gpu.address, gpu.model
        ));
    }
    blockers.extend(
        gpu.passthrough_faults
            .iter()
            .map(|why| format!("GPU {} {why}", gpu.address)),
    );
    let disk_blockers = match disk {
        Some(disk) => disk_blockers(inventory, disk, inspections),
        None => vec![format!("GPU {} has no disk", gpu.address)],
    };
    blockers.extend(disk_blockers.iter().cloned());
    let fabric_blockers = fabric.map_or_else(
        || vec!["no fabric function with a virtual function is left".to_owned()],
        |function| function.blockers(),
    );
    blockers.extend(fabric_blockers.iter().cloned());
    let bindings = SlotBindings {
        gpu_pci_address: gpu.address.to_string(),
        gpu_module_id: inventory.platform.module_id(&gpu.address),
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
        slot_class: class.map_or_else(|| format!("10de:{:04x}", gpu.model), str::to_owned),
        bindings: Some(bindings),
        kernel_path: disk
            .filter(|disk| disk.passed_through.is_none())
            .map(|disk| format!("/dev/{}", disk.name))
            .unwrap_or_default(),
        blockers,
        disk_blockers,
        fabric_blockers,
    }
}

/// What stands against each disk and each virtual function, whether a candidate has it or not.
fn inspected(
    inventory: &Inventory,
    inspections: &BTreeMap<String, DiskInspection>,
) -> Vec<pb::InspectedDevice> {
    let disks = inventory.nvme.iter().filter_map(|disk| {
        Some(pb::InspectedDevice {
            device: disk.by_id.clone()?,
            blockers: disk_blockers(inventory, disk, inspections),
            ..pb::InspectedDevice::default()
        })
    });
    let fabric = inventory
        .pci
        .iter()
        .filter(|device| device.kind == PciKind::Fabric);
    let functions = functions(fabric);
    let functions = functions
        .into_iter()
        .map(|(_, function)| pb::InspectedDevice {
            device: function.address.to_string(),
            blockers: function.blockers(),
            ..pb::InspectedDevice::default()
        });
    disks.chain(functions).collect()
}

/// What stands against a disk: what is on it or uses it, and what it says of itself.
fn disk_blockers(
    inventory: &Inventory,
    disk: &NvmeDisk,
    inspections: &BTreeMap<String, DiskInspection>,
) -> Vec<String> {
    let mut blockers = content_blockers(disk, inspections);
    let health = inventory.answers.get(&disk.name).and_then(|one| one.health);
    let faults = health.as_ref().map_or_else(Vec::new, health_faults);
    let faults = faults.iter().chain(&disk.passthrough_faults);
    blockers.extend(faults.map(|why| format!("{}: {why}", disk.name)));
    blockers
}

/// What stands against a disk as it was inspected. Without an inspection a disk is not raw and unused.
fn content_blockers(
    disk: &NvmeDisk,
    inspections: &BTreeMap<String, DiskInspection>,
) -> Vec<String> {
    if let Some(why) = &disk.unreadable {
        return vec![format!("{}: {why}", disk.name)];
    }
    match disk.state.as_deref() {
        Some("live") => {}
        Some(state) => return vec![format!("{}: its controller is {state}", disk.name)],
        None => {
            let why = "the state of its controller is not known";
            return vec![format!("{}: {why}", disk.name)];
        }
    }
    if disk.facts.bytes == 0 {
        return vec![format!("{} has no size", disk.name)];
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
            disk_blockers: disk.blockers.clone(),
            fabric_blockers: Vec::new(),
        })
        .collect();
    let inspected = disks.iter().map(|(identity, disk)| pb::InspectedDevice {
        device: identity.clone(),
        blockers: disk.blockers.clone(),
        ..pb::InspectedDevice::default()
    });
    pb::TopologyReport {
        candidates,
        nvme_devices: count(disks.iter()),
        inspected_devices: inspected.collect(),
        ..pb::TopologyReport::default()
    }
}

/// Suggested MAC and address: the same for the same machine and index every time.
fn addresses(inventory: &Inventory, index: u32) -> SlotBindings {
    let hash = Sha256::digest(inventory.machine_id.as_bytes());
    SlotBindings {
        management_mac: format!("52:54:00:{:02x}:{:02x}:{index:02x}", hash[0], hash[1]),
        private_ip: format!("{}.{}", inventory.subnet, 10 + index),
        destructive_wipe_policy: WipePolicy::default().as_str().to_owned(),
        ..SlotBindings::default()
    }
}

fn count<T>(of: impl Iterator<Item = T>) -> u32 {
    u32::try_from(of.count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "discover_tests.rs"]
mod tests;
