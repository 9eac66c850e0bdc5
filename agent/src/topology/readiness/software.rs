//! The host's software: libvirt, files and programs that VMs need, the image cache.
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;

use super::Finding;
use crate::host::root::HostRoot;
use crate::node::Node;
use crate::settings::{BridgeKind, HostProfile};

pub(super) async fn libvirt(node: &Node) -> Finding {
    let hung = node.hypervisor.hung();
    let (good, detail) = match node.hypervisor.version().await {
        Ok(version) if !hung.is_empty() => {
            let calls: Vec<String> = hung
                .iter()
                .map(|(what, age)| format!("{what} for {} s", age.as_secs()))
                .collect();
            let calls = calls.join(", ");
            return Finding {
                check: "libvirt",
                status: EvidenceStatus::Warn,
                detail: format!("libvirt {version} answers, but calls hang: {calls}"),
                remediation: "Read libvirtd's log; restart it when the calls do not come back.",
            };
        }
        Ok(version) => (
            true,
            format!("libvirt {version} answers at {}", node.settings.libvirt_uri),
        ),
        Err(error) => (false, error.to_string()),
    };
    Finding::judge("libvirt", good, detail, "Start libvirtd and read its log.")
}

/// Files that VMs need, and who must be able to read them.
pub(super) fn files(root: &HostRoot, profile: &HostProfile) -> Vec<Finding> {
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
        Finding::pass(
            "firmware",
            "UEFI without Secure Boot and the emulator are there",
        )
    } else {
        let detail = format!("missing: {}", missing.join(", "));
        Finding::judge(
            "firmware",
            false,
            detail,
            "Install the packages ovmf and qemu-system-x86.",
        )
    };
    let mode = std::fs::metadata(root.path("/var/lib/libvirt"))
        .map(|data| data.permissions().mode() & 0o777);
    let mode = mode.unwrap_or(0);
    vec![
        firmware,
        Finding::judge(
            "libvirt_folder",
            mode & 0o005 == 0o005,
            format!("/var/lib/libvirt has mode {mode:04o}"),
            "Give /var/lib/libvirt the mode 0755, so that the hypervisor's user reads its keys.",
        ),
    ]
}

pub(super) fn tools(node: &Node) -> Finding {
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
    let path = match node.root.is_live() {
        true => std::env::var_os("PATH").unwrap_or_default(),
        false => "/usr/sbin:/usr/bin:/sbin:/bin".into(),
    };
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let missing: Vec<&str> = required
        .into_iter()
        .filter(|tool| {
            !folders
                .iter()
                .any(|folder| node.root.exists(folder.join(tool)))
        })
        .collect();
    let detail = if missing.is_empty() {
        "all there".to_owned()
    } else {
        format!("missing: {}", missing.join(", "))
    };
    Finding::judge(
        "tools",
        missing.is_empty(),
        detail,
        "Install the missing programs.",
    )
}

pub(super) fn image_cache(folder: &Path) -> Finding {
    let probe = folder.join(".writable");
    let outcome = std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe));
    let detail = match &outcome {
        Ok(()) => format!("{} is writable", folder.display()),
        Err(error) => format!("{}: {error}", folder.display()),
    };
    Finding::judge(
        "image_cache",
        outcome.is_ok(),
        detail,
        "Make the image cache writable and give it space.",
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::failed;

    use super::*;

    fn profile(hypervisor: &str) -> HostProfile {
        let text = format!(
            "name = \"p\"\nhypervisor = \"{hypervisor}\"\ncpu_model = \"host-passthrough\""
        );
        toml::from_str(&text).unwrap()
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
