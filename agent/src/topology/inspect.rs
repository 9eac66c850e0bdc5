//! Inspection of the disks that slots may be made of: resolved, gathered and decided as before a clone, so that what an
//! approval calls raw and unused was observed and not assumed (D-29, INC-43).
use std::collections::BTreeMap;

use super::discover::DiskInspection;
use super::nvme::NvmeDisk;
use crate::disk::{DiskFacts, DiskIdentity, DiskProbe, Intent, decide};
use crate::error::HostResult;
use crate::ids::VM_PREFIX;

/// Inspects every disk that has a stable link and is not mounted anyway, by that link.
pub async fn disks(probe: &DiskProbe, disks: &[NvmeDisk]) -> BTreeMap<String, DiskInspection> {
    let mut inspections = BTreeMap::new();
    for disk in disks.iter().filter(|disk| !disk.is_mounted()) {
        let Some(link) = &disk.by_id else { continue };
        let inspection = match link.parse() {
            // it was proven before its VM got it, and nothing on the host can use it meanwhile
            Ok(_) if disk.passed_through.is_some() => DiskInspection {
                name: Some(disk.name.clone()),
                bytes: disk.facts.bytes,
                blockers: Vec::new(),
            },
            Ok(identity) => self::disk(probe, &identity).await,
            Err(error) => DiskInspection {
                blockers: vec![format!("{link} must be {}", error.rule)],
                ..DiskInspection::default()
            },
        };
        inspections.insert(link.clone(), inspection);
    }
    inspections
}

/// Inspects one disk.
pub async fn disk(probe: &DiskProbe, identity: &DiskIdentity) -> DiskInspection {
    let left_by_tenant = probe.is_left_by_tenant(identity);
    assess(identity, probe.facts(identity).await, left_by_tenant)
}

/// What stands against a disk as a slot's. One under a VM of ours is no less a slot's disk: only what is not ours
/// stands against it. Without one it must be raw: that is what an approval calls clean. What a tenant left on it is none of
/// the host's.
fn assess(
    identity: &DiskIdentity,
    facts: HostResult<DiskFacts>,
    left_by_tenant: bool,
) -> DiskInspection {
    let mut facts = match facts {
        Ok(facts) => facts,
        Err(error) => {
            return DiskInspection {
                blockers: vec![error.to_string()],
                ..DiskInspection::default()
            };
        }
    };
    let (name, bytes) = (facts.name.clone(), facts.bytes);
    let mut intent = if left_by_tenant {
        Intent::Wipe { touched: true }
    } else {
        Intent::Clone { touched: false }
    };
    let ours = |name: &str| name.starts_with(VM_PREFIX);
    if !facts.domains.is_empty() && facts.domains.iter().all(|one| ours(&one.name)) {
        facts.domains.clear();
        facts.descriptor_holders.clear();
        facts.busy = false;
        intent = Intent::Wipe { touched: true };
    }
    let blockers = match decide(identity, bytes, &facts, intent) {
        Ok(_) => Vec::new(),
        Err(blockers) => blockers.iter().map(ToString::to_string).collect(),
    };
    DiskInspection {
        name,
        bytes,
        blockers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::facts::DomainUse;

    fn raw() -> DiskFacts {
        DiskFacts {
            name: Some("nvme1n1".into()),
            is_block: true,
            bytes: 1 << 30,
            ..DiskFacts::default()
        }
    }

    fn blockers(facts: DiskFacts) -> Vec<String> {
        let identity = "/dev/disk/by-id/nvme-eui.000000000000000100a075244a103331";
        assess(&identity.parse().unwrap(), Ok(facts), false).blockers
    }

    /// A tenant with root leaves a volume group; what the running host uses is refused all the same.
    #[test]
    fn a_132_what_a_tenant_left_stands_against_no_slot_and_what_the_host_uses_does() {
        let identity = "/dev/disk/by-id/nvme-eui.000000000000000100a075244a103331"
            .parse()
            .unwrap();
        let left = DiskFacts {
            signatures: vec!["LVM2_member".into()],
            partitions: vec!["nvme1n1p1".into()],
            ..raw()
        };
        let found = |facts, left_by_tenant| assess(&identity, Ok(facts), left_by_tenant).blockers;
        assert!(found(left.clone(), true).is_empty());
        assert_eq!(found(left.clone(), false).len(), 3);
        let mounted = DiskFacts {
            mounts: vec![("nvme1n1p1".into(), "/data".into())],
            ..left
        };
        assert_eq!(found(mounted, true), ["nvme1n1p1 is mounted at /data"]);
    }

    #[test]
    fn inc_43_a_disk_is_called_raw_only_when_it_was_seen_to_be() {
        assert!(blockers(raw()).is_empty());
        let signed = DiskFacts {
            signatures: vec!["ext4".into()],
            ..raw()
        };
        assert_eq!(blockers(signed), ["signature ext4 found"]);
        let foreign = DiskFacts {
            domains: vec![DomainUse {
                name: "somebody".into(),
                state: "shut off".into(),
            }],
            ..raw()
        };
        assert_eq!(blockers(foreign), ["domain somebody (shut off) uses it"]);
    }

    #[test]
    fn a_disk_under_a_vm_of_ours_is_still_a_slots_disk() {
        let facts = DiskFacts {
            domains: vec![DomainUse {
                name: format!("{VM_PREFIX}0192f0c1aaaa7bbb8ccc0123456789ab"),
                state: "running".into(),
            }],
            signatures: vec!["ext4".into()],
            busy: true,
            ..raw()
        };
        assert!(blockers(facts.clone()).is_empty());
        let mounted = DiskFacts {
            mounts: vec![("nvme1n1p1".into(), "/mnt".into())],
            ..facts
        };
        assert_eq!(blockers(mounted), ["nvme1n1p1 is mounted at /mnt"]);
    }
}
