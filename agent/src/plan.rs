//! The bundle plan (D-05): what the host will use for an allocation, resolved now.
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::SlotBindings;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::disk::Intent;
use crate::disk::identity::Resolution;
use crate::disk::probe::identity_of;
use crate::disk::wipe::WipePolicy;
use crate::error::{HostError, HostResult};
use crate::ids::{AllocationId, PciAddress, management_mac, parse_private_ip};
use crate::lease::Purpose;
use crate::node::Node;
use crate::topology::{pci, readiness};

/// Most virtual CPUs and MiB of memory of a shape.
const MAX_VCPUS: u32 = 512;
const MAX_MEMORY_MIB: u32 = 4 << 20;

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
    if purpose == Purpose::Provision {
        check_shape(node, &shape)?;
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
}
