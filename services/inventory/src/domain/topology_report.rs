//! Whether what a host found out about its topology can be believed: checked before an operator reads it.
use std::collections::BTreeSet;
use std::net::IpAddr;

use gpuaas_common::value::{Mac, PciAddress};
use gpuaas_proto::TOPOLOGY_SCHEMA_VERSION;
use gpuaas_proto::gpuaas::agent::v1::{CandidateSlot, TopologyReport};
use prost::Message as _;
use prost_reflect::{DynamicMessage, Value};

use super::report_fields::{
    self, Checked, MAX_CHECKS, MAX_DEVICES, MAX_DISK_BYTES, MAX_HUGEPAGES, MAX_NAME, MAX_NUMA_NODE,
    MAX_PARTS, MAX_TEXT, at_most, fault, identity, name, text,
};

/// No host has more slots.
const MAX_CANDIDATES: usize = 64;

/// Checks what a host found out about its topology, before an operator reads it.
///
/// # Errors
/// The first field that breaks its rule.
pub fn check(report: &TopologyReport) -> Checked {
    if report.schema_version > TOPOLOGY_SCHEMA_VERSION {
        let newest = format!(
            "must be at most {TOPOLOGY_SCHEMA_VERSION}; update the platform before the agents"
        );
        return fault("schema_version", newest);
    }
    if let Some(host) = &report.host {
        let pool = gpuaas_proto::common();
        let kind = pool.get_message_by_name("gpuaas.common.v1.HostInventory");
        let host = kind.and_then(|kind| {
            let bytes = host.encode_to_vec();
            DynamicMessage::decode(kind, bytes.as_slice()).ok()
        });
        match host {
            Some(host) => every_part("host", &host)?,
            None => return fault("host", "must be of its form"),
        }
    }
    for (field, count) in [
        ("gpu_devices", report.gpu_devices),
        ("fabric_devices", report.fabric_devices),
        ("nvme_devices", report.nvme_devices),
        ("mounted_nvme_devices", report.mounted_nvme_devices),
    ] {
        if usize::try_from(count).is_ok_and(|count| count > MAX_DEVICES) {
            return fault(field, format!("must be at most {MAX_DEVICES}"));
        }
    }
    if report.hugepages_1g_free > MAX_HUGEPAGES {
        return fault(
            "hugepages_1g_free",
            format!("must be at most {MAX_HUGEPAGES}"),
        );
    }
    at_most("candidates", &report.candidates, MAX_CANDIDATES)?;
    let mut seen = BTreeSet::new();
    for (index, candidate) in report.candidates.iter().enumerate() {
        let of = |part: &str| format!("candidates[{index}].{part}");
        if !seen.insert(candidate.slot_index) {
            let rule = format!("must not report index {} again", candidate.slot_index);
            return fault(&of("slot_index"), rule);
        }
        self::candidate(&of, candidate)?;
    }
    at_most("inspected_devices", &report.inspected_devices, MAX_PARTS)?;
    for (index, one) in report.inspected_devices.iter().enumerate() {
        let of = |part: &str| format!("inspected_devices[{index}].{part}");
        text(&of("device"), &one.device, MAX_NAME)?;
        at_most(&of("blockers"), &one.blockers, MAX_CHECKS)?;
        for blocker in &one.blockers {
            text(&of("blockers"), blocker, MAX_TEXT)?;
        }
        at_most(&of("wipe_policies"), &one.wipe_policies, MAX_CHECKS)?;
        for policy in &one.wipe_policies {
            name(&of("wipe_policies"), policy)?;
        }
        host_path(
            &of("storage_transition_manifest"),
            &one.storage_transition_manifest,
        )?;
    }
    at_most("legal_groups", &report.legal_groups, MAX_DEVICES)?;
    for group in &report.legal_groups {
        at_most("legal_groups.module_ids", &group.module_ids, MAX_CANDIDATES)?;
    }
    at_most("blockers", &report.blockers, MAX_CHECKS)?;
    for blocker in &report.blockers {
        text("blockers", blocker, 2 * MAX_TEXT)?;
    }
    at_most("evidence", &report.evidence, MAX_CHECKS)?;
    for (index, evidence) in report.evidence.iter().enumerate() {
        report_fields::evidence(&format!("evidence[{index}]"), evidence)?;
    }
    Ok(())
}

/// Every text and every list of a message, at any depth: an agent of a later release may tell more than is listed here.
fn every_part(field: &str, message: &DynamicMessage) -> Checked {
    for (part, value) in message.fields() {
        let field = format!("{field}.{}", part.name());
        match value {
            Value::List(list) => {
                at_most(&field, list, MAX_PARTS)?;
                for (index, value) in list.iter().enumerate() {
                    self::part(&format!("{field}[{index}]"), value)?;
                }
            }
            value => self::part(&field, value)?,
        }
    }
    Ok(())
}

fn part(field: &str, value: &Value) -> Checked {
    match value {
        Value::String(value) => text(field, value, MAX_TEXT),
        Value::Message(message) => every_part(field, message),
        _ => Ok(()),
    }
}

/// What is missing is the approval's to refuse; what is there must be of its form.
fn candidate(of: &impl Fn(&str) -> String, candidate: &CandidateSlot) -> Checked {
    name(&of("slot_class"), &candidate.slot_class)?;
    kernel_path(&of("kernel_path"), &candidate.kernel_path)?;
    at_most(&of("blockers"), &candidate.blockers, MAX_CHECKS)?;
    for blocker in &candidate.blockers {
        text(&of("blockers"), blocker, MAX_TEXT)?;
    }
    let Some(bindings) = &candidate.bindings else {
        return Ok(());
    };
    for (part, address) in [
        ("gpu_pci_address", &bindings.gpu_pci_address),
        ("fabric_device", &bindings.fabric_device),
        ("fabric_vf_pci_address", &bindings.fabric_vf_pci_address),
    ] {
        if !address.is_empty() && address.parse::<PciAddress>().is_err() {
            return fault(&of(part), "must be a PCI address");
        }
    }
    if !bindings.nvme_device.is_empty() {
        identity(&of("nvme_device"), &bindings.nvme_device)?;
    }
    if bindings.nvme_bytes > MAX_DISK_BYTES {
        return fault(
            &of("nvme_bytes"),
            format!("must be at most {MAX_DISK_BYTES}"),
        );
    }
    if bindings.numa_node.is_some_and(|node| node > MAX_NUMA_NODE) {
        return fault(&of("numa_node"), format!("must be at most {MAX_NUMA_NODE}"));
    }
    if !bindings.management_mac.is_empty() && bindings.management_mac.parse::<Mac>().is_err() {
        return fault(&of("management_mac"), "must be a MAC address");
    }
    if !bindings.private_ip.is_empty() && bindings.private_ip.parse::<IpAddr>().is_err() {
        return fault(&of("private_ip"), "must be an IP address");
    }
    for (part, value) in [
        ("storage_identity_kind", &bindings.storage_identity_kind),
        ("fabric_claim_mode", &bindings.fabric_claim_mode),
        ("destructive_wipe_policy", &bindings.destructive_wipe_policy),
    ] {
        name(&of(part), value)?;
    }
    Ok(())
}

/// Shown, and recorded with a slot (A-105): an absolute path of plain characters, as the ledger takes it.
fn host_path(field: &str, value: &str) -> Checked {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
    let rest = value.strip_prefix('/');
    let is_path =
        rest.is_some_and(|rest| (1..=255).contains(&rest.len()) && rest.bytes().all(is_plain));
    match value.is_empty() || is_path {
        true => Ok(()),
        false => fault(field, "must be an absolute path of a host"),
    }
}

/// Advisory, and shown: a node of a disk and nothing else.
fn kernel_path(field: &str, value: &str) -> Checked {
    let is_node = |path: &str| {
        !path.is_empty()
            && path
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if value.is_empty() || value.strip_prefix("/dev/").is_some_and(is_node) {
        return Ok(());
    }
    fault(field, "must be a device below /dev")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(indexes: impl IntoIterator<Item = u32>) -> TopologyReport {
        let candidates = indexes.into_iter().map(|slot_index| CandidateSlot {
            slot_index,
            ..Default::default()
        });
        TopologyReport {
            candidates: candidates.collect(),
            ..Default::default()
        }
    }

    #[test]
    fn a_topology_with_impossible_values_or_paths_that_escape_is_refused_by_its_field() {
        use gpuaas_proto::gpuaas::agent::v1::{InspectedDevice, LegalGroup};
        use gpuaas_proto::gpuaas::common::v1::{Evidence, SlotBindings};

        assert_eq!(check(&report(0..8)), Ok(()));
        type Change = fn(&mut TopologyReport);
        let table: [(&str, Change); 17] = [
            ("inspected_devices", |r| {
                r.inspected_devices = vec![InspectedDevice::default(); 10_000];
            }),
            ("inspected_devices[0].device", |r| {
                r.inspected_devices = vec![InspectedDevice {
                    device: "x".repeat(5000),
                    ..InspectedDevice::default()
                }];
            }),
            ("inspected_devices[0].wipe_policies", |r| {
                r.inspected_devices = vec![InspectedDevice {
                    wipe_policies: vec!["\u{1b}[2J".into()],
                    ..InspectedDevice::default()
                }];
            }),
            ("inspected_devices[0].storage_transition_manifest", |r| {
                r.inspected_devices = vec![InspectedDevice {
                    storage_transition_manifest: "var/log/gpuaas/one.txt".into(),
                    ..InspectedDevice::default()
                }];
            }),
            ("inspected_devices[0].storage_transition_manifest", |r| {
                r.inspected_devices = vec![InspectedDevice {
                    storage_transition_manifest: "/var/log/\u{1b}[2J".into(),
                    ..InspectedDevice::default()
                }];
            }),
            ("gpu_devices", |r| r.gpu_devices = u32::MAX),
            ("hugepages_1g_free", |r| r.hugepages_1g_free = u32::MAX),
            ("candidates[0].kernel_path", |r| {
                r.candidates[0].kernel_path = "/dev/../etc/shadow".into();
            }),
            ("candidates[0].kernel_path", |r| {
                r.candidates[0].kernel_path = "/etc/shadow".into();
            }),
            ("candidates[0].slot_class", |r| {
                r.candidates[0].slot_class = "../h200".into();
            }),
            ("candidates[0].blockers", |r| {
                r.candidates[0].blockers = vec!["\u{1b}[2J".into()];
            }),
            ("legal_groups", |r| {
                r.legal_groups = vec![LegalGroup::default(); 10_000];
            }),
            ("evidence", |r| {
                r.evidence = vec![Evidence::default(); 10_000];
            }),
            ("candidates[0].nvme_device", |r| {
                r.candidates[0].bindings = Some(SlotBindings {
                    nvme_device: "/dev/disk/by-id/nvme-eui.00/../../sda".into(),
                    ..SlotBindings::default()
                });
            }),
            ("candidates[0].gpu_pci_address", |r| {
                r.candidates[0].bindings = Some(SlotBindings {
                    gpu_pci_address: "0000:1b:00.0/..".into(),
                    ..SlotBindings::default()
                });
            }),
            ("candidates[0].nvme_bytes", |r| {
                r.candidates[0].bindings = Some(SlotBindings {
                    nvme_bytes: u64::MAX,
                    ..SlotBindings::default()
                });
            }),
            ("candidates[0].numa_node", |r| {
                r.candidates[0].bindings = Some(SlotBindings {
                    numa_node: Some(u32::MAX),
                    ..SlotBindings::default()
                });
            }),
        ];
        for (field, change) in table {
            let mut bad = report(0..8);
            change(&mut bad);
            let fault = check(&bad).expect_err(field);
            assert!(fault.field.contains(field), "{field}: {fault:?}");
        }
    }

    #[test]
    fn no_text_and_no_list_of_what_a_host_consists_of_is_without_bounds() {
        use gpuaas_proto::gpuaas::common::v1::{
            FabricDevice, GpuDevice, HostInventory, LinkNeighbor, Machine, NvmeDisk, PciFunction,
            VirtualFunction,
        };
        type Change = fn(&mut HostInventory);
        let table: [(&str, Change); 7] = [
            ("host.machine.model", |host| {
                host.machine = Some(Machine {
                    model: "PowerEdge\u{1b}[2J".into(),
                    ..Machine::default()
                });
            }),
            ("host.disks[1].serial", |host| {
                host.disks = vec![NvmeDisk::default(); 2];
                host.disks[1].serial = "x".repeat(5000);
            }),
            ("host.gpus[0].function.fault", |host| {
                let function = PciFunction {
                    fault: "\0".into(),
                    ..PciFunction::default()
                };
                host.gpus = vec![GpuDevice {
                    function: Some(function),
                    ..GpuDevice::default()
                }];
            }),
            ("host.unreadable[0]", |host| {
                host.unreadable = vec!["\u{7}".into()];
            }),
            ("host.neighbors[0].port_description", |host| {
                host.neighbors = vec![LinkNeighbor {
                    port_description: "\r".into(),
                    ..LinkNeighbor::default()
                }];
            }),
            ("host.gpus", |host| {
                host.gpus = vec![GpuDevice::default(); 10_000];
            }),
            ("host.fabric_devices[0].virtual_functions", |host| {
                host.fabric_devices = vec![FabricDevice {
                    virtual_functions: vec![VirtualFunction::default(); 10_000],
                    ..FabricDevice::default()
                }];
            }),
        ];
        for (field, change) in table {
            let mut host = HostInventory::default();
            change(&mut host);
            let bad = TopologyReport {
                host: Some(host),
                ..report(0..8)
            };
            let fault = check(&bad).expect_err(field);
            assert_eq!(fault.field, field, "{fault:?}");
        }
    }

    #[test]
    fn an_ambiguous_report_is_not_stored() {
        assert_eq!(check(&report(0..8)), Ok(()));
        let twice = check(&report([0, 1, 0])).expect_err("twice");
        assert!(twice.rule.contains("index 0"), "{twice:?}");
        assert!(check(&report(0..65)).is_err());
    }

    #[test]
    fn a_report_in_a_newer_version_is_refused_and_an_older_one_is_read() {
        let of = |schema_version| TopologyReport {
            schema_version,
            ..report(0..8)
        };
        for version in 0..=TOPOLOGY_SCHEMA_VERSION {
            assert_eq!(check(&of(version)), Ok(()));
        }
        let newer = check(&of(TOPOLOGY_SCHEMA_VERSION + 1)).expect_err("newer");
        assert!(newer.rule.contains("update the platform"), "{newer:?}");
    }
}
