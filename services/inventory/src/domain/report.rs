//! Whether a host's report can be believed to be one: sizes, forms and ranges, before anything of it is stored. A host is the
//! least trusted of those who call, and what it says reaches the ledger, the console and other hosts' operators.
use std::collections::BTreeSet;
use std::net::IpAddr;

use gpuaas_common::time::from_proto_time;
use gpuaas_common::value::{Mac, PciAddress, is_nvme_link, lab_disk};
use gpuaas_proto::TOPOLOGY_SCHEMA_VERSION;
use gpuaas_proto::gpuaas::agent::v1::{
    CandidateSlot, HostDevices, HostDisk, HostFunction, ReadinessReport, TopologyReport,
};
use gpuaas_proto::gpuaas::common::v1::Evidence;
use prost::Message as _;
use prost_reflect::{DynamicMessage, Value};
use uuid::Uuid;

/// Newest schema of a report that is understood.
pub const SCHEMA_VERSION: u32 = 1;
/// Largest report of a host in bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// No host has more slots.
const MAX_CANDIDATES: usize = 64;
const MAX_CHECKS: usize = 256;
const MAX_DEVICES: usize = 1024;
const MAX_GUESTS: usize = 4096;
/// Of one kind: processors, devices, functions of a device, addresses.
const MAX_PARTS: usize = 4096;
const MAX_NAME: usize = 128;
const MAX_TEXT: usize = 4096;
const MAX_HUGEPAGES: u32 = 1 << 16;
const MAX_NUMA_NODE: u32 = 1023;
const MAX_DISK_BYTES: u64 = 1 << 60;
/// Ten years: no host runs longer.
const MAX_UPTIME_SECONDS: i64 = 10 * 365 * 86_400;

/// A field that breaks its rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Path of the field in the report.
    pub field: String,
    /// The rule, to be read after the field's name.
    pub rule: String,
}

type Checked = Result<(), Fault>;

fn fault(field: &str, rule: impl Into<String>) -> Checked {
    Err(Fault {
        field: field.to_owned(),
        rule: rule.into(),
    })
}

fn at_most<T>(field: &str, list: &[T], most: usize) -> Checked {
    if list.len() > most {
        return fault(field, format!("must have at most {most} entries"));
    }
    Ok(())
}

/// Text of one line that cannot hide anything.
fn text(field: &str, value: &str, most: usize) -> Checked {
    if value.len() > most {
        return fault(field, format!("must have at most {most} bytes"));
    }
    if value
        .chars()
        .any(|c| c.is_control() && c != '\n' && c != '\t')
    {
        return fault(field, "must not have control characters");
    }
    Ok(())
}

/// A name: of a check, a driver, an interface, a profile.
fn name(field: &str, value: &str) -> Checked {
    text(field, value, MAX_NAME)?;
    if value.contains(['\n', '\t', '/']) {
        return fault(field, "must be a name");
    }
    Ok(())
}

fn ids(field: &str, list: &[String], most: usize) -> Checked {
    at_most(field, list, most)?;
    match list.iter().all(|id| Uuid::try_parse(id).is_ok()) {
        true => Ok(()),
        false => fault(field, "must be ids"),
    }
}

/// Checks a report.
///
/// # Errors
/// The first field that breaks its rule.
pub fn check(report: &ReadinessReport) -> Checked {
    if report.schema_version > SCHEMA_VERSION {
        return fault(
            "schema_version",
            format!(
                "must be at most {SCHEMA_VERSION}; upgrade the control plane before the agents"
            ),
        );
    }
    at_most("evidence", &report.evidence, MAX_CHECKS)?;
    for (index, evidence) in report.evidence.iter().enumerate() {
        self::evidence(&format!("evidence[{index}]"), evidence)?;
    }
    at_most("blockers", &report.blockers, MAX_CHECKS)?;
    for blocker in &report.blockers {
        text("blockers", blocker, MAX_TEXT)?;
    }
    if report.hugepages_1g_free > MAX_HUGEPAGES {
        return fault(
            "hugepages_1g_free",
            format!("must be at most {MAX_HUGEPAGES}"),
        );
    }
    name("hypervisor", &report.hypervisor)?;
    name("host_profile", &report.host_profile)?;
    at_most("drifted_disks", &report.drifted_disks, MAX_DEVICES)?;
    for disk in &report.drifted_disks {
        identity("drifted_disks", disk)?;
    }
    ids(
        "hugepages_allocated_to",
        &report.hugepages_allocated_to,
        MAX_GUESTS,
    )?;
    if let Some(at) = &report.observed_time
        && from_proto_time(at).is_none()
    {
        return fault("observed_time", "must be a time");
    }
    if let Some(uptime) = &report.observed_uptime
        && (!(0..=MAX_UPTIME_SECONDS).contains(&uptime.seconds)
            || !(0..1_000_000_000).contains(&uptime.nanos))
    {
        return fault(
            "observed_uptime",
            "must be the time since the start of the host",
        );
    }
    report.devices.as_ref().map_or(Ok(()), devices)
}

/// Checks what a host found out about its topology, before an operator reads it.
///
/// # Errors
/// The first field that breaks its rule.
pub fn check_topology(report: &TopologyReport) -> Checked {
    if report.schema_version > TOPOLOGY_SCHEMA_VERSION {
        let newest = format!(
            "must be at most {TOPOLOGY_SCHEMA_VERSION}; update the platform before the agents"
        );
        return fault("schema_version", newest);
    }
    if let Some(host) = &report.host {
        let pool = gpuaas_proto::pool();
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
        self::evidence(&format!("evidence[{index}]"), evidence)?;
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

/// An uptime that was checked, in nanoseconds.
#[must_use]
pub fn nanos(uptime: &prost_types::Duration) -> i64 {
    uptime
        .seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(uptime.nanos.into())
}

fn evidence(field: &str, evidence: &Evidence) -> Checked {
    let of = |part: &str| format!("{field}.{part}");
    if evidence.check.is_empty() {
        return fault(&of("check"), "is required");
    }
    name(&of("check"), &evidence.check)?;
    text(&of("detail"), &evidence.detail, MAX_TEXT)?;
    text(&of("remediation"), &evidence.remediation, MAX_TEXT)?;
    at_most(&of("devices"), &evidence.devices, MAX_DEVICES)?;
    for device in &evidence.devices {
        text(&of("devices"), device, MAX_NAME)?;
    }
    Ok(())
}

fn devices(devices: &HostDevices) -> Checked {
    at_most("devices.functions", &devices.functions, MAX_DEVICES)?;
    let mut seen = BTreeSet::new();
    for (index, one) in devices.functions.iter().enumerate() {
        let field = format!("devices.functions[{index}]");
        function(&field, one)?;
        if !seen.insert(one.pci_address.to_ascii_lowercase()) {
            return fault(&field, format!("must not report {} again", one.pci_address));
        }
    }
    at_most("devices.disks", &devices.disks, MAX_DEVICES)?;
    let mut seen = BTreeSet::new();
    for (index, one) in devices.disks.iter().enumerate() {
        let field = format!("devices.disks[{index}]");
        disk(&field, one)?;
        if !seen.insert(&one.identity) {
            return fault(&field, format!("must not report {} again", one.identity));
        }
    }
    at_most("devices.addresses", &devices.addresses, MAX_GUESTS)?;
    for (index, one) in devices.addresses.iter().enumerate() {
        let of = |part: &str| format!("devices.addresses[{index}].{part}");
        optional_id(&of("allocation_id"), &one.allocation_id)?;
        name(&of("interface"), &one.interface)?;
        if !one.mac.is_empty() && one.mac.parse::<Mac>().is_err() {
            return fault(&of("mac"), "must be a MAC address");
        }
        if !one.ip.is_empty() && one.ip.parse::<IpAddr>().is_err() {
            return fault(&of("ip"), "must be an IP address");
        }
    }
    at_most(
        "devices.unknown_domains",
        &devices.unknown_domains,
        MAX_DEVICES,
    )?;
    for domain in &devices.unknown_domains {
        text("devices.unknown_domains", domain, MAX_TEXT)?;
    }
    ids(
        "devices.unprotected_allocations",
        &devices.unprotected_allocations,
        MAX_GUESTS,
    )
}

fn function(field: &str, one: &HostFunction) -> Checked {
    let of = |part: &str| format!("{field}.{part}");
    if one.pci_address.parse::<PciAddress>().is_err() {
        return fault(&of("pci_address"), "must be a PCI address");
    }
    if !one.physical_function.is_empty() && one.physical_function.parse::<PciAddress>().is_err() {
        return fault(&of("physical_function"), "must be a PCI address");
    }
    name(&of("driver"), &one.driver)?;
    if one.numa_node.is_some_and(|node| node > MAX_NUMA_NODE) {
        return fault(&of("numa_node"), format!("must be at most {MAX_NUMA_NODE}"));
    }
    text(&of("fault"), &one.fault, MAX_TEXT)?;
    text(&of("used_by"), &one.used_by, MAX_TEXT)
}

fn disk(field: &str, one: &HostDisk) -> Checked {
    let of = |part: &str| format!("{field}.{part}");
    identity(&of("identity"), &one.identity)?;
    if one.bytes > MAX_DISK_BYTES {
        return fault(&of("bytes"), format!("must be at most {MAX_DISK_BYTES}"));
    }
    for (part, list) in [("uses", &one.uses), ("content", &one.content)] {
        at_most(&of(part), list, MAX_CHECKS)?;
        for entry in list {
            text(&of(part), entry, MAX_TEXT)?;
        }
    }
    optional_id(&of("slot_id"), &one.slot_id)?;
    text(&of("fault"), &one.fault, MAX_TEXT)
}

/// A disk's identity leads nowhere but to a disk: no path that escapes, and no kernel name.
fn identity(field: &str, value: &str) -> Checked {
    if is_nvme_link(value) || lab_disk(value).is_some() {
        return Ok(());
    }
    fault(
        field,
        "must be /dev/disk/by-id/nvme-eui.… or lab-disk: and a UUID",
    )
}

fn optional_id(field: &str, value: &str) -> Checked {
    if value.is_empty() || Uuid::try_parse(value).is_ok() {
        return Ok(());
    }
    fault(field, "must be an id")
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

        assert_eq!(check_topology(&report(0..8)), Ok(()));
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
            let fault = check_topology(&bad).expect_err(field);
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
            let fault = check_topology(&bad).expect_err(field);
            assert_eq!(fault.field, field, "{fault:?}");
        }
    }

    #[test]
    fn an_ambiguous_report_is_not_stored() {
        assert_eq!(check_topology(&report(0..8)), Ok(()));
        let twice = check_topology(&report([0, 1, 0])).expect_err("twice");
        assert!(twice.rule.contains("index 0"), "{twice:?}");
        assert!(check_topology(&report(0..65)).is_err());
    }

    #[test]
    fn a_report_in_a_newer_version_is_refused_and_an_older_one_is_read() {
        let of = |schema_version| TopologyReport {
            schema_version,
            ..report(0..8)
        };
        for version in 0..=TOPOLOGY_SCHEMA_VERSION {
            assert_eq!(check_topology(&of(version)), Ok(()));
        }
        let newer = check_topology(&of(TOPOLOGY_SCHEMA_VERSION + 1)).expect_err("newer");
        assert!(newer.rule.contains("update the platform"), "{newer:?}");
    }
}
