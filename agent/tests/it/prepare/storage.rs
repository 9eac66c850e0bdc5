//! The storage transition: the only command that erases.
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use gpuaas_agent::host::root::HostRoot;
use gpuaas_agent::prepare::storage::manifests;
use gpuaas_agent::recorded::Recorded;
use gpuaas_proto::gpuaas::agent::v1::TopologyReport;

use super::{Host, Ran, SLOT, TestHost, good};
use crate::recorded::reference_host::CORNERS;

const APPLY: [&str; 4] = ["storage-transition", "--apply", "--mode", "slice"];

fn by_id(corner: usize) -> String {
    let name = CORNERS[corner].disk_name();
    let host = good();
    let found = host.recording.entries.iter().find_map(|(path, entry)| {
        let path = path.to_str()?;
        let gpuaas_agent::host::recording::Entry::Link(target) = entry else {
            return None;
        };
        let is_own = target.ends_with(&name) && path.contains("/nvme-eui.");
        is_own.then(|| path.to_owned())
    });
    found.unwrap()
}

/// Two disks that the host shares out: each has a partition with a file system that is mounted and in fstab.
fn shared(change: impl FnOnce(&mut Host)) -> TestHost {
    let mut host = good();
    for (corner, minor) in [(0, 40), (1, 41)] {
        let name = host.partition(&CORNERS[corner].disk_folder(), 1, minor);
        let at = format!("/share{}", corner + 2);
        host.mount(&format!("259:{minor}"), &format!("/dev/{name}"), &at);
    }
    change(&mut host);
    let host = TestHost::of(&host);
    for corner in &CORNERS[..2] {
        let name = corner.disk_name();
        let signature =
            |kind: &str| format!("{{\"signatures\":[{{\"device\":\"x\",\"type\":\"{kind}\"}}]}}");
        host.state_text(&format!("signatures/{name}"), &signature("gpt"));
        host.state_text(&format!("signatures/{name}p1"), &signature("ext4"));
    }
    let (one, two) = (CORNERS[0].disk_name(), CORNERS[1].disk_name());
    host.write(
        "/etc/fstab",
        &format!("/dev/nvme4n1p2 / ext4 defaults 0 1\n/dev/{one}p1 /share2 ext4 nofail 0 2\n/dev/{two}p1 /share3 ext4 nofail 0 2\n"),
    );
    profile(&host, &["/share2", "/share3"]);
    host
}

fn profile(host: &TestHost, unmount: &[&str]) {
    host.write(
        "/etc/gpuaas/slice-storage.toml",
        &format!(
            "approved_by = \"infra, change 4711\"\ndevices = {:?}\nunmount = {unmount:?}\n",
            [by_id(0), by_id(1)]
        ),
    );
}

/// The calls that change a disk.
fn erasures(host: &TestHost) -> Vec<String> {
    let mut calls = host.take_calls();
    calls.retain(|call| {
        call.starts_with("wipefs --all")
            || call.starts_with("blkdiscard")
            || call.starts_with("umount")
    });
    calls
}

#[test]
fn i_113_without_apply_the_plan_is_printed_and_nothing_changes() {
    let host = shared(|_| ());
    let before = host.files();
    let ran = host.run(&["storage-transition", "--mode", "slice"]);
    assert_eq!(ran.code, 0, "{}", ran.text);
    assert_eq!(host.files(), before);
    assert!(erasures(&host).is_empty());
    assert!(
        ran.steps()
            .iter()
            .any(|step| step.starts_with("run blkdiscard"))
    );
    // what is on every disk, the others too
    for disk in ["disk=/dev/nvme4n1", "disk=/dev/nvme7n1"] {
        assert!(ran.text.contains(disk), "{disk}");
    }
    assert!(ran.text.contains("role=system"), "{}", ran.text);
}

/// By its flag as by default: what it prints is what the run with `--apply` does, and what is refused ends it with status 1.
#[test]
fn i_113_i_118_a_dry_run_is_the_plan_of_the_run_after_it() {
    let host = shared(|_| ());
    let before = host.files();
    let dry = ["storage-transition", "--mode", "slice", "--dry-run"];
    let ran = host.run(&dry);
    assert_eq!(ran.code, 0, "{}", ran.text);
    assert_eq!(host.files(), before);
    for call in host.take_calls() {
        let asks = ["wipefs --json --no-act ", "virsh ", "systemctl show "];
        assert!(asks.iter().any(|ask| call.starts_with(ask)), "{call}");
    }
    assert!(!ran.text.contains("GPUAAS_SLICE_APPLY"), "{}", ran.text);
    assert!(!ran.text.contains("storage_mode=slice"), "{}", ran.text);
    // its manifest and the backup of fstab have the time in their names
    let of_disks = |ran: &Ran| -> Vec<String> {
        let mut steps = ran.steps();
        steps.retain(|step| !step.contains("/etc/fstab") && !step.contains("/var/log/"));
        steps
    };
    for what in ["run umount /share2", "run umount /share3"] {
        assert!(of_disks(&ran).iter().any(|step| step == what), "{what}");
    }
    for corner in &CORNERS[..2] {
        let erased = format!("run blkdiscard /dev/{}", corner.disk_name());
        assert!(of_disks(&ran).contains(&erased), "{erased}");
    }

    // nobody can mean both
    let mut both = APPLY.to_vec();
    both.push("--dry-run");
    assert_eq!(host.run(&both).code, 2);
    // what stands against it is told as well
    let told = host.read("/etc/gpuaas/slice-storage.toml");
    profile(&host, &["/share2"]);
    let refused = host.run(&dry);
    assert_eq!(refused.code, 1, "{}", refused.text);
    assert!(refused.refusals().contains("is mounted at /share3"));
    host.write("/etc/gpuaas/slice-storage.toml", &told);
    assert_eq!(host.files(), before);
    assert!(erasures(&host).is_empty());

    let done = host.run(&APPLY);
    assert_eq!(done.code, 0, "{}", done.text);
    assert_eq!(of_disks(&done), of_disks(&ran));
}

/// A device manager that looks at a disk whose table has just gone is no user of it (seen with udev of Debian 12).
#[test]
fn i_118_i_122_a_device_manager_that_holds_a_disk_for_a_moment_is_waited_for() {
    let host = shared(|_| ());
    host.state_text("device-manager", "");
    let ran = host.run(&APPLY);
    assert_eq!(ran.code, 0, "{}", ran.text);
    assert!(ran.text.contains("storage_mode=slice"), "{}", ran.text);
}

/// Discovery refuses a disk that the host shares out until the transition has taken it over, and then tells its record.
/// D-36
#[tokio::test]
async fn a_119_a_121_the_transition_with_its_record_makes_a_shared_disk_a_slots() {
    let host = shared(|_| ());
    let recorded = Recorded::open(good().recording).unwrap();
    let discover = async || {
        fs::remove_dir_all(recorded.tree()).unwrap();
        let copied = Command::new("cp")
            .arg("-a")
            .args([host.path("/"), recorded.tree()])
            .status();
        assert!(copied.unwrap().success());
        recorded.discover().await
    };
    let blocked = |report: &TopologyReport| -> Vec<u32> {
        let blocked = report
            .candidates
            .iter()
            .filter(|one| !one.blockers.is_empty());
        blocked.map(|one| one.slot_index).collect()
    };
    let taken_over = |report: &TopologyReport| -> Vec<String> {
        let devices = report.inspected_devices.iter();
        let told = devices.filter(|one| !one.storage_transition_manifest.is_empty());
        told.map(|one| one.device.clone()).collect()
    };
    let before = discover().await;
    assert_eq!(blocked(&before), [0, 1]);
    assert_eq!(taken_over(&before), Vec::<String>::new());
    let ran = host.run(&APPLY);
    assert_eq!(ran.code, 0, "{}", ran.text);
    let after = discover().await;
    assert_eq!(blocked(&after), Vec::<u32>::new());
    assert_eq!(taken_over(&after), [by_id(0), by_id(1)]);
}

/// What was mounted is unmounted, by the approved profile alone (I-116, GAP-03).
#[test]
fn i_115_i_122_approved_disks_are_raw_afterwards_and_a_second_run_changes_nothing() {
    let host = shared(|_| ());
    let fstab = host.read("/etc/fstab");
    let ran = host.run(&APPLY);
    assert_eq!(ran.code, 0, "{}", ran.text);
    let (one, two) = (CORNERS[0].disk_name(), CORNERS[1].disk_name());
    let calls = erasures(&host);
    let of = |name: &str| -> Vec<String> {
        let own = calls.iter().filter(|call| call.contains(name));
        own.cloned().collect()
    };
    for name in [&one, &two] {
        // I-118, I-119, in this order, and never by force (INC-12)
        let expected = [
            format!("wipefs --all /dev/{name}p1"),
            format!("wipefs --all /dev/{name}"),
            format!("blkdiscard /dev/{name}"),
        ];
        assert_eq!(of(name), expected);
        assert!(!host.path(&format!("/sys/class/block/{name}p1")).exists());
    }
    assert_eq!(of("umount"), ["umount /share3", "umount /share2"], "I-116");
    // I-117
    let after = host.read("/etc/fstab");
    assert!(after.starts_with("/dev/nvme4n1p2 / ext4"), "{after}");
    for name in [&one, &two] {
        assert!(
            after.contains(&format!("# gpuaas-slice-storage-disabled /dev/{name}p1")),
            "{after}"
        );
    }
    let backup = fs::read_dir(host.path("/etc")).unwrap().find_map(|entry| {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with("fstab.gpuaas-slice-storage-backup-")
            .then(|| entry.path())
    });
    assert_eq!(fs::read_to_string(backup.unwrap()).unwrap(), fstab, "I-115");
    // I-120, A-102, A-103, A-105
    let value = |key: &str| {
        let mut lines = ran.text.lines();
        lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('=').map(str::to_owned))
    };
    assert_eq!(value("storage_ownership").as_deref(), Some("slice"));
    assert_eq!(value("storage_mode").as_deref(), Some("slice"));
    let manifest = value("storage_transition_manifest").unwrap();
    assert!(
        manifest.starts_with("/var/log/gpuaas/slice-storage-transition-"),
        "{manifest}"
    );
    // whoever asks the host then hears of it
    let told = manifests(&HostRoot::new(host.path("/")));
    let both = [by_id(0), by_id(1)].map(|disk| (disk, manifest.clone()));
    assert_eq!(told, BTreeMap::from(both));
    let manifest = host.read(&manifest);
    for line in [
        "approved_by=infra,\\ change\\ 4711",
        "role=approved",
        "signature=nvme2n1p1",
        "outcome=done",
    ] {
        assert!(manifest.contains(line), "{line} in {manifest}");
    }
    assert!(host.path("/sys/class/block/nvme4n1p2").exists());

    let between = host.files();
    let second = host.run(&APPLY);
    assert_eq!(
        (second.code, second.steps()),
        (0, Vec::new()),
        "{}",
        second.text
    );
    assert_eq!(host.files(), between);
    assert!(erasures(&host).is_empty());
}

#[test]
fn i_115_i_122_what_was_broken_off_is_erased_to_the_end_by_the_next_run() {
    let host = shared(|_| ());
    // disks come by their kernel names
    let (one, two) = (CORNERS[1].disk_name(), CORNERS[0].disk_name());
    // the signatures are gone, and the content is not: the disk looks raw
    host.instead("blkdiscard", "exit 1");
    let broken = host.run(&APPLY);
    assert_eq!(broken.code, 1, "{}", broken.text);
    erasures(&host);
    assert!(!host.path(&format!("/sys/class/block/{one}p1")).exists());
    let note = |corner| {
        let name = by_id(corner).rsplit('/').next().unwrap().to_owned();
        host.path(&format!("/var/lib/gpuaas/storage-transition/{name}.begun"))
    };
    assert!(note(1).exists() && !note(0).exists());

    // what somebody has mounted since is not erased, begun or not
    let before = host.read("/proc/self/mountinfo");
    let mounted = format!("{before}99 1 259:2 / /data rw - ext4 /dev/{one} rw\n");
    host.write("/proc/self/mountinfo", &mounted);
    fs::remove_file(host.state("instead/blkdiscard")).unwrap();
    let ran = host.run(&APPLY);
    assert_eq!(ran.code, 1, "{}", ran.text);
    assert_eq!(erasures(&host), Vec::<String>::new());
    host.write("/proc/self/mountinfo", &before);

    let again = host.run(&APPLY);
    assert_eq!(again.code, 0, "{}", again.text);
    let calls = erasures(&host);
    for name in [&one, &two] {
        assert!(
            calls.contains(&format!("blkdiscard /dev/{name}")),
            "{calls:?}"
        );
    }
    assert!(!note(0).exists() && !note(1).exists());
    let last = host.run(&APPLY);
    assert_eq!((last.code, last.steps()), (0, Vec::new()), "{}", last.text);
    assert_eq!(erasures(&host), Vec::<String>::new());
}

#[test]
fn a_137_a_raw_disk_that_a_slot_has_since_is_not_erased_by_what_was_broken_off() {
    let host = shared(|_| ());
    host.instead("blkdiscard", "exit 1");
    host.run(&APPLY);
    erasures(&host);
    fs::remove_file(host.state("instead/blkdiscard")).unwrap();
    host.approve(SLOT, &[&by_id(1)], true);
    let ran = host.run(&APPLY);
    assert_eq!(ran.code, 0, "{}", ran.text);
    let calls = erasures(&host).join("\n");
    assert!(!calls.contains(&CORNERS[1].disk_name()), "{calls}");
    assert!(calls.contains(&format!("blkdiscard /dev/{}", CORNERS[0].disk_name())));
}

/// As in the reference invocation, `/dev/nvme4n1` is the disk of the system (I-112).
#[test]
fn i_114_i_123_the_disk_of_the_system_is_refused_whatever_it_is_called() {
    let host = shared(|_| ());
    let system = good()
        .recording
        .entries
        .into_iter()
        .find_map(|(path, entry)| {
            let path = path.to_str()?.to_owned();
            let gpuaas_agent::host::recording::Entry::Link(target) = entry else {
                return None;
            };
            (target.ends_with("nvme4n1") && path.contains("/nvme-eui.")).then_some(path)
        });
    let system = system.unwrap();
    // even with the infrastructure's approval
    host.write(
        "/etc/gpuaas/slice-storage.toml",
        &format!("approved_by = \"infra\"\ndevices = [{system:?}]\n"),
    );
    for device in ["/dev/nvme4n1", &system] {
        let before = host.files();
        let mut arguments = APPLY.to_vec();
        arguments.extend(["--devices", device]);
        let ran = host.run(&arguments);
        assert_eq!(ran.code, 1, "{}", ran.text);
        assert!(
            ran.refusals().contains("the disk of the operating system"),
            "{}",
            ran.text
        );
        assert!(
            ran.refusals().contains(" cause=system_disk "),
            "{}",
            ran.text
        );
        assert_eq!(host.files(), before);
    }
    assert!(erasures(&host).is_empty());
}

/// L-18.
/// A-133, D-37
#[test]
fn inc_29_i_121_no_share_is_unmounted_without_an_approved_profile_that_names_it() {
    let host = shared(|_| ());
    let expect = |what: &str, cause: &str, arguments: &[&str]| {
        let before = host.files();
        let ran = host.run(arguments);
        assert_eq!(ran.code, 1, "{}", ran.text);
        assert!(ran.refusals().contains(what), "{what}: {}", ran.text);
        let cause = format!(" action=refuse cause={cause} ");
        assert!(ran.refusals().contains(&cause), "{cause}: {}", ran.text);
        assert_eq!(host.files(), before);
        assert_eq!(erasures(&host), Vec::<String>::new());
    };
    // the mount is not named
    profile(&host, &["/share2"]);
    expect("is mounted at /share3", "in_use", &APPLY);
    profile(&host, &["/share2", "/share3"]);
    // the disk is not named
    let other = format!("/dev/{}", CORNERS[2].disk_name());
    expect(
        "the approved storage profile does not name it",
        "not_approved",
        &[
            "storage-transition",
            "--apply",
            "--mode",
            "slice",
            "--devices",
            &other,
        ],
    );
    expect(
        "there is no such disk",
        "no_such_disk",
        &[
            "storage-transition",
            "--apply",
            "--mode",
            "slice",
            "--devices",
            "/dev/nvme99n1",
        ],
    );
    // nobody said that the host is for slices
    expect(
        "nothing says that this host is in slice mode",
        "mode",
        &["storage-transition", "--apply"],
    );
    fs::remove_file(host.path("/etc/gpuaas/slice-storage.toml")).unwrap();
    expect("no approved storage profile", "profile", &APPLY);
}

#[test]
fn inc_12_swap_volumes_and_what_is_open_are_never_erased() {
    let disk = CORNERS[0].disk_name();
    let (swap, holder) = (disk.clone(), disk.clone());
    type Change<'a> = Box<dyn FnOnce(&mut Host) + 'a>;
    let changes: [(&str, Change<'_>); 2] = [
        (
            "is swap",
            Box::new(|host| {
                let text =
                    format!("Filename Type Size Used Priority\n/dev/{swap}p1 partition 1 0 -2");
                host.text("/proc/swaps", text);
            }),
        ),
        (
            "is stacked on it",
            Box::new(|host| {
                host.text(
                    format!("{}/holders/dm-7/dev", CORNERS[0].disk_folder()),
                    "253:7",
                );
                host.text("/sys/class/block/dm-7/dm/name", format!("vg-{holder}"));
            }),
        ),
    ];
    for (what, change) in changes {
        let host = shared(change);
        let ran = host.run(&APPLY);
        assert_eq!(ran.code, 1, "{}", ran.text);
        assert!(ran.refusals().contains(what), "{what}: {}", ran.text);
        assert!(erasures(&host).is_empty());
    }
    // LVM and RAID that are not assembled now
    for kind in ["LVM2_member", "linux_raid_member", "crypto_LUKS"] {
        let host = shared(|_| ());
        let text = format!("{{\"signatures\":[{{\"device\":\"x\",\"type\":\"{kind}\"}}]}}");
        host.state_text(&format!("signatures/{disk}p1"), &text);
        let ran = host.run(&APPLY);
        assert!(ran.refusals().contains(kind), "{}", ran.text);
        assert!(erasures(&host).is_empty());
    }
}

#[test]
fn inc_12_p9_a_mount_that_stays_ends_the_transition_before_anything_is_erased() {
    let host = shared(|_| ());
    // it says that it did, and another namespace has it still
    host.instead("umount", "exit 0");
    let ran = host.run(&APPLY);
    assert_eq!(ran.code, 1, "{}", ran.text);
    assert!(ran.text.contains("is\\ mounted\\ at"), "{}", ran.text);
    let calls = erasures(&host);
    assert!(
        calls.iter().all(|call| call.starts_with("umount")),
        "{calls:?}"
    );
    let manifest = fs::read_dir(host.path("/var/log/gpuaas"))
        .unwrap()
        .next()
        .unwrap();
    let manifest = fs::read_to_string(manifest.unwrap().path()).unwrap();
    assert!(manifest.contains("outcome=failed"), "{manifest}");
}

#[test]
fn con_27_a_kernel_path_stands_for_the_identity_that_it_has_now() {
    let host = shared(|_| ());
    let one = format!("/dev/{}", CORNERS[0].disk_name());
    let mut arguments = APPLY.to_vec();
    arguments.extend(["--devices", &one]);
    let ran = host.run(&arguments);
    assert_eq!(ran.code, 0, "{}", ran.text);
    let proofs: Vec<_> = ran
        .steps()
        .into_iter()
        .filter(|step| step.starts_with("prove_unused"))
        .collect();
    assert_eq!(proofs, [format!("prove_unused {} ({one})", by_id(0))]);
    let calls = erasures(&host).join("\n");
    assert!(!calls.contains(&CORNERS[1].disk_name()), "{calls}");
    assert!(
        host.read("/etc/fstab")
            .contains(&format!("\n/dev/{}p1 /share3", CORNERS[1].disk_name()))
    );
}

#[test]
fn a_137_a_139_the_disk_of_a_slot_is_the_platforms_to_wipe() {
    let host = shared(|_| ());
    host.approve(SLOT, &[&by_id(0)], false);
    let ran = host.run(&APPLY);
    assert_eq!(ran.code, 1, "{}", ran.text);
    assert!(
        ran.refusals().contains("whose repair wipes it"),
        "{}",
        ran.text
    );
    assert!(erasures(&host).is_empty());
}

#[test]
fn d_34_a_disk_that_a_vm_names_is_never_erased_whether_or_not_it_runs() {
    let disk = CORNERS[0].disk_name();
    let block = |path: &str| {
        format!(
            "<domain><devices><disk type='block'><source dev='{path}'/></disk></devices></domain>"
        )
    };
    let address = CORNERS[0].disk_address();
    let (bus, rest) = address[5..].split_once(':').unwrap();
    let (slot, function) = rest.split_once('.').unwrap();
    let passed_through = format!(
        "<domain><devices><hostdev mode='subsystem' type='pci'><source><address domain='0x0000' bus='0x{bus}' slot='0x{slot}' function='0x{function}'/></source></hostdev></devices></domain>"
    );
    for xml in [
        block(&format!("/dev/{disk}")),
        block(&by_id(0)),
        passed_through,
    ] {
        let host = shared(|_| ());
        host.state_text("domains", "somebodys-vm\n");
        host.state_text("domain.xml", &xml);
        let ran = host.run(&APPLY);
        assert_eq!(ran.code, 1, "{xml}: {}", ran.text);
        assert!(
            ran.refusals().contains("VM somebodys-vm names it"),
            "{}",
            ran.text
        );
        assert!(erasures(&host).is_empty());
    }
    let host = shared(|_| ());
    host.instead("virsh", "exit 1");
    let ran = host.run(&APPLY);
    assert_eq!(ran.code, 1);
    assert!(
        ran.refusals()
            .contains("cannot list the VMs that name a disk"),
        "{}",
        ran.text
    );
    assert!(erasures(&host).is_empty());
}
