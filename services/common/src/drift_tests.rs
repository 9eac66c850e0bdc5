use gpuaas_proto::gpuaas::agent::v1::{DeviceFault, HostAddress};

use super::*;

const SLOT: &str = "0192f0c1-aaaa-7bbb-8ccc-000000000001";
const MINE: &str = "0192f0c1-aaaa-7bbb-8ccc-0000000000a1";
const OTHER: &str = "0192f0c1-aaaa-7bbb-8ccc-0000000000a2";

fn bindings() -> SlotBindings {
    SlotBindings {
        gpu_pci_address: "0000:1b:00.0".into(),
        gpu_module_id: Some(1),
        numa_node: Some(0),
        nvme_device: "/dev/disk/by-id/nvme-eui.000000000000000100a075244a103331".into(),
        storage_identity_kind: "nvme_wwn_by_id".into(),
        management_mac: "52:54:00:00:00:01".into(),
        private_ip: "10.100.0.10".into(),
        fabric_device: "0000:1a:00.0".into(),
        fabric_vf_pci_address: "0000:1a:00.1".into(),
        fabric_claim_mode: "per_slot_vf".into(),
        destructive_wipe_policy: "blkdiscard".into(),
        nvme_bytes: 1 << 40,
    }
}

fn host() -> HostDevices {
    let function = |address: &str, parent: &str| HostFunction {
        pci_address: address.into(),
        driver: SLICE_DRIVER.into(),
        numa_node: Some(0),
        physical_function: parent.into(),
        ..HostFunction::default()
    };
    HostDevices {
        functions: vec![
            function("0000:1a:00.1", "0000:1a:00.0"),
            function("0000:1b:00.0", ""),
        ],
        disks: vec![HostDisk {
            identity: bindings().nvme_device,
            bytes: 1 << 40,
            slot_id: SLOT.into(),
            proven_generation: 3,
            ..HostDisk::default()
        }],
        addresses: vec![
            HostAddress {
                allocation_id: MINE.into(),
                mac: "52:54:00:00:00:01".into(),
                ip: "10.100.0.10".into(),
                ..HostAddress::default()
            },
            HostAddress {
                interface: "ovsbr0".into(),
                ip: "10.100.0.1".into(),
                ..HostAddress::default()
            },
        ],
        ..HostDevices::default()
    }
}

fn kinds(host: &HostDevices, content: Content<'_>) -> Vec<&'static str> {
    let approved = Approved {
        bindings: &bindings(),
        content,
        allocations: &BTreeSet::from([MINE.to_owned()]),
    };
    let found = compare(&approved, host);
    for drift in &found {
        let wire = drift.to_proto(None);
        assert!(
            wire.message.ends_with('.') && wire.remediation.ends_with('.'),
            "{wire:?}"
        );
    }
    found.into_iter().map(|drift| drift.kind.as_str()).collect()
}

const SINCE_3: Content<'static> = Content::EmptySince {
    slot_id: SLOT,
    generation: 3,
};

#[test]
fn a_host_that_has_what_was_approved_has_no_drift() {
    assert!(kinds(&host(), SINCE_3).is_empty());
    assert!(kinds(&host(), Content::Empty).is_empty());
}

#[test]
fn d_80_every_difference_has_its_kind() {
    type Change = fn(&mut HostDevices);
    let table: [(Change, &[&str]); 22] = [
        (|h| drop(h.functions.remove(1)), &["gpu_missing"]),
        (
            |h| h.functions[1].fault = "does not answer on its bus".into(),
            &["gpu_faulty"],
        ),
        (|h| h.functions[1].numa_node = Some(1), &["gpu_moved"]),
        (|h| h.functions[1].numa_node = None, &[]),
        (
            |h| h.functions[1].driver = "nvidia".into(),
            &["driver_rebound"],
        ),
        // libvirt binds it when its VM starts, and leaves it without a driver after that
        (|h| h.functions[0].driver.clear(), &[]),
        (|h| h.functions[1].driver = "mlx5_vfio_pci".into(), &[]),
        (
            |h| h.functions[1].used_by = "somebody".into(),
            &["unknown_domain"],
        ),
        (|h| drop(h.functions.remove(0)), &["function_missing"]),
        (
            |h| h.functions[0].fault = "cannot be read".into(),
            &["function_faulty"],
        ),
        (
            |h| h.functions[0].physical_function = "0000:9a:00.0".into(),
            &["function_moved"],
        ),
        (|h| h.disks.clear(), &["disk_missing"]),
        (
            |h| h.disks[0].fault = "input/output error".into(),
            &["disk_faulty"],
        ),
        (|h| h.disks[0].bytes = 1 << 39, &["disk_replaced"]),
        (
            |h| h.disks[0].uses = vec!["nvme1n1p1 is mounted at /mnt".into()],
            &["disk_in_use"],
        ),
        (
            |h| h.disks[0].content = vec!["signature ext4".into()],
            &["disk_content"],
        ),
        (
            |h| h.addresses[0].allocation_id = OTHER.into(),
            &["duplicate_mac", "duplicate_address"],
        ),
        (
            |h| h.addresses[1].ip = "10.100.0.10".into(),
            &["duplicate_address"],
        ),
        (
            |h| {
                h.addresses[1].mac = "52:54:00:00:00:01".into();
            },
            &["duplicate_mac"],
        ),
        (
            |h| {
                let fault = |device: &str| DeviceFault {
                    device: device.into(),
                    check: "link_width".into(),
                };
                h.faults = vec![fault("0000:1b:00.0"), fault("0000:ff:00.0")];
            },
            &["check_failed"],
        ),
        (
            |h| {
                h.functions[1].fault = "does not answer on its bus".into();
                h.faults = vec![DeviceFault {
                    device: "0000:1b:00.0".into(),
                    check: "link_width".into(),
                }];
            },
            &["gpu_faulty"],
        ),
        (
            |h| {
                h.functions[1].pci_address = "0000:1C:00.0".into();
                h.disks.clear();
            },
            &["gpu_missing", "disk_missing"],
        ),
    ];
    for (number, (change, expected)) in table.into_iter().enumerate() {
        let mut host = host();
        change(&mut host);
        assert_eq!(kinds(&host, SINCE_3), expected, "change {number}");
    }
}

#[test]
fn p2_what_was_observed_before_the_wipe_says_nothing_of_the_disk_after_it() {
    let mut host = host();
    host.disks[0].content = vec!["signature ext4".into()];
    let since = |slot_id, generation| Content::EmptySince {
        slot_id,
        generation,
    };
    assert_eq!(kinds(&host, since(SLOT, 2)), ["disk_content"]);
    assert!(kinds(&host, since(SLOT, 4)).is_empty());
    assert!(kinds(&host, since(OTHER, 3)).is_empty());
    assert!(kinds(&host, Content::Ignored).is_empty());
    assert_eq!(kinds(&host, Content::Empty), ["disk_content"]);
}

#[test]
fn rules_that_are_not_in_force_mark_the_guests_they_are_of() {
    let mut host = host();
    host.unprotected_allocations = vec![MINE.into()];
    let found = rules_missing(MINE, &bindings(), &host).expect("missing");
    assert_eq!(found.kind, Kind::RulesMissing);
    assert_eq!(rules_missing(OTHER, &bindings(), &host), None);
}

#[test]
fn names_on_the_wire_are_those_that_are_stored() {
    for kind in Kind::ALL {
        let stored = serde_json::to_value(kind).expect("text");
        assert_eq!(stored, kind.as_str());
    }
}

#[test]
fn p11_the_owner_reads_which_part_and_nothing_of_the_host() {
    let mut host = host();
    host.functions.clear();
    host.disks.clear();
    let bindings = bindings();
    let approved = Approved {
        bindings: &bindings,
        content: Content::Ignored,
        allocations: &BTreeSet::new(),
    };
    let text = for_owner(&compare(&approved, &host));
    assert!(text.contains("GPU, disk, fabric function"), "{text}");
    assert!(!text.contains("0000:") && !text.contains("nvme"), "{text}");
}
