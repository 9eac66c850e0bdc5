//! Discovery on the good host: the reference numbers of the documents, and everything that operators are shown.
use std::collections::BTreeSet;
use std::fs;

use gpuaas_agent::recorded::Recorded;
use gpuaas_proto::gpuaas::agent::v1::TopologyReport;
use gpuaas_proto::gpuaas::common::v1::{EvidenceStatus, NetworkAddressKind};

use super::reference_host::{CORNERS, good};

/// By-id values of the slots, in order.
const DISKS: [&str; 8] = [
    "nvme-eui.000000000000000100a075244a103331",
    "nvme-eui.000000000000000100a075244a10dcab",
    "nvme-eui.000000000000000100a075244a103489",
    "nvme-eui.000000000000000100a075244a10dc41",
    "nvme-eui.000000000000000100a075244a10dc98",
    "nvme-eui.000000000000000100a075244a10e101",
    "nvme-eui.000000000000000100a075244a10e115",
    "nvme-eui.000000000000000100a075244a103483",
];

async fn report() -> TopologyReport {
    let host = Recorded::open(good().recording).expect("the recording is laid out");
    host.discover().await
}

/// free pages are reported.
#[tokio::test]
async fn a_69_reference_host_counts() {
    let report = report().await;
    assert_eq!(report.gpu_devices, 8);
    assert_eq!(report.fabric_devices, 12);
    assert_eq!(report.nvme_devices, 9);
    assert_eq!(report.mounted_nvme_devices, 1);
    assert_eq!(report.candidates.len(), 8);
    assert_eq!(report.blockers, Vec::<String>::new());
    assert_eq!(report.hugepages_1g_free, 512);
    assert_eq!(report.schema_version, gpuaas_proto::TOPOLOGY_SCHEMA_VERSION);
}

#[tokio::test]
async fn a_105_a_disk_tells_by_which_manifest_it_was_taken_over() {
    let host = Recorded::open(good().recording).expect("the recording is laid out");
    let folder = host.tree().join("var/log/gpuaas");
    fs::create_dir_all(&folder).expect("a folder");
    let disk = format!("/dev/disk/by-id/{}", DISKS[1]);
    let text = format!(
        "step=prove_raw detail={disk}\\ \\(/dev/nvme1n1\\)\noutcome=done\nstorage_ownership=slice\nstorage_mode=slice\n"
    );
    let name = "slice-storage-transition-20260417152532.txt";
    fs::write(folder.join(name), text).expect("a manifest");
    let report = host.discover().await;
    let told = report.inspected_devices.iter();
    let told: Vec<_> = told
        .filter(|one| !one.storage_transition_manifest.is_empty())
        .map(|one| (&one.device, &one.storage_transition_manifest))
        .collect();
    assert_eq!(told, [(&disk, &format!("/var/log/gpuaas/{name}"))]);
}

/// as a host proposes them.
/// D-81: discovery and candidates are the agent's.
#[tokio::test]
async fn a_71_candidates_bind_slot_index_to_stable_disk() {
    let report = report().await;
    for (index, (candidate, disk)) in report.candidates.iter().zip(DISKS).enumerate() {
        let bindings = candidate.bindings.as_ref().expect("bindings");
        assert_eq!(candidate.slot_index as usize, index);
        assert_eq!(candidate.slot_class, "h200_sxm");
        assert_eq!(bindings.nvme_device, format!("/dev/disk/by-id/{disk}"));
        assert_eq!(bindings.storage_identity_kind, "nvme_wwn_by_id");
        assert!(
            candidate.kernel_path.starts_with("/dev/nvme"),
            "advisory only"
        );
        assert_eq!(candidate.blockers, Vec::<String>::new());
        assert_eq!(bindings.private_ip, format!("10.100.0.{}", 10 + index));
        assert!(bindings.management_mac.starts_with("52:54:00:"));
        // of the same corner of the host
        assert_eq!(bindings.gpu_pci_address, CORNERS[index].gpu_address());
        assert_eq!(
            bindings.fabric_vf_pci_address,
            CORNERS[index].function_address()
        );
        assert!(bindings.gpu_module_id.is_some());
    }
}

///
#[tokio::test]
async fn inc_16_symlinked_pci_entries_are_seen() {
    let host = Recorded::open(good().recording).expect("the recording is laid out");
    let entry = host.tree().join("sys/bus/pci/devices/0000:1b:00.0");
    assert!(entry.symlink_metadata().expect("entry").is_symlink());
    let report = host.discover().await;
    let first = report.candidates[0].bindings.as_ref().expect("bindings");
    assert_eq!(first.gpu_pci_address, "0000:1b:00.0");
    assert_eq!(first.numa_node, Some(0));
}

/// only candidates can be approved.
#[tokio::test]
async fn inc_17_path_devices_and_the_mounted_disk_are_no_candidates() {
    for candidate in report().await.candidates {
        let path = &candidate.kernel_path;
        assert!(!path.starts_with("/dev/nvme4"), "{path}");
    }
}

#[tokio::test]
async fn inc_27_every_slot_has_a_fabric_function_of_its_own() {
    let report = report().await;
    let (mut parents, mut functions) = (BTreeSet::new(), BTreeSet::new());
    for candidate in &report.candidates {
        let bindings = candidate.bindings.as_ref().expect("bindings");
        let parent = &bindings.fabric_device;
        assert!(parents.insert(parent.clone()), "{parent} twice");
        assert!(functions.insert(bindings.fabric_vf_pci_address.clone()));
        assert_eq!(bindings.fabric_claim_mode, "per_slot_vf");
    }
}

#[tokio::test]
async fn a_68_suggestions_are_the_same_every_time() {
    let (mut one, mut two) = (report().await, report().await);
    for report in [&mut one, &mut two] {
        for evidence in &mut report.evidence {
            evidence.observed_at = None;
            // where the recording was laid out
            if evidence.check == "image_cache" || evidence.check == "relay_key" {
                evidence.detail.clear();
            }
        }
    }
    assert_eq!(one, two);
}

#[tokio::test]
async fn b_43_a_host_offers_pairs_and_halves_of_its_board() {
    let report = report().await;
    let groups: Vec<Vec<u32>> = report
        .legal_groups
        .into_iter()
        .map(|group| group.module_ids)
        .collect();
    let expected: [&[u32]; 7] = [
        &[1, 3],
        &[2, 4],
        &[5, 7],
        &[6, 8],
        &[1, 2, 3, 4],
        &[5, 6, 7, 8],
        &[1, 2, 3, 4, 5, 6, 7, 8],
    ];
    assert_eq!(groups, expected);
    let fabric = report
        .host
        .and_then(|host| host.gpu_fabric)
        .expect("a board");
    assert_eq!(fabric.legal_groups.len(), 7);
    assert_eq!(
        (fabric.missing.as_str(), fabric.source.is_empty()),
        ("", false)
    );
}

/// K-15. Typed discovery is there (CON-18).
#[tokio::test]
async fn d_15_the_good_host_passes_every_check() {
    let host = Recorded::open(good().recording).expect("the recording is laid out");
    let report = host.readiness().await;
    for one in &report.evidence {
        assert_ne!(one.status(), EvidenceStatus::Fail, "{one:?}");
    }
    assert_eq!(report.hugepages_1g_free, 512);
}

///
#[tokio::test]
async fn h_29_an_operator_is_shown_everything_the_host_consists_of() {
    let host = report().await.host.expect("an inventory");
    assert_eq!(host.unreadable, Vec::<String>::new());
    let machine = host.machine.expect("a machine");
    assert_eq!(machine.model, "PowerEdge XE9680L");
    assert_eq!(machine.bios_version, "2.5.4");
    assert_eq!(machine.operating_system, "Ubuntu 24.04.3 LTS");
    assert_eq!(host.processors[0].model, "INTEL(R) XEON(R) PLATINUM 8592+");
    assert_eq!(machine.chassis_serial, "7QX4K24");
    assert_eq!(host.processors.len(), 2);
    assert!(host.processors.iter().all(|one| one.virtualization));
    assert_eq!(host.numa_nodes[1].distances, [21, 10]);
    assert_eq!(host.numa_nodes[0].hugepages_1g, 256);
    assert_eq!(host.nvswitches.len(), 4);

    let gpu = &host.gpus[0];
    let function = gpu.function.as_ref().expect("a function");
    assert_eq!(function.bar_bytes, [16 << 20, 0, 256 << 30, 0, 32 << 20, 0]);
    assert_eq!(function.driver, "vfio-pci");
    assert_eq!(function.native_driver, "nvidia");
    assert_eq!(function.serial, "165292401b");
    assert_eq!(function.iommu_companions, Vec::<String>::new());
    let link = function.link.as_ref().expect("a link");
    assert_eq!((link.width, link.degraded), (16, false));
    assert_eq!(gpu.module_id, Some(2));

    let disk = host
        .disks
        .iter()
        .find(|disk| disk.kernel_name == "nvme2n1")
        .expect("a disk");
    assert_eq!(disk.wwid, "eui.000000000000000100a075244a103331");
    assert_eq!(disk.serial, "2348103331");
    assert!(
        disk.erase
            .is_some_and(|erase| erase.discard && erase.format && erase.sanitize_block)
    );
    assert_eq!(disk.health.map(|health| health.percent_used), Some(2));
    assert!(disk.uses.is_empty());
    let system = host
        .disks
        .iter()
        .find(|disk| disk.kernel_name == "nvme4n1")
        .expect("a disk");
    assert!(
        system.uses.iter().any(|one| one.detail == "/"),
        "{:?}",
        system.uses
    );

    let fabric = &host.fabric_devices[0];
    assert_eq!(fabric.rdma_device, "mlx5_0");
    assert_eq!(fabric.ports[0].state, "ACTIVE");
    assert_eq!(
        fabric.function.as_ref().map(|own| own.serial.as_str()),
        Some("MT230")
    );
    assert_eq!((fabric.sriov_totalvfs, fabric.sriov_numvfs), (16, 1));
    assert_eq!(
        fabric.virtual_functions[0].node_guid,
        "a0:88:c2:03:00:cd:00:01"
    );
    // its Ethernet controllers, and not the interface to its own processor
    let cards = host.fabric_devices.iter().filter(|one| one.bluefield);
    let cards: Vec<&str> = cards
        .filter_map(|one| Some(one.function.as_ref()?.pci_address.as_str()))
        .collect();
    assert_eq!(cards, ["0000:bc:00.0", "0000:bc:00.1"]);

    let kinds: BTreeSet<NetworkAddressKind> = host
        .addresses
        .iter()
        .map(gpuaas_proto::gpuaas::common::v1::NetworkAddress::kind)
        .collect();
    assert_eq!(kinds.len(), 6, "{:?}", host.addresses);
    // those of the documents' host, each by its kind
    for (kind, address) in [
        (NetworkAddressKind::Overlay, "100.127.75.81/32"),
        (NetworkAddressKind::Bmc, "10.177.3.241/22"),
    ] {
        let of_kind = host.addresses.iter().find(|one| one.kind() == kind);
        assert_eq!(of_kind.map(|one| one.address.as_str()), Some(address));
    }
    assert_eq!(host.neighbors[0].switch_name, "leaf-7");
    assert_eq!(
        host.location.map(|location| location.rack).as_deref(),
        Some("r12")
    );
}

/// A disk is proposed without a blocker only when its inspection found none.
#[tokio::test]
async fn d_29_a_gpu_hosts_disk_is_inspected_like_any_other() {
    use gpuaas_agent::disk::DiskProbe;
    use gpuaas_agent::host::root::HostRoot;
    use gpuaas_agent::topology::discover::{gpu_report, inventory};
    use gpuaas_agent::topology::inspect;
    use gpuaas_agent::vm::Hypervisor;

    let host = Recorded::open(good().recording).expect("the recording is laid out");
    let root = HostRoot::new(host.tree());
    let devices = inventory(&root, "10.100.0.1/24", &[], None).await;
    let unseen = gpu_report(&devices, &std::collections::BTreeMap::new());
    for candidate in &unseen.candidates {
        let first = &candidate.blockers[0];
        assert!(first.ends_with("was not inspected"), "{first}");
    }
    let probe = DiskProbe::new(root, Vec::new(), Hypervisor::new("test:///default"));
    let mut inspections = inspect::disks(&probe, &devices.nvme).await;
    let link = format!("/dev/disk/by-id/{}", DISKS[0]);
    let first = inspections.get_mut(&link).expect("inspected");
    first.blockers.push("process 7 (mkfs) holds it open".into());
    let report = gpu_report(&devices, &inspections);
    assert!(report.candidates[0].blockers[0].contains("process 7"));
    assert!(report.candidates[1].blockers.is_empty());
}
