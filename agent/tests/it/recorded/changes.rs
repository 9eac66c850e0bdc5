//! What each change of the good host does: the hosts of the documents' incidents, and some that will come.
use gpuaas_agent::host::recording::{Answer, Entry};
use gpuaas_agent::recorded::Recorded;
use gpuaas_proto::gpuaas::agent::v1::TopologyReport;
use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;

use super::hosts;
use super::reference_host::{CORNERS, Host, good};

async fn discovered(change: impl FnOnce(&mut Host)) -> TopologyReport {
    let mut host = good();
    change(&mut host);
    let host = Recorded::open(host.recording).expect("the recording is laid out");
    host.discover().await
}

/// What blocks each candidate, and what blocks the host.
fn blocked(report: &TopologyReport) -> (Vec<u32>, String) {
    let slots = report
        .candidates
        .iter()
        .filter(|slot| !slot.blockers.is_empty());
    (
        slots.map(|slot| slot.slot_index).collect(),
        report.blockers.join("; "),
    )
}

async fn host_is_blocked(check: &str, change: impl FnOnce(&mut Host)) {
    let report = discovered(change).await;
    let (_, host) = blocked(&report);
    assert!(
        host.contains(&format!("{check}: ")),
        "{check} is no blocker: {host:?}"
    );
}

async fn slot_is_blocked(slot: u32, why: &str, change: impl FnOnce(&mut Host)) {
    let report = discovered(change).await;
    let (slots, host) = blocked(&report);
    assert_eq!(slots, [slot], "{why}");
    // where functions are missing, the whole host is not what it was told to be
    assert!(
        host.is_empty() || host.starts_with("fabric_vfs: "),
        "{why}: {host}"
    );
    let own = &report.candidates[slot as usize].blockers;
    assert!(
        own.iter().any(|blocker| blocker.contains(why)),
        "{why}: {own:?}"
    );
}

/// D-18, D-19: the command line and a libvirt that answers are as on the good host.
#[tokio::test]
async fn inc_08_vmx_is_off_in_the_firmware() {
    host_is_blocked("kvm", hosts::vmx_off).await;
    host_is_blocked("iommu", |host| host.remove("/sys/kernel/iommu_groups")).await;
    host_is_blocked("vfio", |host| host.remove("/sys/module/vfio_pci")).await;
}

/// A-73, A-75, A-150
#[tokio::test]
async fn inc_01_nat_is_missing() {
    host_is_blocked("nat", hosts::nat_missing).await;
    host_is_blocked("ip_forwarding", |host| {
        host.text("/proc/sys/net/ipv4/ip_forward", "0");
    })
    .await;
    host_is_blocked("bridge", |host| {
        let gone = Answer::Ended {
            status: 1,
            stdout: String::new(),
            stderr: "Device \"ovsbr0\" does not exist.".into(),
        };
        let line = "ip -json address show dev ovsbr0".to_owned();
        host.recording.answers.insert(line, gone);
    })
    .await;
    host_is_blocked("dnsmasq", |host| host.remove("/proc/977")).await;
}

/// A-14, A-16: a host is judged by what it shows, whichever image and bootstrap made it.
#[tokio::test]
async fn inc_06_ipoib_is_missing() {
    host_is_blocked("ipoib_netplan", hosts::ipoib_missing).await;
    host_is_blocked("fabric_address", |host| {
        host.answer("ip -json address show", "[]");
    })
    .await;
    host_is_blocked("fabric_route", |host| {
        host.answer("ip -json -4 route show", "[]");
    })
    .await;
}

/// A-84, A-133: a disk that the host mounts is a share of the host, and no slot's.
#[tokio::test]
async fn inc_12_a_child_partition_of_a_slots_disk_is_mounted() {
    let report = discovered(hosts::mounted_child_partition).await;
    // A-131: it is a share of the host, and no slot's
    assert_eq!(report.mounted_nvme_devices, 2);
    let (slots, _) = blocked(&report);
    assert_eq!(slots, [2]);
    assert!(report.candidates[2].blockers[0].contains("has no disk"));
}

/// A-120, A-130
#[tokio::test]
async fn inc_43_a_disk_with_partitions_that_nobody_mounts_is_not_raw() {
    slot_is_blocked(2, "nvme5n1p1", |host| {
        host.partition(&CORNERS[2].disk_folder(), 1, 40);
    })
    .await;
    slot_is_blocked(3, "LVM2_member", |host| {
        let line = format!("wipefs --json --no-act /dev/{}", CORNERS[3].disk_name());
        host.answer(
            line,
            r#"{"signatures":[{"device":"x","offset":"0x218","type":"LVM2_member"}]}"#,
        );
    })
    .await;
}

#[tokio::test]
async fn inc_15_the_names_of_the_disks_moved_with_a_reboot() {
    let before = discovered(|_| ()).await;
    let after = discovered(hosts::disk_names_moved).await;
    assert_eq!(after.candidates[0].kernel_path, "/dev/nvme4n1");
    for (one, other) in before.candidates.iter().zip(&after.candidates) {
        assert_eq!(one.bindings, other.bindings);
        assert_eq!(other.blockers, Vec::<String>::new());
    }
}

#[tokio::test]
async fn p9_the_system_is_on_a_volume_of_a_slots_disk() {
    let report = discovered(hosts::system_on_lvm).await;
    assert_eq!(blocked(&report).0, [4]);
    let disks = report.host.expect("an inventory").disks;
    let disk = disks
        .iter()
        .find(|disk| disk.kernel_name == CORNERS[4].disk_name())
        .expect("a disk");
    let uses: Vec<String> = disk
        .uses
        .iter()
        .map(|one| format!("{} {} {}", one.kind().as_str_name(), one.device, one.detail))
        .collect();
    assert!(
        uses.contains(&"DISK_USE_KIND_LVM dm-0 vg0-root".to_owned()),
        "{uses:?}"
    );
    assert!(
        uses.contains(&"DISK_USE_KIND_MOUNT dm-0 /var".to_owned()),
        "{uses:?}"
    );
}

#[tokio::test]
async fn inc_27_two_slots_share_a_fabric_device_only_with_functions_of_their_own() {
    let first = &CORNERS[0];
    let report = discovered(hosts::shared_fabric_device).await;
    assert_eq!(blocked(&report), (Vec::new(), String::new()));
    let bindings: Vec<_> = report.candidates[..2]
        .iter()
        .map(|slot| slot.bindings.as_ref().unwrap())
        .collect();
    assert_eq!(bindings[0].fabric_device, first.nic_address());
    assert_eq!(bindings[1].fabric_device, first.nic_address());
    assert_ne!(
        bindings[0].fabric_vf_pci_address,
        bindings[1].fabric_vf_pci_address
    );
}

#[tokio::test]
async fn inc_07_a_host_for_bare_metal_is_not_blamed_on_its_devices() {
    let report = discovered(hosts::native_drivers).await;
    // every device is seen; what lacks is what a slice needs
    assert_eq!(report.gpu_devices, 8);
    let (slots, host) = blocked(&report);
    assert_eq!(slots.len(), 8);
    for slot in &report.candidates {
        assert_eq!(
            slot.blockers,
            ["no fabric function with a virtual function is left"]
        );
    }
    assert!(host.contains("gpu_services: "), "{host}");
    let gpus = report.host.expect("an inventory").gpus;
    assert!(gpus.iter().all(|gpu| {
        gpu.function
            .as_ref()
            .is_some_and(|own| own.driver == "nvidia")
    }));
}

#[tokio::test]
async fn a_144_the_virtual_functions_are_half_configured() {
    let device = "/sys/devices/pci0000:48/0000:4d:00.0";
    slot_is_blocked(2, "has 1 of the 4", hosts::half_configured_functions).await;
    slot_is_blocked(2, "no GUID", |host| {
        host.text(format!("{device}/sriov/0/port"), "00:00:00:00:00:00:00:00");
    })
    .await;
    slot_is_blocked(2, "is not there", |host| {
        host.remove("/sys/bus/pci/devices/0000:4d:00.1");
        host.remove("/sys/devices/pci0000:48/0000:4d:00.1");
    })
    .await;
    slot_is_blocked(2, "port 1 is DOWN", |host| {
        host.text(
            format!("{device}/infiniband/mlx5_2/ports/1/state"),
            "1: DOWN",
        );
    })
    .await;
}

#[tokio::test]
async fn a_60_a_gpu_lost_lanes_or_fell_off_the_bus() {
    let gpu = "/sys/devices/pci0000:c7/0000:d1:00.0";
    slot_is_blocked(6, "runs with 8 of 16 lanes", hosts::degraded_gpu_link).await;
    slot_is_blocked(6, "does not answer", |host| {
        let path = format!("{gpu}/config").into();
        host.recording
            .entries
            .insert(path, Entry::Bytes("ff".repeat(64)));
    })
    .await;
    // a release would find out, and block the slot after its first tenant
    slot_is_blocked(6, "has no reset that reaches it alone", |host| {
        host.remove(&format!("{gpu}/reset"));
    })
    .await;
    slot_is_blocked(6, "shares IOMMU group", |host| {
        let link = format!("{gpu}/iommu_group");
        let Some(Entry::Link(group)) = host.recording.entries.get(std::path::Path::new(&link))
        else {
            panic!("no group");
        };
        let group = group.file_name().unwrap().to_string_lossy().into_owned();
        host.link(
            format!("/sys/kernel/iommu_groups/{group}/devices/0000:bc:00.2"),
            "../../../../devices/pci0000:b8/0000:bc:00.2",
        );
    })
    .await;
}

#[tokio::test]
async fn a_65_a_disk_is_dead() {
    let corner = &CORNERS[5];
    slot_is_blocked(5, "its controller is dead", hosts::dead_disk).await;
    slot_is_blocked(5, "it is read-only", |host| {
        let line = format!(
            "nvme smart-log /dev/{} --output-format=json",
            corner.disk_name()
        );
        let log = r#"{"critical_warning":8,"avail_spare":100,"spare_thresh":10,"percent_used":2}"#;
        host.answer(line, log);
    })
    .await;
}

#[tokio::test]
async fn a_board_that_the_platform_does_not_know_makes_no_slots() {
    let report = discovered(hosts::unknown_board).await;
    assert_eq!(blocked(&report), ((0..8).collect(), String::new()));
    for slot in &report.candidates {
        assert_eq!(
            slot.slot_class, "10de:2901",
            "a B200 is not offered as an H200"
        );
    }
    assert_eq!(
        report.legal_groups.len(),
        7,
        "its board is read all the same"
    );
}

#[tokio::test]
async fn b_43_a_board_that_is_known_in_part_reports_no_groups() {
    for change in [
        (|host| host.remove("/var/lib/gpuaas/fabric-partitions.json")) as fn(&mut Host),
        |host| host.remove("/var/lib/gpuaas/nvidia-smi.xml"),
        |host| {
            host.text(
                "/var/lib/gpuaas/fabric-partitions.json",
                "{\"partitionInfo\":",
            );
        },
    ] {
        let report = discovered(change).await;
        assert!(report.legal_groups.is_empty());
        let fabric = report
            .host
            .and_then(|host| host.gpu_fabric)
            .expect("a board");
        assert!(!fabric.missing.is_empty());
    }
}

#[tokio::test]
async fn a_62_a_disk_is_approved_by_what_it_is_called_and_not_by_its_size() {
    for sectors in ["7501476528", "15002931888", "1953525168"] {
        let report = discovered(|host| {
            let size = format!("{}/size", CORNERS[3].disk_folder());
            host.text(size, sectors);
        })
        .await;
        assert_eq!(blocked(&report), (Vec::new(), String::new()), "{sectors}");
        assert_eq!(report.candidates.len(), 8);
        let bindings = report.candidates[3].bindings.as_ref().expect("bindings");
        assert!(bindings.nvme_device.ends_with("10dc41"));
        let bytes = sectors.parse::<u64>().expect("a number") * 512;
        assert_eq!(bindings.nvme_bytes, bytes);
    }
}

#[tokio::test]
async fn a_83_what_the_firmware_has_switched_off_is_told_to_be_the_firmwares() {
    let mut host = good();
    for path in [
        "/dev/kvm",
        "/sys/module/kvm_intel",
        "/sys/kernel/iommu_groups",
    ] {
        host.remove(path);
    }
    let host = Recorded::open(host.recording).expect("the recording is laid out");
    let report = host.readiness().await;
    for check in ["kvm", "iommu"] {
        let found = report.evidence.iter().find(|one| one.check == check);
        let remedy = &found.expect(check).remediation;
        assert!(remedy.contains("in the firmware"), "{check}: {remedy}");
    }
}

#[tokio::test]
async fn a_17_the_driver_of_a_bare_metal_host_answers_for_every_gpu() {
    let judged = async |mode: &str, listed: Option<usize>| {
        let mut host = good();
        host.recording.settings["profile"]["mode"] = mode.into();
        if let Some(listed) = listed {
            let line = |number| format!("GPU {number}: NVIDIA H200 (UUID: GPU-{number})\n");
            let text: String = (0..listed).map(line).collect();
            host.answer("nvidia-smi --list-gpus", text);
        }
        let host = Recorded::open(host.recording).expect("the recording is laid out");
        let report = host.readiness().await;
        let mut found = report.evidence.into_iter();
        let found = found.find(|one| one.check == "gpu_driver").expect("asked");
        assert!(!report.blockers.contains(&found.check));
        (found.status(), found.detail)
    };
    let whole = "the driver lists 8 GPUs of 8 on the bus".to_owned();
    assert_eq!(
        judged("baremetal", Some(8)).await,
        (EvidenceStatus::Pass, whole)
    );
    for listed in [Some(7), Some(0), None] {
        let (status, detail) = judged("baremetal", listed).await;
        assert_eq!(status, EvidenceStatus::Warn, "{listed:?}: {detail}");
    }
    // where VFIO has them, nobody asks (INC-37)
    assert_eq!(judged("slice", None).await.0, EvidenceStatus::Skip);
}
