//! Looks at the disks that slots may be made of: resolved, gathered and decided as before a clone, so that what an
//! approval calls raw and unused was seen and not assumed (D-29, INC-43).
use std::collections::BTreeMap;

use super::discover::DiskLook;
use super::nvme::NvmeDisk;
use crate::disk::{DiskFacts, DiskIdentity, DiskProbe, Intent, decide};
use crate::error::HostResult;
use crate::ids::VM_PREFIX;

/// Looks at every disk that has a stable link and is not mounted anyway, by that link.
pub async fn at_nvme(probe: &DiskProbe, disks: &[NvmeDisk]) -> BTreeMap<String, DiskLook> {
    let mut looks = BTreeMap::new();
    for disk in disks.iter().filter(|disk| !disk.is_mounted()) {
        let Some(link) = &disk.by_id else { continue };
        let look = match link.parse() {
            Ok(identity) => at(probe, &identity).await,
            Err(error) => DiskLook {
                blockers: vec![format!("{link} must be {}", error.rule)],
                ..DiskLook::default()
            },
        };
        looks.insert(link.clone(), look);
    }
    looks
}

/// Looks at one disk.
pub async fn at(probe: &DiskProbe, identity: &DiskIdentity) -> DiskLook {
    judge(identity, probe.facts(identity).await)
}

/// What stands against a disk as a slot's. One under a VM of ours is no less a slot's disk: only what is not ours
/// stands against it. Without one it must be raw: that is what an approval calls clean.
fn judge(identity: &DiskIdentity, facts: HostResult<DiskFacts>) -> DiskLook {
    let mut facts = match facts {
        Ok(facts) => facts,
        Err(error) => {
            return DiskLook {
                blockers: vec![error.to_string()],
                ..DiskLook::default()
            };
        }
    };
    let (name, bytes) = (facts.name.clone(), facts.bytes);
    let mut intent = Intent::Clone { touched: false };
    let ours = |name: &str| name.starts_with(VM_PREFIX);
    if !facts.domains.is_empty() && facts.domains.iter().all(|one| ours(&one.name)) {
        facts.domains.clear();
        facts.holders.clear();
        facts.claimed = false;
        intent = Intent::Wipe;
    }
    let blockers = match decide(identity, bytes, &facts, intent) {
        Ok(_) => Vec::new(),
        Err(blockers) => blockers.iter().map(ToString::to_string).collect(),
    };
    DiskLook {
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
        judge(&identity.parse().unwrap(), Ok(facts)).blockers
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
            claimed: true,
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
