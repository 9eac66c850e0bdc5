//! Every check that looks at the host has a host that passes it, and one that does not.
use std::collections::BTreeMap;

use gpuaas_agent::host::recording::{Answer, Entry};
use gpuaas_agent::recorded::Recorded;
use gpuaas_proto::gpuaas::agent::v1::ReadinessReport;
use gpuaas_proto::gpuaas::common::v1::{CheckSeverity, EvidenceStatus};

use super::hosts;
use super::reference_host::{CORNERS, Host, good};
use super::shipped::shipped;

type Change = fn(&mut Host);

/// By the check's name, what makes it fail or warn.
const CHANGES: [(&str, Change); 31] = [
    ("site_bootstrap", |host| {
        host.remove("/var/lib/gpuaas/site-bootstrap/h200-ib.done");
    }),
    ("rdma_tools", |host| host.remove("/usr/bin/rdma")),
    ("iommu_groups", |host| {
        host.remove("/sys/devices/pci0000:15/0000:1b:00.0/iommu_group");
    }),
    ("vfio_binding", |host| {
        let driver = "/sys/devices/pci0000:15/0000:1b:00.0/driver";
        host.link(driver, "../../../bus/pci/drivers/nvidia");
    }),
    ("gpu_links", hosts::degraded_gpu_link),
    ("disk_health", hosts::failing_disk),
    ("vf_links", hosts::function_without_link),
    ("slot_disks", |host| {
        host.text("/sys/class/nvme/nvme2/state", "dead");
    }),
    ("fabric_vfs", |host| {
        host.text("/sys/devices/pci0000:15/0000:1a:00.0/sriov_numvfs", "4");
    }),
    ("fabric_links", |host| {
        let state = "/sys/devices/pci0000:15/0000:1a:00.0/infiniband/mlx5_0/ports/1/state";
        host.text(state, "1: DOWN");
    }),
    ("libvirt", |host| failed(host, "probe libvirt-version")),
    ("kvm", |host| host.remove("/sys/module/kvm_intel")),
    ("iommu", |host| host.remove("/sys/kernel/iommu_groups")),
    ("vfio", |host| host.remove("/sys/module/vfio_pci")),
    ("firmware", |host| {
        host.remove("/usr/share/OVMF/OVMF_CODE_4M.fd");
    }),
    ("libvirt_folder", |host| {
        host.recording
            .entries
            .insert("/var/lib/libvirt".into(), Entry::Folder(0o700));
    }),
    ("gpu_services", |host| {
        host.text("/proc/900/comm", "nvidia-persiste");
        host.text("/proc/900/stat", "900 (nvidia-persiste) S 1");
        host.link("/proc/900/ns/mnt", "mnt:[4026531841]");
    }),
    ("hugepages", |host| {
        host.text(
            "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages",
            "0",
        );
    }),
    ("tools", |host| host.remove("/usr/bin/blkdiscard")),
    ("tools", |host| host.remove("/usr/bin/nvme")),
    ("ip_forwarding", |host| {
        host.text("/proc/sys/net/ipv4/ip_forward", "0");
    }),
    ("bridge", |host| {
        host.answer("ip -json address show dev ovsbr0", "[]");
    }),
    ("ovs_bridge", |host| {
        failed(host, "ovs-vsctl --timeout=5 br-exists ovsbr0");
    }),
    ("nat", |host| {
        host.answer("nft --json list ruleset", "{\"nftables\":[]}");
    }),
    ("dnsmasq", |host| host.text("/proc/977/comm", "cron")),
    ("ipoib_netplan", |host| {
        host.remove("/etc/netplan/60-ipoib.yaml");
    }),
    ("fabric_address", |host| {
        host.answer("ip -json address show", "[]");
    }),
    ("fabric_route", |host| {
        host.answer("ip -json -4 route show", "[]");
    }),
    ("tmfifo", |host| {
        let text = r#"[{"ifname":"ibp26s0","addr_info":[{"family":"inet","local":"192.168.4.7"}]},{"ifname":"tmfifo_net0"}]"#;
        host.answer("ip -json address show", text);
    }),
    ("netdata", |host| host.remove("/proc/self/net/tcp")),
    ("reboot", |host| host.text("/run/reboot-required", "")),
];

fn failed(host: &mut Host, line: &str) {
    let answer = Answer::Failed("it did not answer".into());
    assert!(
        host.recording
            .answers
            .insert(line.to_owned(), answer)
            .is_some(),
        "{line}"
    );
}

async fn evidence(change: Change) -> BTreeMap<String, EvidenceStatus> {
    let mut host = good();
    change(&mut host);
    let host = Recorded::open(host.recording).expect("the recording is laid out");
    let report = host.readiness().await;
    let all = report.evidence.iter();
    all.map(|one| (one.check.clone(), one.status())).collect()
}

/// A-81: among them that of a restart that waits, and of the site's bootstrap.
#[tokio::test]
async fn a_86_every_check_of_the_host_has_one_that_passes_and_one_that_fails() {
    // what the agent has of its own, and is not the host's
    const OWN: [&str; 4] = ["relay_key", "image_cache", "vms_after_restart", "settings"];
    let passed = evidence(|_| ()).await;
    for (check, status) in &passed {
        let has_change = CHANGES.iter().any(|(own, _)| own == check);
        let needs_one = *status == EvidenceStatus::Pass && !OWN.contains(&check.as_str());
        assert_eq!(has_change, needs_one, "{check} is {status:?}");
    }
    for (check, change) in CHANGES {
        assert_eq!(passed[check], EvidenceStatus::Pass, "{check}");
        let found = evidence(change).await[check];
        assert!(
            matches!(found, EvidenceStatus::Fail | EvidenceStatus::Warn),
            "{check} is {found:?}"
        );
    }
}

/// One corner of a shipped host is not as it should be: the check names the device of that corner, which takes one slot out of
/// service and not the host.
#[tokio::test]
async fn a_86_what_is_wrong_with_one_device_of_a_shipped_host_is_named_and_blocks_its_slot_alone() {
    let report = async |name: &str| -> ReadinessReport {
        let host = Recorded::open(shipped(name)).expect("the recording is laid out");
        host.readiness().await
    };
    let good = report("xe9680l").await;
    let by_id = |corner: usize| {
        format!(
            "/dev/disk/by-id/nvme-eui.000000000000000100a075244a{}",
            CORNERS[corner].eui
        )
    };
    for (name, check, device) in [
        ("degraded-gpu-link", "gpu_links", CORNERS[6].gpu_address()),
        ("failing-disk", "disk_health", by_id(1)),
        (
            "function-without-link",
            "vf_links",
            CORNERS[3].function_address(),
        ),
        ("dead-disk", "slot_disks", by_id(5)),
        (
            "half-configured-functions",
            "fabric_vfs",
            CORNERS[2].nic_address(),
        ),
    ] {
        let of = |report: &ReadinessReport| {
            let mut all = report.evidence.iter();
            all.find(|one| one.check == check)
                .expect("evidence")
                .clone()
        };
        assert_eq!(of(&good).status(), EvidenceStatus::Pass, "{check}");
        let found = report(name).await;
        assert_eq!(
            found.blockers,
            Vec::<String>::new(),
            "{name}: the host is well"
        );
        let found = of(&found);
        assert_eq!(found.status(), EvidenceStatus::Fail, "{name}: {found:?}");
        assert_eq!(found.severity(), CheckSeverity::Hard, "{name}");
        assert_eq!(found.devices, [device], "{name}: {found:?}");
        let remedy = gpuaas_agent::checks::find(check).expect("a check").remedy;
        assert_eq!(found.remediation, remedy, "{name}");
    }
}

/// A host for bare metal has no slots to lose: a link or a disk that is bad is told.
#[tokio::test]
async fn inc_07_a_bare_metal_host_is_told_of_a_bad_link_and_a_bad_disk() {
    let mut host = good();
    hosts::bare_metal(&mut host);
    hosts::degraded_gpu_link(&mut host);
    hosts::failing_disk(&mut host);
    hosts::function_without_link(&mut host);
    let host = Recorded::open(host.recording).expect("the recording is laid out");
    let report = host.readiness().await;
    assert_eq!(report.blockers, Vec::<String>::new());
    for (check, status) in [
        ("gpu_links", EvidenceStatus::Warn),
        ("disk_health", EvidenceStatus::Warn),
        ("vf_links", EvidenceStatus::Skip),
    ] {
        let mut all = report.evidence.iter();
        let found = all.find(|one| one.check == check).expect("evidence");
        assert_eq!(found.status(), status, "{found:?}");
    }
}
