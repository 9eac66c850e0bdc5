//! Stable identity of a disk and its resolution to today's kernel name.
//!
//! Kernel names change across reboots (INC-15, D-33), so a slot's disk is known by its `/dev/disk/by-id/nvme-eui.…`
//! link or, on a lab host, by the id of a configured backing file, which is found again by inode.
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use gpuaas_common::value::{is_nvme_link, lab_disk};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde::Deserialize;
use uuid::Uuid;

use crate::error::{HostError, HostResult, io_error};
use crate::host::exec;
use crate::host::root::HostRoot;
use crate::ids::ParseError;
use crate::settings::LabDisk;

/// Folder of the stable links.
pub const BY_ID: &str = "/dev/disk/by-id";
/// `storage_identity_kind` of a by-id link.
pub const KIND_BY_ID: &str = "nvme_wwn_by_id";
/// `storage_identity_kind` of a lab disk.
pub const KIND_LAB: &str = "lab_backing_file";

/// Identity of a disk as inventory approved it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DiskIdentity {
    /// Name of a link in `/dev/disk/by-id`, `nvme-eui.` and hex digits (A-63).
    ByEui(String),
    /// A configured backing file.
    Lab(Uuid),
}

impl FromStr for DiskIdentity {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        const BAD: ParseError = ParseError {
            what: "nvme_device",
            rule: "\"/dev/disk/by-id/nvme-eui.<hex>\" or \"lab-disk:<uuid>\"",
        };
        if let Some(id) = lab_disk(text) {
            return Ok(Self::Lab(id));
        }
        let name = text.strip_prefix(BY_ID).filter(|_| is_nvme_link(text));
        let name = name.and_then(|name| name.strip_prefix('/')).ok_or(BAD)?;
        Ok(Self::ByEui(name.to_owned()))
    }
}

impl fmt::Display for DiskIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByEui(name) => write!(f, "{BY_ID}/{name}"),
            Self::Lab(id) => write!(f, "lab-disk:{id}"),
        }
    }
}

/// Where an identity leads now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// To this kernel name, for example `nvme3n1` or `loop2`.
    Device(String),
    /// To nothing.
    Missing,
    /// To more than one device, to something that is not a disk, or to a disk of another name.
    Ambiguous(String),
}

/// A complete NVMe namespace: `nvme4n1`, not the path device `nvme4c4n1` and not a partition (A-64, INC-17).
pub fn is_nvme_disk(name: &str) -> bool {
    let Some((controller, namespace)) = name
        .strip_prefix("nvme")
        .and_then(|rest| rest.split_once('n'))
    else {
        return false;
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits(controller) && digits(namespace)
}

/// Resolves a by-id link below a root. The link is what another program made of the kernel's name for the namespace, some time ago:
/// where the kernel tells the name, it decides whether this is the disk.
///
/// # Errors
/// The link is there and cannot be read; the kernel's name cannot be read.
pub fn resolve_by_id(root: &HostRoot, link: &str) -> HostResult<Resolution> {
    let target = match std::fs::read_link(root.path(format!("{BY_ID}/{link}"))) {
        Ok(target) => target,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Resolution::Missing);
        }
        Err(error) => return Err(io_error(format_args!("cannot read {BY_ID}/{link}"))(error)),
    };
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    if !is_nvme_disk(&name) {
        return Ok(Resolution::Ambiguous(name.into_owned()));
    }
    let block = format!("/sys/class/block/{name}");
    match std::fs::symlink_metadata(root.path(&block)) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Resolution::Missing);
        }
        Err(error) => return Err(io_error(format_args!("cannot read {block}"))(error)),
    }
    let wwid = root.value(format!("{block}/wwid"));
    let wwid = wwid.map_err(io_error(format_args!("cannot read {block}/wwid")))?;
    let own = link.strip_prefix("nvme-").unwrap_or(link);
    match wwid {
        Some(wwid) if !wwid.eq_ignore_ascii_case(own) => {
            Ok(Resolution::Ambiguous(format!("{name} ({wwid})")))
        }
        _ => Ok(Resolution::Device(name.into_owned())),
    }
}

/// A loop device with the file behind it.
#[derive(Debug, Clone)]
pub struct LoopDevice {
    name: PathBuf,
    inode: u64,
    device: String,
}

/// As `losetup --json` reports one.
#[derive(Deserialize)]
struct Listed {
    name: PathBuf,
    #[serde(rename = "back-ino")]
    inode: Option<u64>,
    #[serde(rename = "back-maj:min")]
    device: Option<String>,
}

#[derive(Deserialize)]
struct LoopList {
    #[serde(default)]
    loopdevices: Vec<Listed>,
}

impl LoopDevice {
    /// Whether this is the loop device of a kernel name.
    pub fn is_named(&self, name: &str) -> bool {
        self.name.file_name().is_some_and(|own| own == name)
    }

    /// Whether this very file is behind it. A path would be fooled by a file that was replaced, or by one of another
    /// mount namespace.
    pub fn is_over(&self, file: &Metadata) -> bool {
        let device = file.dev();
        let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
        self.inode == file.ino() && self.device.trim() == format!("{major}:{minor}")
    }
}

/// The same as [`loop_devices`] for callers that block.
///
/// # Errors
/// `losetup` cannot be run or does not answer.
pub fn loop_devices_here() -> HostResult<Vec<LoopDevice>> {
    let mut command = std::process::Command::new("timeout");
    command.args(["--signal=KILL", "10", "losetup"]).args(LIST);
    let failed = |why: String| HostError::host(ErrorReason::HostNotReady, why);
    let output = command.env("LC_ALL", "C").output();
    let output = output.map_err(|error| failed(format!("cannot run losetup: {error}")))?;
    if !output.status.success() {
        return Err(failed(format!("losetup ended with {}", output.status)));
    }
    parse_loops(&String::from_utf8_lossy(&output.stdout))
}

const LIST: [&str; 4] = ["--json", "--list", "--output", "NAME,BACK-INO,BACK-MAJ:MIN"];

/// All loop devices of the host.
pub async fn loop_devices() -> HostResult<Vec<LoopDevice>> {
    let output = exec::run("losetup", &LIST, Duration::from_secs(10))
        .await?
        .success("losetup")?;
    parse_loops(&output.stdout)
}

pub(crate) fn parse_loops(text: &str) -> HostResult<Vec<LoopDevice>> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let list: LoopList = serde_json::from_str(text).map_err(|error| {
        HostError::host(
            ErrorReason::HostNotReady,
            format!("losetup answered something else: {error}"),
        )
    })?;
    // one that was detached while it was listed has no file any more
    let attached = list.loopdevices.into_iter().filter_map(|listed| {
        Some(LoopDevice {
            name: listed.name,
            inode: listed.inode?,
            device: listed.device?,
        })
    });
    Ok(attached.collect())
}

/// Resolves a lab disk: the one loop device whose backing inode is that of the configured file.
pub fn resolve_lab(disk: &LabDisk, loops: &[LoopDevice]) -> Resolution {
    let Ok(metadata) = std::fs::metadata(&disk.backing_file) else {
        return Resolution::Missing;
    };
    let matches: Vec<String> = loops
        .iter()
        .filter(|found| found.is_over(&metadata))
        .filter_map(|found| Some(found.name.file_name()?.to_string_lossy().into_owned()))
        .collect();
    match matches.as_slice() {
        [] => Resolution::Missing,
        [one] => Resolution::Device(one.clone()),
        many => Resolution::Ambiguous(many.join(", ")),
    }
}

#[cfg(test)]
impl LoopDevice {
    /// One with this file behind it.
    pub fn over(name: &str, file: &Metadata) -> Self {
        let device = file.dev();
        let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
        Self {
            name: name.into(),
            inode: file.ino(),
            device: format!("  {major}:{minor} "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A-64
    #[test]
    fn inc_17_only_whole_nvme_namespaces_are_disks() {
        for (name, expected) in [
            ("nvme0n1", true),
            ("nvme12n3", true),
            ("nvme4c4n1", false),
            ("nvme0n1p1", false),
            ("nvme0", false),
            ("sda", false),
            ("nvmen1", false),
        ] {
            assert_eq!(is_nvme_disk(name), expected, "{name}");
        }
    }

    #[test]
    fn a_63_only_stable_identities_parse() {
        for (text, good) in [
            (
                "/dev/disk/by-id/nvme-eui.000000000000000100a075244a103331",
                true,
            ),
            ("lab-disk:0f5d4f6e-5f9c-4f0b-8a54-0d8d7b1f0a00", true),
            ("/dev/nvme0n1", false),
            ("/dev/loop0", false),
            ("/dev/disk/by-id/../nvme0n1", false),
            ("/dev/disk/by-id/nvme-eui.zz", false),
            (
                "/dev/disk/by-id/nvme-eui.000000000000000100a075244a103331-part1",
                false,
            ),
            ("lab-disk:slot0", false),
        ] {
            let parsed = text.parse::<DiskIdentity>();
            assert_eq!(parsed.is_ok(), good, "{text}");
            if let Ok(identity) = parsed {
                assert_eq!(identity.to_string(), text);
            }
        }
    }

    #[test]
    fn inc_15_the_link_is_resolved_at_every_use() {
        let dir = tempfile::tempdir().unwrap();
        let by_id = dir.path().join("dev/disk/by-id");
        std::fs::create_dir_all(&by_id).unwrap();
        for name in ["nvme4n1", "nvme7n1"] {
            std::fs::create_dir_all(dir.path().join("sys/class/block").join(name)).unwrap();
        }
        let root = HostRoot::new(dir.path());
        let link = by_id.join("nvme-eui.000000000000000100a075244a103331");
        let name = "nvme-eui.000000000000000100a075244a103331";
        assert_eq!(resolve_by_id(&root, name).unwrap(), Resolution::Missing);
        std::os::unix::fs::symlink("../../nvme4n1", &link).unwrap();
        assert_eq!(
            resolve_by_id(&root, name).unwrap(),
            Resolution::Device("nvme4n1".into())
        );
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("../../nvme7n1", &link).unwrap();
        assert_eq!(
            resolve_by_id(&root, name).unwrap(),
            Resolution::Device("nvme7n1".into())
        );
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("../../nvme7n1p1", &link).unwrap();
        assert_eq!(
            resolve_by_id(&root, name).unwrap(),
            Resolution::Ambiguous("nvme7n1p1".into())
        );
    }

    #[test]
    fn p9_a_link_to_a_disk_that_the_kernel_knows_by_another_name_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let by_id = dir.path().join("dev/disk/by-id");
        let block = dir.path().join("sys/class/block/nvme4n1");
        std::fs::create_dir_all(&by_id).unwrap();
        std::fs::create_dir_all(&block).unwrap();
        let root = HostRoot::new(dir.path());
        let name = "nvme-eui.000000000000000100a075244a103331";
        std::os::unix::fs::symlink("../../nvme4n1", by_id.join(name)).unwrap();
        let device = Resolution::Device("nvme4n1".into());
        // an older kernel tells none
        assert_eq!(resolve_by_id(&root, name).unwrap(), device);
        for (wwid, own) in [
            ("eui.000000000000000100a075244a103331\n", true),
            ("eui.000000000000000100a075244a103332\n", false),
            ("uuid.0f5d4f6e-5f9c-4f0b-8a54-0d8d7b1f0a00\n", false),
            ("nvme.1344-323334-4d6963726f6e-00000001\n", false),
            ("\n", false),
        ] {
            std::fs::write(block.join("wwid"), wwid).unwrap();
            let found = resolve_by_id(&root, name).unwrap();
            let another = Resolution::Ambiguous(format!("nvme4n1 ({})", wwid.trim()));
            assert_eq!(found, if own { device.clone() } else { another });
        }
        std::fs::remove_file(block.join("wwid")).unwrap();
        std::fs::create_dir(block.join("wwid")).unwrap();
        assert!(resolve_by_id(&root, name).is_err(), "it cannot be read");
    }

    #[test]
    fn a_lab_disk_is_found_by_inode_and_never_twice() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("slot0.img");
        std::fs::write(&file, b"x").unwrap();
        let metadata = std::fs::metadata(&file).unwrap();
        let disk = LabDisk {
            id: Uuid::nil(),
            backing_file: file.clone(),
        };
        let device = |name: &str, inode| LoopDevice {
            name: name.into(),
            inode,
            device: format!(
                "  {}:{} ",
                nix::sys::stat::major(metadata.dev()),
                nix::sys::stat::minor(metadata.dev())
            ),
        };
        let own = device("/dev/loop3", metadata.ino());
        let other = device("/dev/loop4", metadata.ino() + 1);
        assert_eq!(
            resolve_lab(&disk, std::slice::from_ref(&other)),
            Resolution::Missing
        );
        assert_eq!(
            resolve_lab(&disk, &[other, own.clone()]),
            Resolution::Device("loop3".into())
        );
        let twice = resolve_lab(&disk, &[own, device("/dev/loop9", metadata.ino())]);
        assert_eq!(twice, Resolution::Ambiguous("loop3, loop9".into()));
    }

    #[test]
    fn losetup_without_devices_answers_nothing() {
        assert!(parse_loops("").unwrap().is_empty());
        let text =
            r#"{"loopdevices":[{"name":"/dev/loop0","back-ino":7,"back-maj:min":"     254:0  "}]}"#;
        assert_eq!(parse_loops(text).unwrap()[0].inode, 7);
        let text = r#"{"loopdevices":[
            {"name":"/dev/loop0","back-ino":null,"back-maj:min":null},
            {"name":"/dev/loop1","back-ino":8,"back-maj:min":"254:0"}]}"#;
        let attached = parse_loops(text).unwrap();
        assert_eq!((attached.len(), attached[0].inode), (1, 8));
        assert!(parse_loops(r#"{"loopdevices":[{"back-ino":1}]}"#).is_err());
    }
}
