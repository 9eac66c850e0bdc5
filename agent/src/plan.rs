//! The bundle plan (D-05): what the host will use for an allocation, resolved now from its live state (D-03, D-20, D-21).
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::SlotBindings;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::binding::guard::Guard;
use crate::disk::Intent;
use crate::disk::identity::Resolution;
use crate::disk::policy::WipePolicy;
use crate::disk::probe::identity_of;
use crate::error::{HostError, HostResult};
use crate::host::blocking;
use crate::host::root::HostRoot;
use crate::ids::{AllocationId, ParseError, PciAddress, management_mac, parse_private_ip};
use crate::ip::Ipv4Net;
use crate::lease::Purpose;
use crate::node::Node;
use crate::topology::network::subnet;
use crate::topology::pci::PciKind;
use crate::topology::{pci, readiness};

/// Most virtual CPUs and MiB of memory of a shape.
const MAX_VCPUS: u32 = 512;
const MAX_MEMORY_MIB: u32 = 4 << 20;
/// Most megabits per second of its interface, and most kilobytes of a burst: the switch counts it in kilobits.
const MAX_NETWORK_MBPS: u32 = 1_000_000;
const MAX_NETWORK_BURST_KB: u32 = 250_000;

/// Validates the live state and plans. For a provision everything must be fit; for a release or repair a
/// missing disk leaves its `block_device` empty, since the VM must go all the same.
pub async fn plan(
    node: &Node,
    allocation: AllocationId,
    request: &pb::AcquireLeaseRequest,
    purpose: Purpose,
    known_touched: bool,
) -> HostResult<pb::BundlePlan> {
    let shape = request.shape.unwrap_or_default();
    if matches!(purpose, Purpose::Provision | Purpose::Repair) {
        blocking::here(|| own_devices(&node.root, &request.slots))?;
    }
    if purpose == Purpose::Provision {
        check_shape(node, &shape)?;
        check_address(&node.settings.network.gateway, &request.slots)?;
        check_neighbours(node, allocation, &request.slots)?;
        fit(&readiness::prerequisites(node).await, &request.slots)?;
    }
    let mut gpus = Vec::new();
    let mut functions = Vec::new();
    let mut disks = Vec::new();
    for grant in &request.slots {
        let bindings = grant.bindings.clone().unwrap_or_default();
        disks.push(disk(node, grant, &bindings, purpose, known_touched).await?);
        for (address, list) in [
            (&bindings.gpu_pci_address, &mut gpus),
            (&bindings.fabric_vf_pci_address, &mut functions),
        ] {
            if !address.is_empty() {
                let address: PciAddress = address.parse()?;
                if purpose == Purpose::Provision && !pci::exists(&node.root, &address) {
                    let message = format!(
                        "PCI function {address} of slot {} is not there",
                        grant.slot_id
                    );
                    return Err(HostError::device(ErrorReason::DeviceMissing, message));
                }
                list.push(address.to_string());
            }
        }
    }
    let boot = request
        .slots
        .first()
        .and_then(|slot| slot.bindings.clone())
        .unwrap_or_default();
    let mac = management_mac(&boot.management_mac)?;
    let ip = parse_private_ip(&boot.private_ip)?;
    let profile = &node.settings.profile;
    Ok(pb::BundlePlan {
        vm_name: allocation.vm_name().to_string(),
        shape: Some(shape),
        gpu_pci_addresses: gpus,
        fabric_vf_pci_addresses: functions,
        disks,
        mac: mac.to_string(),
        private_ip: ip.to_string(),
        bridge: node.settings.network.bridge.clone(),
        hypervisor: profile.hypervisor.as_str().to_owned(),
        firmware_code: profile.firmware_code.display().to_string(),
        firmware_vars_template: profile.firmware_vars_template.display().to_string(),
        numa_node: one_numa_node(request),
    })
}

/// Refuses functions that are not what a slot can have, whatever the host would use them for otherwise: a disk's controller, an
/// interface of the host, a GPU in the place of a function. One that is not there is judged where it is needed.
fn own_devices(root: &HostRoot, slots: &[pb::SlotGrant]) -> HostResult<()> {
    let mut named = Vec::new();
    for bindings in slots.iter().filter_map(|slot| slot.bindings.as_ref()) {
        for (field, text, kind) in [
            (
                "gpu_pci_address",
                &bindings.gpu_pci_address,
                Some(PciKind::Gpu),
            ),
            (
                "fabric_vf_pci_address",
                &bindings.fabric_vf_pci_address,
                None,
            ),
        ] {
            if !text.is_empty() {
                let address: PciAddress =
                    text.parse().map_err(|error: ParseError| error.of(field))?;
                named.push((field, address, kind));
            }
        }
    }
    named.retain(|(_, address, _)| pci::exists(root, address));
    if named.is_empty() {
        return Ok(());
    }
    let (guard, devices) = (Guard::new(root)?, pci::devices(root));
    for (field, address, kind) in named {
        let of = devices.iter().find(|device| device.address == address);
        let refused = guard.refusal(&address).or_else(|| {
            (of.map(|device| device.kind) != kind).then(|| "it is of another kind".to_owned())
        });
        if let Some(why) = refused {
            // it speaks against the slot: with another reason it would be allocated again at once
            let message = format!("{field}: {address} is no device of a slot: {why}");
            return Err(HostError::device(ErrorReason::DeviceMissing, message));
        }
    }
    Ok(())
}

/// Refuses an address that is the host's: the gateway's own, the network's or that of its broadcasts.
fn check_address(gateway: &str, slots: &[pb::SlotGrant]) -> HostResult<()> {
    let Some((own, network)) = gateway.split_once('/').zip(subnet(gateway)) else {
        return Ok(()); // a check blocks such a host
    };
    let network: Ipv4Net = network.parse()?;
    let (first, last) = network.ends();
    for bindings in slots.iter().filter_map(|slot| slot.bindings.as_ref()) {
        if bindings.private_ip.is_empty() {
            continue;
        }
        let ip = parse_private_ip(&bindings.private_ip)?;
        if ip == first || ip == last || ip.to_string() == own.0 {
            let message = format!("{ip} belongs to the host, in {network}");
            return Err(HostError::host(ErrorReason::LeaseHeld, message));
        }
    }
    Ok(())
}

/// Refuses the MAC or the address of another VM whose allocation holds a slot here.
fn check_neighbours(
    node: &Node,
    allocation: AllocationId,
    slots: &[pb::SlotGrant],
) -> HostResult<()> {
    for other in node.dhcp.reservations()? {
        let holder = node.holder(&other.vm)?.filter(|one| *one != allocation);
        let (Some(holder), mac, ip) = (holder, other.mac.to_string(), other.ip.to_string()) else {
            continue;
        };
        let mut own = slots.iter().filter_map(|slot| slot.bindings.as_ref());
        if own.any(|own| own.private_ip == ip || own.management_mac.eq_ignore_ascii_case(&mac)) {
            let message = format!("{mac}, {ip} belongs to allocation {holder}, which holds a slot");
            return Err(HostError::host(ErrorReason::LeaseHeld, message));
        }
    }
    Ok(())
}

/// Whether no check blocks the host, and none names a device of these slots.
fn fit(found: &readiness::Prerequisites, slots: &[pb::SlotGrant]) -> HostResult<()> {
    if !found.blockers.is_empty() {
        let list = found.blockers.join(", ");
        return Err(HostError::host(
            ErrorReason::HostNotReady,
            format!("the host is not ready: {list}"),
        ));
    }
    let of_slots = slots.iter().filter_map(|slot| slot.bindings.as_ref());
    let has = |device: &str| {
        of_slots.clone().any(|bindings| {
            [
                &bindings.nvme_device,
                &bindings.gpu_pci_address,
                &bindings.fabric_vf_pci_address,
                &bindings.fabric_device,
            ]
            .into_iter()
            .any(|own| own == device)
        })
    };
    match found.devices.iter().find(|(device, _)| has(device)) {
        Some((_, why)) => Err(HostError::device(ErrorReason::DeviceMissing, why.clone())),
        None => Ok(()),
    }
}

/// Memory is bound to a node only when all slots are of the same one.
fn one_numa_node(request: &pb::AcquireLeaseRequest) -> Option<u32> {
    let mut nodes = request.slots.iter().map(|slot| {
        slot.bindings
            .as_ref()
            .and_then(|bindings| bindings.numa_node)
    });
    let first = nodes.next()??;
    nodes.all(|node| node == Some(first)).then_some(first)
}

fn check_shape(node: &Node, shape: &pb::VmShape) -> HostResult<()> {
    if !(1..=MAX_VCPUS).contains(&shape.vcpus) {
        return Err(HostError::invalid(
            "shape.vcpus",
            format!("must be 1 to {MAX_VCPUS}"),
        ));
    }
    if !(64..=MAX_MEMORY_MIB).contains(&shape.memory_mib) {
        return Err(HostError::invalid(
            "shape.memory_mib",
            format!("must be 64 to {MAX_MEMORY_MIB}"),
        ));
    }
    for (field, limit, most) in [
        ("shape.network_mbps", shape.network_mbps, MAX_NETWORK_MBPS),
        (
            "shape.network_burst_kb",
            shape.network_burst_kb,
            MAX_NETWORK_BURST_KB,
        ),
    ] {
        if limit.is_some_and(|limit| !(1..=most).contains(&limit)) {
            return Err(HostError::invalid(field, format!("must be 1 to {most}")));
        }
    }
    if shape.hugepages {
        let free = readiness::free_hugepages(&node.root);
        if !node.settings.profile.hugepages || free < shape.memory_mib.div_ceil(1024) {
            return Err(HostError::host(
                ErrorReason::HugepagesMissing,
                format!(
                    "{free} free hugepages of 1 GiB do not hold {} MiB",
                    shape.memory_mib
                ),
            ));
        }
    }
    Ok(())
}

async fn disk(
    node: &Node,
    grant: &pb::SlotGrant,
    bindings: &SlotBindings,
    purpose: Purpose,
    known_touched: bool,
) -> HostResult<pb::PlannedDisk> {
    let identity = identity_of(&bindings.nvme_device)?;
    let _policy: WipePolicy = bindings.destructive_wipe_policy.parse()?;
    let device = if purpose == Purpose::Provision && !known_touched {
        let intent = Intent::Clone { touched: false };
        node.probe
            .prove(&identity, bindings.nvme_bytes, intent)
            .await?
            .device()
    } else {
        match node.probe.resolve(&identity).await? {
            Resolution::Device(name) => std::path::Path::new("/dev").join(name),
            Resolution::Missing | Resolution::Ambiguous(_) => std::path::PathBuf::new(),
        }
    };
    Ok(pb::PlannedDisk {
        slot_id: grant.slot_id.clone(),
        identity: identity.to_string(),
        block_device: device.display().to_string(),
        bytes: bindings.nvme_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    ///
    /// D-03, D-20: a bridge that is not there is a blocker as every other check is.
    #[test]
    fn d_11_a_lease_asks_for_what_readiness_found() {
        let slot = |disk: &str| pb::SlotGrant {
            bindings: Some(SlotBindings {
                nvme_device: disk.to_owned(),
                ..SlotBindings::default()
            }),
            ..pb::SlotGrant::default()
        };
        let good = readiness::Prerequisites::default();
        assert_eq!(fit(&good, &[slot("one")]), Ok(()));
        let host = readiness::Prerequisites {
            blockers: vec!["nat".into(), "kvm".into()],
            ..good.clone()
        };
        let error = fit(&host, &[slot("one")]).unwrap_err();
        assert_eq!(error.reason, ErrorReason::HostNotReady);
        assert!(error.message.ends_with("nat, kvm"), "{error}");
        let device = readiness::Prerequisites {
            devices: vec![("two".into(), "slot_disks: two is dead".into())],
            ..good
        };
        assert_eq!(fit(&device, &[slot("one")]), Ok(()), "another slot's disk");
        let error = fit(&device, &[slot("one"), slot("two")]).unwrap_err();
        assert_eq!(error.reason, ErrorReason::DeviceMissing);
    }

    fn lab_node(folder: &std::path::Path, hugepages: bool) -> Node {
        let kernel = folder.join("proc/sys/kernel/random");
        std::fs::create_dir_all(&kernel).unwrap();
        std::fs::write(kernel.join("boot_id"), uuid::Uuid::now_v7().to_string()).unwrap();
        let text = format!(
            "state_dir = {folder:?}\nroot = {folder:?}\nlibvirt_uri = \"test:///default\"\n\
             [profile]\nname = \"lab\"\nlab = true\nhypervisor = \"qemu\"\ncpu_model = \"qemu64\"\nhugepages = {hugepages}\n\
             [images]\ncache_dir = {cache:?}\n[relay]\nkey_file = {key:?}\n[dhcp]\nhosts_dir = {folder:?}\n\
             leases_file = {key:?}\npid_file = {key:?}\n[network]\nbridge_kind = \"linux\"\nmode = \"routed\"\n",
            cache = folder.join("cache"),
            key = folder.join("id"),
        );
        Node::open(toml::from_str(&text).unwrap(), b"").unwrap()
    }

    #[tokio::test]
    async fn d_21_a_profile_that_needs_hugepages_fails_at_once_where_too_few_are_free() {
        let dir = tempfile::tempdir().unwrap();
        let pages = dir
            .path()
            .join("sys/kernel/mm/hugepages/hugepages-1048576kB");
        std::fs::create_dir_all(&pages).unwrap();
        let shape = |hugepages| pb::VmShape {
            vcpus: 2,
            memory_mib: 3 << 10,
            hugepages,
            ..pb::VmShape::default()
        };
        let node = lab_node(dir.path(), true);
        for (free, fits) in [("0", false), ("2", false), ("3", true)] {
            std::fs::write(pages.join("free_hugepages"), free).unwrap();
            let checked = check_shape(&node, &shape(true)).map_err(|error| error.reason);
            let expected = match fits {
                true => Ok(()),
                false => Err(ErrorReason::HugepagesMissing),
            };
            assert_eq!(checked, expected, "{free} free");
            assert_eq!(check_shape(&node, &shape(false)), Ok(()), "asks for none");
        }
        let other = tempfile::tempdir().unwrap();
        let without = lab_node(other.path(), false);
        let refused = check_shape(&without, &shape(true)).unwrap_err();
        assert_eq!(refused.reason, ErrorReason::HugepagesMissing);
    }

    #[tokio::test]
    async fn d_70_a_vm_of_many_slots_has_the_address_of_its_boot_slot() {
        let dir = tempfile::tempdir().unwrap();
        let node = lab_node(dir.path(), false);
        let slot = |index: u32| pb::SlotGrant {
            slot_id: uuid::Uuid::from_u128(u128::from(index) + 1).to_string(),
            bindings: Some(SlotBindings {
                nvme_device: format!("lab-disk:{}", uuid::Uuid::from_u128(u128::from(index) + 9)),
                nvme_bytes: 1 << 30,
                management_mac: format!("52:54:00:10:00:1{index}"),
                private_ip: format!("10.100.0.1{index}"),
                destructive_wipe_policy: "blkdiscard".into(),
                ..SlotBindings::default()
            }),
            ..pb::SlotGrant::default()
        };
        let request = pb::AcquireLeaseRequest {
            slots: vec![slot(4), slot(2), slot(7)],
            ..pb::AcquireLeaseRequest::default()
        };
        let allocation = AllocationId(uuid::Uuid::now_v7());
        let planned = plan(&node, allocation, &request, Purpose::Release, false).await;
        let planned = planned.unwrap();
        assert_eq!(
            (planned.mac.as_str(), planned.private_ip.as_str()),
            ("52:54:00:10:00:14", "10.100.0.14")
        );
        let disks: Vec<&str> = planned
            .disks
            .iter()
            .map(|one| one.slot_id.as_str())
            .collect();
        let requested: Vec<&str> = request
            .slots
            .iter()
            .map(|one| one.slot_id.as_str())
            .collect();
        assert_eq!(disks, requested, "a disk of each slot");
    }
}
