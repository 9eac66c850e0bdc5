//! The host's software: libvirt, files and programs that VMs need, the image cache.
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use super::CheckResult;
use crate::checks::{
    DISK_ASSEMBLY, FIRMWARE, IMAGE_CACHE, LIBVIRT, LIBVIRT_FOLDER, RDMA_TOOLS, RELAY_KEY, TOOLS,
};
use crate::error::HostResult;
use crate::host::recording;
use crate::host::root::HostRoot;
use crate::image::space::{free_bytes, leaves_enough};
use crate::node::Node;
use crate::prepare::assembly;
use crate::settings::{BridgeKind, HostProfile};

pub(super) async fn libvirt(node: &Node) -> CheckResult {
    let hung = node.hypervisor.hung();
    let version = node.hypervisor.version().await;
    judge_libvirt(version, &hung, &node.settings.libvirt_uri)
}

fn judge_libvirt(version: HostResult<u32>, hung: &[(&str, Duration)], uri: &str) -> CheckResult {
    let (good, detail) = match version {
        Ok(version) if !hung.is_empty() => {
            let calls: Vec<String> = hung
                .iter()
                .map(|(what, age)| format!("{what} for {} s", age.as_secs()))
                .collect();
            let calls = calls.join(", ");
            let detail = format!("libvirt {version} answers, but calls hang: {calls}");
            return CheckResult::warn(&LIBVIRT, detail);
        }
        Ok(version) => (true, format!("libvirt {version} answers at {uri}")),
        Err(error) => (false, error.to_string()),
    };
    CheckResult::judge(&LIBVIRT, good, detail)
}

/// Files that VMs need, and who must be able to read them.
pub(super) fn files(root: &HostRoot, profile: &HostProfile) -> Vec<CheckResult> {
    let missing: Vec<String> = [
        &profile.firmware_code,
        &profile.firmware_vars_template,
        &profile.emulator,
    ]
    .into_iter()
    .filter(|path| !root.exists(path))
    .map(|path| path.display().to_string())
    .collect();
    let firmware = if missing.is_empty() {
        CheckResult::pass(
            &FIRMWARE,
            "UEFI without Secure Boot and the emulator are there",
        )
    } else {
        CheckResult::judge(&FIRMWARE, false, format!("missing: {}", missing.join(", ")))
    };
    let mode = std::fs::metadata(root.path("/var/lib/libvirt"))
        .map(|data| data.permissions().mode() & 0o777);
    let mode = mode.unwrap_or(0);
    vec![
        firmware,
        CheckResult::judge(
            &LIBVIRT_FOLDER,
            mode & 0o005 == 0o005,
            format!("/var/lib/libvirt has mode {mode:04o}"),
        ),
    ]
}

pub(super) fn tools(node: &Node) -> CheckResult {
    let mut required = vec![
        "qemu-img",
        "genisoimage",
        "blkdiscard",
        "blkid",
        "wipefs",
        "losetup",
        "setpriv",
        "ip",
        "partx",
    ];
    if node.settings.network.bridge_kind == BridgeKind::Ovs {
        required.push("ovs-vsctl");
    }
    // without it a wipe can neither sanitize nor format a disk
    if !node.settings.profile.lab {
        required.push("nvme");
    }
    let missing: Vec<&str> = required
        .into_iter()
        .filter(|tool| !is_installed(&node.root, tool))
        .collect();
    let detail = if missing.is_empty() {
        "all there".to_owned()
    } else {
        format!("missing: {}", missing.join(", "))
    };
    CheckResult::judge(&TOOLS, missing.is_empty(), detail)
}

fn is_installed(root: &HostRoot, program: &str) -> bool {
    if recording::is_replay() {
        // the agent that recorded had a PATH of its own
        let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
        return folders
            .iter()
            .any(|folder| root.exists(Path::new(folder).join(program)));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

/// What assembles the disks of others leaves those of slots alone.
pub(super) fn disk_assembly(root: &HostRoot, profile: &HostProfile) -> CheckResult {
    if profile.lab {
        return CheckResult::skip(&DISK_ASSEMBLY, "the disks of a lab host are files");
    }
    let found = assembly::found(root);
    let free: Vec<&str> = found
        .iter()
        .filter(|(_, is_limited)| !is_limited)
        .map(|(name, _)| *name)
        .collect();
    if found.is_empty() {
        return CheckResult::skip(&DISK_ASSEMBLY, "this host has neither LVM nor mdadm");
    }
    let detail = match free.is_empty() {
        true => "LVM and mdadm leave the disks of slots alone".to_owned(),
        false => format!(
            "{} assembles what tenants leave on the disks of slots",
            free.join(" and ")
        ),
    };
    CheckResult::judge(&DISK_ASSEMBLY, free.is_empty(), detail)
}

/// Programs that look into the fabric (D-11).
pub(super) fn rdma_tools(root: &HostRoot, profile: &HostProfile) -> CheckResult {
    if profile.lab {
        return CheckResult::skip(&RDMA_TOOLS, "a lab host has no fabric");
    }
    let found: Vec<&str> = ["ibv_devinfo", "rdma"]
        .into_iter()
        .filter(|program| is_installed(root, program))
        .collect();
    let detail = match found.is_empty() {
        true => "neither ibv_devinfo nor rdma is installed".to_owned(),
        false => found.join(", "),
    };
    CheckResult::judge(&RDMA_TOOLS, !found.is_empty(), detail)
}

/// The key by which this host logs into its guests is where the agent left it, for root alone.
pub(super) fn relay_key(node: &Node) -> CheckResult {
    let file = &node.settings.relay.key_file;
    let mode = std::fs::metadata(file).map(|data| data.permissions().mode() & 0o777);
    let (good, detail) = match mode {
        Ok(mode) if mode & 0o077 == 0 => (true, format!("{} is usable", file.display())),
        Ok(mode) => (false, format!("{} has mode {mode:04o}", file.display())),
        Err(error) => (false, format!("{}: {error}", file.display())),
    };
    CheckResult::judge(&RELAY_KEY, good, detail)
}

/// Images can be stored, and what must stay free for them and for the journal is free.
pub(super) fn image_cache(cache: &Path, state_dir: &Path, min_free: u64) -> CheckResult {
    // without a name: a report and the parity check may look at the same time
    let written = tempfile::tempfile_in(cache).and_then(|mut file| file.write_all(&[0; 4096]));
    let outcome = written.map_err(|error| format!("{}: {error}", cache.display()));
    let outcome = outcome.and_then(|()| {
        let mut folders = [cache, state_dir].into_iter();
        folders.try_for_each(|folder| {
            let enough = |free| leaves_enough(folder, 0, free, min_free);
            free_bytes(folder)
                .and_then(enough)
                .map_err(|error| error.to_string())
        })
    });
    let good = outcome.is_ok();
    let writable = || format!("{} is writable", cache.display());
    let detail = outcome.err().unwrap_or_else(writable);
    CheckResult::judge(&IMAGE_CACHE, good, detail)
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;

    use super::super::check_result::failed;

    use super::*;

    #[test]
    fn an_image_cache_is_writable_to_all_who_look_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let look = || (0..200).all(|_| failed(&[image_cache(at, at, 0)]).is_empty());
        let all = std::thread::scope(|scope| {
            let lookers: Vec<_> = (0..4).map(|_| scope.spawn(look)).collect();
            lookers.into_iter().all(|looker| looker.join().unwrap())
        });
        assert!(all);
        let gone = image_cache(&at.join("gone"), at, 0);
        assert_eq!(failed(&[gone]), ["image_cache"]);
    }

    #[test]
    fn a_86_a_host_with_less_free_space_than_must_stay_so_is_not_ready() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let scarce = image_cache(at, at, u64::MAX);
        assert_eq!(failed(std::slice::from_ref(&scarce)), ["image_cache"]);
        let shown = format!("{} has ", at.display());
        assert!(
            scarce.detail.contains(&shown) && scarce.detail.contains("MiB free"),
            "{}",
            scarce.detail
        );
        // the journal's folder counts as well
        let unreadable = image_cache(at, &at.join("gone"), 0);
        assert_eq!(failed(&[unreadable]), ["image_cache"]);
    }

    #[test]
    fn p9_a_host_that_assembles_what_tenants_leave_on_their_disks_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path());
        let check = || disk_assembly(&root, &profile("kvm"));
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(check().status, EvidenceStatus::Skip);
        write("usr/sbin/lvm", "");
        write("etc/lvm/lvm.conf", "# global_filter = [ \"r|.*|\" ]\n");
        assert_eq!(failed(&[check()]), ["disk_assembly"]);
        for (path, text) in [
            (
                "etc/lvm/lvm.conf",
                "devices {\n\tglobal_filter = [ \"a|^/dev/sda|\", \"r|.*|\" ]\n}\n",
            ),
            (
                "etc/lvm/lvmlocal.conf",
                "devices {\n\tglobal_filter = [ \"r|^/dev/nvme|\" ]\n}\n",
            ),
            (
                "etc/lvm/lvm.conf",
                "devices { # ours\n\tglobal_filter = [\n\t\t\"a|^/dev/sda|\",\n\t\t'r|.*|'\n\t]\n}\n",
            ),
            (
                "etc/lvm/lvmlocal.conf",
                "devices { global_filter = [ \"r|^/dev/nvme|\" ] }\n",
            ),
        ] {
            write("etc/lvm/lvm.conf", "# nothing\n");
            write(path, text);
            assert_eq!(check().status, EvidenceStatus::Pass, "{path} {text}");
            std::fs::remove_file(dir.path().join(path)).unwrap();
        }
        for (text, why) in [
            (
                "global {\n\tevent_activation = 0\n}\n",
                "a start activates all",
            ),
            (
                "devices {\n\tuse_devicesfile = 1\n}\n",
                "there is no such file",
            ),
            (
                "devices {\n\tglobal_filter = [\n\t\t\"a|.*|\" # \"r|.*|\"\n\t]\n}\n",
                "a comment rejects nothing",
            ),
        ] {
            write("etc/lvm/lvm.conf", text);
            assert_eq!(failed(&[check()]), ["disk_assembly"], "{why}");
        }
        write("etc/lvm/devices/system.devices", "");
        write("etc/lvm/lvm.conf", "devices {\n\tuse_devicesfile = 1\n}\n");
        assert_eq!(check().status, EvidenceStatus::Pass);
        write("etc/lvm/lvm.conf", "# nothing\n");
        write(
            "etc/lvm/lvmlocal.conf",
            "devices {\n\tglobal_filter = [ \"r|^/dev/nvme|\" ]\n}\n",
        );
        write("sbin/mdadm", "");
        write("etc/mdadm/mdadm.conf", "HOMEHOST <system>\n# AUTO -all\n");
        let found = check();
        assert_eq!(failed(std::slice::from_ref(&found)), ["disk_assembly"]);
        assert!(
            found.detail.starts_with("mdadm assembles"),
            "{}",
            found.detail
        );
        write(
            "etc/mdadm/mdadm.conf",
            "HOMEHOST <system>\nauto +imsm -all\n",
        );
        assert_eq!(check().status, EvidenceStatus::Pass);
    }

    fn profile(hypervisor: &str) -> HostProfile {
        let text = format!(
            "name = \"p\"\nhypervisor = \"{hypervisor}\"\ncpu_model = \"host-passthrough\""
        );
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn a_call_of_libvirt_that_hangs_is_reported() {
        let judge =
            |hung: &[(&str, Duration)]| judge_libvirt(Ok(9_000_000), hung, "qemu:///system");
        assert_eq!(judge(&[]).status, EvidenceStatus::Pass);
        let reported = judge(&[("destroy", Duration::from_secs(95))]);
        assert_eq!(reported.status, EvidenceStatus::Warn);
        assert!(
            reported.detail.contains("calls hang: destroy for 95 s"),
            "{}",
            reported.detail
        );
    }

    #[test]
    fn inc_19_a_closed_libvirt_folder_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("var/lib/libvirt");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
        let root = HostRoot::new(dir.path());
        assert!(failed(&files(&root, &profile("kvm"))).contains(&"libvirt_folder"));
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(!failed(&files(&root, &profile("kvm"))).contains(&"libvirt_folder"));
    }
}
