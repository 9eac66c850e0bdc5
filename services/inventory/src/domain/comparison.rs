//! Candidates of a discovery beside the slots that were approved at their indexes.
use std::collections::BTreeMap;

use gpuaas_proto::gpuaas::common::v1::SlotBindings;
use gpuaas_proto::gpuaas::inventory::v1::{BindingComparison, ComparisonState, SlotComparison};

/// A slot that is approved.
#[derive(Debug, Clone)]
pub struct ApprovedSlot {
    pub slot_index: u32,
    pub id: String,
    pub bindings: SlotBindings,
}

/// Every candidate and every slot, by index.
#[must_use]
pub fn compare(candidates: &[(u32, SlotBindings)], slots: &[ApprovedSlot]) -> Vec<SlotComparison> {
    let mut sides: BTreeMap<u32, (Option<&ApprovedSlot>, Option<&SlotBindings>)> = BTreeMap::new();
    for slot in slots {
        sides.entry(slot.slot_index).or_default().0 = Some(slot);
    }
    for (index, bindings) in candidates {
        sides.entry(*index).or_default().1 = Some(bindings);
    }
    let of =
        |(slot_index, (slot, found)): (u32, (Option<&ApprovedSlot>, Option<&SlotBindings>))| {
            let approved = slot.map(|slot| &slot.bindings);
            let bindings = fields(approved, found);
            let state = match (slot, found) {
                (None, _) => ComparisonState::New,
                (Some(_), None) => ComparisonState::NotFound,
                (Some(_), Some(_)) if bindings.iter().any(|one| one.differs) => {
                    ComparisonState::Different
                }
                (Some(_), Some(_)) => ComparisonState::Same,
            };
            SlotComparison {
                slot_index,
                slot_id: slot.map(|slot| slot.id.clone()).unwrap_or_default(),
                state: state.into(),
                bindings,
            }
        };
    sides.into_iter().map(of).collect()
}

type Read = fn(&SlotBindings) -> String;

/// The fields in the order in which an operator reads them. The wipe policy is the operator's choice, not the host's.
const FIELDS: [(&str, Read); 11] = [
    ("gpu_pci_address", |b| b.gpu_pci_address.clone()),
    ("gpu_module_id", |b| number(b.gpu_module_id)),
    ("numa_node", |b| number(b.numa_node)),
    ("nvme_device", |b| b.nvme_device.clone()),
    ("nvme_bytes", |b| match b.nvme_bytes {
        0 => String::new(),
        bytes => bytes.to_string(),
    }),
    ("storage_identity_kind", |b| b.storage_identity_kind.clone()),
    ("management_mac", |b| b.management_mac.clone()),
    ("private_ip", |b| b.private_ip.clone()),
    ("fabric_device", |b| b.fabric_device.clone()),
    ("fabric_vf_pci_address", |b| b.fabric_vf_pci_address.clone()),
    ("fabric_claim_mode", |b| b.fabric_claim_mode.clone()),
];

fn number(value: Option<u32>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn fields(approved: Option<&SlotBindings>, found: Option<&SlotBindings>) -> Vec<BindingComparison> {
    let all = FIELDS.iter().map(|(field, read)| {
        let (approved_value, found_value) = (
            approved.map(read).unwrap_or_default(),
            found.map(read).unwrap_or_default(),
        );
        let both = approved.is_some() && found.is_some();
        BindingComparison {
            field: (*field).to_owned(),
            differs: both && !approved_value.eq_ignore_ascii_case(&found_value),
            approved: approved_value,
            found: found_value,
        }
    });
    all.filter(|one| !one.approved.is_empty() || !one.found.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::bindings::samples;

    #[test]
    fn a_111_a_candidate_stands_beside_the_slot_of_its_index() {
        let slot = |slot_index: u32, bindings| ApprovedSlot {
            slot_index,
            id: format!("slot-{slot_index}"),
            bindings,
        };
        let mut moved = samples::h200(1);
        moved.fabric_vf_pci_address = "0000:9a:00.1".into();
        let slots = [
            slot(0, samples::h200(0)),
            slot(1, moved),
            slot(2, samples::h200(2)),
        ];
        let mut upper = samples::h200(0);
        upper.gpu_pci_address = upper.gpu_pci_address.to_uppercase();
        let candidates = [(0, upper), (1, samples::h200(1)), (3, samples::h200(3))];
        let found = compare(&candidates, &slots);
        let states: Vec<_> = found
            .iter()
            .map(|one| (one.slot_index, one.slot_id.as_str(), one.state()))
            .collect();
        assert_eq!(
            states,
            [
                (0, "slot-0", ComparisonState::Same),
                (1, "slot-1", ComparisonState::Different),
                (2, "slot-2", ComparisonState::NotFound),
                (3, "", ComparisonState::New),
            ]
        );
        let differ: Vec<_> = found[1].bindings.iter().filter(|one| one.differs).collect();
        assert_eq!(differ.len(), 1);
        assert_eq!(
            (
                differ[0].field.as_str(),
                differ[0].approved.as_str(),
                differ[0].found.as_str()
            ),
            ("fabric_vf_pci_address", "0000:9a:00.1", "0000:1a:00.2")
        );
        assert!(found[3].bindings.iter().all(|one| one.approved.is_empty()));
    }

    #[test]
    fn what_neither_side_has_is_left_out() {
        let found = compare(&[(0, samples::lab(1))], &[]);
        let fields: Vec<&str> = found[0]
            .bindings
            .iter()
            .map(|one| one.field.as_str())
            .collect();
        assert_eq!(
            fields,
            [
                "nvme_device",
                "nvme_bytes",
                "storage_identity_kind",
                "management_mac",
                "private_ip"
            ]
        );
    }
}
