//! Discovery on a recorded H200 host (`tests/fixtures/h200-host`): the reference numbers of the documents.
use std::path::Path;

use gpuaas_agent::disk::DiskProbe;
use gpuaas_agent::host::root::HostRoot;
use gpuaas_agent::settings::HostProfile;
use gpuaas_agent::topology::discover::{gpu_report, inventory};
use gpuaas_agent::topology::inspect;
use gpuaas_agent::topology::readiness::{free_hugepages, virtualisation};
use gpuaas_agent::vm::Hypervisor;
use gpuaas_proto::gpuaas::agent::v1::TopologyReport;
use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;

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

fn recorded() -> HostRoot {
    HostRoot::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/h200-host"))
}

async fn report(root: &HostRoot) -> TopologyReport {
    let devices = inventory(root, "10.100.0.1/24", &[]);
    let hypervisor = Hypervisor::new("test:///default");
    let probe = DiskProbe::new(root.clone(), Vec::new(), hypervisor);
    gpu_report(&devices, &inspect::disks(&probe, &devices.nvme).await)
}

#[tokio::test]
async fn a_69_reference_host_counts() {
    let report = report(&recorded()).await;
    assert_eq!(report.gpu_devices, 8);
    assert_eq!(report.fabric_devices, 12);
    assert_eq!(report.nvme_devices, 9);
    assert_eq!(report.mounted_nvme_devices, 1);
    assert_eq!(report.candidates.len(), 8);
    assert_eq!(report.blockers, Vec::<String>::new());
}

#[tokio::test]
async fn a_71_candidates_bind_slot_index_to_stable_disk() {
    let report = report(&recorded()).await;
    for (index, (candidate, disk)) in report.candidates.iter().zip(DISKS).enumerate() {
        let bindings = candidate.bindings.as_ref().expect("bindings");
        assert_eq!(candidate.slot_index as usize, index);
        assert_eq!(bindings.nvme_device, format!("/dev/disk/by-id/{disk}"));
        assert_eq!(bindings.storage_identity_kind, "nvme_wwn_by_id");
        assert!(
            candidate.kernel_path.starts_with("/dev/nvme"),
            "advisory only"
        );
        assert_eq!(candidate.blockers, Vec::<String>::new());
        assert_eq!(bindings.private_ip, format!("10.100.0.{}", 10 + index));
        assert!(bindings.management_mac.starts_with("52:54:00:"));
    }
}

#[tokio::test]
async fn inc_16_symlinked_pci_entries_are_seen() {
    let root = recorded();
    let entry = root.path("/sys/bus/pci/devices/0000:1b:00.0");
    assert!(entry.symlink_metadata().expect("entry").is_symlink());
    let report = report(&root).await;
    let first = report.candidates[0].bindings.as_ref().expect("bindings");
    assert_eq!(first.gpu_pci_address, "0000:1b:00.0");
    assert_eq!(first.numa_node, Some(0));
}

#[tokio::test]
async fn inc_17_path_devices_and_the_mounted_disk_are_no_candidates() {
    let report = report(&recorded()).await;
    for candidate in &report.candidates {
        assert!(
            !candidate.kernel_path.starts_with("/dev/nvme4"),
            "{}",
            candidate.kernel_path
        );
    }
}

#[tokio::test]
async fn inc_27_every_slot_has_a_fabric_function_of_its_own() {
    let report = report(&recorded()).await;
    let mut parents = std::collections::BTreeSet::new();
    let mut functions = std::collections::BTreeSet::new();
    for candidate in &report.candidates {
        let bindings = candidate.bindings.as_ref().expect("bindings");
        assert!(
            parents.insert(bindings.fabric_device.clone()),
            "{} twice",
            bindings.fabric_device
        );
        assert!(functions.insert(bindings.fabric_vf_pci_address.clone()));
        assert_eq!(bindings.fabric_claim_mode, "per_slot_vf");
    }
}

#[tokio::test]
async fn a_68_suggestions_are_the_same_every_time() {
    let one = report(&recorded()).await;
    let two = report(&recorded()).await;
    assert_eq!(one, two);
}

/// A disk is proposed without a blocker only when its inspection found none.
#[tokio::test]
async fn d_29_a_gpu_hosts_disk_is_inspected_like_any_other() {
    let root = recorded();
    let devices = inventory(&root, "10.100.0.1/24", &[]);
    let unseen = gpu_report(&devices, &std::collections::BTreeMap::new());
    for candidate in &unseen.candidates {
        assert!(
            candidate.blockers[0].ends_with("was not inspected"),
            "{:?}",
            candidate.blockers
        );
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

#[test]
fn d_15_the_recorded_host_passes_virtualisation() {
    let profile: HostProfile = toml::from_str(
        "name = \"h200-slice\"\nhypervisor = \"kvm\"\ncpu_model = \"host-passthrough\"",
    )
    .expect("profile");
    let root = recorded();
    for finding in virtualisation(&root, &profile) {
        assert_eq!(finding.status, EvidenceStatus::Pass, "{finding:?}");
    }
    assert_eq!(free_hugepages(&root), 512);
}
