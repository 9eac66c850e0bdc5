//! Scripts that run where there is no agent: the firmware preflight of MAAS commissioning, and the benchmark capture.
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Command;

use super::repository;

const PREFLIGHT: &str = "scripts/maas/commissioning/50-gpuaas-slice-firmware-preflight.sh";
const BENCHMARK: &str = "scripts/ops/gpuaas_benchmark_capture.sh";

/// Answers as the RACADM of the documents does; settings are files in STATE.
const RACADM: &str = r#"
echo "racadm $*" >> "$STATE/calls"
case "$1 ${2:-}" in
    "getversion ") echo; echo "Bios Version = 2.7.5" ;;
    "get BIOS.ProcSettings") printf '[Key=BIOS.Setup.1-1#ProcSettings]\nLogicalProc=%s\nProcVirtualization=%s (Pending Value=Enabled)\n' "$(cat "$STATE/LogicalProc")" "$(cat "$STATE/ProcVirtualization")" ;;
    "get BIOS.IntegratedDevices") printf 'SriovGlobalEnable=%s\r\n' "$(cat "$STATE/SriovGlobalEnable")" ;;
    set*) echo "$3" > "$STATE/${2##*.}" ;;
    "jobqueue create") printf 'Commit JID = JID_763788807801\nReboot JID = RID_763788809560\n' ;;
    *) exit 9 ;;
esac
"#;

/// A machine that is commissioned: files, and the programs that the script asks.
struct Target {
    dir: tempfile::TempDir,
}

impl Target {
    fn new() -> Self {
        let own = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        for folder in ["programs", "state"] {
            fs::create_dir(own.path(folder)).unwrap();
        }
        for name in ["ProcVirtualization", "LogicalProc", "SriovGlobalEnable"] {
            own.setting(name, "Enabled");
        }
        own.program("racadm", RACADM);
        own.program(
            "lsblk",
            r#"case "$*" in */dev/nvme1n1) printf 'NAME="nvme1n1" TYPE="disk" MOUNTPOINT="" FSTYPE=""\nNAME="nvme1n1p1" TYPE="part" MOUNTPOINT="/share2" FSTYPE="ext4"\n' ;; esac"#,
        );
        own.program(
            "wipefs",
            r#"echo "wipefs $*" >> "$STATE/calls"; case "$*" in */dev/nvme1n1) echo gpt ;; esac"#,
        );
        own.file("dev/kvm", "");
        own.file("sys/kernel/iommu_groups/0/type", "DMA");
        let gpu = [
            ("vendor", "0x10de"),
            ("class", "0x030200"),
            ("device", "0x2335"),
        ];
        let card = [
            ("vendor", "0x15b3"),
            ("class", "0x020000"),
            ("device", "0xa2dc"),
        ];
        for (address, facts) in [("0000:1b:00.0", gpu), ("0000:bc:00.0", card)] {
            for (name, value) in facts {
                let path = format!("sys/bus/pci/devices/{address}/{name}");
                own.file(&path, &format!("{value}\n"));
            }
        }
        own.file("sys/bus/pci/devices/0000:bc:00.0/sriov_totalvfs", "16\n");
        for disk in ["nvme0n1", "nvme1n1", "nvme4c4n1"] {
            own.file(&format!("sys/block/{disk}/size"), "1\n");
        }
        let links = own.path("root/dev/disk/by-id");
        fs::create_dir_all(&links).unwrap();
        for (link, disk) in [
            ("nvme-eui.0001", "nvme1n1"),
            ("nvme-eui.0001-part1", "nvme1n1p1"),
        ] {
            symlink(format!("../../{disk}"), links.join(link)).unwrap();
        }
        own
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.path("root").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn setting(&self, name: &str, value: &str) {
        fs::write(self.path("state").join(name), format!("{value}\n")).unwrap();
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.path("programs").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn script(&self, script: &str) -> Command {
        let mut command = Command::new(repository().join(script));
        let programs = self.path("programs");
        command
            .env("PATH", format!("{}:/usr/bin:/bin", programs.display()))
            .env("STATE", self.path("state"))
            .env("PROGRAMS", programs)
            .env("GPUAAS_SLICE_PREFLIGHT_ROOT", self.path("root"))
            .current_dir(self.dir.path());
        command
    }

    fn preflight(&self, variables: &[(&str, &str)]) -> (bool, String) {
        let mut command = self.script(PREFLIGHT);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.success(), text)
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.path("state/calls")).unwrap_or_default()
    }
}

#[track_caller]
fn has(text: &str, line: &str) {
    assert!(text.lines().any(|own| own == line), "{line}\n{text}");
}

/// All of I-46, as lines that programs read (I-41): RACADM (I-58, I-62), KVM and IOMMU (I-39), GPUs, card, SR-IOV, and
/// of each disk its stable link, partitions, mounts, file systems and signatures (I-40, I-47). It says in the end whether the
/// machine is capable (I-48). CON-28: what the bootstrap stages is only looked at.
#[test]
fn i_36_i_38_i_42_commissioning_reads_the_firmware_and_changes_nothing() {
    let target = Target::new();
    let (good, text) = target.preflight(&[]);
    assert!(good, "{text}");
    for line in [
        r"GPUAAS_SLICE_PREFLIGHT status=PASS check=racadm detail=Bios\ Version\ =\ 2.7.5",
        r"GPUAAS_SLICE_PREFLIGHT status=PASS check=bios_ProcVirtualization detail=BIOS.ProcSettings.ProcVirtualization=Enabled,\ required\ is\ Enabled",
        r"GPUAAS_SLICE_PREFLIGHT status=PASS check=bios_SriovGlobalEnable detail=BIOS.IntegratedDevices.SriovGlobalEnable=Enabled,\ required\ is\ Enabled",
        "GPUAAS_SLICE_PREFLIGHT status=PASS check=kvm detail=present",
        "GPUAAS_SLICE_PREFLIGHT status=PASS check=iommu detail=iommu_groups=1",
        "GPUAAS_SLICE_PREFLIGHT status=PASS check=gpus detail=gpu_devices=1",
        "GPUAAS_SLICE_PREFLIGHT status=PASS check=bluefield detail=bluefield_functions=1",
        "GPUAAS_SLICE_PREFLIGHT status=PASS check=sriov detail=sriov_totalvfs=16",
        "GPUAAS_SLICE_NVME device=nvme0n1 by_id= children= mounts= filesystems= signatures=",
        "GPUAAS_SLICE_NVME device=nvme1n1 by_id=/dev/disk/by-id/nvme-eui.0001 children=nvme1n1p1 mounts=/share2 filesystems=ext4 signatures=gpt",
        r"GPUAAS_SLICE_PREFLIGHT status=PASS check=nvme detail=nvme_devices=2\ mounted_nvme_devices=1",
        "GPUAAS_SLICE_PREFLIGHT summary warnings=0 failures=0 firmware_capable=yes",
    ] {
        has(&text, line);
    }
    for call in target.calls().lines() {
        let reads = call.starts_with("racadm get") || call.starts_with("wipefs --noheadings");
        assert!(reads, "{call}");
    }
    // no VM without what the firmware gives
    fs::remove_file(target.path("root/dev/kvm")).unwrap();
    let (good, text) = target.preflight(&[]);
    assert!(
        !good && text.contains("status=FAIL check=kvm detail=missing"),
        "{text}"
    );
}

/// The profile of CON-14: two settings are required and one is recommended. The first run only reads (I-44, CON-03); with the
/// approval it sets the minimum (I-59), queues the power cycle (I-60) and tells both ids (I-61).
#[test]
fn i_43_i_59_settings_are_applied_only_when_told_to() {
    let target = Target::new();
    target.setting("ProcVirtualization", "Disabled");
    target.setting("LogicalProc", "Disabled");
    let (good, text) = target.preflight(&[("GPUAAS_SLICE_APPLY_BIOS", "0")]);
    assert!(!good, "{text}");
    assert!(
        text.contains("status=FAIL check=bios_ProcVirtualization"),
        "{text}"
    );
    assert!(
        text.contains("status=WARN check=bios_LogicalProc"),
        "{text}"
    );
    assert!(!target.calls().contains("racadm set"), "{}", target.calls());

    let (_, text) = target.preflight(&[("GPUAAS_SLICE_APPLY_BIOS", "1")]);
    let calls = target.calls();
    let changes: Vec<_> = calls
        .lines()
        .filter(|call| call.starts_with("racadm") && !call.contains(" get"))
        .collect();
    assert_eq!(
        changes,
        [
            "racadm set BIOS.ProcSettings.ProcVirtualization Enabled",
            "racadm set BIOS.ProcSettings.LogicalProc Enabled",
            "racadm jobqueue create BIOS.Setup.1-1 -r pwrcycle -s TIME_NOW",
        ]
    );
    assert!(
        text.contains(r"JID_763788807801\ RID_763788809560"),
        "{text}"
    );
    // what is as it must be is not set again
    let (good, _) = target.preflight(&[("GPUAAS_SLICE_APPLY_BIOS", "1")]);
    assert!(good);
    assert_eq!(target.calls().matches("racadm set").count(), 2);
}

/// From the signed repository that has it (I-50) and not from the stale one (I-49): packages of I-51, key of I-52, keyring of
/// I-53, list of I-54 with the line of I-55, made as I-56 says, never without a signature (I-57, L-22).
#[test]
fn inc_09_i_37_i_57_racadm_comes_from_the_signed_repository_or_not_at_all() {
    let target = Target::new();
    let racadm = target.path("programs/racadm");
    fs::rename(&racadm, target.path("state/racadm")).unwrap();
    target.program("curl", r#"echo "curl $*" >> "$STATE/calls"; echo key"#);
    target.program(
        "gpg",
        r#"echo "gpg $*" >> "$STATE/calls"; while [ "$1" != --output ]; do shift; done; cp "$3" "$2""#,
    );
    target.program(
        "apt-get",
        r#"echo "apt-get $* $DEBIAN_FRONTEND" >> "$STATE/calls"; case $1 in install) cp "$STATE/racadm" "$PROGRAMS/racadm" ;; esac"#,
    );
    let (good, text) = target.preflight(&[("DEBIAN_FRONTEND", "")]);
    assert!(good, "{text}");
    let list = target.path("root/etc/apt/sources.list.d/linux.dell.com.sources.list");
    assert_eq!(
        fs::read_to_string(list).unwrap(),
        "deb [signed-by=/usr/share/keyrings/dell-openmanage.gpg] http://linux.dell.com/repo/community/openmanage/11010/jammy jammy main\n"
    );
    let keyring = target.path("root/usr/share/keyrings/dell-openmanage.gpg");
    assert_eq!(fs::read_to_string(keyring).unwrap(), "key\n");
    let calls = target.calls();
    for part in [
        "https://linux.dell.com/repo/pgp_pubkeys/0x1285491434D8786F.asc",
        "gpg --batch --yes --dearmor",
        "apt-get install --yes srvadmin-hapi srvadmin-idracadm7 srvadmin-idracadm8 noninteractive",
    ] {
        assert!(calls.contains(part), "{part} in {calls}");
    }
    assert!(!calls.contains("unauthenticated"), "{calls}");

    // I-63: it is told that there is none, and everything else is looked at
    fs::remove_file(&racadm).unwrap();
    target.program("apt-get", "exit 100");
    let (good, text) = target.preflight(&[]);
    assert!(!good && text.contains("status=FAIL check=racadm"), "{text}");
    has(
        &text,
        "GPUAAS_SLICE_PREFLIGHT status=PASS check=kvm detail=present",
    );
}

/// I-45: the name is that of the registration.
#[test]
fn i_45_the_scripts_are_clean_to_a_linter_and_named_as_they_are_registered() {
    let script = repository().join(PREFLIGHT);
    let text = fs::read_to_string(&script).unwrap();
    assert!(text.contains("\n# name: 50-gpuaas-slice-firmware-preflight\n"));
    assert!(text.contains("\n# script_type: commissioning\n"));
    let files = [script, repository().join(BENCHMARK)];
    let output = Command::new("shellcheck").args(files).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

/// The same commands for a host (I-26, I-31) and, by the key of the relay (I-28), for a VM. I-30: a peer of the fabric.
#[test]
fn i_24_i_25_i_27_a_measurement_is_one_json_file_per_label() {
    let target = Target::new();
    target.program(
        "ssh",
        r#"echo "$*" > "$STATE/ssh"; tee "$STATE/script" | PATH=$STATE/there:/usr/bin:/bin sh -s"#,
    );
    fs::create_dir(target.path("state/there")).unwrap();
    for name in ["nvidia-smi", "fio", "ib_write_bw"] {
        let path = target.path("state/there").join(name);
        fs::write(&path, "#!/bin/sh\necho \"ran $* with a \\\"quote\\\"\"\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let capture = |arguments: &[&str]| {
        let mut command = target.script(BENCHMARK);
        command.args(arguments).output().unwrap()
    };
    let host = [
        "--host",
        "10.177.36.197",
        "--user",
        "ubuntu",
        "--label",
        "baremetal-a",
    ];
    let of_host = capture(&host);
    assert!(of_host.status.success(), "{of_host:?}");
    let script = fs::read_to_string(target.path("state/script")).unwrap();
    let vm = [
        "--host",
        "10.100.0.10",
        "--user",
        "gpuuser",
        "--label",
        "slice-vm-a-s01",
        "--ssh-key",
        "/var/lib/gpuaas/terminal/id_ed25519",
        "--fio-target",
        "/dev/nvme0n1",
        "--rdma-peer",
        "10.0.0.2",
        "--rdma-device",
        "mlx5_0",
        "--output",
        "vm/out.json",
    ];
    let of_vm = capture(&vm);
    assert!(of_vm.status.success(), "{of_vm:?}");
    let ssh = fs::read_to_string(target.path("state/ssh")).unwrap();
    assert!(
        ssh.contains("-i /var/lib/gpuaas/terminal/id_ed25519 -- gpuuser@10.100.0.10 sh -s"),
        "{ssh}"
    );
    let with_probes = fs::read_to_string(target.path("state/script")).unwrap();
    assert!(
        with_probes.starts_with(&script),
        "the same commands, and the optional ones after them"
    );

    let read = |path: &str| -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(target.path(path)).unwrap()).unwrap()
    };
    let report = read("dist/benchmarks/baremetal-a.json");
    assert_eq!(
        (&report["label"], &report["host"]),
        (&"baremetal-a".into(), &"10.177.36.197".into())
    );
    assert_eq!(report["probes"]["kernel"]["status"], "0");
    assert!(
        report["probes"]["gpus"]["output"][0]
            .as_str()
            .unwrap()
            .ends_with("with a \"quote\"")
    );
    assert_eq!(report["probes"]["fabric"]["status"], "missing");
    assert!(report["probes"].get("fio").is_none());
    let report = read("vm/out.json");
    let said = |probe: &str| {
        report["probes"][probe]["output"][0]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(
        said("ib_write_bw").contains("--ib-dev=mlx5_0 10.0.0.2"),
        "{report}"
    );
    assert!(said("fio").contains("--filename=/dev/nvme0n1"), "{report}");
}

#[test]
fn i_29_i_35_a_disk_is_opened_for_reading_alone_and_bad_arguments_reach_no_host() {
    let target = Target::new();
    target.program(
        "ssh",
        r#"echo called >> "$STATE/ssh"; cat > "$STATE/script"; exit 1"#,
    );
    let host = ["--host", "a", "--user", "b", "--label", "l"];
    let capture = |more: &[&str]| target.script(BENCHMARK).args(more).output().unwrap();
    for bad in [
        &["--label", "l"][..],
        &["--host", "-oProxyCommand=x", "--user", "b", "--label", "l"],
        &["--host", "a", "--user", "b", "--label", "../x"],
        &[
            "--host",
            "a",
            "--user",
            "b",
            "--label",
            "l",
            "--fio-target",
            "/dev/x; rm",
        ],
        &[
            "--host",
            "a",
            "--user",
            "b",
            "--label",
            "l",
            "--fio-target",
            "file",
        ],
        &[
            "--host",
            "a",
            "--user",
            "b",
            "--label",
            "l",
            "--rdma-device",
            "d",
        ],
        &["--host", "a", "--user", "b", "--label", "l", "--other", "d"],
        &["--host"],
    ] {
        assert_eq!(capture(bad).status.code(), Some(2), "{bad:?}");
    }
    assert!(!target.path("state/ssh").exists());
    let mut arguments = host.to_vec();
    arguments.extend(["--fio-target", "/dev/nvme0n1"]);
    assert!(!capture(&arguments).status.success());
    let script = fs::read_to_string(target.path("state/script")).unwrap();
    let fio: Vec<_> = script.lines().filter(|line| line.contains("fio")).collect();
    assert_eq!(fio.len(), 1);
    assert!(
        fio[0].contains(" --readonly ") && fio[0].contains("--rw=randread"),
        "{fio:?}"
    );
    let left = fs::read_dir(target.path("dist/benchmarks"))
        .unwrap()
        .count();
    assert_eq!(left, 0, "a capture that failed leaves no file");
}
