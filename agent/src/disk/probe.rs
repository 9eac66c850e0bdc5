//! Proves a disk at the moment of use: resolves, gathers, decides.
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::claim::{ClaimedDisk, is_claimed_by_others};
use super::decide::{AfterClaim, Blocker, Intent, ProvenDisk, decide, refusal};
use super::facts::{DiskFacts, DomainUse, diskseq, gather};
use super::identity::{DiskIdentity, Resolution, loop_devices, resolve_by_id, resolve_lab};
use super::signatures::signatures;
use crate::error::{HostError, HostResult};
use crate::host::root::HostRoot;
use crate::settings::LabDisk;
use crate::vm::{Domain, Hypervisor};

/// How often a disk that only a passing process holds open is inspected, and the pause between two attempts.
const ATTEMPTS: u32 = 5;
const RETRY_PAUSE: Duration = Duration::from_millis(300);

/// Inspects disks.
#[derive(Clone)]
pub struct DiskProbe {
    root: HostRoot,
    lab_disks: Vec<LabDisk>,
    hypervisor: Hypervisor,
}

impl DiskProbe {
    /// A probe of this host.
    pub fn new(root: HostRoot, lab_disks: Vec<LabDisk>, hypervisor: Hypervisor) -> Self {
        Self {
            root,
            lab_disks,
            hypervisor,
        }
    }

    /// Resolves an identity to today's kernel name.
    pub async fn resolve(&self, identity: &DiskIdentity) -> HostResult<Resolution> {
        match identity {
            DiskIdentity::ByEui(link) => Ok(resolve_by_id(&self.root, link)),
            DiskIdentity::Lab(id) => match self.lab_disks.iter().find(|disk| disk.id == *id) {
                Some(disk) => Ok(resolve_lab(disk, &loop_devices().await?)),
                None => Ok(Resolution::Missing),
            },
        }
    }

    /// Gathers all facts of a disk now.
    pub async fn facts(&self, identity: &DiskIdentity) -> HostResult<DiskFacts> {
        let name = match self.resolve(identity).await? {
            Resolution::Missing => return Ok(DiskFacts::default()),
            Resolution::Ambiguous(what) => {
                return Ok(DiskFacts {
                    ambiguous: Some(what),
                    ..DiskFacts::default()
                });
            }
            Resolution::Device(name) => name,
        };
        let mut facts = gather(&self.root, &name);
        let aliases = self.aliases(identity, &name, &facts.partitions);
        facts.domains = self
            .hypervisor
            .domains()
            .await?
            .iter()
            .filter(|domain| uses(domain, &aliases))
            .map(|domain| DomainUse {
                name: domain.name.clone(),
                state: domain.state.as_str().to_owned(),
            })
            .collect();
        if self.root.is_live() {
            let device = Path::new("/dev").join(&name);
            facts.claimed = is_claimed_by_others(&device);
            facts.signatures = signatures(&device).await?;
        }
        Ok(facts)
    }

    /// Proves a disk for one intent, or returns everything that stands against it.
    pub async fn prove(
        &self,
        identity: &DiskIdentity,
        approved_bytes: u64,
        intent: Intent,
    ) -> HostResult<ProvenDisk> {
        let mut attempts = 1;
        loop {
            let facts = self.facts(identity).await?;
            match decide(identity, approved_bytes, &facts, intent) {
                Ok(disk) => return Ok(disk),
                // A device manager may hold the disk open for a moment; a user stays.
                Err(blockers) if attempts < ATTEMPTS && passing(&blockers) => {
                    attempts += 1;
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(blockers) => return Err(refusal(identity, &blockers)),
            }
        }
    }

    /// Claims a proven disk, then makes sure that it is still the one that was proven.
    ///
    /// # Errors
    /// `DISK_UNSAFE` when something else claimed it, or it became another disk.
    pub async fn claim(&self, disk: ProvenDisk) -> HostResult<ClaimedDisk> {
        let claimed = ClaimedDisk::take(disk)?;
        let after = AfterClaim {
            resolution: self.resolve(claimed.identity()).await?,
            diskseq: diskseq(&self.root, claimed.name()),
            number: self
                .root
                .read_value(format!("/sys/class/block/{}/dev", claimed.name())),
            claimed: claimed.number()?,
        };
        match claimed.check_claimed(&after) {
            Ok(()) => Ok(claimed),
            Err(blocker) => Err(refusal(claimed.identity(), &[blocker])),
        }
    }

    /// Every path under which a domain may name this disk.
    fn aliases(&self, identity: &DiskIdentity, name: &str, partitions: &[String]) -> Vec<PathBuf> {
        let mut aliases = vec![
            Path::new("/dev").join(name),
            PathBuf::from(identity.to_string()),
        ];
        aliases.extend(
            partitions
                .iter()
                .map(|partition| Path::new("/dev").join(partition)),
        );
        if let DiskIdentity::Lab(id) = identity {
            let files = self
                .lab_disks
                .iter()
                .filter(|disk| disk.id == *id)
                .map(|disk| disk.backing_file.clone());
            aliases.extend(files);
        }
        aliases
    }
}

fn passing(blockers: &[Blocker]) -> bool {
    blockers
        .iter()
        .all(|blocker| matches!(blocker, Blocker::OpenBy { .. } | Blocker::Claimed))
}

/// Whether a domain names the disk: by path, by where the path leads, or by device number.
fn uses(domain: &Domain, aliases: &[PathBuf]) -> bool {
    domain.disk_sources.iter().any(|source| {
        let source = Path::new(source);
        aliases
            .iter()
            .any(|alias| source == alias || same_file(source, alias))
    })
}

fn same_file(one: &Path, other: &Path) -> bool {
    let (Ok(one), Ok(other)) = (std::fs::metadata(one), std::fs::metadata(other)) else {
        return false;
    };
    let same_inode = one.dev() == other.dev() && one.ino() == other.ino();
    let block = |metadata: &std::fs::Metadata| metadata.mode() & 0o170_000 == 0o060_000;
    same_inode || (block(&one) && block(&other) && one.rdev() == other.rdev())
}

/// The identity of a binding, as a typed value.
pub fn identity_of(nvme_device: &str) -> HostResult<DiskIdentity> {
    nvme_device.parse().map_err(HostError::from)
}
