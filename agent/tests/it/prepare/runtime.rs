//! The runtime of a slice host.
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::{HOLDER, SLOT, TestHost};
use crate::recorded::reference_host::CORNERS;

const PREPARE: [&str; 3] = ["runtime-prepare", "--mode", "slice"];

#[test]
fn inc_18_i_104_services_that_hold_gpus_are_stopped_and_stay_so() {
    let host = TestHost::new();
    for unit in ["nvidia-persistenced", "nvidia-fabricmanager", "nvidia-dcgm"] {
        host.unit(unit);
    }
    let ran = host.run(&PREPARE);
    assert_eq!(ran.code, 0, "{}", ran.text);
    for unit in ["nvidia-persistenced", "nvidia-fabricmanager", "nvidia-dcgm"] {
        for end in ["active", "enabled"] {
            assert!(
                !host.state("units").join(format!("{unit}.{end}")).exists(),
                "{unit}"
            );
        }
    }
    assert_eq!(host.run(&PREPARE).steps(), Vec::<String>::new());
}

/// As Ubuntu has the persistence daemon: a rule of udev starts it, and `disable` changes nothing.
#[test]
fn inc_18_i_104_a_service_that_udev_starts_is_masked() {
    let host = TestHost::new();
    host.state_text("units/nvidia-persistenced", "");
    host.state_text("units/nvidia-persistenced.static", "");
    host.state_text("units/nvidia-persistenced.active", "");
    let ran = host.run(&PREPARE);
    assert_eq!(
        ran.steps(),
        ["run systemctl mask --now nvidia-persistenced.service"]
    );
    assert_eq!(host.run(&PREPARE).steps(), Vec::<String>::new());
}

/// D-98
#[test]
fn inc_19_i_105_the_hypervisors_user_passes_libvirts_folder() {
    let host = TestHost::new();
    let folder = host.path("/var/lib/libvirt");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let ran = host.run(&PREPARE);
    assert_eq!(ran.code, 0, "{}", ran.text);
    let mode = fs::metadata(&folder).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o755);
    assert_eq!(host.run(&PREPARE).steps(), Vec::<String>::new());
}

/// J-15: stale mappings go, those in use stay.
#[test]
fn i_106_i_109_only_reservations_of_vms_that_are_gone_are_removed() {
    let host = TestHost::new();
    let name = |id: &str| format!("gpuaas-slice-{}", id.replace('-', ""));
    let (held, running, gone) = (
        name(HOLDER),
        "gpuaas-slice-23bd713b60734ef78a512897e902365d".to_owned(),
        "gpuaas-slice-00000000000040008000000000000000".to_owned(),
    );
    host.approve(SLOT, &["0000:1b:00.0"], true);
    host.state_text("domains", &format!("{running}\n\n"));
    let file = |vm: &str| format!("/etc/dnsmasq.d/gpuaas-{vm}.conf");
    for vm in [&held, &running, &gone] {
        host.write(&file(vm), "dhcp-host=52:54:00:00:00:01,10.100.0.10\n");
    }
    host.write("/etc/dnsmasq.d/gpu_subnet.conf", "interface=ovsbr0\n");
    host.write("/etc/dnsmasq.d/gpuaas-hosts/gpuaas-probe.conf", "x\n");
    let ran = host.run(&PREPARE);
    assert_eq!(ran.code, 0, "{}", ran.text);
    assert!(!host.path(&file(&gone)).exists());
    for stays in [
        &file(&held),
        &file(&running),
        "/etc/dnsmasq.d/gpu_subnet.conf",
    ] {
        assert!(host.path(stays).exists(), "{stays}");
    }
    assert!(
        host.path("/etc/dnsmasq.d/gpuaas-hosts/gpuaas-probe.conf")
            .exists()
    );
    assert!(
        host.take_calls()
            .contains(&"systemctl restart dnsmasq.service".to_owned())
    );
    assert_eq!(host.run(&PREPARE).steps(), Vec::<String>::new());

    // a libvirt that does not answer may have any VM
    host.write(&file(&gone), "x\n");
    host.instead("virsh", "exit 1");
    let ran = host.run(&PREPARE);
    assert_eq!((ran.code, ran.steps()), (0, Vec::new()), "{}", ran.text);
    assert!(host.path(&file(&gone)).exists());
}

/// Every kind of step that there is, none of them done: the plan is that of the run after it.
#[test]
fn i_70_i_104_i_106_a_dry_run_prints_the_plan_and_changes_nothing() {
    let host = TestHost::new();
    for unit in ["nvidia-persistenced", "nvidia-dcgm"] {
        host.unit(unit);
    }
    let folder = host.path("/var/lib/libvirt");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    host.approve(SLOT, &["0000:1b:00.0"], true);
    let stale = "/etc/dnsmasq.d/gpuaas-gpuaas-slice-00000000000040008000000000000000.conf";
    host.write(stale, "dhcp-host=52:54:00:00:00:01,10.100.0.10\n");
    let units = || {
        let entries = fs::read_dir(host.state("units")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = (host.files(), units());
    let mut arguments = PREPARE.to_vec();
    arguments.push("--dry-run");
    let dry = host.run(&arguments);
    assert_eq!(dry.code, 0, "{}", dry.text);
    assert_eq!((host.files(), units()), before);
    let mode = fs::metadata(&folder).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o700);
    for call in host.take_calls() {
        let asks = call.starts_with("systemctl show ") || call.contains(" list --all --name");
        assert!(asks, "{call}");
    }
    assert!(!dry.text.contains("GPUAAS_SLICE_APPLY"), "{}", dry.text);
    assert_eq!(
        dry.steps(),
        [
            "run systemctl disable --now nvidia-persistenced.service",
            "run systemctl disable --now nvidia-dcgm.service",
            "set_mode /var/lib/libvirt 0755",
            &format!("remove_file {stale}"),
            "run systemctl restart dnsmasq.service",
        ]
    );
    arguments.extend(["--output", "json"]);
    let told = host.run(&arguments).json();
    assert_eq!(told["dry_run"], true, "{told}");
    assert_eq!(told["plans"][0]["steps"].as_array().unwrap().len(), 5);
    assert_eq!(told["applied"], serde_json::json!([]));
    assert_eq!((host.files(), units()), before);

    let real = host.run(&PREPARE);
    assert_eq!((real.code, real.steps()), (0, dry.steps()), "{}", real.text);
    assert!(!host.path(stale).exists());
    assert_eq!(
        host.run(&arguments).json()["plans"][0]["steps"],
        serde_json::json!([])
    );

    // where it would be refused it says so by its status, too
    host.write("/var/lib/gpuaas/node-mode", "baremetal");
    let refused = host.run(&arguments);
    assert_eq!(refused.code, 1, "{}", refused.text);
    assert_eq!(refused.json()["failed"], true);
}

#[test]
fn i_108_d_59_outside_of_slice_mode_nothing_is_touched() {
    for (flag, reported) in [
        (None, None),
        (None, Some("baremetal")),
        (Some("slice"), Some("baremetal")),
    ] {
        let host = TestHost::new();
        host.unit("nvidia-persistenced");
        if let Some(reported) = reported {
            host.write("/var/lib/gpuaas/node-mode", reported);
        }
        let before = host.files();
        let mut arguments = vec!["runtime-prepare"];
        if let Some(flag) = flag {
            arguments.extend(["--mode", flag]);
        }
        let ran = host.run(&arguments);
        assert_eq!(ran.code, 1, "{}", ran.text);
        assert_eq!(host.files(), before);
        assert!(host.state("units/nvidia-persistenced.active").exists());
    }
    // what the platform says is enough
    let host = TestHost::new();
    host.write("/var/lib/gpuaas/node-mode", "slice");
    assert_eq!(host.run(&["runtime-prepare"]).code, 0);
}

/// A journal of the agent before this one, in use or not, is read and not brought to this one's form.
#[test]
fn d_10_i_104_a_dry_run_leaves_the_journal_as_it_is() {
    let host = super::binding::native();
    host.approve(SLOT, &[&CORNERS[0].gpu_address()], false);
    host.write(
        "/etc/dnsmasq.d/gpuaas-gpuaas-slice-00000000000040008000000000000000.conf",
        "x\n",
    );
    let path = host.path("/var/lib/gpuaas/journal.sqlite");
    let journal = rusqlite::Connection::open(&path).unwrap();
    journal
        .execute_batch("PRAGMA user_version = 1; ALTER TABLE gpu_partitions DROP COLUMN modules")
        .unwrap();
    let dry = |is_in_use: bool| {
        let before = host.files();
        for command in ["runtime-prepare", "bind-devices"] {
            let ran = host.run(&[command, "--mode", "slice", "--dry-run"]);
            assert_eq!(ran.code, 0, "{command}: {}", ran.text);
            assert!(!ran.steps().is_empty(), "{command}: {}", ran.text);
        }
        // what holds the locks of a journal in use is no content of it
        let content = |mut files: std::collections::BTreeMap<std::path::PathBuf, Vec<u8>>| {
            files.retain(|path, _| !is_in_use || !path.ends_with("journal.sqlite-shm"));
            files
        };
        assert_eq!(
            content(host.files()),
            content(before),
            "in use: {is_in_use}"
        );
    };
    // an agent has it open, with something in its log
    journal.execute_batch("CREATE TABLE later (one)").unwrap();
    assert!(host.path("/var/lib/gpuaas/journal.sqlite-wal").exists());
    dry(true);
    drop(journal);
    assert!(!host.path("/var/lib/gpuaas/journal.sqlite-wal").exists());
    dry(false);

    // one of a newer agent is refused, as by the agent
    let journal = rusqlite::Connection::open(&path).unwrap();
    journal.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(journal);
    let refused = host.run(&["bind-devices", "--mode", "slice", "--dry-run"]);
    assert_ne!(refused.code, 0);
    assert!(refused.text.contains("version 99"), "{}", refused.text);
}
