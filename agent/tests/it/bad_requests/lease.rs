//! Leases with devices and addresses that are not the slot's.
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::SlotBindings;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::world::{NEIGHBOUR, OWN, World, eui, repair};
use super::{Change, Expected, MEGABYTE, bad_texts, invalid, refused, text};
use crate::recorded::reference_host::CORNERS;

fn of_slot(request: &mut pb::AcquireLeaseRequest) -> &mut SlotBindings {
    let slot = request.slots.first_mut().expect("a slot");
    slot.bindings.as_mut().expect("bindings")
}

fn lease_texts() -> Vec<(&'static str, Change<pb::AcquireLeaseRequest>)> {
    vec![
        text(
            "allocation_id",
            |request: &mut pb::AcquireLeaseRequest, bad| {
                request.allocation_id = bad.into();
            },
        ),
        text("slot_id", |request: &mut pb::AcquireLeaseRequest, bad| {
            request.slots[0].slot_id = bad.into();
        }),
        text("slot_id", |request: &mut pb::AcquireLeaseRequest, bad| {
            request.slots[0].replaced_slot_ids = vec![bad.into()];
        }),
        text(
            "gpu_pci_address",
            |request: &mut pb::AcquireLeaseRequest, bad| {
                of_slot(request).gpu_pci_address = bad.into();
            },
        ),
        text(
            "fabric_vf_pci_address",
            |request: &mut pb::AcquireLeaseRequest, bad| {
                of_slot(request).fabric_vf_pci_address = bad.into();
            },
        ),
        text(
            "nvme_device",
            |request: &mut pb::AcquireLeaseRequest, bad| {
                of_slot(request).nvme_device = bad.into();
            },
        ),
        text(
            "nvme_device",
            |request: &mut pb::AcquireLeaseRequest, bad| {
                of_slot(request).nvme_device = format!("{}/{bad}", eui(0));
            },
        ),
        text(
            "management_mac",
            |request: &mut pb::AcquireLeaseRequest, bad| {
                of_slot(request).management_mac = bad.into();
            },
        ),
        text(
            "private_ip",
            |request: &mut pb::AcquireLeaseRequest, bad| {
                of_slot(request).private_ip = bad.into();
            },
        ),
        text(
            "destructive_wipe_policy",
            |request: &mut pb::AcquireLeaseRequest, bad| {
                of_slot(request).destructive_wipe_policy = bad.into();
            },
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p6_no_text_of_a_lease_is_taken_for_a_device_or_a_name() {
    let world = World::new().await;
    let before = world.snapshot().await;
    for (field, set) in lease_texts() {
        for bad in bad_texts() {
            let mut request = repair(OWN);
            set(&mut request, &bad);
            let answer = world.leases().acquire_lease(request).await;
            refused(&format!("{field} {bad}"), answer, invalid(field));
        }
    }
    assert_eq!(world.snapshot().await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p6_d_58_no_lease_has_what_is_the_hosts_or_a_neighbours() {
    type Row = (&'static str, Expected, fn(&mut pb::AcquireLeaseRequest));
    const HELD: Expected = (ErrorReason::LeaseHeld, "");
    const NO_DEVICE: Expected = (ErrorReason::DeviceMissing, "");
    let rows: &[Row] = &[
        ("the OS disk's controller as GPU", NO_DEVICE, |request| {
            of_slot(request).gpu_pci_address = "0000:01:00.0".into();
        }),
        (
            "the OS disk's controller as function",
            NO_DEVICE,
            |request| {
                of_slot(request).fabric_vf_pci_address = "0000:01:00.0".into();
            },
        ),
        ("a data disk's controller as GPU", NO_DEVICE, |request| {
            of_slot(request).gpu_pci_address = CORNERS[0].disk_address();
        }),
        ("a whole fabric card as function", NO_DEVICE, |request| {
            of_slot(request).fabric_vf_pci_address = CORNERS[0].nic_address();
        }),
        ("a function as GPU", NO_DEVICE, |request| {
            of_slot(request).gpu_pci_address = CORNERS[0].function_address();
        }),
        ("a GPU as function", NO_DEVICE, |request| {
            of_slot(request).fabric_vf_pci_address = CORNERS[0].gpu_address();
        }),
        ("the neighbour's GPU", HELD, |request| {
            of_slot(request).gpu_pci_address = CORNERS[1].gpu_address();
        }),
        ("the neighbour's GPU in capitals", HELD, |request| {
            of_slot(request).gpu_pci_address = CORNERS[1].gpu_address().to_uppercase();
        }),
        ("the neighbour's function", HELD, |request| {
            of_slot(request).fabric_vf_pci_address = CORNERS[1].function_address();
        }),
        ("the neighbour's function in capitals", HELD, |request| {
            let address = CORNERS[1].function_address().to_uppercase();
            of_slot(request).fabric_vf_pci_address = address;
        }),
        ("the neighbour's disk", HELD, |request| {
            of_slot(request).nvme_device = eui(1);
        }),
        ("the neighbour's slot", HELD, |request| {
            request.slots[0].slot_id = NEIGHBOUR.slot.to_string();
        }),
        ("the neighbour's slot beside the own", HELD, |request| {
            request.slots.extend(repair(NEIGHBOUR).slots);
        }),
        (
            "a disk by another link",
            invalid("nvme_device"),
            |request| {
                of_slot(request).nvme_device = "/dev/disk/by-path/pci-0000:01:00.0-nvme-1".into();
            },
        ),
        (
            "a disk by its kernel name",
            invalid("nvme_device"),
            |request| {
                of_slot(request).nvme_device = "/dev/nvme4n1".into();
            },
        ),
        (
            "a group address as MAC",
            invalid("management_mac"),
            |request| {
                of_slot(request).management_mac = "ff:ff:ff:ff:ff:ff".into();
            },
        ),
        ("a public address", invalid("private_ip"), |request| {
            of_slot(request).private_ip = "8.8.8.8".into();
        }),
        ("ten thousand slots", invalid("slots"), |request| {
            request.slots = vec![request.slots[0].clone(); 10_000];
        }),
        (
            "a megabyte of a class",
            invalid("slots.slot_class"),
            |request| {
                request.slots[0].slot_class = "a".repeat(MEGABYTE);
            },
        ),
        (
            "a megabyte of a claim mode",
            invalid("slots.bindings.fabric_claim_mode"),
            |request| {
                of_slot(request).fabric_claim_mode = "a".repeat(MEGABYTE);
            },
        ),
        (
            "ten thousand retired slots",
            invalid("slots.replaced_slot_ids"),
            |request| {
                request.slots[0].replaced_slot_ids = vec![OWN.slot.to_string(); 10_000];
            },
        ),
    ];
    let world = World::new().await;
    let before = world.snapshot().await;
    for (what, expected, change) in rows {
        let mut request = repair(OWN);
        change(&mut request);
        let answer = world.leases().acquire_lease(request).await;
        refused(what, answer, *expected);
        assert_eq!(world.snapshot().await, before, "{what}");
    }
}

/// An address is judged before a VM, and not before a wipe: what a site has renumbered must be released all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_vm_has_an_address_of_its_host_or_of_a_neighbour() {
    const HELD: Expected = (ErrorReason::LeaseHeld, "");
    let world = World::new().await;
    let before = world.snapshot().await;
    for bad in ["10.100.0.1", "10.100.0.0", "10.100.0.255"] {
        let mut request = repair(OWN);
        request.purpose = pb::LeasePurpose::Provision.into();
        of_slot(&mut request).private_ip = bad.into();
        let answer = world.leases().acquire_lease(request).await;
        refused(bad, answer, HELD);
    }
    for (mac, ip) in [
        ("52:54:00:10:00:11", "10.100.0.10"),
        ("52:54:00:10:00:1A", "10.100.0.11"),
    ] {
        let mut request = repair(OWN);
        request.purpose = pb::LeasePurpose::Provision.into();
        of_slot(&mut request).management_mac = mac.into();
        of_slot(&mut request).private_ip = ip.into();
        let answer = world.leases().acquire_lease(request).await;
        refused("the neighbour's", answer, HELD);
    }
    for (vcpus, memory_mib, field) in [
        (0, 1024, "shape.vcpus"),
        (u32::MAX, 1024, "shape.vcpus"),
        (2, 0, "shape.memory_mib"),
        (2, u32::MAX, "shape.memory_mib"),
    ] {
        let mut request = repair(OWN);
        request.purpose = pb::LeasePurpose::Provision.into();
        request.shape = Some(pb::VmShape {
            vcpus,
            memory_mib,
            ..pb::VmShape::default()
        });
        let answer = world.leases().acquire_lease(request).await;
        refused(field, answer, invalid(field));
    }
    for (mbps, burst, field) in [
        (Some(0), None, "shape.network_mbps"),
        (Some(u32::MAX), None, "shape.network_mbps"),
        (Some(1), Some(0), "shape.network_burst_kb"),
        (Some(1), Some(u32::MAX), "shape.network_burst_kb"),
    ] {
        let mut request = repair(OWN);
        request.purpose = pb::LeasePurpose::Provision.into();
        let shape = request.shape.as_mut().expect("a shape");
        (shape.network_mbps, shape.network_burst_kb) = (mbps, burst);
        let answer = world.leases().acquire_lease(request).await;
        refused(field, answer, invalid(field));
    }
    assert_eq!(world.snapshot().await, before);
}
