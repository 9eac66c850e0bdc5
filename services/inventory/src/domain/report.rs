//! Whether a host's report can be believed to be one: sizes, forms and ranges, before anything of it is stored. A host is the
//! least trusted of those who call, and what it says reaches the ledger, the console and other hosts' operators.
use std::collections::BTreeSet;
use std::net::IpAddr;

use gpuaas_common::time::from_proto_time;
use gpuaas_common::value::{Mac, PciAddress};
use gpuaas_proto::gpuaas::agent::v1::{HostDevices, HostDisk, HostFunction, ReadinessReport};

use super::report_fields::{
    self, Checked, MAX_CHECKS, MAX_DEVICES, MAX_DISK_BYTES, MAX_GUESTS, MAX_HUGEPAGES,
    MAX_NUMA_NODE, MAX_TEXT, at_most, fault, identity, ids, name, optional_id, text,
};

/// Newest schema of a report that is understood.
pub const SCHEMA_VERSION: u32 = 1;
/// Largest report of a host in bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// Ten years: no host runs longer.
const MAX_UPTIME_SECONDS: i64 = 10 * 365 * 86_400;

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
        report_fields::evidence(&format!("evidence[{index}]"), evidence)?;
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

/// An uptime that was checked, in nanoseconds.
#[must_use]
pub fn nanos(uptime: &prost_types::Duration) -> i64 {
    uptime
        .seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(uptime.nanos.into())
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
