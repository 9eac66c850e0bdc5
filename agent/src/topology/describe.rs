//! Everything a host consists of, for operators: what of it is a slot's and what is not.
use gpuaas_proto::gpuaas::common::v1 as common;

use super::discover::Inventory;
use super::model::slot_class;
use super::nvme::NvmeDisk;
use super::pci::{self, PciDevice, PciKind};
use super::{disk_details, fabric, machine, neighbors};
use crate::host::blocking;
use crate::host::root::HostRoot;
use crate::node::Node;

/// Describes a host.
pub async fn host(node: &Node, inventory: &Inventory) -> common::HostInventory {
    let (addresses, bmc, neighbors, processors) = tokio::join!(
        neighbors::addresses(&node.root, &node.settings.network.bridge),
        neighbors::bmc(&node.root),
        neighbors::neighbors(),
        machine::processors(&node.root)
    );
    let mut found = blocking::here(|| of_files(&node.root, inventory));
    match addresses {
        Ok(addresses) => found.addresses = addresses,
        Err(error) => found.unreadable.push(format!("addresses: {error}")),
    }
    match bmc {
        Ok(address) => found.addresses.extend(address),
        Err(error) => found
            .unreadable
            .push(format!("address of the BMC: {error}")),
    }
    let own = |disk: &&NvmeDisk| disk.passed_through.is_none();
    for disk in inventory.nvme.iter().filter(own) {
        if inventory
            .answers
            .get(&disk.name)
            .is_none_or(|one| one.health.is_none())
        {
            found
                .unreadable
                .push(format!("{}: its health is not reported", disk.name));
        }
    }
    let location = &node.settings.location;
    common::HostInventory {
        processors,
        neighbors,
        location: Some(common::HostLocation {
            rack: location.rack.clone(),
            failure_domain: location.failure_domain.clone(),
        }),
        ..found
    }
}

fn of_files(root: &HostRoot, inventory: &Inventory) -> common::HostInventory {
    let of = |kind| {
        inventory
            .pci
            .iter()
            .filter(move |device| device.kind == kind)
    };
    common::HostInventory {
        gpus: of(PciKind::Gpu)
            .map(|device| gpu(root, inventory, device))
            .collect(),
        nvswitches: of(PciKind::NvSwitch)
            .map(|device| pci::describe(root, &device.address))
            .collect(),
        gpu_fabric: of(PciKind::Gpu).next().map(|_| gpu_fabric(inventory)),
        machine: Some(machine::machine(root)),
        numa_nodes: machine::numa_nodes(root),
        disks: inventory
            .nvme
            .iter()
            .map(|one| disk(root, inventory, one))
            .collect(),
        fabric_devices: of(PciKind::Fabric)
            .map(|device| fabric_device(root, device))
            .collect(),
        unreadable: inventory.platform.unreadable.clone(),
        ..common::HostInventory::default()
    }
}

fn gpu(root: &HostRoot, inventory: &Inventory, device: &PciDevice) -> common::GpuDevice {
    let mut function = pci::describe(root, &device.address);
    let known = inventory.platform.gpus.get(&device.address).cloned();
    let known = known.unwrap_or_default();
    if !known.serial.is_empty() {
        function.serial = known.serial;
    }
    common::GpuDevice {
        function: Some(function),
        module_id: known.module_id,
        uuid: known.uuid,
        firmware_version: known.firmware,
        nvlink_domain: known.nvlink_domain,
        nvlink_clique: known.nvlink_clique,
        slot_class: slot_class(device.model).unwrap_or_default().to_owned(),
    }
}

fn fabric_device(root: &HostRoot, device: &PciDevice) -> common::FabricDevice {
    let mut found = fabric::device(root, device);
    if let Some(function) = &mut found.function {
        function.serial = pci::serial(root, &device.address).unwrap_or_default();
    }
    found
}

fn disk(root: &HostRoot, inventory: &Inventory, disk: &NvmeDisk) -> common::NvmeDisk {
    let answers = inventory.answers.get(&disk.name).cloned();
    disk_details::describe(root, disk, &answers.unwrap_or_default())
}

fn gpu_fabric(inventory: &Inventory) -> common::GpuFabric {
    let (groups, missing) = match inventory.legal_groups() {
        Ok(groups) => (groups, String::new()),
        Err(why) => (Vec::new(), why),
    };
    common::GpuFabric {
        legal_groups: groups
            .into_iter()
            .map(|module_ids| common::GpuModuleSet { module_ids })
            .collect(),
        source: inventory.platform.source.clone(),
        missing,
    }
}
