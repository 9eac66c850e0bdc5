//! The bootstrap of a deployed host.
use std::fs;

use super::{HOLDER, SLOT, TestHost, repository};

const GRUB: &str = "GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX=\"console=ttyS0 mitigations=auto\"\n";

fn host() -> TestHost {
    prepared(TestHost::new())
}

/// The same with what the bootstrap reads.
pub fn prepared(host: TestHost) -> TestHost {
    host.write("/etc/default/grub", GRUB);
    host.write("/proc/cmdline", "BOOT_IMAGE=/vmlinuz ro console=ttyS0\n");
    let text = host.read("/proc/cpuinfo");
    host.write(
        "/proc/cpuinfo",
        &format!("vendor_id\t: GenuineIntel\n{text}"),
    );
    for module in ["vfio", "vfio_iommu_type1", "vfio_pci"] {
        fs::remove_dir_all(host.path(&format!("/sys/module/{module}"))).unwrap();
    }
    host
}

pub const BOOTSTRAP: [&str; 3] = ["deploy-bootstrap", "--mode", "slice"];

/// The whole of I-78 but what only slice mode does: VFIO (I-67, I-84), libvirt, the baseline (I-69) and the units of
/// every start (I-188). Nothing is made schedulable by it (I-79).
#[test]
fn i_64_i_68_i_85_a_bare_ubuntu_becomes_a_slice_host_and_a_second_run_changes_nothing() {
    let host = host();
    let before = host.files();
    let dry = host.run(&["deploy-bootstrap", "--mode", "slice", "--dry-run"]);
    assert_eq!(dry.code, 0, "{}", dry.text);
    assert_eq!(host.files(), before, "a dry run changes nothing");
    let asks = ["systemctl show ", "apt-cache show ", "virsh "];
    for call in host.take_calls() {
        assert!(asks.iter().any(|ask| call.starts_with(ask)), "{call}");
    }

    let first = host.run(&BOOTSTRAP);
    assert_eq!(first.code, 0, "{}", first.text);
    assert_eq!(first.steps().len(), dry.steps().len());
    let planned = first.steps().join("\n");
    for part in [
        "apt-get install",
        "/etc/default/grub",
        "modprobe -a vfio",
        "enable --now libvirtd.service",
        "gpuaas-slice-network-baseline",
        "/usr/local/sbin/gpuaas-slice-storage-transition",
    ] {
        assert!(planned.contains(part), "{part} in {planned}");
    }
    // no command of the platform's clients is among them
    assert!(!planned.contains("gpuaas admin"), "{planned}");
    for unit in [
        "libvirtd",
        "gpuaas-slice-ovs-bridge",
        "gpuaas-slice-network-baseline",
    ] {
        for end in ["enabled", "active"] {
            assert!(
                host.state("units").join(format!("{unit}.{end}")).exists(),
                "{unit} {end}"
            );
        }
    }
    for unit in ["gpuaas-slice-fabric-vfs", "gpuaas-slice-vfio-devices"] {
        let state = |end: &str| host.state("units").join(format!("{unit}.{end}")).exists();
        assert!(
            state("enabled") && !state("active"),
            "nothing is bound before a slot is approved"
        );
    }
    assert_eq!(
        host.read("/etc/modules-load.d/gpuaas-vfio.conf"),
        "vfio\nvfio_iommu_type1\nvfio_pci\n"
    );
    let between = host.files();
    let second = host.run(&BOOTSTRAP);
    assert_eq!(
        (second.code, second.steps()),
        (0, Vec::new()),
        "{}",
        second.text
    );
    assert_eq!(host.files(), between);
}

/// A name that other packages mention and no repository has: apt-cache ends well and shows nothing (seen on Debian 12 with
/// infiniband-diags). Every run would try to install it.
#[test]
fn i_76_i_83_an_optional_package_that_is_only_mentioned_is_not_installed() {
    let host = host();
    host.state_text("mentioned-packages", "");
    let plan = host.run(&["deploy-bootstrap", "--mode", "slice", "--dry-run"]);
    assert_eq!(plan.code, 0, "{}", plan.text);
    for name in ["infiniband-diags", "rshim"] {
        assert!(
            !plan.steps().iter().any(|step| step.contains(name)),
            "{}",
            plan.text
        );
        let skipped = format!("optional\\ package\\ {name}:");
        assert!(plan.text.contains(&skipped), "{}", plan.text);
    }
}

/// All of I-65. An image that has the packages is asked for none (I-189, I-190).
#[test]
fn inc_28_i_75_i_80_every_package_is_an_argument_of_one_call() {
    let host = host();
    host.state_text("no-optional-packages", "");
    let mut arguments = BOOTSTRAP.to_vec();
    arguments.extend(["--dry-run", "--output", "json"]);
    let plan = host.run(&arguments).json();
    let steps = plan["plans"][0]["steps"].as_array().unwrap();
    let installs: Vec<_> = steps
        .iter()
        .filter(|step| step["program"] == "apt-get" && step["arguments"][0] == "install")
        .collect();
    assert_eq!(installs.len(), 1);
    let of_call: Vec<&str> = installs[0]["arguments"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one.as_str())
        .collect();
    for package in [
        "qemu-kvm",
        "libvirt-daemon-system",
        "libvirt-clients",
        "virtinst",
        "openvswitch-switch",
        "cloud-image-utils",
        "ovmf",
        "rdma-core",
        "dnsmasq",
    ] {
        assert!(of_call.contains(&package), "{package}");
    }
    assert_eq!(
        installs[0]["environment"][0],
        serde_json::json!(["DEBIAN_FRONTEND", "noninteractive"])
    );
    // L-22: nothing unsigned
    for step in steps {
        assert!(!step.to_string().contains("unauthenticated"), "{step}");
    }
    // I-76: what no repository has is told, and no failure
    let notes = plan["plans"][0]["notes"].to_string();
    assert!(
        notes.contains("rshim") && notes.contains("driverctl"),
        "{notes}"
    );

    let baked = host.run_with(&arguments, &[("GPUAAS_SLICE_INSTALL_PACKAGES", "0")]);
    assert!(!baked.text.contains("apt-get"), "{}", baked.text);
}

#[test]
fn i_66_i_81_i_83_arguments_are_added_with_a_backup_and_all_others_stay() {
    let host = host();
    let ran = host.run(&BOOTSTRAP);
    assert!(ran.text.contains("reboot_required=1"), "{}", ran.text);
    assert_eq!(
        host.read("/etc/default/grub"),
        "GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX=\"console=ttyS0 mitigations=auto intel_iommu=on iommu=pt\"\n"
    );
    let backups: Vec<_> = fs::read_dir(host.path("/etc/default"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with("grub.gpuaas-backup-")
        })
        .collect();
    assert_eq!(backups.len(), 1);
    assert_eq!(fs::read_to_string(backups[0].path()).unwrap(), GRUB);
    assert!(host.take_calls().contains(&"update-grub ".to_owned()));
}

#[test]
fn i_71_i_86_i_87_a_restart_is_only_where_it_is_allowed_and_needed() {
    let reboots = |host: &TestHost, allowed: &str| {
        host.take_calls();
        let ran = host.run_with(&BOOTSTRAP, &[("GPUAAS_SLICE_REBOOT_IF_REQUIRED", allowed)]);
        assert_eq!(ran.code, 0, "{}", ran.text);
        let calls = host.take_calls();
        calls.contains(&"systemctl reboot".to_owned())
    };
    assert!(!reboots(&host(), "0"));
    let host = host();
    assert!(reboots(&host, "1"));
    // the kernel that came then has them
    host.write("/proc/cmdline", "ro intel_iommu=on iommu=pt\n");
    assert!(!reboots(&host, "1"));
    host.write("/proc/cmdline", "ro xintel_iommu=on iommu=pt,x\n");
    assert!(reboots(&host, "1"), "whole words count (I-219)");
}

/// P9: the same command makes a new host and mends one whose slices run.
#[test]
fn i_71_a_host_with_a_vm_or_a_held_slot_is_not_restarted() {
    let run = |host: &TestHost| {
        host.take_calls();
        let ran = host.run_with(&BOOTSTRAP, &[("GPUAAS_SLICE_REBOOT_IF_REQUIRED", "1")]);
        assert_eq!(ran.code, 0, "{}", ran.text);
        let calls = host.take_calls();
        (
            calls.contains(&"systemctl reboot".to_owned()),
            ran.text.replace('\\', ""),
        )
    };
    let with_vm = host();
    with_vm.state_text(
        "domains",
        "gpuaas-slice-23bd713b60734ef78a512897e902365d\n\n",
    );
    let (restarted, text) = run(&with_vm);
    assert!(!restarted, "{text}");
    let why = "no restart: gpuaas-slice-23bd713b60734ef78a512897e902365d is on this host";
    assert!(
        text.contains(why) && text.contains("reboot_required=1"),
        "{text}"
    );
    with_vm.state_text("domains", "");
    assert!(run(&with_vm).0, "the VM is gone");

    // a stopped slice: libvirt need not have its VM
    let held = host();
    held.approve(SLOT, &["0000:1b:00.0"], true);
    let (restarted, text) = run(&held);
    assert!(
        !restarted && text.contains(&HOLDER.replace('-', "")),
        "{text}"
    );

    // nothing is done on a guess
    let silent = host();
    silent.instead("virsh", "exit 1");
    let (restarted, text) = run(&silent);
    assert!(
        !restarted && text.contains("nobody knows which VMs run"),
        "{text}"
    );
}

#[test]
fn i_77_an_amd_host_gets_the_policy_of_its_vendor() {
    let host = host();
    host.write(
        "/proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: AuthenticAMD\n",
    );
    let ran = host.run(&BOOTSTRAP);
    assert_eq!(ran.code, 0, "{}", ran.text);
    let text = host.read("/etc/default/grub");
    assert!(
        text.contains("amd_iommu=on iommu=pt") && !text.contains("intel"),
        "{text}"
    );
}

/// By the variables that this project names, those of the documents being lost (GAP-02).
#[test]
fn i_72_i_73_i_74_hugepages_and_tuning_are_opt_in() {
    let plain = host();
    plain.run(&BOOTSTRAP);
    assert!(!plain.read("/etc/default/grub").contains("hugepages"));
    assert!(
        !plain
            .path("/etc/sysctl.d/91-gpuaas-slice-tuning.conf")
            .exists()
    );

    let tuned = host();
    let ran = tuned.run_with(
        &BOOTSTRAP,
        &[
            ("GPUAAS_SLICE_HUGEPAGES_1G", "512"),
            ("GPUAAS_SLICE_NETWORK_TUNING", "1"),
        ],
    );
    assert_eq!(ran.code, 0, "{}", ran.text);
    let text = tuned.read("/etc/default/grub");
    assert!(
        text.contains("default_hugepagesz=1G hugepagesz=1G hugepages=512"),
        "{text}"
    );
    // I-102
    let sysctl = tuned.read("/etc/sysctl.d/91-gpuaas-slice-tuning.conf");
    for key in [
        "net.core.rmem_max",
        "net.core.wmem_max",
        "tcp_rmem",
        "tcp_wmem",
        "backlog",
    ] {
        assert!(sysctl.contains(key), "{key}");
    }
    assert!(
        tuned
            .read("/etc/modprobe.d/gpuaas-ib-ipoib.conf")
            .contains("recv_queue_size")
    );
    assert!(
        tuned
            .read("/etc/security/limits.d/90-gpuaas-memlock.conf")
            .contains("memlock unlimited")
    );
}

#[test]
fn i_83_a_grub_line_that_is_not_understood_stops_everything() {
    let host = host();
    host.write(
        "/etc/default/grub",
        "GRUB_CMDLINE_LINUX=\"$(cat /etc/arguments)\"\n",
    );
    let before = host.files();
    let ran = host.run(&BOOTSTRAP);
    assert_eq!(ran.code, 1);
    assert!(ran.refusals().contains("edit it by hand"), "{}", ran.text);
    assert_eq!(host.files(), before);
}

/// Wherever the arguments came from, an image or an earlier run (CON-12).
#[test]
fn i_83_i_224_a_drop_in_that_sets_the_arguments_anew_is_outvoted() {
    let host = host();
    host.write(
        "/etc/default/grub.d/50-site.cfg",
        "GRUB_CMDLINE_LINUX=\"console=tty0\"\n",
    );
    host.run(&BOOTSTRAP);
    let own = host.read("/etc/default/grub.d/99-gpuaas-slice.cfg");
    assert!(own.contains("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX intel_iommu=on iommu=pt\""));
    assert!(host.run(&BOOTSTRAP).steps().is_empty());
}

#[test]
fn i_72_i_83_a_second_run_keeps_the_hugepages_that_the_first_chose() {
    let host = host();
    host.write(
        "/etc/default/grub.d/50-site.cfg",
        "GRUB_CMDLINE_LINUX=\"console=tty0\"\n",
    );
    let own = || host.read("/etc/default/grub.d/99-gpuaas-slice.cfg");
    let pages = |count: &str| {
        let ran = host.run_with(&BOOTSTRAP, &[("GPUAAS_SLICE_HUGEPAGES_1G", count)]);
        assert_eq!(ran.code, 0, "{}", ran.text);
        ran.steps()
    };
    pages("512");
    let chosen = "intel_iommu=on iommu=pt default_hugepagesz=1G hugepagesz=1G hugepages=512\"";
    assert!(own().contains(chosen), "{}", own());
    // with the defaults, and as scripts give them
    assert_eq!(host.run(&BOOTSTRAP).steps(), Vec::<String>::new());
    assert_eq!(pages("0"), Vec::<String>::new());
    assert!(own().contains(chosen), "{}", own());
    // another choice replaces it, once the line that a person may have written has none
    host.write("/etc/default/grub", GRUB);
    pages("256");
    assert!(own().contains("hugepages=256\""), "{}", own());
    assert_eq!(own().matches("hugepages=").count(), 1, "{}", own());
}

#[test]
fn i_85_a_unit_that_systemd_has_not_read_is_read_by_the_next_run() {
    let host = host();
    host.run(&BOOTSTRAP);
    host.state_text("units/gpuaas-slice-fabric-vfs.unread", "");
    assert_eq!(
        host.run(&BOOTSTRAP).steps(),
        ["run systemctl daemon-reload"]
    );
    assert_eq!(host.run(&BOOTSTRAP).steps(), Vec::<String>::new());
}

/// One name (CON-01).
#[test]
fn i_97_i_98_the_former_service_goes_with_a_backup() {
    let host = host();
    host.unit("gpuaas-slice-host-net-baseline");
    host.write(
        "/etc/systemd/system/gpuaas-slice-host-net-baseline.service",
        "[Unit]\n",
    );
    host.write(
        "/usr/local/sbin/gpuaas-slice-host-net-baseline",
        "#!/bin/sh\n",
    );
    host.run(&BOOTSTRAP);
    assert!(
        !host
            .state("units/gpuaas-slice-host-net-baseline.active")
            .exists()
    );
    assert!(
        !host
            .path("/usr/local/sbin/gpuaas-slice-host-net-baseline")
            .exists()
    );
    let kept = fs::read_dir(host.path("/etc/systemd/system")).unwrap();
    let kept = kept.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy()
            .contains("host-net-baseline.service.gpuaas-backup-")
    });
    assert_eq!(kept.count(), 1);
    // I-99, I-110: the names of the documents
    for name in [
        "gpuaas-slice-network-baseline.sh",
        "gpuaas-slice-storage-transition",
    ] {
        assert!(
            host.path(&format!("/usr/local/sbin/{name}")).exists(),
            "{name}"
        );
    }
}

#[test]
fn i_88_the_validation_keys_are_those_of_the_runbook() {
    let host = host();
    let ran = host.run(&BOOTSTRAP);
    let value = |key: &str| {
        let mut lines = ran.text.lines();
        lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('=').map(str::to_owned))
    };
    assert_eq!(
        value("cmdline").as_deref(),
        Some("BOOT_IMAGE=/vmlinuz ro console=ttyS0")
    );
    assert_eq!(value("kvm").as_deref(), Some("present"));
    assert_eq!(value("libvirtd").as_deref(), Some("active"));
    assert!(value("iommu_groups").unwrap().parse::<u32>().unwrap() > 0);
}

/// The bootstrap runs the runtime helper itself (I-70, I-107, the rest of I-78), in slice mode alone.
#[test]
fn con_26_outside_of_slice_mode_the_services_of_gpus_stay() {
    let host = host();
    host.unit("nvidia-persistenced");
    let ran = host.run(&["deploy-bootstrap"]);
    assert_eq!(ran.code, 0, "{}", ran.text);
    assert!(ran.text.contains("runtime-prepare:"), "{}", ran.text);
    assert!(host.state("units/nvidia-persistenced.active").exists());
    host.run(&BOOTSTRAP);
    assert!(!host.state("units/nvidia-persistenced.active").exists());
}

#[test]
fn inc_33_a_start_waits_for_one_network_and_not_for_ever() {
    let host = host();
    let ran = host.run(&BOOTSTRAP);
    assert_eq!(ran.code, 0, "{}", ran.text);
    let folder = "/etc/systemd/system/systemd-networkd-wait-online.service.d";
    let names: Vec<_> = fs::read_dir(host.path(folder))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let [name] = &names[..] else {
        panic!("{names:?}");
    };
    // the last one that sets the program counts
    assert!(
        name.as_str() > "10-netplan.conf" && name.ends_with(".conf"),
        "{name}"
    );
    let text = host.read(&format!("{folder}/{name}"));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..2],
        ["[Service]", "ExecStart="],
        "the distribution's own goes"
    );
    let program = lines[2];
    assert!(program.starts_with("ExecStart=/usr/lib/systemd/systemd-networkd-wait-online "));
    assert!(program.contains(" --any"), "{program}");
    let seconds = program.split("--timeout=").nth(1).unwrap();
    assert!(
        (1..=120).contains(&seconds.parse::<u32>().unwrap()),
        "{program}"
    );
    assert!(
        host.take_calls()
            .contains(&"systemctl daemon-reload".to_owned())
    );
    // written again where somebody changed it, and read by systemd again
    host.write(&format!("{folder}/{name}"), "[Service]\n");
    assert_eq!(host.run(&BOOTSTRAP).steps().len(), 2);
    assert_eq!(host.run(&BOOTSTRAP).steps(), Vec::<String>::new());
}

/// Everything that the bootstrap would run, and write.
fn planned(variables: &[(&str, &str)]) -> Vec<String> {
    let mut arguments = BOOTSTRAP.to_vec();
    arguments.extend(["--dry-run", "--output", "json"]);
    let plan = host().run_with(&arguments, variables).json();
    let steps = plan["plans"][0]["steps"].as_array().unwrap();
    assert!(steps.len() > 10, "{plan}");
    steps.iter().map(ToString::to_string).collect()
}

// partly INC-09: nothing here sets or reads back what a BMC has, and there is no repository of a vendor's tools to verify
#[test]
fn inc_09_no_package_is_installed_that_nobody_signed() {
    const UNSIGNED: [&str; 5] = [
        "allow-unauthenticated",
        "allowunauthenticated",
        "force-yes",
        "trusted=yes",
        "allow-insecure",
    ];
    let mut texts = planned(&[("GPUAAS_SLICE_NETWORK_TUNING", "1")]);
    for folder in ["scripts/ops", "deploy", "deploy/deb", "deploy/lab"] {
        for entry in fs::read_dir(repository().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "sh") {
                texts.push(fs::read_to_string(path).unwrap());
            }
        }
    }
    for text in texts {
        let text = text.to_lowercase();
        for word in UNSIGNED {
            assert!(!text.contains(word), "{word}: {text}");
        }
    }
}

// partly INC-30: there are no MAAS profiles that could go back to `ubuntu/noble` with `site_bootstrap_bundle_ref`
#[test]
fn inc_30_no_package_that_builds_kernel_modules_comes_with_the_bootstrap() {
    for step in planned(&[("GPUAAS_SLICE_NETWORK_TUNING", "1")]) {
        let step = step.to_lowercase();
        for word in [
            "doca",
            "ofed",
            "mlnx",
            "dkms",
            "/etc/apt",
            "add-apt-repository",
        ] {
            assert!(!step.contains(word), "{word}: {step}");
        }
    }
}
