//! The devices of a node as its host reported them, with the slots that have them.
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::api::number;
use crate::output::{bytes, print_line, print_table};

/// What a host reported of itself, as far as the table shows it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Host {
    machine: Machine,
    gpus: Vec<Gpu>,
    disks: Vec<Disk>,
    fabric_devices: Vec<Fabric>,
    addresses: Vec<Address>,
    unreadable: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Address {
    address: String,
    kind: String,
}

/// The addresses by their kinds; those of a link alone lead nowhere.
fn addresses(all: &[Address]) -> String {
    let shown = all.iter().filter(|one| one.kind != "link_local");
    let shown = shown.map(|one| format!("{} ({})", one.address, one.kind));
    shown.collect::<Vec<_>>().join(", ")
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Machine {
    vendor: String,
    model: String,
    system_serial: String,
    bios_version: String,
    kernel_release: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Function {
    pci_address: String,
    numa_node: Option<u32>,
    fault: String,
    link: Option<Link>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Link {
    degraded: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Gpu {
    function: Function,
    uuid: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Disk {
    by_id: String,
    kernel_name: String,
    serial: String,
    #[serde(deserialize_with = "number")]
    bytes: i64,
    controller: Function,
    uses: Vec<Use>,
    fault: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Use {
    kind: String,
    device: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Fabric {
    function: Function,
    rdma_device: String,
    sriov_totalvfs: u32,
    virtual_functions: Vec<Virtual>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Virtual {
    function: Function,
}

/// Slots by the identity of each device they have.
pub type Owners = BTreeMap<String, u32>;

/// The slot of each device, by the identities in the bindings.
pub fn owners(slots: &Value) -> Owners {
    let mut owners = Owners::new();
    for slot in slots["slots"].as_array().into_iter().flatten() {
        let index = slot["slot_index"].as_u64().unwrap_or_default();
        for field in ["gpu_pci_address", "nvme_device", "fabric_vf_pci_address"] {
            let identity = slot["bindings"][field].as_str().unwrap_or_default();
            if slot["status"] != "retired" && !identity.is_empty() {
                owners.insert(
                    identity.to_owned(),
                    u32::try_from(index).unwrap_or_default(),
                );
            }
        }
    }
    owners
}

/// Prints them.
pub fn print_devices(host: &Host, owners: &Owners) {
    let machine = &host.machine;
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
    let numa = |f: &Function| {
        f.numa_node
            .map_or_else(String::new, |node| node.to_string())
    };
    let state = |f: &Function, fault: &str| match &f.link {
        _ if !fault.is_empty() => fault.to_owned(),
        Some(link) if link.degraded => "link below its best".to_owned(),
        _ => String::new(),
    };
    let mut rows = Vec::new();
    for gpu in &host.gpus {
        let f = &gpu.function;
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
            .map(|one| format!("{} {}", one.kind, one.device));
        let uses: Vec<String> = uses.collect();
        let state = if uses.is_empty() {
            state(&disk.controller, &disk.fault)
        } else {
            format!("in use: {}", uses.join(", "))
        };
        rows.push([
            format!("disk {}", bytes(disk.bytes)),
            identity.clone(),
            numa(&disk.controller),
            slot_of(identity),
            state,
            disk.serial.clone(),
        ]);
    }
    for fabric in &host.fabric_devices {
        let f = &fabric.function;
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
            let own = &one.function;
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
