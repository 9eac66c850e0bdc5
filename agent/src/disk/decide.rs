//! The decision whether a disk may be written to or wiped, a pure function over facts. What is mounted at any height of it
//! refuses it before anything begins, whatever its parent shows (D-30, D-31, D-32, D-77).
use std::fmt;
use std::path::PathBuf;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::facts::DiskFacts;
use super::identity::{DiskIdentity, Resolution};
use super::signatures::is_member;
use crate::error::HostError;
use crate::ids::AllocationId;

/// What is about to be done to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// An image is cloned onto it. It must be raw (INC-43), unless this allocation's own clone began before.
    Clone {
        /// This allocation has already written to it.
        touched: bool,
    },
    /// It is wiped: it may have a tenant's partitions, but nothing may use it.
    Wipe {
        /// This allocation has written to it, or another tenant of the platform, so that what is on it is no use of the host.
        touched: bool,
    },
    /// It was wiped and is read back: the verification reports whatever it has.
    Verify,
    /// This allocation's own VM, which is shut off, starts on it.
    Boot {
        /// Whose VM.
        allocation: AllocationId,
    },
}

/// Why a disk may not be touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocker {
    /// The identity leads to nothing.
    Missing,
    /// The identity leads to more than one device or to none that is a disk and not a partition (INC-17).
    Ambiguous(String),
    /// Not a block device.
    NotABlockDevice,
    /// The kernel refuses writes.
    ReadOnly,
    /// Not the size that was approved.
    WrongSize {
        /// Seen.
        found: u64,
        approved: u64,
    },
    /// The disk or a partition of it is mounted (INC-12).
    Mounted {
        /// What.
        device: String,
        /// Where.
        at: String,
    },
    Swap(String),
    /// Something is stacked on it.
    Holder(String),
    /// A loop device may stand on it: what is behind that cannot be found.
    Untraced(String),
    /// A domain names it, running or shut off (D-34).
    UsedByDomain {
        /// Domain.
        name: String,
        state: String,
    },
    /// A process holds it open.
    OpenBy {
        /// Process id.
        pid: u32,
        program: String,
    },
    /// Somebody out of our sight has it open exclusively.
    Busy,
    /// It is another disk than the one that was proven.
    Changed(String),
    /// It or a partition of it is a part of something else, or swap, that nobody has assembled now.
    Member {
        /// The disk or the partition.
        device: String,
        /// Signature.
        kind: String,
    },
    /// It has partitions although it should be raw.
    Partitioned(String),
    /// It has signatures although it should be raw (INC-43).
    Signature(String),
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "no device has this identity"),
            Self::Ambiguous(what) => write!(
                f,
                "the identity leads to {what}, and not to one whole disk of that name"
            ),
            Self::NotABlockDevice => write!(f, "not a block device"),
            Self::ReadOnly => write!(f, "read-only"),
            Self::WrongSize { found, approved } => {
                write!(f, "{found} bytes, approved were {approved}")
            }
            Self::Mounted { device, at } => write!(f, "{device} is mounted at {at}"),
            Self::Swap(device) => write!(f, "{device} is swap"),
            Self::Holder(name) => write!(f, "{name} is stacked on it"),
            Self::Untraced(name) => write!(f, "nobody can tell what {name} stands on"),
            Self::UsedByDomain { name, state } => write!(f, "domain {name} ({state}) uses it"),
            Self::OpenBy { pid, program } => write!(f, "process {pid} ({program}) holds it open"),
            Self::Busy => write!(f, "open exclusively by another user of the kernel"),
            Self::Changed(what) => write!(f, "{what} since it was proven"),
            Self::Member { device, kind } => {
                write!(f, "{device} is in use by its signature {kind}")
            }
            Self::Partitioned(partition) => write!(f, "partition {partition} exists"),
            Self::Signature(kind) => write!(f, "signature {kind} found"),
        }
    }
}

/// A disk that was proven safe for one intent at one moment. Only [`decide`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenDisk {
    identity: DiskIdentity,
    name: String,
    bytes: u64,
    diskseq: Option<u64>,
    partitions: Vec<String>,
}

/// What a proven disk is after it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AfterOpen {
    /// Where its identity leads now.
    pub resolution: Resolution,
    /// As in [`DiskFacts`], of the name it was proven under.
    pub diskseq: Option<u64>,
    /// Number of the device of that name, as sysfs writes it.
    pub number: Option<String>,
    /// Number of the device that is open.
    pub opened: String,
}

impl ProvenDisk {
    /// Whether what is open is the disk that was proven: kernel names are assigned anew, and between the proof and
    /// the opening one may have been.
    ///
    /// # Errors
    /// What has changed.
    pub fn check_opened(&self, after: &AfterOpen) -> Result<(), Blocker> {
        let changed = |what: &str| Err(Blocker::Changed(what.to_owned()));
        if after.resolution != Resolution::Device(self.name.clone()) {
            return changed("its identity leads elsewhere");
        }
        if after.diskseq != self.diskseq {
            return changed("another disk has taken its name");
        }
        if after.number.as_deref() != Some(&after.opened) {
            return changed("its device node is another device's");
        }
        Ok(())
    }

    /// Kernel name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The stable identity.
    pub fn identity(&self) -> &DiskIdentity {
        &self.identity
    }

    /// Today's device node.
    pub fn device(&self) -> PathBuf {
        PathBuf::from("/dev").join(&self.name)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Partitions the kernel knew.
    pub fn partitions(&self) -> &[String] {
        &self.partitions
    }
}

/// Decides on all facts at once, so that an operator sees every blocker.
pub fn decide(
    identity: &DiskIdentity,
    approved_bytes: u64,
    facts: &DiskFacts,
    intent: Intent,
) -> Result<ProvenDisk, Vec<Blocker>> {
    if let Some(what) = &facts.ambiguous {
        return Err(vec![Blocker::Ambiguous(what.clone())]);
    }
    let Some(name) = &facts.name else {
        return Err(vec![Blocker::Missing]);
    };
    let mut blockers = Vec::new();
    if !facts.is_block {
        blockers.push(Blocker::NotABlockDevice);
    }
    if facts.read_only {
        blockers.push(Blocker::ReadOnly);
    }
    if facts.bytes != approved_bytes || facts.bytes == 0 {
        blockers.push(Blocker::WrongSize {
            found: facts.bytes,
            approved: approved_bytes,
        });
    }
    blockers.extend(facts.mounts.iter().map(|(device, at)| Blocker::Mounted {
        device: device.clone(),
        at: at.clone(),
    }));
    blockers.extend(facts.swaps.iter().cloned().map(Blocker::Swap));
    blockers.extend(facts.holders.iter().cloned().map(Blocker::Holder));
    blockers.extend(facts.untraced.iter().cloned().map(Blocker::Untraced));
    let own = match intent {
        Intent::Boot { allocation } => Some(allocation.vm_name()),
        _ => None,
    };
    let others = facts
        .domains
        .iter()
        .filter(|domain| own.as_ref().is_none_or(|own| own.as_str() != domain.name));
    blockers.extend(others.map(|domain| Blocker::UsedByDomain {
        name: domain.name.clone(),
        state: domain.state.clone(),
    }));
    blockers.extend(
        facts
            .descriptor_holders
            .iter()
            .map(|holder| Blocker::OpenBy {
                pid: holder.pid,
                program: holder.program.clone(),
            }),
    );
    if facts.busy && blockers.is_empty() {
        blockers.push(Blocker::Busy);
    }
    if matches!(
        intent,
        Intent::Clone { touched: false } | Intent::Wipe { touched: false }
    ) {
        blockers.extend(members(name, facts));
    }
    if intent == (Intent::Clone { touched: false }) {
        blockers.extend(facts.partitions.iter().cloned().map(Blocker::Partitioned));
        blockers.extend(facts.signatures.iter().cloned().map(Blocker::Signature));
    }
    if blockers.is_empty() {
        Ok(ProvenDisk {
            identity: identity.clone(),
            name: name.clone(),
            bytes: facts.bytes,
            diskseq: facts.diskseq,
            partitions: facts.partitions.clone(),
        })
    } else {
        Err(blockers)
    }
}

/// Signatures by which the disk or a partition belongs to something else. A tenant may write such ones too, so that they
/// count only where no tenant of ours wrote.
fn members(name: &str, facts: &DiskFacts) -> Vec<Blocker> {
    let of_disk = facts.signatures.iter().map(|kind| (name, kind));
    let of_partitions = facts
        .partition_signatures
        .iter()
        .map(|(partition, kind)| (partition.as_str(), kind));
    of_disk
        .chain(of_partitions)
        .filter(|(_, kind)| is_member(kind))
        .map(|(device, kind)| Blocker::Member {
            device: device.to_owned(),
            kind: kind.clone(),
        })
        .collect()
}

/// The refusal an operator and the control plane see.
pub fn refusal(identity: &DiskIdentity, blockers: &[Blocker]) -> HostError {
    let reason = match blockers {
        [Blocker::Missing] => ErrorReason::DeviceMissing,
        _ => ErrorReason::DiskUnsafe,
    };
    let list: Vec<String> = blockers.iter().map(ToString::to_string).collect();
    HostError::device(reason, format!("disk {identity}: {}", list.join("; ")))
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
