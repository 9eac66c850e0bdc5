//! The netplan file of the fabric, from the settings.
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::{TestHost, repository};

const FILE: &str = "/etc/netplan/60-ipoib.yaml";
const BOOTSTRAP: [&str; 3] = ["deploy-bootstrap", "--mode", "slice"];

/// A host whose interface ibp26s0 is there without an address, with these settings of the fabric.
fn host(fabric: &str) -> TestHost {
    let host = TestHost::new();
    host.write("/etc/default/grub", "GRUB_CMDLINE_LINUX=\"\"\n");
    let text = host.read("/proc/cpuinfo");
    host.write(
        "/proc/cpuinfo",
        &format!("vendor_id\t: GenuineIntel\n{text}"),
    );
    let example = fs::read_to_string(repository().join("deploy/deb/node-agent.toml")).unwrap();
    host.write(
        "/etc/gpuaas/node-agent.toml",
        &format!("{example}\n[agent.fabric]\n{fabric}\n"),
    );
    fs::create_dir(host.state("links").join("ibp26s0")).unwrap();
    host
}

const TWO: &str = "interfaces = { ibp26s0 = \"192.168.4.7/24\", ibp60s0 = \"192.168.5.7/16\" }";

/// The steps that are of the fabric.
fn of_fabric(steps: Vec<String>) -> Vec<String> {
    let own = |step: &String| {
        ["netplan", "networkctl"]
            .iter()
            .any(|word| step.contains(word))
    };
    steps.into_iter().filter(own).collect()
}

#[test]
fn i_223_the_netplan_file_is_rendered_from_the_settings_once_with_a_backup() {
    let host = host(TWO);
    let of_site = host.read(FILE);
    let before = host.files();
    let mut dry = BOOTSTRAP.to_vec();
    dry.push("--dry-run");
    let planned = host.run(&dry);
    assert_eq!(planned.code, 0, "{}", planned.text);
    assert_eq!(host.files(), before, "a dry run changes nothing");
    let changes = ["netplan ", "networkctl "];
    let calls = host.take_calls();
    assert!(
        !calls
            .iter()
            .any(|call| changes.iter().any(|one| call.starts_with(one))),
        "{calls:?}"
    );

    let first = host.run(&BOOTSTRAP);
    assert_eq!(first.code, 0, "{}", first.text);
    let steps = of_fabric(first.steps());
    assert!(
        steps[0].starts_with(&format!("write_file {FILE} 0600, ")),
        "{steps:?}"
    );
    assert_eq!(
        steps[1..],
        [
            "run netplan generate",
            "run networkctl reload",
            "run networkctl reconfigure ibp26s0"
        ]
    );
    assert!(
        first.text.contains("ibp60s0\\ is\\ not\\ there"),
        "{}",
        first.text
    );
    let text = host.read(FILE);
    for part in [
        "    ibp26s0:\n      optional: true\n",
        "        - 192.168.4.7/24\n      routes:\n        - to: 192.168.0.0/16\n",
        "    ibp60s0:\n",
        "        - 192.168.5.7/16\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let mode = fs::metadata(host.path(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let backups: Vec<_> = fs::read_dir(host.path("/etc/netplan"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .contains(".gpuaas-backup-")
        })
        .collect();
    assert_eq!(backups.len(), 1);
    assert_eq!(fs::read_to_string(backups[0].path()).unwrap(), of_site);
    // netplan reads every file that ends so
    assert!(!backups[0].file_name().to_string_lossy().ends_with(".yaml"));

    let between = host.files();
    let second = host.run(&BOOTSTRAP);
    assert_eq!(
        (second.code, of_fabric(second.steps())),
        (0, Vec::new()),
        "{}",
        second.text
    );
    assert_eq!(host.files(), between);
    // a run that was broken off before the interface had its address
    fs::remove_file(host.state("links").join("ibp26s0/address")).unwrap();
    let third = host.run(&BOOTSTRAP);
    let steps = of_fabric(third.steps());
    assert_eq!(
        steps.last().map(String::as_str),
        Some("run networkctl reconfigure ibp26s0")
    );
}

/// INC-33: a host has fabric ports that nobody connected.
#[test]
fn i_223_a_port_that_nobody_connected_needs_nothing() {
    let host = host(TWO);
    assert_eq!(host.run(&BOOTSTRAP).code, 0);
    let port = host.state("links").join("ibp60s0");
    fs::create_dir_all(&port).unwrap();
    fs::write(port.join("no-carrier"), "").unwrap();
    let again = host.run(&BOOTSTRAP);
    assert_eq!(of_fabric(again.steps()), Vec::<String>::new());
    assert!(
        again.text.contains("is\\ not\\ connected"),
        "{}",
        again.text
    );
}

/// P9: the way to the host may be in the same file.
#[test]
fn i_223_a_file_that_configures_other_interfaces_is_not_replaced() {
    let host = host(TWO);
    let of_site =
        "network:\n  ethernets:\n    eno1:\n      dhcp4: true\n    ibp26s0:\n      dhcp4: false\n";
    host.write(FILE, of_site);
    let ran = host.run(&BOOTSTRAP);
    assert_eq!(ran.code, 1, "{}", ran.text);
    assert!(
        ran.refusals().contains("configures eno1, too"),
        "{}",
        ran.refusals()
    );
    assert_eq!(host.read(FILE), of_site);
}

#[test]
fn i_223_malformed_settings_refuse_the_whole_command_and_change_nothing() {
    for (fabric, why) in [
        ("interfaces = { ibp26s0 = \"192.168.4.7\" }", "ibp26s0"),
        (
            "interfaces = { ibp26s0 = \"10.1.4.7/16\" }",
            "agent.fabric.subnet 192.168.0.0/16",
        ),
        ("interfaces = { eno1 = \"192.168.4.7/16\" }", "eno1"),
        (
            "subnet = \"192.168.0.1/16\"\ninterfaces = { ibp26s0 = \"192.168.4.7/16\" }",
            "agent.fabric.subnet",
        ),
        (
            "netplan_file = \"/etc/netplan/ipoib\"\ninterfaces = { ibp26s0 = \"192.168.4.7/16\" }",
            "netplan_file",
        ),
    ] {
        let host = host(fabric);
        let before = host.files();
        let ran = host.run(&BOOTSTRAP);
        assert_eq!(ran.code, 1, "{}", ran.text);
        assert!(ran.refusals().contains(why), "{why} in {}", ran.refusals());
        assert_eq!(host.files(), before, "{fabric}");
    }
}

#[test]
fn i_223_a_file_that_the_site_renders_is_left_to_it() {
    for (fabric, why) in [
        ("", "names\\ none"),
        ("kind = \"none\"", "has\\ no\\ fabric"),
    ] {
        let host = host(fabric);
        let of_site = host.read(FILE);
        let ran = host.run(&BOOTSTRAP);
        assert_eq!(ran.code, 0, "{}", ran.text);
        assert!(ran.text.contains(why), "{}", ran.text);
        assert_eq!(of_fabric(ran.steps()), Vec::<String>::new());
        assert_eq!(host.read(FILE), of_site);
    }
}
