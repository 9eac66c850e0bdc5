//! Approved bindings against what a host has now (D-80, A-85): pure functions, by which an approval and every report of a
//! host are judged alike.
use std::collections::BTreeSet;

use gpuaas_proto::gpuaas::agent::v1::{HostDevices, HostDisk, HostFunction};
use gpuaas_proto::gpuaas::common::v1::{SlotBindings, SlotDrift};
use serde::{Deserialize, Serialize};

/// Driver that a GPU or fabric function of a slot is bound to, in use or not (D-56).
pub const SLICE_DRIVER: &str = "vfio-pci";

/// What of a slot is not as it was approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    GpuMissing,
    GpuFaulty,
    /// The GPU is at another NUMA node.
    GpuMoved,
    FunctionMissing,
    FunctionFaulty,
    /// The virtual function is of another device.
    FunctionMoved,
    /// A GPU or fabric function is bound to another driver, or to none.
    DriverRebound,
    DiskMissing,
    DiskFaulty,
    /// Another disk has the identity: its size differs.
    DiskReplaced,
    /// Something of the host uses the disk.
    DiskInUse,
    /// The disk was clean and is not any more.
    DiskContent,
    DuplicateMac,
    DuplicateAddress,
    /// A domain that nobody allocated has a GPU or fabric function.
    UnknownDomain,
    /// The rules that isolate the guest are not in force.
    RulesMissing,
    /// A readiness check names a device of the slot.
    CheckFailed,
}

/// Part of an allocation, as its owner knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Gpu,
    Disk,
    Fabric,
    Network,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::GpuMissing,
        Self::GpuFaulty,
        Self::GpuMoved,
        Self::FunctionMissing,
        Self::FunctionFaulty,
        Self::FunctionMoved,
        Self::DriverRebound,
        Self::DiskMissing,
        Self::DiskFaulty,
        Self::DiskReplaced,
        Self::DiskInUse,
        Self::DiskContent,
        Self::DuplicateMac,
        Self::DuplicateAddress,
        Self::UnknownDomain,
        Self::RulesMissing,
        Self::CheckFailed,
    ];

    /// Name on the wire, in events and in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::GpuMissing => "gpu_missing",
            Self::GpuFaulty => "gpu_faulty",
            Self::GpuMoved => "gpu_moved",
            Self::FunctionMissing => "function_missing",
            Self::FunctionFaulty => "function_faulty",
            Self::FunctionMoved => "function_moved",
            Self::DriverRebound => "driver_rebound",
            Self::DiskMissing => "disk_missing",
            Self::DiskFaulty => "disk_faulty",
            Self::DiskReplaced => "disk_replaced",
            Self::DiskInUse => "disk_in_use",
            Self::DiskContent => "disk_content",
            Self::DuplicateMac => "duplicate_mac",
            Self::DuplicateAddress => "duplicate_address",
            Self::UnknownDomain => "unknown_domain",
            Self::RulesMissing => "rules_missing",
            Self::CheckFailed => "check_failed",
        }
    }

    /// The disk may hold what nobody knows, so that its slot is offered only after a repair by an operator.
    #[must_use]
    pub fn needs_repair(self) -> bool {
        matches!(
            self,
            Self::DiskReplaced | Self::DiskInUse | Self::DiskContent
        )
    }

    /// The disk was out of sight: when it is back, empty and unused, it is wiped before it is offered.
    #[must_use]
    pub fn needs_wipe(self) -> bool {
        self.needs_repair() || matches!(self, Self::DiskMissing | Self::DiskFaulty)
    }

    fn message(self, drift: &Drift) -> String {
        let (approved, observed) = (&drift.approved, &drift.observed);
        match self {
            Self::GpuMissing => format!("GPU {approved} is not on the host."),
            Self::GpuFaulty => format!("GPU {approved} cannot be used: {observed}."),
            Self::GpuMoved => {
                format!("The GPU was approved at NUMA node {approved} and is at {observed}.")
            }
            Self::FunctionMissing => format!("Fabric function {approved} is not on the host."),
            Self::FunctionFaulty => {
                format!("Fabric function {approved} cannot be used: {observed}.")
            }
            Self::FunctionMoved => format!(
                "The fabric function was approved as one of {approved} and is one of {observed}."
            ),
            Self::DriverRebound => {
                format!("The device is bound to {observed} instead of {approved}.")
            }
            Self::DiskMissing => format!("No disk of the host has the identity {approved}."),
            Self::DiskFaulty => format!("The disk cannot be read: {observed}."),
            Self::DiskReplaced => {
                format!("The disk was approved with {approved} bytes and has {observed}.")
            }
            Self::DiskInUse => format!("The host uses the disk: {observed}."),
            Self::DiskContent => format!("The disk was wiped and holds data again: {observed}."),
            Self::DuplicateMac => format!("The MAC address {approved} is in use by {observed}."),
            Self::DuplicateAddress => format!("The address {approved} is in use by {observed}."),
            Self::UnknownDomain => format!(
                "Domain {observed}, which is not an allocation of this host, has {approved}."
            ),
            Self::RulesMissing => {
                "The rules that isolate the guest from others are not in force.".to_owned()
            }
            Self::CheckFailed => format!("The check {observed} fails for {approved}."),
        }
    }

    fn remediation(self) -> &'static str {
        match self {
            Self::GpuMissing | Self::GpuFaulty => {
                "Look for the device in the host's kernel log. Reset, reseat or replace it. If it has another address now, \
                 retire the slot, discover the topology and approve the new candidate."
            }
            Self::GpuMoved | Self::FunctionMoved => {
                "Put the device back where it was, or retire the slot, discover the topology and approve the new candidate."
            }
            Self::FunctionMissing | Self::FunctionFaulty => {
                "Create the virtual functions again (unit gpuaas-slice-fabric-vfs) and look at the card's firmware and link."
            }
            Self::DriverRebound => {
                "Find out what took the device. When nobody has the slot, repair it: its disk is wiped, and the device bound to \
                 vfio-pci again. Restarting the unit gpuaas-slice-vfio-devices on the host binds it without a wipe."
            }
            Self::DiskMissing | Self::DiskFaulty => {
                "Look for the disk in the host's kernel log. Reseat or replace it. When it is back and empty, it is wiped and \
                 offered again."
            }
            Self::DiskReplaced => {
                "Find out whose disk it is. Retire the slot and approve the new disk, or put the approved one back and repair \
                 the slot."
            }
            Self::DiskInUse => {
                "Find out who uses the disk and end that. Then repair the slot: its disk is wiped."
            }
            Self::DiskContent => {
                "Find out who wrote to the disk. Then repair the slot: its disk is wiped."
            }
            Self::DuplicateMac | Self::DuplicateAddress => {
                "Take the address away from whoever uses it, or retire the slot and approve it with another one."
            }
            Self::UnknownDomain => {
                "Find out whose domain it is, and remove it from the hypervisor."
            }
            Self::RulesMissing => {
                "The agent puts them back within seconds. If it does not, see its log and the check guest_isolation."
            }
            Self::CheckFailed => "Do what the check of the node says.",
        }
    }
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Drift {
    pub kind: Kind,
    /// Field of the bindings.
    pub field: String,
    pub approved: String,
    pub observed: String,
}

impl Drift {
    fn new(
        kind: Kind,
        field: &str,
        approved: impl Into<String>,
        observed: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            field: field.to_owned(),
            approved: approved.into(),
            observed: observed.into(),
        }
    }

    /// What is wrong, as a sentence for operators.
    #[must_use]
    pub fn message(&self) -> String {
        self.kind.message(self)
    }

    /// What it concerns of an allocation.
    #[must_use]
    pub fn part(&self) -> Part {
        match self.field.as_str() {
            "gpu_pci_address" | "numa_node" => Part::Gpu,
            "fabric_vf_pci_address" | "fabric_device" => Part::Fabric,
            "nvme_device" | "nvme_bytes" => Part::Disk,
            _ => Part::Network,
        }
    }

    /// On the wire.
    #[must_use]
    pub fn to_proto(&self, since: Option<prost_types::Timestamp>) -> SlotDrift {
        SlotDrift {
            kind: self.kind.as_str().to_owned(),
            field: self.field.clone(),
            approved: self.approved.clone(),
            observed: self.observed.clone(),
            message: self.message(),
            remediation: self.kind.remediation().to_owned(),
            since,
            needs_wipe: self.kind.needs_wipe(),
        }
    }
}

/// What the owner of an allocation reads of the drift of its slots: which parts, and nothing about the host (P11).
#[must_use]
pub fn for_owner<'a>(drift: impl IntoIterator<Item = &'a Drift>) -> String {
    let parts: BTreeSet<Part> = drift.into_iter().map(Drift::part).collect();
    let names: Vec<&str> = parts
        .iter()
        .map(|part| match part {
            Part::Gpu => "GPU",
            Part::Disk => "disk",
            Part::Fabric => "fabric function",
            Part::Network => "network address",
        })
        .collect();
    format!(
        "The host reports a fault of a device of this allocation: {}. The VM may fail. Save your work, and release the \
         allocation if it does.",
        names.join(", ")
    )
}

/// How far the content of a disk says something about its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// Nothing: somebody has the slot, or it is not wiped yet.
    Ignored,
    /// It must be empty since the wipe of this generation; an observation from before it says nothing.
    EmptySince { slot_id: &'a str, generation: u64 },
    /// It must be empty.
    Empty,
}

/// What was approved for a slot.
pub struct Approved<'a> {
    pub bindings: &'a SlotBindings,
    pub content: Content<'a>,
    /// Allocations that have or had the slot, whose leftovers are no duplicates.
    pub allocations: &'a BTreeSet<String>,
}

/// How a host differs from what was approved for a slot, in order; empty when it does not.
#[must_use]
pub fn compare(approved: &Approved<'_>, host: &HostDevices) -> Vec<Drift> {
    let bindings = approved.bindings;
    let mut found = Vec::new();
    if !bindings.gpu_pci_address.is_empty() {
        gpu(bindings, host, &mut found);
    }
    if !bindings.fabric_vf_pci_address.is_empty() {
        fabric(bindings, host, &mut found);
    }
    if !bindings.nvme_device.is_empty() {
        disk(approved, host, &mut found);
    }
    network(approved, host, &mut found);
    faults(bindings, host, &mut found);
    found.sort();
    found
}

fn function<'a>(host: &'a HostDevices, address: &str) -> Option<&'a HostFunction> {
    let same = |one: &&HostFunction| one.pci_address.eq_ignore_ascii_case(address);
    host.functions.iter().find(same)
}

fn gpu(bindings: &SlotBindings, host: &HostDevices, found: &mut Vec<Drift>) {
    const FIELD: &str = "gpu_pci_address";
    let address = &bindings.gpu_pci_address;
    let Some(gpu) = function(host, address) else {
        found.push(Drift::new(Kind::GpuMissing, FIELD, address, ""));
        return;
    };
    if !gpu.fault.is_empty() {
        found.push(Drift::new(Kind::GpuFaulty, FIELD, address, &gpu.fault));
    }
    if let (Some(approved), Some(observed)) = (bindings.numa_node, gpu.numa_node)
        && approved != observed
    {
        let (approved, observed) = (approved.to_string(), observed.to_string());
        found.push(Drift::new(Kind::GpuMoved, "numa_node", approved, observed));
    }
    of_function(gpu, FIELD, address, found);
}

fn fabric(bindings: &SlotBindings, host: &HostDevices, found: &mut Vec<Drift>) {
    const FIELD: &str = "fabric_vf_pci_address";
    let address = &bindings.fabric_vf_pci_address;
    let Some(one) = function(host, address) else {
        found.push(Drift::new(Kind::FunctionMissing, FIELD, address, ""));
        return;
    };
    if !one.fault.is_empty() {
        found.push(Drift::new(Kind::FunctionFaulty, FIELD, address, &one.fault));
    }
    let (parent, now) = (&bindings.fabric_device, &one.physical_function);
    if !parent.is_empty() && !now.is_empty() && !parent.eq_ignore_ascii_case(now) {
        found.push(Drift::new(
            Kind::FunctionMoved,
            "fabric_device",
            parent,
            now,
        ));
    }
    of_function(one, FIELD, address, found);
}

fn of_function(one: &HostFunction, field: &str, address: &str, found: &mut Vec<Drift>) {
    // one that is free may have none: libvirt binds it when its VM starts. A vendor may have a variant of the driver.
    let is_bound = one.driver.replace('_', "-").ends_with(SLICE_DRIVER);
    if !one.driver.is_empty() && !is_bound {
        let observed = one.driver.as_str();
        found.push(Drift::new(
            Kind::DriverRebound,
            field,
            SLICE_DRIVER,
            observed,
        ));
    }
    if !one.used_by.is_empty() {
        found.push(Drift::new(
            Kind::UnknownDomain,
            field,
            address,
            &one.used_by,
        ));
    }
}

fn disk(approved: &Approved<'_>, host: &HostDevices, found: &mut Vec<Drift>) {
    const FIELD: &str = "nvme_device";
    let bindings = approved.bindings;
    let identity = &bindings.nvme_device;
    let Some(disk) = host.disks.iter().find(|disk| disk.identity == *identity) else {
        found.push(Drift::new(Kind::DiskMissing, FIELD, identity, ""));
        return;
    };
    if !disk.fault.is_empty() {
        found.push(Drift::new(Kind::DiskFaulty, FIELD, identity, &disk.fault));
        // what could not be read says nothing more
        return;
    }
    if disk.bytes != bindings.nvme_bytes {
        let (approved, observed) = (bindings.nvme_bytes.to_string(), disk.bytes.to_string());
        found.push(Drift::new(
            Kind::DiskReplaced,
            "nvme_bytes",
            approved,
            observed,
        ));
    }
    if !disk.uses.is_empty() {
        let uses = disk.uses.join(", ");
        found.push(Drift::new(Kind::DiskInUse, FIELD, identity, uses));
    }
    if !disk.content.is_empty() && must_be_empty(approved.content, disk) {
        let content = disk.content.join(", ");
        found.push(Drift::new(Kind::DiskContent, FIELD, identity, content));
    }
}

/// A check that names a device says more only where nothing is known to be wrong with it.
fn faults(bindings: &SlotBindings, host: &HostDevices, found: &mut Vec<Drift>) {
    let own = [
        ("gpu_pci_address", &bindings.gpu_pci_address),
        ("fabric_vf_pci_address", &bindings.fabric_vf_pci_address),
        ("fabric_device", &bindings.fabric_device),
        ("nvme_device", &bindings.nvme_device),
    ];
    for (field, device) in own {
        if device.is_empty() || found.iter().any(|one| one.field == field) {
            continue;
        }
        let named = host
            .faults
            .iter()
            .filter(|fault| fault.device.eq_ignore_ascii_case(device));
        found.extend(named.map(|fault| Drift::new(Kind::CheckFailed, field, device, &fault.check)));
    }
}

fn must_be_empty(content: Content<'_>, disk: &HostDisk) -> bool {
    match content {
        Content::Ignored => false,
        Content::Empty => true,
        Content::EmptySince {
            slot_id,
            generation,
        } => disk.slot_id == slot_id && disk.proven_generation >= generation,
    }
}

fn network(approved: &Approved<'_>, host: &HostDevices, found: &mut Vec<Drift>) {
    let bindings = approved.bindings;
    let mine = |allocation: &str| approved.allocations.contains(allocation);
    let others = host
        .addresses
        .iter()
        .filter(|one| one.allocation_id.is_empty() || !mine(&one.allocation_id));
    for other in others {
        let who = if other.allocation_id.is_empty() {
            format!("interface {} of the host", other.interface)
        } else {
            format!("the reservation of allocation {}", other.allocation_id)
        };
        if !other.mac.is_empty() && other.mac.eq_ignore_ascii_case(&bindings.management_mac) {
            found.push(Drift::new(
                Kind::DuplicateMac,
                "management_mac",
                &bindings.management_mac,
                &who,
            ));
        }
        if !other.ip.is_empty() && other.ip == bindings.private_ip {
            found.push(Drift::new(
                Kind::DuplicateAddress,
                "private_ip",
                &bindings.private_ip,
                &who,
            ));
        }
    }
}

/// Whether the rules of one of these allocations' guests are not in force.
#[must_use]
pub fn rules_missing(
    allocation: &str,
    bindings: &SlotBindings,
    host: &HostDevices,
) -> Option<Drift> {
    let missing = host
        .unprotected_allocations
        .iter()
        .any(|one| one == allocation);
    missing.then(|| {
        Drift::new(
            Kind::RulesMissing,
            "management_mac",
            &bindings.management_mac,
            "",
        )
    })
}

#[cfg(test)]
#[path = "drift_tests.rs"]
mod tests;
