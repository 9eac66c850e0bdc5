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

/// I-111: flags of the storage transition too.
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

/// I-188: what is done at every start of the host.
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

// partly INC-39: no pipeline customises a guest's image, by NBD or otherwise: the lab's guests are installed in a folder
#[test]
fn inc_39_no_image_is_made_in_a_machine_without_the_network_of_its_builder() {
    let mut seen = 0;
    for folder in ["deploy", "deploy/lab", "deploy/deb", "scripts/ops"] {
        for entry in fs::read_dir(repository().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "sh") {
                let text = fs::read_to_string(&path).unwrap();
                for word in ["guestfs", "virt-customize", "guestfish", "virt-builder"] {
                    assert!(!text.contains(word), "{word}: {}", path.display());
                }
                seen += usize::from(text.contains("mmdebstrap"));
            }
        }
    }
    assert!(seen > 0, "who makes the guests?");
}

#[test]
fn d_92_d_94_the_agent_is_where_and_what_the_documents_call_it() {
    let read = |path: &str| fs::read_to_string(repository().join(path)).unwrap();
    let unit = read("deploy/deb/gpuaas-node-agent.service");
    let program = "ExecStart=/opt/gpuaas/node-agent/gpuaas-node-agent ";
    assert!(unit.lines().any(|line| line.starts_with(program)), "{unit}");
    let build = read("deploy/deb/build.sh");
    assert!(build.contains("name=gpuaas-node-agent\n"));
    for placed in [
        "put 755 \"$program\" opt/gpuaas/node-agent/$name\n",
        "lib/systemd/system/$name.service\n",
    ] {
        assert!(build.contains(placed), "{placed}");
    }
}
