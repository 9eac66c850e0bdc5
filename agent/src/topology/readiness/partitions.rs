//! NVSwitch partitions: Fabric Manager answers, and offers every GPU.
use std::collections::{BTreeMap, BTreeSet};

use super::CheckResult;
use crate::checks::{FABRIC_MANAGER, GPU_PARTITIONS};
use crate::gpu_fabric::{PartitionId, Table};
use crate::host::blocking;
use crate::node::Node;
use crate::topology::pci::{self, PciKind};
use crate::topology::platform::Platform;

/// Both checks of the partitions.
pub(super) async fn all(node: &Node) -> Vec<CheckResult> {
    let both = [&FABRIC_MANAGER, &GPU_PARTITIONS];
    let Some(fabric) = &node.gpu_fabric else {
        let why = "the settings name no Fabric Manager";
        return both.map(|check| CheckResult::skip(check, why)).into();
    };
    let table = match fabric.table().await {
        Ok(table) => table,
        Err(error) => {
            return vec![
                CheckResult::judge(&FABRIC_MANAGER, false, error.to_string()),
                CheckResult::skip(&GPU_PARTITIONS, "Fabric Manager does not report its table"),
            ];
        }
    };
    let answers = format!("it offers {} partitions", table.partitions.len());
    let owned = node.journal.partitions();
    let owned: Result<BTreeSet<PartitionId>, _> = owned.map(|rows| {
        rows.iter()
            .filter_map(|row| Some(table.journaled(row)?.id))
            .collect()
    });
    let second = match owned {
        Ok(owned) => {
            let gpus = blocking::here(|| modules(node));
            let good = format!("{} GPUs have a partition each", gpus.len());
            CheckResult::of_devices(&GPU_PARTITIONS, faults(&table, &gpus, &owned), good)
        }
        Err(error) => CheckResult::skip(&GPU_PARTITIONS, error.to_string()),
    };
    vec![CheckResult::pass(&FABRIC_MANAGER, answers), second]
}

/// GPUs on the bus by address, each with its module id where it is known.
fn modules(node: &Node) -> BTreeMap<String, Option<u32>> {
    let platform = Platform::kept(&node.root);
    let gpus = pci::devices(&node.root);
    gpus.iter()
        .filter(|one| one.kind == PciKind::Gpu && one.dead.is_none())
        .map(|one| (one.address.to_string(), platform.module_id(&one.address)))
        .collect()
}

/// GPUs that cannot be connected, each with why. A pure function.
fn faults(
    table: &Table,
    gpus: &BTreeMap<String, Option<u32>>,
    owned: &BTreeSet<PartitionId>,
) -> Vec<(String, String)> {
    let foreign: Vec<_> = table
        .active()
        .filter(|one| !owned.contains(&one.id))
        .collect();
    let fault = |module: Option<u32>| {
        let Some(module) = module else {
            return Some("has no known module id, by which Fabric Manager calls it".to_owned());
        };
        if table.of(&[module].into()).is_none() {
            return Some(format!(
                "(module {module}) has no partition: Fabric Manager leaves out a GPU that is sick"
            ));
        }
        let other = foreign.iter().find(|one| one.modules.contains(&module))?;
        Some(format!(
            "(module {module}) is in partition {}, which is active and of no VM of this host",
            other.id
        ))
    };
    gpus.iter()
        .filter_map(|(address, module)| Some((address.clone(), fault(*module)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu_fabric::Partition;

    /// The table of an HGX board of four GPUs without those that have one of these modules.
    fn table(sick: &[u32], active: &[u32]) -> Table {
        let sets: [&[u32]; 6] = [&[1, 2, 3, 4], &[1, 3], &[1], &[2], &[3], &[4]];
        let partitions = (0..).zip(sets).map(|(id, set)| Partition {
            id,
            active: active.contains(&id),
            modules: set.iter().copied().collect(),
        });
        Table {
            partitions: partitions
                .filter(|one| sick.iter().all(|module| !one.modules.contains(module)))
                .collect(),
        }
    }

    #[test]
    fn d_96_a_gpu_that_fabric_manager_leaves_out_is_out_of_service_alone() {
        let gpus: BTreeMap<String, Option<u32>> =
            (1..=4).map(|id| (format!("gpu{id}"), Some(id))).collect();
        let named = |table: Table, owned: &[u32]| {
            let owned = owned.iter().copied().collect();
            let found = faults(&table, &gpus, &owned).into_iter();
            found.map(|(device, _)| device).collect::<Vec<_>>()
        };
        assert!(named(table(&[], &[]), &[]).is_empty());
        assert_eq!(named(table(&[3], &[]), &[]), ["gpu3"]);
        assert!(named(table(&[], &[1]), &[1]).is_empty(), "of a VM here");
        assert_eq!(named(table(&[], &[1]), &[2]), ["gpu1", "gpu3"]);

        let unknown = [("gpu9".to_owned(), None)].into();
        let found = faults(&table(&[], &[]), &unknown, &BTreeSet::new());
        assert!(found[0].1.contains("module id"), "{found:?}");
    }
}
