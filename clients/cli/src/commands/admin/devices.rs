//! The devices of a node as its host reported them, with the slots that have them.
use std::collections::BTreeMap;

use gpuaas_proto::gpuaas::common::v1::{
    HostInventory, NetworkAddress, NetworkAddressKind, PciFunction, SlotStatus,
};
use gpuaas_proto::gpuaas::inventory::v1::ListResourceSlotsResponse;

use crate::output::{print_line, print_table, size, word};

/// The addresses by their kinds; those of a link alone lead nowhere.
fn addresses(all: &[NetworkAddress]) -> String {
    let leads = |one: &&NetworkAddress| one.kind() != NetworkAddressKind::LinkLocal;
    let shown = all.iter().filter(leads);
    let shown = shown.map(|one| format!("{} ({})", one.address, word(one.kind())));
    shown.collect::<Vec<_>>().join(", ")
}

/// Slots by the identity of each device they have.
pub type Owners = BTreeMap<String, u32>;

/// The slot of each device, by the identities in the bindings.
pub fn owners(slots: &ListResourceSlotsResponse) -> Owners {
    let mut owners = Owners::new();
    for slot in &slots.slots {
        let has = slot.bindings.clone().unwrap_or_default();
        let identities = [
            has.gpu_pci_address,
            has.nvme_device,
            has.fabric_vf_pci_address,
        ];
        for identity in identities {
            if slot.status() != SlotStatus::Retired && !identity.is_empty() {
                owners.insert(identity, slot.slot_index);
            }
        }
    }
    owners
}

/// Prints them.
pub fn print_devices(host: &HostInventory, owners: &Owners) {
    let machine = host.machine.clone().unwrap_or_default();
    say!("\nHardware");
    let model = format!("{} {}", machine.vendor, machine.model);
    print_line("Machine", model.trim());
    print_line("Serial", &machine.system_serial);
    print_line("BIOS", &machine.bios_version);
    print_line("Kernel", &machine.kernel_release);
    print_line("Addresses", &addresses(&host.addresses));
    let slot_of = |identity: &str| {
        owners
            .get(identity)
            .map_or_else(String::new, u32::to_string)
    };
    let numa = |f: &PciFunction| {
        f.numa_node
            .map_or_else(String::new, |node| node.to_string())
    };
    let state = |f: &PciFunction, fault: &str| match &f.link {
        _ if !fault.is_empty() => fault.to_owned(),
        Some(link) if link.degraded => "link below its best".to_owned(),
        _ => String::new(),
    };
    let mut rows = Vec::new();
    for gpu in &host.gpus {
        let f = &gpu.function.clone().unwrap_or_default();
        rows.push([
            "GPU".to_owned(),
            f.pci_address.clone(),
            numa(f),
            slot_of(&f.pci_address),
            state(f, &f.fault),
            gpu.uuid.clone(),
        ]);
    }
    for disk in &host.disks {
        let identity = if disk.by_id.is_empty() {
            &disk.kernel_name
        } else {
            &disk.by_id
        };
        let uses = disk
            .uses
            .iter()
            .map(|one| format!("{} {}", word(one.kind()), one.device));
        let uses: Vec<String> = uses.collect();
        let controller = disk.controller.clone().unwrap_or_default();
        let state = if uses.is_empty() {
            state(&controller, &disk.fault)
        } else {
            format!("in use: {}", uses.join(", "))
        };
        rows.push([
            format!("disk {}", size(disk.bytes)),
            identity.clone(),
            numa(&controller),
            slot_of(identity),
            state,
            disk.serial.clone(),
        ]);
    }
    for fabric in &host.fabric_devices {
        let f = &fabric.function.clone().unwrap_or_default();
        let functions = fabric.virtual_functions.len();
        rows.push([
            "NIC".to_owned(),
            f.pci_address.clone(),
            numa(f),
            String::new(),
            state(f, &f.fault),
            format!(
                "{}, {functions} of {} functions",
                fabric.rdma_device, fabric.sriov_totalvfs
            ),
        ]);
        for one in &fabric.virtual_functions {
            let own = &one.function.clone().unwrap_or_default();
            rows.push([
                "function".to_owned(),
                own.pci_address.clone(),
                numa(own),
                slot_of(&own.pci_address),
                state(own, &own.fault),
                String::new(),
            ]);
        }
    }
    if !rows.is_empty() {
        print_table(
            ["DEVICE", "ADDRESS", "NUMA", "SLOT", "STATE", "IDENTITY"],
            rows,
        );
    }
    for text in &host.unreadable {
        say!("Not read: {text}");
    }
}
