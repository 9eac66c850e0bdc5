//! What the host has and uses now, for every report: inventory and the ledger compare it with what was approved (D-80). It
//! says what is, and judges nothing but what only this host can know: which domains are nobody's, and whether a disk is empty.
//!
//! It is cheap: no disk is read whose slot somebody holds, nor one that nobody wrote to since it was read.
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::{Evidence, EvidenceStatus};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::observed::{Observed, lock};
use super::pci::{self, PciKind};
use crate::disk::DiskIdentity;
use crate::disk::identity::{BY_ID, Resolution, loop_devices, resolve_by_id, resolve_lab};
use crate::disk::mounts::{self, Mount};
use crate::disk::passthrough;
use crate::disk::signatures::{REPORT_LIMIT, signatures};
use crate::error::{HostError, HostResult, io_error};
use crate::host::ip::{self, Address, Link};
use crate::host::root::HostRoot;
use crate::host::{blocking, exec};
use crate::ids::AllocationId;
use crate::journal::DeviceRow;
use crate::node::Node;
use crate::vm::Domain;
use crate::vm::disk_sources::pci_device;

/// Version of the report's schema.
pub const SCHEMA_VERSION: u32 = 1;

const DEVICES: &str = "/sys/bus/pci/devices";
const LIMIT: Duration = Duration::from_secs(5);
/// Before a disk that could not be read is read again.
const RETRY_PAUSE: Duration = Duration::from_millis(300);
/// The check of the rules that isolate guests.
const RULES: &str = "guest_isolation";
/// The agent puts rules back within seconds, and a guest that comes has none for a moment: only what lasts is reported.
const RULES_LAST: Duration = Duration::from_secs(8);

/// Observes the host; `evidence` is that of the same report. None: it was never possible.
pub async fn observe(node: &Node, evidence: &[Evidence]) -> Option<pb::HostDevices> {
    match everything(node).await {
        Ok(mut found) => {
            if !rules_hold(&node.observed, evidence, Instant::now()) {
                let guests = found.addresses.iter().map(|one| one.allocation_id.clone());
                let guests: BTreeSet<String> = guests.filter(|id| !id.is_empty()).collect();
                found.unprotected_allocations = guests.into_iter().collect();
            }
            *lock(&node.observed.last) = Some(found.clone());
            Some(found)
        }
        Err(error) => {
            tracing::warn!(%error, "cannot observe the devices of the host; report them as they were");
            lock(&node.observed.last).clone()
        }
    }
}

fn rules_hold(observed: &Observed, evidence: &[Evidence], now: Instant) -> bool {
    let failing = |one: &Evidence| one.check == RULES && one.status() == EvidenceStatus::Fail;
    let mut since = lock(&observed.rules_missing_since);
    if !evidence.iter().any(failing) {
        *since = None;
        return true;
    }
    let since = *since.get_or_insert(now);
    now.saturating_duration_since(since) < RULES_LAST
}

async fn everything(node: &Node) -> HostResult<pb::HostDevices> {
    let holders: BTreeSet<AllocationId> = node
        .journal
        .holds()?
        .into_iter()
        .map(|hold| hold.allocation)
        .collect();
    // a report does not wait for a libvirt that restarts
    let domains = tokio::time::timeout(LIMIT, node.hypervisor.domains()).await;
    let silent = |_elapsed| {
        HostError::host(
            ErrorReason::HypervisorFailed,
            "libvirt does not list its domains",
        )
    };
    let domains = domains.map_err(silent)??;
    let unknown = unknown(&domains, &holders);
    let functions = match node.settings.profile.lab {
        true => Vec::new(),
        false => blocking::here(|| functions(&node.root, &unknown)),
    };
    Ok(pb::HostDevices {
        functions,
        disks: disks(node, &unknown).await?,
        addresses: addresses(node).await?,
        unknown_domains: unknown.iter().map(|one| one.name.clone()).collect(),
        ..pb::HostDevices::default()
    })
}

/// Domains that are nobody's: none of ours, or of an allocation that holds nothing here. By name.
fn unknown<'a>(domains: &'a [Domain], holders: &BTreeSet<AllocationId>) -> Vec<&'a Domain> {
    let ours = |domain: &&Domain| {
        AllocationId::of_vm(&domain.name).is_some_and(|id| holders.contains(&id))
    };
    let mut unknown: Vec<&Domain> = domains.iter().filter(|domain| !ours(domain)).collect();
    unknown.sort_by(|one, other| one.name.cmp(&other.name));
    unknown
}

fn functions(root: &HostRoot, unknown: &[&Domain]) -> Vec<pb::HostFunction> {
    let mut found = Vec::new();
    for device in pci::devices(root) {
        if device.kind == PciKind::Gpu {
            found.push(function(root, &device.address.to_string(), "", unknown));
        } else if device.kind == PciKind::Fabric {
            let parent = device.address.to_string();
            let own = device.functions.iter();
            found.extend(own.map(|one| function(root, &one.to_string(), &parent, unknown)));
        }
    }
    found.sort_by(|one, other| one.pci_address.cmp(&other.pci_address));
    found.dedup_by(|one, other| one.pci_address == other.pci_address);
    found
}

fn function(root: &HostRoot, address: &str, parent: &str, unknown: &[&Domain]) -> pb::HostFunction {
    let path = format!("{DEVICES}/{address}");
    let numa: Option<i64> = root
        .read_value(format!("{path}/numa_node"))
        .and_then(|text| text.parse().ok());
    let used_by = address.parse().ok().and_then(|address| {
        let device = pci_device(&address);
        unknown
            .iter()
            .find(|domain| domain.disk_sources.contains(&device))
    });
    pb::HostFunction {
        pci_address: address.to_owned(),
        driver: root.link_name(format!("{path}/driver")).unwrap_or_default(),
        numa_node: numa.and_then(|node| u32::try_from(node).ok()),
        physical_function: parent.to_owned(),
        fault: pci::dead(root, &path).map_or_else(String::new, |why| format!("it {why}")),
        used_by: used_by
            .map(|domain| domain.name.clone())
            .unwrap_or_default(),
    }
}

/// Every disk that a slot can have: those of the settings on a lab host, those with a stable link on others.
async fn disks(node: &Node, unknown: &[&Domain]) -> HostResult<Vec<pb::HostDisk>> {
    let slots = node.journal.devices()?;
    let (mounts, swaps) = blocking::here(|| {
        Ok::<_, HostError>((mounts::all(&node.root)?, mounts::swaps(&node.root)?))
    })?;
    let mut found = Vec::new();
    for (identity, resolution) in resolve_all(node).await? {
        let mut disk = pb::HostDisk {
            identity: identity.to_string(),
            ..pb::HostDisk::default()
        };
        match resolution {
            Ok(Resolution::Device(name)) => {
                let look =
                    || blocking::here(|| uses(node, &identity, &name, (&mounts, &swaps), unknown));
                let mut looked = look();
                if looked.is_err() {
                    // what is being taken away just now is gone in a moment
                    tokio::time::sleep(RETRY_PAUSE).await;
                    looked = look();
                }
                match looked {
                    // its VM takes it just now
                    Ok((0, _)) if is_gone(node, &identity).await => continue,
                    Ok((bytes, uses)) => (disk.bytes, disk.uses) = (bytes, uses),
                    Err(error) => disk.fault = error.message,
                }
                let slot = slots.iter().find(|slot| slot.device == disk.identity);
                if let Some(slot) = slot.filter(|_| disk.fault.is_empty()) {
                    note_content(node, slot, &name, &mut disk).await;
                }
            }
            Ok(Resolution::Missing) => continue,
            Ok(Resolution::Ambiguous(what)) => disk.fault = format!("its identity leads to {what}"),
            Err(error) => disk.fault = error.message,
        }
        found.push(disk);
    }
    let has = |identity: &str| found.iter().any(|one| one.identity == identity);
    let given = blocking::here(|| passthrough::given(node, has))?;
    for one in given {
        let device = pci_device(&one.controller);
        let users = unknown
            .iter()
            .filter(|domain| domain.disk_sources.contains(&device));
        found.push(pb::HostDisk {
            uses: users
                .map(|domain| format!("domain {} has it", domain.name))
                .collect(),
            fault: pci::dead(&node.root, &pci::folder(&one.controller))
                .map_or_else(String::new, |why| format!("its controller {why}")),
            identity: one.disk.by_id,
            bytes: one.disk.bytes,
            ..pb::HostDisk::default()
        });
    }
    found.sort_by(|one, other| one.identity.cmp(&other.identity));
    Ok(found)
}

async fn is_gone(node: &Node, identity: &DiskIdentity) -> bool {
    matches!(node.probe.resolve(identity).await, Ok(Resolution::Missing))
}

type Resolved = (DiskIdentity, HostResult<Resolution>);

async fn resolve_all(node: &Node) -> HostResult<Vec<Resolved>> {
    if node.settings.profile.lab {
        let loops = match node.settings.lab_disks.is_empty() {
            true => Vec::new(),
            false => loop_devices().await?,
        };
        let disks = node.settings.lab_disks.iter();
        let resolved =
            disks.map(|disk| (DiskIdentity::Lab(disk.id), Ok(resolve_lab(disk, &loops))));
        return Ok(resolved.collect());
    }
    let links = node.root.names(BY_ID).into_iter();
    // links of partitions are no identities
    let identities = links.filter_map(|link| {
        let identity: DiskIdentity = format!("{BY_ID}/{link}").parse().ok()?;
        Some((identity, resolve_by_id(&node.root, &link)))
    });
    Ok(identities.collect())
}

/// Size of a disk, and what of the host uses it.
fn uses(
    node: &Node,
    identity: &DiskIdentity,
    name: &str,
    (mounts, swaps): (&[Mount], &[String]),
    unknown: &[&Domain],
) -> HostResult<(u64, Vec<String>)> {
    let facts = crate::disk::facts::attributes(&node.root, name, mounts, swaps)?;
    let mounted = facts
        .mounts
        .iter()
        .map(|(device, at)| format!("{device} is mounted at {at}"));
    let swaps = facts.swaps.iter().map(|device| format!("{device} is swap"));
    let holders = facts
        .holders
        .iter()
        .map(|upper| format!("{upper} is stacked on it"));
    let mut uses: Vec<String> = mounted.chain(swaps).chain(holders).collect();
    for domain in node.probe.named_by(identity, name, &facts, unknown)? {
        uses.push(format!("domain {domain} has it"));
    }
    Ok((facts.bytes, uses))
}

/// Notes what is on a disk that its slot's last holder left with proof, and nobody has since.
async fn note_content(node: &Node, slot: &DeviceRow, name: &str, disk: &mut pb::HostDisk) {
    let Some(generation) = slot.proven_generation.filter(|_| !slot.held) else {
        return;
    };
    let content = match content(node, name).await {
        Ok(content) => content,
        Err(error) => {
            disk.fault = error.message;
            return;
        }
    };
    // somebody may have taken it while it was read
    let now = node.journal.devices().unwrap_or_default();
    if now.iter().any(|one| one == slot) {
        disk.slot_id = slot.slot.to_string();
        disk.proven_generation = generation;
        disk.content = content;
    }
}

/// Signatures and partitions of a disk; as they were read before, when nobody wrote to it since.
async fn content(node: &Node, name: &str) -> HostResult<Vec<String>> {
    if !node.root.is_live() {
        return Ok(Vec::new());
    }
    let written = blocking::here(|| written(&node.root, name));
    let cached = lock(&node.observed.contents).get(name).cloned();
    if let (Some(written), Some((then, content))) = (&written, cached)
        && then == *written
    {
        return Ok(content);
    }
    let signatures = signatures(&Path::new("/dev").join(name), REPORT_LIMIT).await?;
    let partitions = blocking::here(|| crate::disk::stack::partitions(&node.root, name));
    let partitions = partitions.map_err(io_error(format_args!("cannot read {name}")))?;
    let content: Vec<String> = partitions
        .into_iter()
        .map(|partition| format!("partition {partition}"))
        .chain(
            signatures
                .into_iter()
                .map(|kind| format!("signature {kind}")),
        )
        .collect();
    let mut contents = lock(&node.observed.contents);
    match written {
        Some(written) => contents.insert(name.to_owned(), (written, content.clone())),
        None => contents.remove(name),
    };
    Ok(content)
}

/// What the kernel counted of writes and discards of this very disk; none where it does not count.
fn written(root: &HostRoot, name: &str) -> Option<String> {
    let counts = root.read_value(format!("/sys/class/block/{name}/queue/iostats"))?;
    if counts != "1" {
        return None;
    }
    let stat = root.read_value(format!("/sys/class/block/{name}/stat"))?;
    let sequence = root.read_value(format!("/sys/class/block/{name}/diskseq"))?;
    writes(&stat).map(|writes| format!("{sequence} {writes}"))
}

/// Completed writes, written sectors, and the same of discards.
fn writes(stat: &str) -> Option<String> {
    let fields: Vec<&str> = stat.split_whitespace().collect();
    let of = |index: usize| fields.get(index).copied();
    let discards = [of(11), of(13)].map(Option::unwrap_or_default);
    Some([[of(4)?, of(6)?], discards].concat().join(" "))
}

/// Who has which address in the guests' network: reservations, and interfaces of the host.
async fn addresses(node: &Node) -> HostResult<Vec<pb::HostAddress>> {
    // a host whose site makes the network has no reservations of ours
    let reservations = blocking::here(|| node.dhcp.reservations()).unwrap_or_default();
    let reserved = reservations.iter().filter_map(|one| {
        Some(pb::HostAddress {
            allocation_id: AllocationId::of_vm(one.vm.as_str())?.to_string(),
            mac: one.mac.to_string(),
            ip: one.ip.to_string(),
            ..pb::HostAddress::default()
        })
    });
    let mut found: Vec<pb::HostAddress> = reserved.collect();
    if node.root.is_live() {
        let shown = exec::run("ip", &["-json", "-4", "address", "show"], LIMIT).await?;
        found.extend(of_interfaces(
            &shown.success("ip")?.stdout,
            &node.settings.network.gateway,
        ));
    }
    let key = |one: &pb::HostAddress| {
        (
            one.allocation_id.clone(),
            one.interface.clone(),
            one.ip.clone(),
        )
    };
    found.sort_by_key(key);
    Ok(found)
}

/// Addresses of the guests' network that interfaces have. A pure function.
pub(crate) fn of_interfaces(json: &str, gateway: &str) -> Vec<pb::HostAddress> {
    let links: Vec<Link> = ip::parse(json);
    let Some((network, length)) = gateway.split_once('/').and_then(|(ip, length)| {
        let (ip, length): (Ipv4Addr, u32) = (ip.parse().ok()?, length.parse().ok()?);
        Some((u32::from(ip), length.min(32)))
    }) else {
        return Vec::new();
    };
    let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
    let inside = |ip: &str| {
        let ip: Option<Ipv4Addr> = ip.parse().ok();
        ip.is_some_and(|ip| (u32::from(ip) ^ network) & mask == 0)
    };
    let of_link = |link: &Link| -> Vec<pb::HostAddress> {
        let own = link.addr_info.iter().filter(|one| inside(&one.local));
        let address = |one: &Address| pb::HostAddress {
            interface: link.ifname.clone(),
            ip: one.local.clone(),
            ..pb::HostAddress::default()
        };
        own.map(address).collect()
    };
    links.iter().flat_map(of_link).collect()
}

#[cfg(test)]
#[path = "in_use_tests.rs"]
mod tests;
