//! Which device each slot was last held with, and whether that hold ended with proof.
use super::{Journal, from_sql};
use crate::error::HostResult;
use crate::ids::SlotId;

/// A device of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRow {
    /// Disk identity or PCI address.
    pub device: String,
    /// Slot that was last held with it.
    pub slot: SlotId,
    /// It is held now.
    pub held: bool,
    /// Generation of the slot whose hold ended with proof, the last one.
    pub proven_generation: Option<u64>,
}

impl Journal {
    /// All devices that a slot was held with.
    pub fn devices(&self) -> HostResult<Vec<DeviceRow>> {
        self.with(|connection| {
            let mut statement = connection.prepare(
                "SELECT d.device, d.slot_id, h.slot_id IS NOT NULL, f.closed_generation
                 FROM slot_devices d LEFT JOIN holds h USING (slot_id) LEFT JOIN fences f USING (slot_id)
                 ORDER BY d.device, d.slot_id",
            )?;
            let rows = statement.query_map([], |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, String>(1)?,
                    row.get::<_, bool>(2)?,
                    row.get::<_, Option<i64>>(3)?,
                ))
            })?;
            let mut found = Vec::new();
            for row in rows {
                let (device, slot, held, closed) = row?;
                found.push(DeviceRow {
                    device,
                    slot: slot.parse()?,
                    held,
                    proven_generation: closed.map(from_sql),
                });
            }
            Ok(found)
        })
    }
}
