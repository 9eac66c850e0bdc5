//! Every check that looks at the host has a host that passes it, and one that does not.
use std::collections::BTreeMap;

use gpuaas_agent::host::recording::{Answer, Entry};
use gpuaas_agent::recorded::Recorded;
use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;

use super::tree::{Host, good};

type Change = fn(&mut Host);

/// By the check's name, what makes it fail or warn.
const CHANGES: [(&str, Change); 27] = [
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
