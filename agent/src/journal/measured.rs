//! What was measured of VMs, from the end of the agent to its next start. No promise and no proof: without it a chart has a gap.
use rusqlite::params;

use super::Journal;
use crate::error::HostResult;
use crate::ids::AllocationId;

impl Journal {
    /// Keeps what was measured of these VMs, in place of all that was kept before.
    pub fn keep_measured(&self, measured: &[(AllocationId, Vec<u8>)]) -> HostResult<()> {
        self.with(|connection| {
            let transaction = connection.transaction()?;
            transaction.execute("DELETE FROM measured", [])?;
            for (allocation, series) in measured {
                transaction.execute(
                    "INSERT INTO measured (allocation_id, series) VALUES (?1, ?2)",
                    params![allocation.to_string(), series],
                )?;
            }
            transaction.commit()?;
            Ok(())
        })
    }

    /// What was kept; it is kept no longer.
    pub fn take_measured(&self) -> HostResult<Vec<(AllocationId, Vec<u8>)>> {
        self.with(|connection| {
            let sql = "DELETE FROM measured RETURNING allocation_id, series";
            let mut statement = connection.prepare(sql)?;
            let rows = statement.query_map([], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?))
            })?;
            let mut found = Vec::new();
            for row in rows {
                let (allocation, series) = row?;
                let allocation: AllocationId = allocation.parse()?;
                found.push((allocation, series));
            }
            Ok(found)
        })
    }
}
