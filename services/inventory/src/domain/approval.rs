//! Whether an operator's choice of candidates may become slots: all of them or none. What
//! stands against a disk, or is incomplete, never becomes schedulable.
use std::collections::BTreeSet;

use gpuaas_common::drift::{self, Approved, Content, Kind};
use gpuaas_proto::gpuaas::agent::v1::{HostDevices, InspectedDevice};
use gpuaas_proto::gpuaas::common::v1::SlotBindings;

use super::bindings::{self, SlotClass, Violation};
use super::candidate::{Candidate, Refusal};
use super::choice::{self, Choice};

/// The devices of a slot that the node has already.
#[derive(Debug, Clone, PartialEq)]
pub struct ExistingSlot {
    /// Place of the slot on its node.
    pub slot_index: u32,
    /// Devices and addresses.
    pub bindings: SlotBindings,
}

/// All that the decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct Review<'a> {
    /// The node is offered in slices.
    pub slice_mode: bool,
    /// The node is an emulated host.
    pub lab: bool,
    /// Why the host is not ready now.
    pub host_blockers: &'a [String],
    /// Why the reviewed discovery no longer describes the host; `None` when it does.
    pub stale: Option<&'static str>,
    /// What the reviewed discovery found wrong with the host.
    pub discovery_blockers: &'a [String],
    /// What the reviewed discovery proposed.
    pub candidates: &'a [Candidate],
    /// What the host has by its last report; `None`: it does not report that.
    pub devices: Option<&'a HostDevices>,
    /// What the reviewed discovery has inspected, also what no candidate has.
    pub inspected: &'a [InspectedDevice],
    /// Slots of the node that are not retired.
    pub slots: &'a [ExistingSlot],
    /// Indexes of the candidates to approve.
    pub requested: &'a [u32],
    /// What of them is to be other than proposed.
    pub choices: &'a [Choice],
}

/// The chosen candidates by index, when every one of them may become a slot.
///
/// # Errors
/// The first [`Refusal`].
pub fn decide(review: Review<'_>) -> Result<Vec<Candidate>, Refusal> {
    let mut requested = review.requested.to_vec();
    requested.sort_unstable();
    if requested.is_empty() {
        return Err(Refusal::NothingChosen);
    }
    if let Some(pair) = requested.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Refusal::ChosenTwice(pair[0]));
    }
    if !review.slice_mode {
        return Err(Refusal::NotSliceMode);
    }
    if let Some(why) = review.stale {
        return Err(Refusal::Stale(why));
    }
    if !review.host_blockers.is_empty() {
        return Err(Refusal::HostNotReady(review.host_blockers.to_vec()));
    }
    if !review.discovery_blockers.is_empty() {
        return Err(Refusal::HostNotReady(review.discovery_blockers.to_vec()));
    }
    let mut for_slots = BTreeSet::new();
    for choice in review.choices {
        let index = choice.slot_index;
        if !requested.contains(&index) || !for_slots.insert(index) {
            return Err(Refusal::NotRequested(index));
        }
    }
    let known = choice::NodeDevices {
        reported: review.devices,
        inspected: review.inspected,
    };
    let mut chosen: Vec<Candidate> = Vec::with_capacity(requested.len());
    for index in requested {
        let candidate = review
            .candidates
            .iter()
            .find(|candidate| candidate.slot_index == index)
            .ok_or(Refusal::NoCandidate(index))?;
        let choice = review
            .choices
            .iter()
            .position(|one| one.slot_index == index);
        let candidate = match choice {
            Some(at) => choice::apply(candidate, (at, &review.choices[at]), known)?,
            None => candidate.clone(),
        };
        check(&candidate, review.lab)?;
        let names_policy = |at: &usize| !review.choices[*at].destructive_wipe_policy.is_empty();
        choice::can_wipe(&candidate, choice.filter(names_policy), known)?;
        is_unchanged(&candidate, &review)?;
        let others = review
            .slots
            .iter()
            .filter(|slot| slot.slot_index != index)
            .map(|slot| (slot.slot_index, &slot.bindings))
            .chain(
                chosen
                    .iter()
                    .map(|other| (other.slot_index, &other.bindings)),
            );
        for (other, bindings) in others {
            if let Some(field) = bindings::shared_field(&candidate.bindings, bindings) {
                return Err(Refusal::Shared {
                    slot_index: index,
                    other,
                    field,
                });
            }
        }
        chosen.push(candidate);
    }
    Ok(chosen)
}

/// Compares a candidate with the host's last report: what changed since the discovery was read is not approved. A device gets its
/// driver when its slot is approved (D-58). A slot that exists may have its addresses in use, and on its disk what its last
/// tenant left: it is wiped.
fn is_unchanged(candidate: &Candidate, review: &Review<'_>) -> Result<(), Refusal> {
    let Some(devices) = review.devices else {
        return Ok(());
    };
    let slot_index = candidate.slot_index;
    let exists = review
        .slots
        .iter()
        .any(|slot| slot.slot_index == slot_index);
    let approved = Approved {
        bindings: &candidate.bindings,
        content: Content::Empty,
        allocations: &BTreeSet::new(),
    };
    let mut differences = drift::compare(&approved, devices);
    differences.retain(|one| match one.kind {
        Kind::DriverRebound => false,
        Kind::DuplicateMac | Kind::DuplicateAddress | Kind::DiskContent => !exists,
        _ => true,
    });
    if differences.is_empty() {
        Ok(())
    } else {
        Err(Refusal::Changed {
            slot_index,
            differences,
        })
    }
}

fn check(candidate: &Candidate, lab: bool) -> Result<(), Refusal> {
    let slot_index = candidate.slot_index;
    if !candidate.blockers.is_empty() {
        return Err(Refusal::Blocked {
            slot_index,
            blockers: candidate.blockers.clone(),
        });
    }
    let incomplete = |violations| {
        Err(Refusal::Incomplete {
            slot_index,
            violations,
        })
    };
    let class = |rule| {
        vec![Violation {
            field: "slot_class",
            rule,
        }]
    };
    let violations = match SlotClass::parse(&candidate.slot_class) {
        None => class("The slot class is one of h200_sxm, lab."),
        Some(SlotClass::Lab) if !lab => class("A slot of class lab exists on lab hosts only."),
        Some(SlotClass::H200Sxm) if lab => class("A lab host has slots of class lab only."),
        Some(class) => bindings::violations(class, &candidate.bindings),
    };
    if violations.is_empty() {
        Ok(())
    } else {
        incomplete(violations)
    }
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::agent::v1::{HostDisk, HostFunction};

    use super::*;
    use crate::domain::bindings::samples;

    fn candidates() -> Vec<Candidate> {
        (0..8)
            .map(|slot_index| Candidate {
                slot_index,
                slot_class: "h200_sxm".into(),
                bindings: samples::h200(slot_index),
                blockers: Vec::new(),
                disk_blockers: Vec::new(),
                fabric_blockers: Vec::new(),
            })
            .collect()
    }

    fn review<'a>(candidates: &'a [Candidate], requested: &'a [u32]) -> Review<'a> {
        Review {
            slice_mode: true,
            lab: false,
            host_blockers: &[],
            stale: None,
            discovery_blockers: &[],
            candidates,
            devices: None,
            inspected: &[],
            slots: &[],
            requested,
            choices: &[],
        }
    }

    #[test]
    fn a_116_chosen_candidates_are_approved_by_index() {
        let all = candidates();
        let chosen = decide(review(&all, &[5, 0])).expect("both are fit");
        assert_eq!(
            chosen.iter().map(|c| c.slot_index).collect::<Vec<_>>(),
            [0, 5]
        );
    }

    #[test]
    fn choice_is_checked() {
        let all = candidates();
        assert_eq!(decide(review(&all, &[])), Err(Refusal::NothingChosen));
        assert_eq!(
            decide(review(&all, &[1, 2, 1])),
            Err(Refusal::ChosenTwice(1))
        );
        assert_eq!(decide(review(&all, &[8])), Err(Refusal::NoCandidate(8)));
    }

    #[test]
    fn a_134_a_node_outside_slice_mode_gets_no_slots() {
        let all = candidates();
        let refused = decide(Review {
            slice_mode: false,
            ..review(&all, &[0])
        });
        assert_eq!(refused, Err(Refusal::NotSliceMode));
    }

    #[test]
    fn a_118_an_incomplete_candidate_is_refused_with_field_and_rule() {
        let mut all = candidates();
        all[3].bindings.management_mac.clear();
        let Err(Refusal::Incomplete {
            slot_index,
            violations,
        }) = decide(review(&all, &[2, 3]))
        else {
            panic!("candidate 3 lacks its MAC");
        };
        assert_eq!((slot_index, violations[0].field), (3, "management_mac"));
        assert!(
            decide(review(&all, &[2, 4])).is_ok(),
            "an incomplete candidate that is not chosen does not matter"
        );
    }

    #[test]
    fn a_119_a_blocked_candidate_is_refused() {
        let mut all = candidates();
        all[1].blockers = vec!["disk_partition_mounted".into()];
        assert!(matches!(
            decide(review(&all, &[0, 1])),
            Err(Refusal::Blocked { slot_index: 1, .. })
        ));
    }

    #[test]
    fn a_125_chosen_candidates_that_share_a_function_are_refused() {
        let mut all = candidates();
        all[6].bindings.fabric_vf_pci_address = all[2].bindings.fabric_vf_pci_address.clone();
        let refused = decide(review(&all, &[2, 6]));
        assert_eq!(
            refused,
            Err(Refusal::Shared {
                slot_index: 6,
                other: 2,
                field: "fabric_vf_pci_address"
            })
        );
    }

    #[test]
    fn a_126_a_candidate_shares_nothing_with_an_existing_slot() {
        let all = candidates();
        let mut slots = vec![ExistingSlot {
            slot_index: 9,
            bindings: samples::h200(9),
        }];
        slots[0].bindings.nvme_device = all[0].bindings.nvme_device.clone();
        let refused = decide(Review {
            slots: &slots,
            ..review(&all, &[0])
        });
        assert_eq!(
            refused,
            Err(Refusal::Shared {
                slot_index: 0,
                other: 9,
                field: "nvme_device"
            })
        );
        slots[0].slot_index = 0;
        assert!(
            decide(Review {
                slots: &slots,
                ..review(&all, &[0])
            })
            .is_ok(),
            "the slot itself is no other slot"
        );
    }

    #[test]
    fn a_128_a_host_that_is_not_ready_gets_no_slots() {
        let all = candidates();
        let blockers = vec!["kvm".to_owned()];
        let host = decide(Review {
            host_blockers: &blockers,
            ..review(&all, &[0])
        });
        assert_eq!(host, Err(Refusal::HostNotReady(blockers.clone())));
        let found = decide(Review {
            discovery_blockers: &blockers,
            ..review(&all, &[0])
        });
        assert_eq!(found, Err(Refusal::HostNotReady(blockers.clone())));
    }

    #[test]
    fn a_58_a_discovery_that_no_longer_counts_approves_nothing() {
        let all = candidates();
        let refused = decide(Review {
            stale: Some("superseded"),
            ..review(&all, &[0])
        });
        assert_eq!(refused, Err(Refusal::Stale("superseded")));
    }

    #[test]
    fn a_58_what_changed_since_the_discovery_is_not_approved() {
        let all = candidates();
        let function = |address: &String| HostFunction {
            pci_address: address.clone(),
            ..HostFunction::default()
        };
        let bindings = &all[0].bindings;
        let mut devices = HostDevices {
            functions: vec![
                function(&bindings.gpu_pci_address),
                function(&bindings.fabric_vf_pci_address),
            ],
            disks: vec![HostDisk {
                identity: bindings.nvme_device.clone(),
                bytes: bindings.nvme_bytes,
                ..HostDisk::default()
            }],
            ..HostDevices::default()
        };
        let of = |devices: &HostDevices| {
            decide(Review {
                devices: Some(devices),
                ..review(&all, &[0])
            })
            .map(|chosen| chosen.len())
        };
        assert_eq!(of(&devices), Ok(1), "no driver is bound yet");
        devices.disks[0].uses = vec!["nvme1n1p1 is mounted at /mnt".into()];
        let Err(Refusal::Changed {
            slot_index: 0,
            differences,
        }) = of(&devices)
        else {
            panic!("it was mounted since");
        };
        assert_eq!(differences[0].kind, Kind::DiskInUse);
        devices.disks.clear();
        assert!(matches!(of(&devices), Err(Refusal::Changed { .. })));
    }

    #[test]
    fn lab_slots_belong_to_lab_hosts() {
        let lab = [Candidate {
            slot_index: 0,
            slot_class: "lab".into(),
            bindings: samples::lab(1),
            blockers: Vec::new(),
            disk_blockers: Vec::new(),
            fabric_blockers: Vec::new(),
        }];
        assert!(
            decide(Review {
                lab: true,
                ..review(&lab, &[0])
            })
            .is_ok()
        );
        assert!(matches!(
            decide(review(&lab, &[0])),
            Err(Refusal::Incomplete { .. })
        ));
        let real = candidates();
        assert!(matches!(
            decide(Review {
                lab: true,
                ..review(&real, &[0])
            }),
            Err(Refusal::Incomplete { .. })
        ));
    }
}
