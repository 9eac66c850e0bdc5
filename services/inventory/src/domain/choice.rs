//! What an operator chooses for a slot in place of what the host proposed for it.
use gpuaas_proto::gpuaas::agent::v1::{HostDevices, InspectedDevice};

use super::candidate::{Candidate, Refusal};

/// What an operator chooses for a slot in place of what its candidate has; what is empty stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// Place of the slot on its node.
    pub slot_index: u32,
    /// Identity of another disk.
    pub nvme_device: String,
    /// Address of another virtual function.
    pub fabric_vf_pci_address: String,
    /// How the disk is wiped.
    pub destructive_wipe_policy: String,
}

/// What is known of the devices of a node.
#[derive(Debug, Clone, Copy)]
pub struct NodeDevices<'a> {
    /// By the host's last report; `None`: it has not reported since the discovery.
    pub reported: Option<&'a HostDevices>,
    /// What the discovery has inspected, also what no candidate has.
    pub inspected: &'a [InspectedDevice],
}

impl NodeDevices<'_> {
    /// What the discovery found against a device; `None`: it did not inspect it.
    fn blockers(&self, device: &str) -> Option<&[String]> {
        let mut inspected = self.inspected.iter();
        let found = inspected.find(|one| one.device == device)?;
        Some(&found.blockers)
    }

    /// The wipe policies that the host can meet on a disk; none: it does not tell.
    fn wipe_policies(&self, disk: &str) -> &[String] {
        let mut inspected = self.inspected.iter();
        let found = inspected.find(|one| one.device == disk);
        found.map_or(&[], |one| &one.wipe_policies)
    }
}

/// A policy that the host cannot meet on the slot's disk would block the slot at its first wipe (D-75): it is refused before
/// anything is approved. `choice` is the place of the choice that names the policy; none: the host proposed it.
pub(super) fn can_wipe(
    candidate: &Candidate,
    choice: Option<usize>,
    known: NodeDevices<'_>,
) -> Result<(), Refusal> {
    let bindings = &candidate.bindings;
    let possible = known.wipe_policies(&bindings.nvme_device);
    if possible.is_empty() || possible.contains(&bindings.destructive_wipe_policy) {
        return Ok(());
    }
    Err(Refusal::NoSuchWipe {
        slot_index: candidate.slot_index,
        choice,
        device: bindings.nvme_device.clone(),
        policy: bindings.destructive_wipe_policy.clone(),
        possible: possible.to_vec(),
    })
}

/// The candidate with what was chosen in place of its own: what stood against its own disk or function gives way to what
/// stands against the chosen one. Nothing that was not inspected is chosen, since an approval wipes.
pub(super) fn apply(
    candidate: &Candidate,
    (at, choice): (usize, &Choice),
    known: NodeDevices<'_>,
) -> Result<Candidate, Refusal> {
    let mut candidate = candidate.clone();
    let reported = || {
        known.reported.ok_or(Refusal::Stale(
            "The host has not reported its devices since the discovery. Try again in a minute.",
        ))
    };
    let unknown = |field, device: &String| Refusal::NoDevice {
        choice: at,
        field,
        device: device.clone(),
    };
    if !choice.nvme_device.is_empty() {
        let disks = &reported()?.disks;
        let disk = disks
            .iter()
            .find(|disk| disk.identity == choice.nvme_device);
        let found = disk.zip(known.blockers(&choice.nvme_device));
        let (disk, found) = found.ok_or_else(|| unknown("nvme_device", &choice.nvme_device))?;
        candidate.bindings.nvme_device.clone_from(&disk.identity);
        candidate.bindings.nvme_bytes = disk.bytes;
        let own = &candidate.disk_blockers;
        candidate.blockers.retain(|one| !own.contains(one));
        candidate.blockers.extend_from_slice(found);
    }
    if !choice.fabric_vf_pci_address.is_empty() {
        let address = &choice.fabric_vf_pci_address;
        let functions = &reported()?.functions;
        let function = functions.iter().find(|function| {
            function.pci_address == *address && !function.physical_function.is_empty()
        });
        let found = function.zip(known.blockers(address));
        let (function, found) = found.ok_or_else(|| unknown("fabric_vf_pci_address", address))?;
        let bindings = &mut candidate.bindings;
        bindings.fabric_vf_pci_address.clone_from(address);
        bindings
            .fabric_device
            .clone_from(&function.physical_function);
        let own = &candidate.fabric_blockers;
        candidate.blockers.retain(|one| !own.contains(one));
        candidate.blockers.extend_from_slice(found);
    }
    if !choice.destructive_wipe_policy.is_empty() {
        let policy = &choice.destructive_wipe_policy;
        candidate
            .bindings
            .destructive_wipe_policy
            .clone_from(policy);
    }
    Ok(candidate)
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::agent::v1::{HostDisk, HostFunction};

    use super::*;
    use crate::domain::approval::{Review, decide};
    use crate::domain::bindings::samples;

    const SPARE: &str = "/dev/disk/by-id/nvme-eui.000000000000000100a075244a10ffff";
    const FUNCTION: &str = "0000:5e:00.7";

    fn candidate(slot_index: u32) -> Candidate {
        Candidate {
            slot_index,
            slot_class: "h200_sxm".into(),
            bindings: samples::h200(slot_index),
            blockers: Vec::new(),
            disk_blockers: Vec::new(),
            fabric_blockers: Vec::new(),
        }
    }

    fn disk(identity: &str) -> HostDisk {
        HostDisk {
            identity: identity.into(),
            bytes: samples::h200(0).nvme_bytes,
            ..HostDisk::default()
        }
    }

    /// What the host of two candidates reports, with a spare disk and a spare function.
    fn devices() -> HostDevices {
        let of = |index| samples::h200(index);
        let gpu = |index| HostFunction {
            pci_address: of(index).gpu_pci_address,
            numa_node: of(index).numa_node,
            ..HostFunction::default()
        };
        let function = |address: &str| HostFunction {
            pci_address: address.to_owned(),
            physical_function: of(0).fabric_device,
            ..HostFunction::default()
        };
        let mut functions = vec![gpu(0), gpu(1)];
        functions.extend([0, 1].map(|index| HostFunction {
            physical_function: of(index).fabric_device,
            ..function(&of(index).fabric_vf_pci_address)
        }));
        functions.push(function(FUNCTION));
        HostDevices {
            functions,
            disks: vec![
                disk(&of(0).nvme_device),
                disk(&of(1).nvme_device),
                disk(SPARE),
            ],
            ..HostDevices::default()
        }
    }

    /// What a discovery of that host has inspected, all of it sound.
    fn inspected() -> Vec<InspectedDevice> {
        let host = devices();
        let disks = host.disks.into_iter().map(|disk| disk.identity);
        let functions = host.functions.into_iter().map(|one| one.pci_address);
        let sound = |device| InspectedDevice {
            device,
            ..InspectedDevice::default()
        };
        disks.chain(functions).map(sound).collect()
    }

    fn decided(
        candidates: &[Candidate],
        devices: Option<&HostDevices>,
        choices: &[Choice],
    ) -> Result<Vec<Candidate>, Refusal> {
        decided_by(candidates, devices, &inspected(), choices)
    }

    fn decided_by(
        candidates: &[Candidate],
        devices: Option<&HostDevices>,
        inspected: &[InspectedDevice],
        choices: &[Choice],
    ) -> Result<Vec<Candidate>, Refusal> {
        decide(Review {
            slice_mode: true,
            lab: false,
            host_blockers: &[],
            stale: None,
            discovery_blockers: &[],
            candidates,
            devices,
            inspected,
            slots: &[],
            requested: &[0, 1],
            choices,
        })
    }

    fn disk_for(slot_index: u32, identity: &str) -> Choice {
        Choice {
            slot_index,
            nvme_device: identity.into(),
            ..Choice::default()
        }
    }

    #[test]
    fn a_116_another_disk_function_and_wipe_policy_are_chosen_for_a_slot() {
        let mut candidates = [candidate(0), candidate(1)];
        let broken = "nvme0n1: media errors".to_owned();
        candidates[0].blockers = vec![broken.clone()];
        let host = devices();
        assert!(matches!(
            decided(&candidates, Some(&host), &[disk_for(0, SPARE)]),
            Err(Refusal::Blocked { slot_index: 0, .. })
        ));
        candidates[0].disk_blockers = vec![broken];
        let choice = Choice {
            fabric_vf_pci_address: FUNCTION.into(),
            destructive_wipe_policy: "nvme_format".into(),
            ..disk_for(0, SPARE)
        };
        let chosen = decided(&candidates, Some(&host), &[choice]).expect("all of it is free");
        let bindings = &chosen[0].bindings;
        assert_eq!(
            [
                bindings.nvme_device.as_str(),
                &bindings.fabric_vf_pci_address,
                &bindings.destructive_wipe_policy,
                &bindings.gpu_pci_address,
            ],
            [
                SPARE,
                FUNCTION,
                "nvme_format",
                &samples::h200(0).gpu_pci_address
            ]
        );
        assert_eq!(chosen[1], candidates[1]);
    }

    /// Refused before anything is approved, and not at the first wipe, which would leave the slot `cleanup_blocked`.
    #[test]
    fn d_75_a_wipe_policy_that_the_host_cannot_meet_is_refused_with_what_it_can() {
        let mut candidates = [candidate(0), candidate(1)];
        let host = devices();
        let policies = ["blkdiscard", "site_erase"].map(str::to_owned);
        let mut reported = inspected();
        for one in &mut reported {
            one.wipe_policies = policies.to_vec();
        }
        // one disk of this host can do what the others cannot
        let spare = reported.iter_mut().find(|one| one.device == SPARE);
        spare.expect("inspected").wipe_policies = vec!["nvme_format".into()];
        let policy = |policy: &str, disk: &str| Choice {
            destructive_wipe_policy: policy.into(),
            ..disk_for(1, disk)
        };
        let decided = |candidates: &[Candidate], choices: &[Choice]| {
            decided_by(candidates, Some(&host), &reported, choices)
        };
        let of = |index| samples::h200(index).nvme_device;
        let refusal = |choice, device: String, policy: &str, possible: &[String]| {
            Err(Refusal::NoSuchWipe {
                slot_index: 1,
                choice,
                device,
                policy: policy.into(),
                possible: possible.to_vec(),
            })
        };
        assert_eq!(
            decided(&candidates, &[policy("nvme_format", "")]),
            refusal(Some(0), of(1), "nvme_format", &policies)
        );
        assert!(decided(&candidates, &[policy("site_erase", "")]).is_ok());
        // what counts is the disk that the slot gets
        assert!(decided(&candidates, &[policy("nvme_format", SPARE)]).is_ok());
        assert_eq!(
            decided(&candidates, &[disk_for(1, SPARE)]),
            refusal(None, SPARE.into(), "blkdiscard", &["nvme_format".into()])
        );
        // what the host itself proposes is no better
        candidates[1].bindings.destructive_wipe_policy = "nvme_format".into();
        assert_eq!(
            decided(&candidates, &[]),
            refusal(None, of(1), "nvme_format", &policies)
        );
        // a host of a release that does not tell is taken at its word
        assert!(decided_by(&candidates, Some(&host), &inspected(), &[]).is_ok());
    }

    /// What a host reports of a disk says nothing of its content: the discovery does, of every disk and function.
    #[test]
    fn a_132_what_the_discovery_found_against_a_device_or_did_not_inspect_is_not_chosen() {
        let candidates = [candidate(0), candidate(1)];
        let host = devices();
        let function = Choice {
            slot_index: 0,
            fabric_vf_pci_address: FUNCTION.into(),
            ..Choice::default()
        };
        for (choice, device) in [(disk_for(0, SPARE), SPARE), (function, FUNCTION)] {
            let choices = [choice];
            let mut found = inspected();
            for one in &mut found {
                if one.device == device {
                    one.blockers = vec!["it holds a filesystem".into()];
                }
            }
            let refused = decided_by(&candidates, Some(&host), &found, &choices);
            assert!(
                matches!(refused, Err(Refusal::Blocked { slot_index: 0, .. })),
                "{refused:?}"
            );
            found.retain(|one| one.device != device);
            let refused = decided_by(&candidates, Some(&host), &found, &choices);
            assert!(
                matches!(refused, Err(Refusal::NoDevice { choice: 0, .. })),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn a_116_what_is_chosen_must_be_there_sound_unused_and_of_one_slot() {
        let candidates = [candidate(0), candidate(1)];
        let host = devices();
        // two slots may change their disks with each other, and may not share one
        let of = |index| samples::h200(index).nvme_device;
        let changed = [disk_for(0, &of(1)), disk_for(1, &of(0))];
        assert!(decided(&candidates, Some(&host), &changed).is_ok());
        assert!(matches!(
            decided(&candidates, Some(&host), &[disk_for(1, &of(0))]),
            Err(Refusal::Shared {
                field: "nvme_device",
                ..
            })
        ));
        for fault in [
            |disk: &mut HostDisk| disk.uses.push("mounted at /data".into()),
            |disk: &mut HostDisk| disk.content.push("ext4".into()),
            |disk: &mut HostDisk| disk.fault = "I/O error".into(),
        ] {
            let mut host = devices();
            fault(&mut host.disks[2]);
            assert!(matches!(
                decided(&candidates, Some(&host), &[disk_for(0, SPARE)]),
                Err(Refusal::Changed { slot_index: 0, .. })
            ));
        }
        let unknown = decided(&candidates, Some(&host), &[disk_for(0, "/dev/nvme9n1")]);
        assert!(matches!(
            unknown,
            Err(Refusal::NoDevice {
                choice: 0,
                field: "nvme_device",
                ..
            })
        ));
        let physical = Choice {
            slot_index: 0,
            fabric_vf_pci_address: samples::h200(0).gpu_pci_address,
            ..Choice::default()
        };
        assert!(matches!(
            decided(&candidates, Some(&host), &[physical]),
            Err(Refusal::NoDevice {
                field: "fabric_vf_pci_address",
                ..
            })
        ));
        assert!(matches!(
            decided(&candidates, None, &[disk_for(0, SPARE)]),
            Err(Refusal::Stale(_))
        ));
        let policy = Choice {
            slot_index: 1,
            destructive_wipe_policy: "none".into(),
            ..Choice::default()
        };
        assert!(matches!(
            decided(&candidates, Some(&host), &[policy]),
            Err(Refusal::Incomplete { slot_index: 1, .. })
        ));
        for wrong in [
            vec![disk_for(2, SPARE)],
            vec![disk_for(0, SPARE), disk_for(0, SPARE)],
        ] {
            assert!(matches!(
                decided(&candidates, Some(&host), &wrong),
                Err(Refusal::NotRequested(_))
            ));
        }
    }
}
