//! Which NVSwitch partition each allocation has.
use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, params};

use super::{Journal, corrupt};
use crate::error::HostResult;
use crate::ids::AllocationId;

/// A partition that an allocation has, or may have: it is written before the partition is activated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionRow {
    /// Fabric Manager's number.
    pub id: u32,
    pub allocation: AllocationId,
    /// Module ids of its GPUs; none in a row of an agent that kept the number alone.
    pub modules: BTreeSet<u32>,
}

impl Journal {
    /// All of them, in order of their numbers.
    pub fn partitions(&self) -> HostResult<Vec<PartitionRow>> {
        self.with(|connection| {
            let mut statement = connection.prepare(
                "SELECT partition_id, allocation_id, modules FROM gpu_partitions ORDER BY partition_id",
            )?;
            let rows = statement.query_map([], |row| {
                let modules = row.get::<_, String>(2)?;
                Ok((row.get::<_, u32>(0)?, row.get::<_, String>(1)?, modules))
            })?;
            let mut found = Vec::new();
            for row in rows {
                let (id, allocation, modules) = row?;
                found.push(PartitionRow {
                    id,
                    allocation: allocation.parse()?,
                    modules: serde_json::from_str(&modules)
                        .map_err(|_| corrupt("list of modules"))?,
                });
            }
            Ok(found)
        })
    }

    /// Notes that an allocation has this partition, in place of any before. False: another allocation has it.
    pub fn take_partition(&self, row: &PartitionRow) -> HostResult<bool> {
        let modules = serde_json::json!(row.modules).to_string();
        self.with(|connection| {
            let transaction = connection.transaction()?;
            let (id, allocation) = (row.id, row.allocation.to_string());
            let sql = "SELECT allocation_id FROM gpu_partitions WHERE partition_id = ?1";
            let owner: Option<String> = transaction
                .query_row(sql, params![id], |row| row.get(0))
                .optional()?;
            if owner.is_some_and(|owner| owner != allocation) {
                return Ok(false);
            }
            transaction.execute(
                "INSERT OR REPLACE INTO gpu_partitions (partition_id, allocation_id, modules) VALUES (?1, ?2, ?3)",
                params![id, allocation, modules],
            )?;
            transaction.commit()?;
            Ok(true)
        })
    }

    /// Forgets the partition of an allocation: it is not active any more.
    pub fn drop_partition(&self, allocation: AllocationId) -> HostResult<()> {
        self.with(|connection| {
            let sql = "DELETE FROM gpu_partitions WHERE allocation_id = ?1";
            connection.execute(sql, params![allocation.to_string()])?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;
    use uuid::Uuid;

    use super::*;

    /// An agent of a version before wrote no modules, and goes on writing none when it is put back.
    #[test]
    fn d_10_a_partition_of_an_older_agent_is_one_of_unknown_gpus() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.sqlite");
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch(
                "CREATE TABLE gpu_partitions (partition_id INTEGER PRIMARY KEY, allocation_id TEXT NOT NULL UNIQUE) STRICT",
            )
            .unwrap();
        let [old, new] = [3, 8].map(|id| PartitionRow {
            id,
            allocation: AllocationId(Uuid::now_v7()),
            modules: BTreeSet::new(),
        });
        let insert = |row: &PartitionRow| {
            let sql = "INSERT OR REPLACE INTO gpu_partitions (partition_id, allocation_id) VALUES (?1, ?2)";
            connection
                .execute(sql, params![row.id, row.allocation.to_string()])
                .unwrap();
        };
        insert(&old);
        let journal = Journal::open(&path).unwrap();
        let new = PartitionRow {
            modules: [2].into(),
            ..new
        };
        assert!(journal.take_partition(&new).unwrap());
        drop(journal);
        let journal = Journal::open(&path).unwrap();
        assert_eq!(journal.partitions().unwrap(), [old, new.clone()]);
        insert(&new);
        assert!(journal.partitions().unwrap()[1].modules.is_empty());
    }
}
