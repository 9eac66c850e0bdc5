//! The report that an operator attaches to a node.
use std::fs;

use super::{Host, agent, good};

/// E-68: by the same program under its documented name.
#[test]
fn i_218_i_219_the_report_of_a_good_host_has_everything_and_can_be_attached() {
    let dir = tempfile::tempdir().unwrap();
    let host = dir.path().join("host.json");
    fs::write(&host, good().recording.to_text().unwrap()).unwrap();
    let file = dir.path().join("report.json");
    let run = || {
        agent()
            .args(["validate-host", "--host-root"])
            .arg(&host)
            .arg("--report")
            .arg(&file)
            .output()
            .unwrap()
    };
    let output = run();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.starts_with("gpuaas-node-agent version="), "{text}");
    assert!(
        text.contains("built_at=") && text.trim_end().ends_with("blockers: none"),
        "{text}"
    );
    let report: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(report["hardware"]["gpus"], 8);
    assert_eq!(report["hardware"]["virtual_functions"], 8);
    assert_eq!(report["host"]["product"], "PowerEdge XE9680L");
    for key in [
        "gpuaas-slice-vfio-devices",
        "libvirtd",
        "ipoib_netplan",
        "iommu=pt",
        "dnsmasq_gpu_subnet",
    ] {
        assert!(report["baseline"][key].is_string(), "{key}");
    }
    assert_eq!(report["baseline"]["iommu=pt"], "present");
    let checks: Vec<&str> = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["check"].as_str())
        .collect();
    let registry = gpuaas_agent::checks::ALL
        .iter()
        .filter(|check| check.by == gpuaas_agent::checks::Observer::Agent);
    assert_eq!(checks, registry.map(|check| check.id).collect::<Vec<_>>());
    // the platform takes it as it is, without a field that it does not know
    let message = gpuaas_proto::pool()
        .get_message_by_name("gpuaas.inventory.v1.HostReport")
        .unwrap();
    let taken = prost_reflect::DynamicMessage::deserialize(message, report).unwrap();
    let time = taken.get_field_by_name("time").unwrap();
    assert!(time.as_message().is_some(), "{time}");
    // what an operator has is not overwritten
    assert!(!run().status.success());
}

/// D-45
// partly D-45: an image names its checks; no guest with a GPU has been seen to pass them
#[test]
fn inc_24_a_guest_is_tried_by_hand_and_not_taken_for_ready_by_passthrough() {
    let dir = tempfile::tempdir().unwrap();
    let host = dir.path().join("host.json");
    fs::write(&host, good().recording.to_text().unwrap()).unwrap();
    let output = agent()
        .args(["validate-host", "--host-root"])
        .arg(&host)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let by_hand = text.split("By hand").nth(1).unwrap();
    for (id, program) in [
        ("guest_gpu", "nvidia-smi"),
        ("guest_fabric", "ibv_devinfo -l"),
    ] {
        let line = by_hand.lines().find(|line| line.contains(id)).unwrap();
        assert!(line.contains(program) && line.contains("[ ]"), "{line}");
    }
}

#[test]
fn a_81_a_host_that_is_not_fit_is_told_by_the_status() {
    let dir = tempfile::tempdir().unwrap();
    let mut bad = good();
    bad.text("/proc/sys/net/ipv4/ip_forward", "0");
    let host = dir.path().join("host.json");
    fs::write(&host, bad.recording.to_text().unwrap()).unwrap();
    let output = agent()
        .args(["validate-host", "--host-root"])
        .arg(&host)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("blockers: ip_forwarding"));
}

/// D-13, D-22: libvirt's service has one name.
#[test]
fn a_151_a_152_a_153_the_baseline_is_a_line_for_each_service_and_file() {
    const UNITS: [&str; 7] = [
        "gpuaas-node-agent",
        "gpuaas-slice-fabric-vfs",
        "gpuaas-slice-vfio-devices",
        "gpuaas-slice-network-baseline",
        "gpuaas-slice-ovs-bridge",
        "libvirtd",
        "dnsmasq",
    ];
    let dir = tempfile::tempdir().unwrap();
    let said = |change: &dyn Fn(&mut Host)| {
        let mut host = good();
        change(&mut host);
        let file = dir.path().join("host.json");
        fs::write(&file, host.recording.to_text().unwrap()).unwrap();
        let output = agent()
            .args(["validate-host", "--host-root"])
            .arg(&file)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let baseline = text.split("\nBaseline\n").nth(1).unwrap();
        let lines = baseline.lines().take_while(|line| line.starts_with("  "));
        lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let converged = said(&|host| {
        for unit in UNITS {
            let line =
                format!("systemctl show --property=LoadState,ActiveState,SubState {unit}.service");
            host.answer(
                line,
                "LoadState=loaded\nActiveState=active\nSubState=running\n",
            );
        }
        host.text("/etc/dnsmasq.d/gpu_subnet.conf", "interface=ovsbr0");
    });
    let bare = said(&|host| host.remove("/etc/netplan/60-ipoib.yaml"));
    for unit in UNITS {
        assert!(
            converged.contains(&format!("{unit}=active")),
            "{converged:?}"
        );
        assert!(bare.contains(&format!("{unit}=NOT_ACTIVE")), "{bare:?}");
    }
    for line in [
        "ipoib_netplan=present",
        "dnsmasq_gpu_subnet=present",
        "intel_iommu=on=present",
        "iommu=pt=present",
    ] {
        assert!(
            converged.iter().any(|own| own == line),
            "{line}: {converged:?}"
        );
    }
    for line in ["ipoib_netplan=missing", "dnsmasq_gpu_subnet=missing"] {
        assert!(bare.iter().any(|own| own == line), "{line}: {bare:?}");
    }
    assert!(!converged.iter().any(|line| line.contains("virtqemud")));
}
