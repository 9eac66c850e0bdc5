//! What is on every disk of the host, as a text that stays (I-120).
use serde::Serialize;

use super::inspection::signatures;
use super::profile::Profile;
use crate::disk::facts::{DiskFacts, gather};
use crate::disk::identity::BY_ID;
use crate::error::{HostResult, io_error};
use crate::host::root::HostRoot;
use crate::parity::line::escape;
use crate::prepare::{Machine, Step};

const BLOCK: &str = "/sys/class/block";

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Disk {
    /// Kernel name, for today.
    pub name: String,
    /// Stable link; empty where it has none.
    pub by_id: String,
    pub model: String,
    pub serial: String,
    pub bytes: u64,
    /// "system", "approved" or "other".
    pub role: String,
    /// The disk or a partition, and what is written there.
    pub signatures: Vec<(String, String)>,
    #[serde(skip)]
    pub facts: DiskFacts,
}

impl Disk {
    /// For sentences.
    pub fn label(&self) -> String {
        match self.by_id.is_empty() {
            true => format!("/dev/{}", self.name),
            false => format!("{} (/dev/{})", self.by_id, self.name),
        }
    }

    /// Whether the running system is on it: by what is mounted, never by a name (I-123).
    pub fn is_of_system(&self) -> bool {
        const SYSTEM: [&str; 5] = ["/", "/boot", "/boot/efi", "/usr", "/var"];
        let mounts = &self.facts.mounts;
        mounts.iter().any(|(_, at)| SYSTEM.contains(&at.as_str()))
    }

    /// Neither partitions nor signatures, and nothing uses it.
    pub fn is_raw(&self) -> bool {
        let facts = &self.facts;
        facts.partitions.is_empty()
            && facts.mounts.is_empty()
            && facts.swaps.is_empty()
            && facts.holders.is_empty()
            && self.signatures.is_empty()
    }
}

/// Every disk, by name.
///
/// # Errors
/// Something of a disk cannot be observed: it could be the use that matters (P9).
pub async fn disks(machine: &Machine) -> HostResult<Vec<Disk>> {
    let root = &machine.root;
    let names = root
        .list(BLOCK)
        .map_err(io_error(format_args!("cannot list {BLOCK}")))?;
    let mut found = Vec::new();
    for name in names.iter().filter(|name| is_disk(root, name)) {
        let facts = gather(root, name, &[])?;
        let mut written = Vec::new();
        for device in [name].into_iter().chain(&facts.partitions) {
            let kinds = signatures(machine, device).await?;
            written.extend(kinds.into_iter().map(|kind| (device.clone(), kind)));
        }
        let own = |what: &str| {
            root.read_value(format!("{BLOCK}/{name}/device/{what}"))
                .unwrap_or_default()
        };
        let mut disk = Disk {
            name: name.clone(),
            by_id: by_id(root, name),
            model: own("model"),
            serial: own("serial"),
            bytes: facts.bytes,
            role: "other".to_owned(),
            signatures: written,
            facts,
        };
        if disk.is_of_system() {
            "system".clone_into(&mut disk.role);
        }
        found.push(disk);
    }
    Ok(found)
}

/// A whole disk of hardware: what has a device behind it, and is neither a partition nor a path of another disk.
fn is_disk(root: &HostRoot, name: &str) -> bool {
    let own = |what: &str| root.exists(format!("{BLOCK}/{name}/{what}"));
    own("device") && own("dev") && !own("partition")
}

fn by_id(root: &HostRoot, name: &str) -> String {
    let links = root.names(BY_ID);
    let leads = |link: &&String| {
        link.starts_with("nvme-eui.")
            && root.link_name(format!("{BY_ID}/{link}")).as_deref() == Some(name)
    };
    let found = links.iter().find(leads);
    found
        .map(|link| format!("{BY_ID}/{link}"))
        .unwrap_or_default()
}

/// A line for a disk, and one for each of its uses.
pub fn lines(disks: &[Disk]) -> String {
    let mut text = String::new();
    for disk in disks {
        text.push_str(&format!(
            "disk=/dev/{} by_id={} role={} bytes={} model={} serial={}\n",
            disk.name,
            escape(&disk.by_id),
            disk.role,
            disk.bytes,
            escape(&disk.model),
            escape(&disk.serial)
        ));
        let mut what = |kind: &str, device: &str, detail: &str| {
            text.push_str(&format!(
                "  {kind}={} detail={}\n",
                escape(device),
                escape(detail)
            ));
        };
        let facts = &disk.facts;
        for device in &facts.partitions {
            what("partition", device, "");
        }
        for (device, kind) in &disk.signatures {
            what("signature", device, kind);
        }
        for (device, at) in &facts.mounts {
            what("mount", device, at);
        }
        for device in &facts.swaps {
            what("swap", device, "");
        }
        for device in &facts.holders {
            what("holder", device, "");
        }
        for holder in &facts.descriptor_holders {
            what("process", &holder.program, &holder.pid.to_string());
        }
    }
    text
}

/// The manifest as it is before the first change.
pub fn text(disks: &[Disk], profile: &Profile, steps: &[Step]) -> String {
    let mut text = format!(
        "# Storage transition of a slice host, by gpuaas-node-agent {}\napproved_by={}\n",
        crate::build::LINE.as_str(),
        escape(&profile.approved_by)
    );
    text.push_str(&lines(disks));
    for step in steps {
        let detail = escape(&step.action.to_string());
        text.push_str(&format!("step={} detail={detail}\n", step.action.name()));
    }
    text
}
