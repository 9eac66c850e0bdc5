//! Scripts and units of a slice host.
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::repository;

/// Script, and the command of the agent that does its work.
const SCRIPTS: [(&str, &str); 5] = [
    ("gpuaas_slice_host_deploy_bootstrap.sh", "deploy-bootstrap"),
    ("gpuaas_slice_host_net_baseline.sh", "net-baseline"),
    ("gpuaas_slice_host_runtime_prepare.sh", "runtime-prepare"),
    ("gpuaas_slice_storage_transition.sh", "storage-transition"),
    ("gpuaas_h200_host_image_validate.sh", "validate-host"),
];
const UNITS: [&str; 4] = [
    "gpuaas-slice-fabric-vfs",
    "gpuaas-slice-vfio-devices",
    "gpuaas-slice-network-baseline",
    "gpuaas-slice-ovs-bridge",
];

#[test]
fn i_64_i_110_i_218_each_script_gives_its_flags_to_the_agent_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let agent = dir.path().join("agent");
    fs::write(&agent, "#!/bin/sh\nprintf '<%s>' \"$@\"\n").unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    for (script, command) in SCRIPTS {
        let output = Command::new(repository().join("scripts/ops").join(script))
            .args(["--devices", "a b,c", "--apply"])
            .env("GPUAAS_NODE_AGENT", &agent)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            text,
            format!("<{command}><--devices><a b,c><--apply>"),
            "{script}"
        );
    }
}

#[test]
fn inc_28_every_script_is_clean_to_a_linter() {
    let files = SCRIPTS.map(|(script, _)| repository().join("scripts/ops").join(script));
    let output = Command::new("shellcheck").args(files).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn i_220_the_units_are_right_and_in_the_package() {
    let dir = tempfile::tempdir().unwrap();
    let build = fs::read_to_string(repository().join("deploy/deb/build.sh")).unwrap();
    let mut files = Vec::new();
    for unit in UNITS {
        assert!(build.contains(unit), "{unit} is not packed");
        let text =
            fs::read_to_string(repository().join(format!("deploy/deb/{unit}.service"))).unwrap();
        assert!(text.contains("WantedBy=multi-user.target"), "{unit}");
        let program = "/opt/gpuaas/node-agent/gpuaas-node-agent";
        assert!(text.contains(&format!("ExecStart={program} ")), "{unit}");
        let file = dir.path().join(format!("{unit}.service"));
        fs::write(&file, text.replace(program, "/bin/true")).unwrap();
        files.push(file);
    }
    let output = Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .args(&files)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    // a key that systemd does not know is only a warning to it
    assert!(!said.contains("Unknown"), "{said}");
}
