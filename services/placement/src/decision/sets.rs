//! Which slots of a node may be sold together, and what taking them costs: bit operations over the legal groups.
use std::collections::BTreeSet;

use super::{CandidateNode, CandidateSlot, Choice, Request, Score, fabric_key};

/// Sets of usable slots that may be sold together.
pub(super) fn legal_sets<'a>(
    request: &Request,
    node: &CandidateNode,
    of_class: &[&'a CandidateSlot],
    usable: &[&'a CandidateSlot],
) -> Vec<Vec<&'a CandidateSlot>> {
    if request.gpu_count == 1 {
        return usable.iter().map(|slot| vec![*slot]).collect();
    }
    let mut sets: Vec<Vec<&CandidateSlot>> = node
        .legal_groups
        .iter()
        .filter(|group| group.len() == request.gpu_count)
        .map(|group| {
            usable
                .iter()
                .copied()
                .filter(|slot| slot.module_id.is_some_and(|id| group.contains(&id)))
                .collect()
        })
        .filter(|set: &Vec<_>| set.len() == request.gpu_count)
        .collect();
    let whole_board = request.gpu_count == of_class.len() && usable.len() == of_class.len();
    if sets.is_empty() && whole_board && node.legal_groups.is_empty() {
        sets.push(usable.to_vec());
    }
    sets
}

/// Two slots of one set must not need the same fabric device alone (B-56).
pub(super) fn shares_fabric(set: &[&CandidateSlot], node: &CandidateNode) -> bool {
    let mut seen = BTreeSet::new();
    set.iter()
        .map(|slot| fabric_key(slot, node))
        .filter(|key| !key.is_empty())
        .any(|key| !seen.insert(key))
}

pub(super) fn choice(
    node: &CandidateNode,
    of_class: &[&CandidateSlot],
    usable: &[&CandidateSlot],
    set: &[&CandidateSlot],
) -> Choice {
    let mut slots = set.to_vec();
    slots.sort_by_key(|slot| slot.index);
    let chosen = mask(of_class, set);
    let free = mask(of_class, usable);
    let broken = group_masks(node, of_class)
        .into_iter()
        .filter(|group| {
            group & !free == 0 && group & chosen != 0 && group.count_ones() as usize > set.len()
        })
        .map(u64::count_ones)
        .sum();
    let numa: BTreeSet<Option<i32>> = set.iter().map(|slot| slot.numa_node).collect();
    Choice {
        node_id: node.id,
        slot_ids: slots.iter().map(|slot| slot.id).collect(),
        score: Score {
            numa_nodes: numa.len(),
            clean_node: !node.slots.iter().any(|slot| slot.held),
            broken_groups: broken,
            left_over: u32::try_from(usable.len() - set.len()).unwrap_or(u32::MAX),
            image_missing: !node.has_image,
            node_id: node.id,
            indexes: slots.iter().map(|slot| slot.index).collect(),
        },
    }
}

/// Bits of `of_class` that are in `set`.
fn mask(of_class: &[&CandidateSlot], set: &[&CandidateSlot]) -> u64 {
    of_class
        .iter()
        .take(64)
        .enumerate()
        .filter(|(_, slot)| set.iter().any(|other| other.id == slot.id))
        .fold(0, |mask, (bit, _)| mask | 1 << bit)
}

/// The legal groups of a node as masks over its slots; a group with a GPU that is no slot is left out.
fn group_masks(node: &CandidateNode, of_class: &[&CandidateSlot]) -> Vec<u64> {
    node.legal_groups
        .iter()
        .filter_map(|group| {
            let bits = of_class
                .iter()
                .take(64)
                .enumerate()
                .filter(|(_, slot)| slot.module_id.is_some_and(|id| group.contains(&id)));
            let mask = bits.fold(0u64, |mask, (bit, _)| mask | 1 << bit);
            (mask.count_ones() as usize == group.len()).then_some(mask)
        })
        .collect()
}
