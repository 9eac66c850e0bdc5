//! The whole text, flags and status of the parity check (I-01..I-23).
use std::process::Command;

use clap::Parser as _;

use super::line::PREFIX;
use super::*;

/// The flags as the program reads them.
#[derive(Debug, clap::Parser)]
struct Program {
    #[command(flatten)]
    flags: Flags,
}

fn parsed(arguments: &[&str]) -> Result<Flags, String> {
    let all = ["parity-check"].iter().chain(arguments);
    let parsed = Program::try_parse_from(all).map(|program| program.flags);
    parsed.map_err(|error| error.to_string())
}

/// Every condition of I-13 and I-14 has a check of that name or one that names it.
#[test]
fn i_13_i_14_what_the_runbook_names_is_checked() {
    for name in [
        "node_agent",
        "ipoib_netplan",
        "historical_network_service",
        "api_topology",
        "vfio",
        "kvm",
        "iommu",
        "fabric_address",
        "fabric_route",
        "bridge",
        "dnsmasq",
        "libvirt",
        "nat",
        "ip_forwarding",
        "tmfifo",
    ] {
        assert!(checks::find(name).is_some(), "{name}");
    }
}

/// Without the API the last condition is a warning (I-19).
#[test]
fn i_09_i_10_the_whole_text_is_as_programs_read_it() {
    let lines = [
        Line::new(Status::Pass, "node_agent", "active/running", ""),
        Line::new(
            Status::Fail,
            "ipoib_netplan",
            "command exited with 1",
            checks::IPOIB_NETPLAN.remedy,
        ),
        Line::new(
            Status::Warn,
            "historical_network_service",
            "gpuaas-slice-host-net-baseline.service is failed/failed",
            checks::HISTORICAL_NETWORK_SERVICE.remedy,
        ),
        Line::new(
            Status::Fail,
            "nat",
            "it's \"so\"; $(id) `x`\n& more | <a>",
            "",
        ),
        Line::new(Status::Pass, "image_cache", "", ""),
        api::local_checks_only(),
    ];
    let expected = r#"GPUAAS_SLICE_PARITY status=PASS check=node_agent detail=active/running
GPUAAS_SLICE_PARITY status=FAIL check=ipoib_netplan detail=command\ exited\ with\ 1 remediation=render\ /etc/netplan/60-ipoib.yaml\ from\ site/profile\ bootstrap
GPUAAS_SLICE_PARITY status=WARN check=historical_network_service detail=gpuaas-slice-host-net-baseline.service\ is\ failed/failed remediation=remove\ it\;\ gpuaas-slice-network-baseline\ does\ its\ work
GPUAAS_SLICE_PARITY status=FAIL check=nat detail=it\'s\ \"so\"\;\ \$\(id\)\ \`x\`\ \&\ more\ \|\ \<a\>
GPUAAS_SLICE_PARITY status=PASS check=image_cache detail=''
GPUAAS_SLICE_PARITY status=WARN check=api_topology detail=local\ checks\ only remediation=give\ --api-base,\ --api-token-file\ and\ --node-id\ before\ the\ node\ is\ approved
GPUAAS_SLICE_PARITY summary checks=6 warnings=2 failures=2
"#;
    assert_eq!(text(&lines), expected);
    assert_eq!(code(&lines), 1);
    // a shell that evaluates a line reads the values back and runs nothing of them
    let nat = lines[3].to_string();
    let assignments = nat.strip_prefix(PREFIX).expect("the prefix");
    let read = Command::new("sh")
        .args(["-c", &format!("{assignments}; printf %s \"$detail\"")])
        .output()
        .expect("a shell");
    let detail = String::from_utf8_lossy(&read.stdout).into_owned();
    assert_eq!(detail, "it's \"so\"; $(id) `x` & more | <a>");
}

#[test]
fn i_16_i_20_i_23_the_status_tells_a_fit_host_from_one_that_is_not() {
    let line = |status| Line::new(status, "kvm", "x", "y");
    for (statuses, expected) in [
        (&[] as &[Status], 0),
        (&[Status::Pass, Status::Pass], 0),
        // the agent's local checks alone
        (&[Status::Pass, Status::Warn], 0),
        (&[Status::Pass, Status::Fail], 1),
        (&[Status::Fail; 9], 1),
    ] {
        let lines: Vec<Line> = statuses.iter().map(|status| line(*status)).collect();
        assert_eq!(code(&lines), expected, "{statuses:?}");
        let failures = statuses.iter().filter(|one| **one == Status::Fail).count();
        let last = text(&lines).lines().last().map(str::to_owned);
        assert!(last.is_some_and(|last| last.ends_with(&format!(" failures={failures}"))));
    }
}

/// I-04 and I-05 too; GAP-01: without flags it checks the host it runs on. The address is in the form of H-13.
#[test]
fn i_02_i_06_every_flag_is_read_and_none_is_half_given() {
    let node = "0192f0c1-aaaa-7bbb-8ccc-0123456789ab";
    let all = [
        "--host",
        "100.75.6.89",
        "--user",
        "hpcadmin",
        "--api-base",
        "https://api.gpuaas.localhost",
        "--api-token-file",
        "/tmp/platform-admin.token",
        "--api-ca-file",
        "/tmp/ca.pem",
        "--node-id",
        node,
    ];
    let flags = parsed(&all).expect("flags");
    assert_eq!(flags.host.as_deref(), Some("100.75.6.89"));
    assert_eq!(flags.user.as_deref(), Some("hpcadmin"));
    assert_eq!(
        flags.api_base.as_deref(),
        Some("https://api.gpuaas.localhost")
    );
    assert_eq!(
        flags.api_token_file.as_deref(),
        Some("/tmp/platform-admin.token".as_ref())
    );
    assert_eq!(flags.api_ca_file.as_deref(), Some("/tmp/ca.pem".as_ref()));
    assert_eq!(
        flags.node_id.map(|id| id.to_string()).as_deref(),
        Some(node)
    );
    assert!(parsed(&[]).is_ok(), "this host, without the API (I-20)");
    assert!(parsed(&["--local-only"]).is_ok());
    for (arguments, said) in [
        (&["--user", "hpcadmin"][..], "--host"),
        (
            &["--api-base", "https://api.gpuaas.localhost"],
            "--api-token-file",
        ),
        (
            &["--api-base", "https://x", "--api-token-file", "/t"],
            "--node-id",
        ),
        (&["--node-id", node], "--api-base"),
        (
            &[
                "--node-id",
                "7",
                "--api-base",
                "https://x",
                "--api-token-file",
                "/t",
            ],
            "invalid value",
        ),
        (&["--local-only", "--host", "x"], "cannot be used with"),
        (&["--other"], "unexpected argument"),
    ] {
        let refused = parsed(arguments).expect_err("refused");
        assert!(refused.contains(said), "{arguments:?}: {refused}");
    }
}

#[test]
fn i_01_the_script_gives_its_flags_to_the_agent_as_they_are() {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../scripts/ops/gpuaas_slice_host_parity_check.sh"
    );
    let dir = tempfile::tempdir().expect("a folder");
    let agent = dir.path().join("agent");
    std::fs::write(&agent, "#!/bin/sh\nprintf '[%s]' \"$@\"\nexit 1\n").expect("a file");
    std::fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("a mode");
    let ran = Command::new(script)
        .args(["--host", "a b", "--node-id", "$x"])
        .env("GPUAAS_NODE_AGENT", &agent)
        .output()
        .expect("a shell");
    let given = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert_eq!(given, "[parity-check][--host][a b][--node-id][$x]");
    assert_eq!(ran.status.code(), Some(1), "and its status comes back");
}

#[test]
fn i_21_i_22_only_failures_count() {
    let line = |status, check: &str| Line::new(status, check, "x", "y");
    let lines = [
        line(Status::Pass, "kvm"),
        line(Status::Warn, "api_topology"),
        line(Status::Fail, "nat"),
    ];
    assert_eq!(failures(&lines), 1);
    assert_eq!(
        summary(&lines),
        "GPUAAS_SLICE_PARITY summary checks=3 warnings=1 failures=1"
    );
    assert!(summary(&lines[..2]).ends_with("failures=0"));
}

/// A-46, A-141
#[test]
fn inc_07_a_bare_metal_host_is_not_blamed_for_slice_services_it_lacks() {
    let mut lines = ["kvm", "bridge", "node_agent"]
        .map(|check| Line::new(Status::Fail, check, "missing", "add it"));
    lines.iter_mut().for_each(allow_for_bare_metal);
    let statuses = lines.clone().map(|line| line.status);
    assert_eq!(statuses, [Status::Warn, Status::Warn, Status::Fail]);
    assert!(lines[0].detail.contains("bare metal"));
    // what every host has, and a check of a newer agent
    for check in [
        "ipoib_netplan",
        "fabric_route",
        "site_bootstrap",
        "of_a_newer_agent",
    ] {
        let mut line = Line::new(Status::Fail, check, "missing", "add it");
        allow_for_bare_metal(&mut line);
        assert_eq!(line.status, Status::Fail, "{check}");
    }
}
