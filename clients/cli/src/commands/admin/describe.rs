//! `admin node describe`: one node with its checks, slots, devices and history.
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Session;
use crate::api::{number, parse};
use crate::commands::hosts::{admin_state, print_slots};
use crate::failure::Failure;
use crate::node::{self, Evidence, Node};
use crate::output::{age, bytes, print_json, print_line, print_table, time};

/// What a host reported of itself, as far as this table shows it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Discovery {
    end_time: Option<Timestamp>,
    comparisons: Vec<Comparison>,
    host: Option<Host>,
}

/// A slot beside what the latest discovery found.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Comparison {
    slot_index: u32,
    state: String,
    bindings: Vec<Binding>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Binding {
    field: String,
    approved: String,
    found: String,
    differs: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Host {
    machine: Machine,
    gpus: Vec<Gpu>,
    disks: Vec<Disk>,
    fabric_devices: Vec<Fabric>,
    unreadable: Vec<String>,
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
type Owners = BTreeMap<String, u32>;

/// Shows all that is known of a node.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, given: &str) -> Result<(), Failure> {
    let id = node::resolve(&session.api, given).await?;
    let mut answer = session.api.get(&["admin", "nodes", &id], &[]).await?;
    // before its first report, placement does not know the node
    let placement = ["admin", "nodes", &id, "placement"];
    answer["placement"] = or_none(session.api.get(&placement, &[]).await)?;
    let slots = session
        .api
        .get(&["admin", "nodes", &id, "resource-slots"], &[])
        .await?;
    let discovery = ["admin", "nodes", &id, "slice-topology", "discovery"];
    let discovery = or_none(session.api.get(&discovery, &[]).await)?;
    if session.json() {
        print_json(&json!({ "node": answer, "slots": slots["slots"], "discovery": discovery }));
        return Ok(());
    }
    if answer["placement"].is_null() {
        answer["placement"] = json!({});
    }
    let node: Node = parse(&answer)?;
    print_node(&node);
    print_checks(&node.status.evidence);
    say!("\nSlots");
    let none = format!("None. Discover candidates: gpuaas admin node discover {given} --wait");
    print_slots(session, &slots, &none).await?;
    if !discovery.is_null() {
        let found: Discovery = parse(&discovery)?;
        print_differences(&found);
        if let Some(host) = &found.host {
            print_devices(host, &owners(&slots));
        }
    }
    Ok(())
}

/// An answer, or nothing where there is nothing yet.
fn or_none(answer: Result<Value, Failure>) -> Result<Value, Failure> {
    match answer {
        Err(failure) if failure.exit_code() == 3 => Ok(Value::Null),
        other => other,
    }
}

fn print_node(node: &Node) {
    let (config, status) = (&node.config, &node.status);
    print_line("Node", &config.hostname);
    print_line("ID", &node.id);
    let lab = if status.lab {
        " (lab: emulated, no GPU)"
    } else {
        ""
    };
    print_line("Mode", &format!("{}{lab}", config.mode));
    print_line("Region", &config.region_code);
    print_line("State", &status.state);
    let ready = if status.schedulable { "yes" } else { "no" };
    print_line("Schedulable", ready);
    print_line("Admin state", &admin_state(&node.placement));
    print_line("Profile", &status.host_profile);
    print_line("Hypervisor", &status.hypervisor);
    print_line("Agent", &status.instance.agent_version);
    print_line("Boot", &status.instance.boot_id);
    print_line("Heartbeat", &time(status.last_heartbeat_time));
    for blocker in &status.blockers {
        print_line("Blocker", blocker);
    }
}

/// What fails first, each with what to do about it.
fn print_checks(evidence: &[Evidence]) {
    say!("\nChecks");
    if evidence.is_empty() {
        say!("No report from the node yet. Start its agent with the enrolment token.");
        return;
    }
    let rank = |status: &str| {
        let order = ["fail", "warn", "pass", "skip"];
        order.iter().position(|one| *one == status)
    };
    let mut sorted: Vec<&Evidence> = evidence.iter().collect();
    sorted.sort_by(|a, b| {
        let by_outcome = rank(&a.status).cmp(&rank(&b.status));
        by_outcome.then_with(|| a.check.cmp(&b.check))
    });
    let rows = sorted.iter().map(|one| {
        [
            one.check.clone(),
            one.status.clone(),
            age(one.observed_at),
            one.detail.clone(),
        ]
    });
    print_table(["CHECK", "RESULT", "AGE", "DETAILS"], rows.collect());
    for one in sorted {
        let is_open = one.status == "fail" || one.status == "warn";
        if is_open && !one.remediation.is_empty() {
            say!("To do, {}: {}", one.check, one.remediation);
        }
    }
}

fn print_differences(discovery: &Discovery) {
    let rows: Vec<[String; 4]> = discovery
        .comparisons
        .iter()
        .filter(|one| one.state != "new")
        .flat_map(|one| {
            let of_slot = one.bindings.iter().filter(|binding| binding.differs);
            of_slot.map(|binding| {
                [
                    one.slot_index.to_string(),
                    binding.field.clone(),
                    binding.approved.clone(),
                    binding.found.clone(),
                ]
            })
        })
        .collect();
    let missing = discovery
        .comparisons
        .iter()
        .filter(|one| one.state == "not_found");
    let missing: Vec<String> = missing.map(|one| one.slot_index.to_string()).collect();
    if rows.is_empty() && missing.is_empty() {
        return;
    }
    say!(
        "\nApproved and found, discovered {}",
        time(discovery.end_time)
    );
    if !rows.is_empty() {
        print_table(["SLOT", "FIELD", "APPROVED", "FOUND"], rows);
    }
    if !missing.is_empty() {
        say!("Not found: slot {}.", missing.join(", "));
    }
}

/// The slot of each device, by the identities in the bindings.
fn owners(slots: &Value) -> Owners {
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

fn print_devices(host: &Host, owners: &Owners) {
    let machine = &host.machine;
    say!("\nHardware");
    let model = format!("{} {}", machine.vendor, machine.model);
    print_line("Machine", model.trim());
    print_line("Serial", &machine.system_serial);
    print_line("BIOS", &machine.bios_version);
    print_line("Kernel", &machine.kernel_release);
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
