//! Proves a disk at the moment of use: resolves, gathers, decides.
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::decide::{AfterOpen, Blocker, Intent, ProvenDisk, decide, refusal};
use super::device_number::block_number;
use super::exclusive::{ExclusiveDisk, is_busy_apart};
use super::facts::{DiskFacts, DomainUse, diskseq, gather};
use super::identity::{DiskIdentity, Resolution, loop_devices, resolve_by_id, resolve_lab};
use super::signatures::{LIMIT, signatures, signatures_within};
use super::stack::{controllers, extent};
use crate::error::{HostError, HostResult, io_error};
use crate::host::root::HostRoot;
use crate::host::{blocking, recording};
use crate::settings::LabDisk;
use crate::vm::disk_sources::pci_device;
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
    trusts: Vec<String>,
    left_by_tenants: Vec<String>,
}

impl DiskProbe {
    /// A probe of this host.
    pub fn new(root: HostRoot, lab_disks: Vec<LabDisk>, hypervisor: Hypervisor) -> Self {
        Self {
            root,
            lab_disks,
            hypervisor,
            trusts: Vec::new(),
            left_by_tenants: Vec::new(),
        }
    }

    /// The same, on a host with programs that the agent may not look into and that hold no disk.
    #[must_use]
    pub fn trusting(mut self, programs: Vec<String>) -> Self {
        self.trusts = programs;
        self
    }

    /// The same, for an inspection that knows which disks a tenant of the platform was the last to have.
    #[must_use]
    pub fn left_by_tenants(mut self, identities: Vec<String>) -> Self {
        self.left_by_tenants = identities;
        self
    }

    /// Whether a tenant of the platform was the last to have a disk.
    pub fn is_left_by_tenant(&self, identity: &DiskIdentity) -> bool {
        let name = identity.to_string();
        self.left_by_tenants.contains(&name)
    }

    /// Resolves an identity to today's kernel name.
    pub async fn resolve(&self, identity: &DiskIdentity) -> HostResult<Resolution> {
        match identity {
            DiskIdentity::ByEui(link) => resolve_by_id(&self.root, link),
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
        let mut facts = self.gather(&name).await?;
        let aliases = self.aliases(identity, &name, &facts)?;
        let domains = self.hypervisor.domains().await?;
        facts.domains = blocking::run(move || used_by(&domains, &aliases)).await?;
        let device = Path::new("/dev").join(&name);
        if self.root.is_live() {
            facts.busy = is_busy_apart(device.clone()).await?;
        }
        if self.root.is_live() || recording::is_replay() {
            facts.signatures = signatures(&device, LIMIT).await?;
            for partition in facts.partitions.clone() {
                let found = signatures_within(&device, extent(&self.root, &partition)?).await?;
                let found = found.into_iter().map(|kind| (partition.clone(), kind));
                facts.partition_signatures.extend(found);
            }
        }
        Ok(facts)
    }

    async fn gather(&self, name: &str) -> HostResult<DiskFacts> {
        let (root, name, trusts) = (self.root.clone(), name.to_owned(), self.trusts.clone());
        blocking::run(move || gather(&root, &name, &trusts)).await
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
                // A device manager may hold the disk open for a moment, and a loop device is being taken away; a user
                // stays.
                Err(blockers) if attempts < ATTEMPTS && passing(&blockers) => {
                    attempts += 1;
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(blockers) => return Err(refusal(identity, &blockers)),
            }
        }
    }

    /// Opens a proven disk exclusively, then makes sure that it is still the one that was proven.
    ///
    /// # Errors
    /// `DISK_UNSAFE` when something else has it open, or it became another disk.
    pub async fn open_exclusively(&self, disk: ProvenDisk) -> HostResult<ExclusiveDisk> {
        let opened = ExclusiveDisk::open(disk).await?;
        let after = AfterOpen {
            resolution: self.resolve(opened.identity()).await?,
            diskseq: diskseq(&self.root, opened.name())?,
            number: self
                .root
                .read_value(format!("/sys/class/block/{}/dev", opened.name())),
            opened: opened.number()?,
        };
        match opened.check_opened(&after) {
            Ok(()) => Ok(opened),
            Err(blocker) => Err(refusal(opened.identity(), &[blocker])),
        }
    }

    /// Names of those domains that name a disk.
    ///
    /// # Errors
    /// A source is there and cannot be looked at.
    pub fn named_by(
        &self,
        identity: &DiskIdentity,
        name: &str,
        facts: &DiskFacts,
        domains: &[&Domain],
    ) -> HostResult<Vec<String>> {
        let aliases = self.aliases(identity, name, facts)?;
        let mut found = Vec::new();
        for domain in domains {
            if names(domain, &aliases)? {
                found.push(domain.name.clone());
            }
        }
        Ok(found)
    }

    /// Every path under which a domain may name this disk.
    fn aliases(
        &self,
        identity: &DiskIdentity,
        name: &str,
        facts: &DiskFacts,
    ) -> HostResult<Vec<PathBuf>> {
        let mut aliases = vec![
            Path::new("/dev").join(name),
            PathBuf::from(identity.to_string()),
        ];
        aliases.extend(
            facts
                .partitions
                .iter()
                .chain(&facts.holders)
                .map(|other| Path::new("/dev").join(other)),
        );
        let controllers = controllers(&self.root, name)?;
        aliases.extend(controllers.iter().map(|one| PathBuf::from(pci_device(one))));
        if let DiskIdentity::Lab(id) = identity {
            let files = self
                .lab_disks
                .iter()
                .filter(|disk| disk.id == *id)
                .map(|disk| disk.backing_file.clone());
            aliases.extend(files);
        }
        Ok(aliases)
    }
}

fn passing(blockers: &[Blocker]) -> bool {
    blockers.iter().all(|blocker| {
        matches!(
            blocker,
            Blocker::OpenBy { .. } | Blocker::Busy | Blocker::Untraced(_)
        )
    })
}

/// The domains that name a disk: by path, by where the path leads, or by device number. One with a source of which
/// nobody knows where it lies counts as well.
///
/// # Errors
/// A source is there and cannot be looked at.
fn used_by(domains: &[Domain], aliases: &[PathBuf]) -> HostResult<Vec<DomainUse>> {
    let mut found = Vec::new();
    for domain in domains {
        let untraced = domain.untraced_sources.join(", ");
        if names(domain, aliases)? {
            found.push(DomainUse {
                name: domain.name.clone(),
                state: domain.state.as_str().to_owned(),
            });
        } else if !untraced.is_empty() {
            found.push(DomainUse {
                name: domain.name.clone(),
                state: format!("{}, with {untraced}", domain.state.as_str()),
            });
        }
    }
    Ok(found)
}

fn names(domain: &Domain, aliases: &[PathBuf]) -> HostResult<bool> {
    for source in domain.disk_sources.iter().map(Path::new) {
        for alias in aliases {
            if source == alias || same_file(source, alias)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn same_file(one: &Path, other: &Path) -> HostResult<bool> {
    let (Some(one), Some(other)) = (inspect(one)?, inspect(other)?) else {
        return Ok(false);
    };
    let same_inode = one.dev() == other.dev() && one.ino() == other.ino();
    let number = block_number(&one);
    Ok(same_inode || (number.is_some() && number == block_number(&other)))
}

/// `None` when there is nothing at the path.
fn inspect(path: &Path) -> HostResult<Option<std::fs::Metadata>> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(None),
        Err(error) => Err(io_error(format_args!("cannot look at {}", path.display()))(
            error,
        )),
    }
}

/// The identity of a binding, as a typed value.
pub fn identity_of(nvme_device: &str) -> HostResult<DiskIdentity> {
    nvme_device.parse().map_err(HostError::from)
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
