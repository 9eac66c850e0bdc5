//! Fabric Manager's table of partitions, as `fmpm -l` writes it.
use std::collections::BTreeSet;

use serde::Deserialize;

use crate::journal::PartitionRow;

/// Most partitions that Fabric Manager knows (`FM_MAX_FABRIC_PARTITIONS`).
const MAX_PARTITIONS: u32 = 64;
/// More modules than any board has.
pub const MAX_MODULE: u32 = 1024;

/// Fabric Manager's number of a partition.
pub type PartitionId = u32;

/// GPUs that are connected with each other and with nobody else when the partition is active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    pub id: PartitionId,
    pub active: bool,
    /// Module ids of its GPUs.
    pub modules: BTreeSet<u32>,
}

/// All partitions that a board offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    pub partitions: Vec<Partition>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    num_partitions: u32,
    partition_info: Vec<Info>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Info {
    partition_id: u32,
    is_active: u8,
    num_gpus: u32,
    gpu_info: Vec<Gpu>,
}

/// Address and UUID of a GPU are empty on boards of the H100 and later: its module id alone says which one it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Gpu {
    physical_id: u32,
}

impl Table {
    /// Reads an answer of `fmpm -l`.
    ///
    /// # Errors
    /// It is something else, or contradicts itself.
    pub fn parse(text: &str) -> Result<Self, String> {
        let answer: Answer = serde_json::from_str(text).map_err(|error| error.to_string())?;
        counted(
            "numPartitions",
            answer.num_partitions,
            &answer.partition_info,
        )?;
        let (mut ids, mut sets) = (BTreeSet::new(), BTreeSet::new());
        let mut partitions = Vec::new();
        for info in answer.partition_info {
            let id = info.partition_id;
            if id >= MAX_PARTITIONS {
                return Err(format!("partition {id} is not below {MAX_PARTITIONS}"));
            }
            counted("numGpus", info.num_gpus, &info.gpu_info)?;
            let modules: BTreeSet<u32> = info.gpu_info.iter().map(|one| one.physical_id).collect();
            if modules.is_empty() || modules.len() != info.gpu_info.len() {
                return Err(format!("partition {id} has no GPU, or one of them twice"));
            }
            if modules.iter().any(|module| *module > MAX_MODULE) {
                return Err(format!(
                    "a module id of partition {id} is above {MAX_MODULE}"
                ));
            }
            if info.is_active > 1 {
                return Err(format!("partition {id} is neither active nor inactive"));
            }
            if !ids.insert(id) || !sets.insert(modules.clone()) {
                return Err(format!("partition {id} is there twice"));
            }
            partitions.push(Partition {
                id,
                active: info.is_active == 1,
                modules,
            });
        }
        Ok(Self { partitions })
    }

    /// The partition of a number.
    pub fn get(&self, id: PartitionId) -> Option<&Partition> {
        self.partitions.iter().find(|one| one.id == id)
    }

    /// The partition of exactly these GPUs.
    pub fn of(&self, modules: &BTreeSet<u32>) -> Option<&Partition> {
        self.partitions.iter().find(|one| one.modules == *modules)
    }

    /// The partition of a row: that of its GPUs, whatever its number is today.
    pub fn journaled(&self, row: &PartitionRow) -> Option<&Partition> {
        match row.modules.is_empty() {
            true => self.get(row.id),
            false => self.of(&row.modules),
        }
    }

    /// Those that are active.
    pub fn active(&self) -> impl Iterator<Item = &Partition> {
        self.partitions.iter().filter(|one| one.active)
    }
}

fn counted<T>(field: &str, count: u32, list: &[T]) -> Result<(), String> {
    match usize::try_from(count) == Ok(list.len()) {
        true => Ok(()),
        false => Err(format!("{field} is {count} and {} are listed", list.len())),
    }
}

/// Module ids as people write them: "1, 3".
pub fn listed(modules: &BTreeSet<u32>) -> String {
    let all: Vec<String> = modules.iter().map(u32::to_string).collect();
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u32, active: u32, gpus: &[u32]) -> String {
        let list: Vec<String> = gpus
            .iter()
            .map(|id| {
                format!(r#"{{"physicalId":{id},"uuid":"","pciBusId":"","maxNumNvLinks":18}}"#)
            })
            .collect();
        format!(
            r#"{{"partitionId":{id},"isActive":{active},"numGpus":{},"gpuInfo":[{}]}}"#,
            gpus.len(),
            list.join(",")
        )
    }

    fn table(count: u32, entries: &[String]) -> String {
        format!(
            r#"{{"version":33558288,"numPartitions":{count},"maxNumPartitions":64,"partitionInfo":[{}]}}"#,
            entries.join(",")
        )
    }

    #[test]
    fn b_43_a_table_of_partitions_is_read_as_fmpm_writes_it() {
        let text = table(2, &[entry(3, 1, &[3, 1]), entry(7, 0, &[1])]);
        let read = Table::parse(&text).unwrap();
        let pair = read.of(&[1, 3].into()).unwrap();
        assert_eq!((pair.id, pair.active), (3, true));
        assert_eq!(read.get(7).unwrap().modules, [1].into());
        assert_eq!(read.active().count(), 1);
        assert_eq!(read.of(&[1, 2].into()), None);
        assert!(Table::parse(&table(0, &[])).unwrap().partitions.is_empty());
    }

    #[test]
    fn b_43_a_table_that_contradicts_itself_is_none() {
        let good = || entry(1, 0, &[1]);
        for (bad, why) in [
            (String::new(), "EOF"),
            ("{}".into(), "numPartitions"),
            (
                "Failed to get partition list. fmReturn: -8".into(),
                "expected",
            ),
            (table(2, &[good()]), "numPartitions is 2"),
            (table(2, &[good(), entry(1, 0, &[2])]), "twice"),
            (table(2, &[good(), entry(2, 0, &[1])]), "twice"),
            (table(1, &[entry(64, 0, &[1])]), "not below 64"),
            (table(1, &[entry(1, 2, &[1])]), "neither"),
            (table(1, &[entry(1, 0, &[])]), "no GPU"),
            (table(1, &[entry(1, 0, &[4, 4])]), "twice"),
            (table(1, &[entry(1, 0, &[70_000])]), "above"),
            (
                table(1, &[good().replace("\"numGpus\":1", "\"numGpus\":2")]),
                "numGpus is 2",
            ),
        ] {
            let refused = Table::parse(&bad).unwrap_err();
            assert!(refused.contains(why), "{bad}: {refused}");
        }
    }
}
