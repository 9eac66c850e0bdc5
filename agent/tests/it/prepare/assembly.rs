//! LVM and mdadm, which would assemble what tenants leave on the disks of slots.
use std::fs;

use super::bootstrap::{BOOTSTRAP, prepared};
use super::{Ran, TestHost};
use crate::recorded::hosts::system_on_lvm;
use crate::recorded::reference_host::good;

const LVM_LOCAL: &str = "/etc/lvm/lvmlocal.conf";
const MDADM: &str = "/etc/mdadm/mdadm.conf";

const RELEASE: &str = "6.8.0-45-generic";
const UUID: &str = "b5a8e6d0:3e6e9c0a:8f0e1d2c:0a1b2c3d";

/// A host as Ubuntu's installer leaves it: both programs are there, and nothing limits them.
fn stock(host: TestHost) -> TestHost {
    let host = prepared(host);
    for program in ["lvm", "mdadm", "update-initramfs"] {
        host.write(&format!("/usr/sbin/{program}"), "");
    }
    host.write("/etc/lvm/lvm.conf", "# global_filter = [ \"a|.*|\" ]\n");
    host.write(LVM_LOCAL, "# local settings\nlocal {\n}\n");
    host.write(MDADM, "HOMEHOST <system>\nMAILADDR root\n");
    host.write("/proc/sys/kernel/osrelease", &format!("{RELEASE}\n"));
    host.write(&format!("/boot/initrd.img-{RELEASE}"), "");
    host
}

fn of_disks(ran: &Ran) -> Vec<String> {
    let steps = ran.steps().into_iter();
    let own = |step: &String| {
        ["lvm", "mdadm", "initramfs"]
            .iter()
            .any(|word| step.contains(word))
    };
    steps.filter(own).collect()
}

fn bootstrap(host: &TestHost) -> Ran {
    let ran = host.run(&BOOTSTRAP);
    assert_eq!(ran.code, 0, "{}", ran.text);
    ran
}

/// What is skipped, as a person reads it.
fn skipped(ran: &Ran) -> String {
    let lines = ran
        .text
        .lines()
        .filter(|line| line.contains(" action=skip "));
    let lines: Vec<String> = lines.map(|line| line.replace('\\', "")).collect();
    lines.join("\n")
}

#[test]
fn p9_neither_lvm_nor_mdadm_assembles_what_is_on_the_disks_of_slots() {
    let host = stock(TestHost::new());
    let dry = host.run(&["deploy-bootstrap", "--mode", "slice", "--dry-run"]);
    assert_eq!(of_disks(&dry).len(), 3, "{}", dry.text);
    assert_eq!(host.read(LVM_LOCAL), "# local settings\nlocal {\n}\n");

    let ran = bootstrap(&host);
    assert_eq!(of_disks(&ran).len(), 3, "{}", ran.text);
    assert!(
        host.take_calls()
            .contains(&"update-initramfs -u -k all".to_owned())
    );
    let lvm = host.read(LVM_LOCAL);
    assert!(
        lvm.starts_with("# local settings\nlocal {\n}\n")
            && lvm.ends_with("devices {\n\tglobal_filter = [ \"r|^/dev/nvme|\" ]\n}\n"),
        "{lvm}"
    );
    let mdadm = host.read(MDADM);
    assert!(
        mdadm.starts_with("HOMEHOST <system>\nMAILADDR root\n")
            && mdadm.contains("\nAUTO -all\n")
            // without such a line the initramfs gets a file of its own
            && mdadm.contains("\nARRAY <ignore> "),
        "{mdadm}"
    );
    for (folder, start) in [("/etc/lvm", "lvmlocal.conf"), ("/etc/mdadm", "mdadm.conf")] {
        let names = fs::read_dir(host.path(folder)).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let backup = format!("{start}.gpuaas-backup-");
        assert_eq!(names.filter(|name| name.starts_with(&backup)).count(), 1);
    }
    assert_eq!(bootstrap(&host).steps(), Vec::<String>::new());
}

/// The next start would assemble by the files of the old initramfs.
#[test]
fn p9_an_initramfs_that_an_earlier_run_did_not_come_to_is_made_by_the_next() {
    let host = stock(TestHost::new());
    host.instead("update-initramfs", "exit 1");
    assert_eq!(host.run(&BOOTSTRAP).code, 1);
    fs::remove_file(host.state("instead/update-initramfs")).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH;
    let initramfs = host.path(&format!("/boot/initrd.img-{RELEASE}"));
    let file = fs::File::options().write(true).open(initramfs).unwrap();
    file.set_modified(old).unwrap();
    assert_eq!(
        of_disks(&bootstrap(&host)),
        ["run update-initramfs -u -k all"]
    );
    assert_eq!(bootstrap(&host).steps(), Vec::<String>::new());
}

#[test]
fn p9_what_the_host_itself_stands_on_is_left_alone_and_said() {
    // the filter would take the host's own volumes away
    let mut on_lvm = good();
    system_on_lvm(&mut on_lvm);
    let host = stock(TestHost::of(&on_lvm));
    let ran = bootstrap(&host);
    assert_eq!(host.read(LVM_LOCAL), "# local settings\nlocal {\n}\n");
    let why = skipped(&ran);
    assert!(
        why.contains("LVM: the host itself has volumes on nvme3n1"),
        "{why}"
    );

    // and the site's own filter would not count any more
    let host = stock(TestHost::new());
    let own = "devices {\n\tglobal_filter = [ \"a|.*|\" ]\n}\n";
    host.write("/etc/lvm/lvm.conf", own);
    let why = skipped(&bootstrap(&host));
    assert!(
        why.contains("LVM: /etc/lvm/lvm.conf has a global_filter that rejects nothing"),
        "{why}"
    );
    assert_eq!(host.read(LVM_LOCAL), "# local settings\nlocal {\n}\n");

    // an array that no line names would not come back
    let host = stock(TestHost::new());
    host.write("/sys/class/block/md0/md/level", "raid1\n");
    let line = format!("ARRAY /dev/md0 metadata=1.2 name=host:0 UUID={UUID}\n");
    host.state_text("arrays", &line);
    let before = host.read(MDADM);
    let why = skipped(&bootstrap(&host));
    assert!(
        why.contains("mdadm: the host has an array") && why.contains(UUID),
        "{why}"
    );
    assert_eq!(host.read(MDADM), before);
    let commented = format!("HOMEHOST <system>\n# {line}");
    host.write(MDADM, &commented);
    let why = skipped(&bootstrap(&host));
    assert!(why.contains("mdadm: the host has an array"), "{why}");
    assert_eq!(host.read(MDADM), commented);
    // one that is named does
    let named = format!("HOMEHOST <system>\n{}", line.to_uppercase());
    host.write(MDADM, &named);
    bootstrap(&host);
    let after = host.read(MDADM);
    assert!(
        after.starts_with(&named) && after.ends_with("\nAUTO -all\n"),
        "{after}"
    );

    // another policy is the site's to change
    let host = stock(TestHost::new());
    host.write(MDADM, "AUTO +imsm +all\n");
    let why = skipped(&bootstrap(&host));
    assert!(why.contains("says \"AUTO +imsm +all\""), "{why}");
    assert_eq!(host.read(MDADM), "AUTO +imsm +all\n");
}

#[test]
fn p9_lvm_and_mdadm_are_limited_in_slice_mode_and_unless_the_site_does_it() {
    let host = stock(TestHost::new());
    let off = host.run_with(&BOOTSTRAP, &[("GPUAAS_SLICE_LIMIT_DISK_ASSEMBLY", "0")]);
    assert_eq!((off.code, of_disks(&off)), (0, Vec::new()), "{}", off.text);
    let unsaid = host.run(&["deploy-bootstrap"]);
    assert_eq!(
        (unsaid.code, of_disks(&unsaid)),
        (0, Vec::new()),
        "{}",
        unsaid.text
    );
    // what the site has written itself stays as it is
    let filter = "devices {\n\tglobal_filter = [\n\t\t\"a|^/dev/sda|\",\n\t\t\"r|.*|\"\n\t]\n}\n";
    host.write("/etc/lvm/lvm.conf", filter);
    host.write(MDADM, "AUTO -all\n");
    assert_eq!(of_disks(&bootstrap(&host)), Vec::<String>::new());
}
