//! LVM and mdadm kept from the disks of slots. Both assemble by themselves what they find on a disk, at every start of the host and
//! whenever a disk appears: a volume group or an array that a tenant made would be the host's then, and its slot blocked.
//!
//! What the host itself stands on stays: where that is LVM on an NVMe disk, or an array that no `ARRAY` line names, nothing is
//! changed, and a check says so. What the site has written itself stays as well.
use std::time::SystemTime;

use super::{Machine, Plan};
use crate::disk::facts::attributes;
use crate::disk::identity::is_nvme_disk;
use crate::disk::mounts;
use crate::error::{HostResult, io_error};
use crate::host::root::HostRoot;

const BLOCK: &str = "/sys/class/block";

const LVM: [&str; 2] = ["/usr/sbin/lvm", "/sbin/lvm"];
/// What is set here wins over `lvm.conf`, which the distribution's packages replace.
const LVM_LOCAL: &str = "/etc/lvm/lvmlocal.conf";
const LVM_FILES: [&str; 2] = [LVM_LOCAL, "/etc/lvm/lvm.conf"];
const LVM_FILTER: &str = "global_filter";
/// LVM's list of devices. Without the file every device counts, whatever the settings say.
const LVM_DEVICES: &str = "/etc/lvm/devices/system.devices";
const LVM_TEXT: &str = "# gpuaas-node-agent deploy-bootstrap: what is on the disks of slots is their tenants'\n\
     devices {\n\tglobal_filter = [ \"r|^/dev/nvme|\" ]\n}\n";

const MDADM: [&str; 2] = ["/usr/sbin/mdadm", "/sbin/mdadm"];
const MDADM_FILE: &str = "/etc/mdadm/mdadm.conf";
const MDADM_TEXT: &str = "# gpuaas-node-agent deploy-bootstrap: no array is assembled but those of ARRAY lines\nAUTO -all\n";
/// Without any such line the initramfs gets another file than this one.
const NO_ARRAY: &str = "ARRAY <ignore> UUID=00000000:00000000:00000000:00000000\n";

const UPDATE_INITRAMFS: &str = "/usr/sbin/update-initramfs";

/// The programs of the host that assemble, each with whether it is kept from the disks of slots.
pub fn found(root: &HostRoot) -> Vec<(&'static str, bool)> {
    let all = [
        ("LVM", is_there(root, &LVM), is_lvm_limited(root)),
        ("mdadm", is_there(root, &MDADM), is_mdadm_limited(root)),
    ];
    let there = all.into_iter().filter(|(_, is_there, _)| *is_there);
    there.map(|(name, _, limited)| (name, limited)).collect()
}

/// Plans it.
///
/// # Errors
/// A file cannot be read, or what the host stands on cannot be observed.
pub async fn plan(machine: &Machine, plan: &mut Plan, stamp: &str) -> HostResult<()> {
    let root = &machine.root;
    let mut written = lvm(machine, plan, stamp)?;
    written |= mdadm(machine, plan, stamp).await?;
    // an earlier run may have been broken off between the files and this
    if root.exists(UPDATE_INITRAMFS) && (written || is_initramfs_older(root)) {
        let reason = "LVM and mdadm assemble before the system's own files are there";
        plan.run("update-initramfs", &["-u", "-k", "all"], reason);
    }
    Ok(())
}

fn lvm(machine: &Machine, plan: &mut Plan, stamp: &str) -> HostResult<bool> {
    let root = &machine.root;
    if !is_there(root, &LVM) || is_lvm_limited(root) {
        return Ok(false);
    }
    if let Some(file) = LVM_FILES.iter().find(|file| has_filter(root, file)) {
        plan.note(format!(
            "LVM: {file} has a {LVM_FILTER} that rejects nothing, which another one would replace; have it reject the disks of slots"
        ));
        return Ok(false);
    }
    if let Some(disk) = system_on_lvm(root)? {
        plan.note(format!(
            "LVM: the host itself has volumes on {disk}; write a global_filter to {LVM_LOCAL} that accepts this disk by its \
             stable link and rejects the disks of slots"
        ));
        return Ok(false);
    }
    let text = appended(&read(root, LVM_LOCAL)?, LVM_TEXT);
    let backup = machine.free_path(&format!("{LVM_LOCAL}.gpuaas-backup-{stamp}"));
    let reason = "LVM leaves the disks of slots alone";
    plan.file(machine, LVM_LOCAL, (&text, 0o644), Some(backup), reason)
}

async fn mdadm(machine: &Machine, plan: &mut Plan, stamp: &str) -> HostResult<bool> {
    let root = &machine.root;
    if !is_there(root, &MDADM) || is_mdadm_limited(root) {
        return Ok(false);
    }
    let before = read(root, MDADM_FILE)?;
    if let Some(line) = auto_line(&before) {
        plan.note(format!(
            "mdadm: {MDADM_FILE} says {line:?}; write AUTO -all in its place"
        ));
        return Ok(false);
    }
    let names = root.names(BLOCK).into_iter();
    let mut arrays = names.filter(|name| root.exists(format!("{BLOCK}/{name}/md")));
    if arrays.next().is_some() {
        let scanned = machine.ask("mdadm", &["--detail", "--scan"]).await?;
        let scanned = scanned.success("mdadm --detail --scan")?.stdout;
        let mut lines = scanned.lines().filter(|line| line.starts_with("ARRAY"));
        if let Some(line) = lines.find(|line| !is_listed(line, &before)) {
            plan.note(format!(
                "mdadm: the host has an array that {MDADM_FILE} does not name; add it if it is the host's own: {line}"
            ));
            return Ok(false);
        }
    }
    let mut text = appended(&before, MDADM_TEXT);
    if !before.lines().any(|line| line.starts_with("ARRAY")) {
        text.push_str(NO_ARRAY);
    }
    let backup = machine.free_path(&format!("{MDADM_FILE}.gpuaas-backup-{stamp}"));
    let reason = "mdadm leaves the disks of slots alone";
    plan.file(machine, MDADM_FILE, (&text, 0o644), Some(backup), reason)
}

fn is_there(root: &HostRoot, program: &[&str]) -> bool {
    program.iter().any(|path| root.exists(path))
}

/// By a filter that rejects something, or by a list of devices. What a filter rejects is the site's. Without activation on events
/// (`event_activation = 0`) LVM activates at a start all that it finds.
fn is_lvm_limited(root: &HostRoot) -> bool {
    let rejects = |value: &str| value.contains("\"r") || value.contains("'r");
    let is_on = |value: &str| value.trim() == "1";
    lvm_sets(root, LVM_FILTER, rejects)
        || root.exists(LVM_DEVICES) && lvm_sets(root, "use_devicesfile", is_on)
}

fn lvm_sets(root: &HostRoot, setting: &str, is_good: impl Fn(&str) -> bool) -> bool {
    let mut values = LVM_FILES
        .iter()
        .flat_map(|file| lvm_values(root, file, setting));
    values.any(|value| is_good(&value))
}

fn has_filter(root: &HostRoot, file: &str) -> bool {
    !lvm_values(root, file, LVM_FILTER).is_empty()
}

/// What a file of LVM gives a setting; a list may go on in the lines that follow.
fn lvm_values(root: &HostRoot, file: &str, setting: &str) -> Vec<String> {
    let text = root.read(file).unwrap_or_default();
    let mut found: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in text.lines().map(without_comment) {
        if let Some((key, value)) = line.split_once('=') {
            // behind the name of its section, where that is in the same line
            let name = key.trim().rsplit([' ', '\t', '{', '/']).next();
            is_open = name == Some(setting);
            if is_open {
                found.push(value.to_owned());
            }
        } else if line.contains(['{', '}']) {
            is_open = false;
        } else if is_open && let Some(value) = found.last_mut() {
            value.push_str(line);
        }
    }
    found
}

/// A line of LVM's or mdadm's configuration as they read it.
fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default()
}

fn is_mdadm_limited(root: &HostRoot) -> bool {
    let text = root.read(MDADM_FILE).unwrap_or_default();
    auto_line(&text).is_some_and(|line| line.split_whitespace().any(|word| word == "-all"))
}

/// The line of mdadm's policy, which it reads once. Its words begin in any case.
fn auto_line(text: &str) -> Option<&str> {
    let is_auto = |line: &&str| {
        let word = line.split_whitespace().next();
        word.is_some_and(|word| word.eq_ignore_ascii_case("auto"))
    };
    text.lines().map(str::trim).find(is_auto)
}

/// Whether the array of this line is one that the configuration names.
fn is_listed(line: &str, text: &str) -> bool {
    let uuid = |line: &str| -> Option<String> {
        let line = without_comment(line).to_lowercase();
        let mut words = line.split_whitespace();
        words.find_map(|word| word.strip_prefix("uuid=").map(str::to_owned))
    };
    let own = uuid(line);
    own.is_some() && text.lines().any(|line| uuid(line) == own)
}

/// An NVMe disk on which something of device mapper is mounted or swap.
fn system_on_lvm(root: &HostRoot) -> HostResult<Option<String>> {
    let (mounted, swaps) = (mounts::all(root)?, mounts::swaps(root)?);
    let names = root.list(BLOCK);
    let names = names.map_err(io_error(format_args!("cannot list {BLOCK}")))?;
    for name in names.into_iter().filter(|name| is_nvme_disk(name)) {
        let facts = attributes(root, &name, &mounted, &swaps)?;
        let is_own = |device: &String| *device == name || facts.partitions.contains(device);
        let is_mounted = facts.mounts.iter().any(|(device, _)| !is_own(device));
        let is_mapped = facts.holders.iter().any(|upper| upper.starts_with("dm-"));
        if is_mapped && (is_mounted || !facts.swaps.is_empty()) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn read(root: &HostRoot, path: &str) -> HostResult<String> {
    let text = root.read(path);
    match text {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        text => text.map_err(io_error(format_args!("cannot read {path}"))),
    }
}

fn appended(before: &str, text: &str) -> String {
    match before.trim_end() {
        "" => text.to_owned(),
        before => format!("{before}\n\n{text}"),
    }
}

/// Whether a file of these is newer than the initramfs of the running kernel.
fn is_initramfs_older(root: &HostRoot) -> bool {
    let written = |path: &str| -> Option<SystemTime> {
        let data = std::fs::metadata(root.path(path)).ok()?;
        data.modified().ok()
    };
    let release = root.read_value("/proc/sys/kernel/osrelease");
    let release = release.unwrap_or_default();
    let Some(made) = written(&format!("/boot/initrd.img-{release}")) else {
        return false;
    };
    let ours = [
        (LVM_LOCAL, LVM_TEXT, is_there(root, &LVM)),
        (MDADM_FILE, MDADM_TEXT, is_there(root, &MDADM)),
    ];
    ours.iter().any(|(path, text, is_there)| {
        let is_ours = root.read(path).is_ok_and(|found| found.contains(*text));
        *is_there && is_ours && written(path).is_some_and(|at| at > made)
    })
}
