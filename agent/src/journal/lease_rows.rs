//! Rows of holds, fences and leases: how they are read, bound and closed within a transaction.
use std::collections::BTreeSet;

use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use prost::Message;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{corrupt, from_sql, to_sql};
use crate::error::{HostError, HostResult};
use crate::host::clock::BootMoment;
use crate::ids::{AllocationId, LeaseId, SlotId, Token};
use crate::lease::{Elsewhere, LeaseSpec, LiveLease, Refusal, SlotFacts};

/// A hold as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldRow {
    pub slot: SlotId,
    /// Who holds it.
    pub allocation: AllocationId,
    /// Highest token observed for the slot.
    pub token: Token,
    /// Whether the disk may hold the allocation's bytes.
    pub touched: bool,
}

/// A lease as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaseRow {
    pub id: LeaseId,
    /// Whose it is.
    pub allocation: AllocationId,
    /// When it ends.
    pub expires: BootMoment,
    pub request: pb::AcquireLeaseRequest,
    /// What was planned.
    pub plan: pb::BundlePlan,
}

/// Ends the holds of these slots with proof, at the tokens that the proof was made under: that generation is closed, and
/// with it the hold and the leases end. A hold that was taken under a later generation meanwhile has no proof yet: it and
/// its lease stay.
pub(super) fn close_holds(
    connection: &Connection,
    slots: &[(SlotId, Token)],
    allocation: AllocationId,
) -> HostResult<()> {
    for (slot, token) in slots {
        let slot = slot.to_string();
        let (epoch, generation) = (to_sql(token.cell_epoch), to_sql(token.slot_generation));
        connection.execute(
            "UPDATE fences SET closed_cell_epoch = ?2, closed_generation = ?3
             WHERE slot_id = ?1 AND (closed_cell_epoch IS NULL
                 OR (closed_cell_epoch, closed_generation) < (?2, ?3))",
            params![slot, epoch, generation],
        )?;
        let later = "EXISTS (SELECT 1 FROM fences WHERE slot_id = ?1
             AND (cell_epoch, slot_generation) > (?2, ?3))";
        connection.execute(
            &format!("DELETE FROM holds WHERE slot_id = ?1 AND allocation_id = ?4 AND NOT {later}"),
            params![slot, epoch, generation, allocation.to_string()],
        )?;
        connection.execute(
            &format!(
                "DELETE FROM leases WHERE NOT {later}
                 AND lease_id IN (SELECT lease_id FROM lease_slots WHERE slot_id = ?1)"
            ),
            params![slot, epoch, generation],
        )?;
    }
    forget_launch(connection, &allocation.to_string())
}

/// Empties the request of a launch whose VM is gone: it may hold secrets of its tenant, as user data, and nothing reads it any
/// more. Its hash stays, so that the same id with another request is still refused.
pub(super) fn forget_launch(connection: &Connection, allocation: &str) -> HostResult<()> {
    connection.execute(
        "UPDATE operations SET request = x''
         WHERE kind = 'provision' AND allocation_id = ?1 AND state <> 'running'
             AND NOT EXISTS (SELECT 1 FROM holds WHERE holds.allocation_id = ?1)",
        params![allocation],
    )?;
    Ok(())
}

/// The allocation's lease, if it is live.
///
/// # Errors
/// `LEASE_REQUIRED` when it has none of this id, `LEASE_EXPIRED` when it has ended.
pub(super) fn live_lease(
    connection: &Connection,
    id: LeaseId,
    allocation: AllocationId,
    now: &BootMoment,
) -> HostResult<LeaseRow> {
    let found = lease(connection, id)?.filter(|lease| lease.allocation == allocation);
    let found = found.ok_or_else(|| {
        HostError::host(
            ErrorReason::LeaseRequired,
            format!("allocation {allocation} has no such lease"),
        )
    })?;
    if found.expires.remaining(now).is_zero() {
        return Err(HostError::host(
            ErrorReason::LeaseExpired,
            format!("lease {id} has ended"),
        ));
    }
    Ok(found)
}

/// Refuses tokens that are behind those observed for their slots, and a lease of slots that no token is shown for (P6).
pub(super) fn check_tokens(
    connection: &Connection,
    lease: LeaseId,
    tokens: &[(SlotId, Token)],
) -> HostResult<()> {
    let mut of_lease = connection.prepare("SELECT slot_id FROM lease_slots WHERE lease_id = ?1")?;
    let slots: Vec<String> = of_lease
        .query_map(params![lease.to_string()], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let shown = |slot: &String| tokens.iter().any(|(of, _)| of.to_string() == *slot);
    if !slots.iter().all(shown) {
        return Err(HostError::invalid(
            "tokens",
            "must be given for every slot of the lease",
        ));
    }
    for (slot, shown) in tokens {
        let fence = connection
            .query_row(
                "SELECT cell_epoch, slot_generation, workflow_epoch FROM fences WHERE slot_id = ?1",
                params![slot.to_string()],
                |row| token(row, 0),
            )
            .optional()?;
        if let Some(fence) = fence.filter(|fence| shown < fence) {
            return Err(Refusal::Fenced {
                slot: *slot,
                token: *shown,
                fence,
            }
            .into());
        }
    }
    Ok(())
}

pub(super) fn facts(
    connection: &Connection,
    spec: &LeaseSpec,
    now: &BootMoment,
) -> HostResult<(Vec<SlotFacts>, Vec<LiveLease>)> {
    let mut slots = Vec::new();
    for (slot, _) in spec.slots.iter() {
        let fence = connection
            .query_row(
                "SELECT cell_epoch, slot_generation, workflow_epoch, closed_cell_epoch, closed_generation
                 FROM fences WHERE slot_id = ?1",
                params![slot.to_string()],
                |row| {
                    let closed: (Option<i64>, Option<i64>) = (row.get(3)?, row.get(4)?);
                    Ok((token(row, 0)?, closed.0.zip(closed.1)))
                },
            )
            .optional()?;
        let hold: Option<String> = connection
            .query_row(
                "SELECT allocation_id FROM holds WHERE slot_id = ?1",
                params![slot.to_string()],
                |row| row.get(0),
            )
            .optional()?;
        slots.push(SlotFacts {
            slot: *slot,
            fence: fence.map(|(token, _)| token),
            closed: fence
                .and_then(|(_, closed)| closed)
                .map(|(epoch, generation)| (from_sql(epoch), from_sql(generation))),
            hold: hold.map(|id| id.parse()).transpose()?,
            elsewhere: elsewhere(connection, spec, *slot)?,
        });
    }
    let mut statement = connection.prepare(
        "SELECT lease_id, allocation_id FROM leases WHERE boot_id = ?1 AND expires_nanos > ?2",
    )?;
    let rows = statement.query_map(params![now.boot_id, to_sql(now.nanos)], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
    })?;
    let mut leases = Vec::new();
    for row in rows {
        let (id, allocation) = row?;
        let mut of_lease =
            connection.prepare("SELECT slot_id FROM lease_slots WHERE lease_id = ?1")?;
        let names: Vec<String> = of_lease
            .query_map(params![id], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let slots: BTreeSet<SlotId> = names
            .iter()
            .map(|name| name.parse())
            .collect::<Result<_, _>>()?;
        leases.push(LiveLease {
            id: id.parse()?,
            allocation: allocation.parse()?,
            slots,
        });
    }
    Ok((slots, leases))
}

/// The slot's devices that other slots were last held with.
fn elsewhere(
    connection: &Connection,
    spec: &LeaseSpec,
    slot: SlotId,
) -> HostResult<Vec<Elsewhere>> {
    let mut statement = connection.prepare(
        "SELECT d.slot_id, h.slot_id IS NOT NULL FROM slot_devices d LEFT JOIN holds h USING (slot_id)
         WHERE d.device = ?1 AND d.slot_id <> ?2 ORDER BY 2 DESC, 1",
    )?;
    let mut found = Vec::new();
    for (_, device) in spec.devices.iter().filter(|(of, _)| *of == slot) {
        let rows = statement.query_map(params![device, slot.to_string()], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?))
        })?;
        for row in rows {
            let (other, held) = row?;
            found.push(Elsewhere {
                device: device.clone(),
                slot: other.parse()?,
                held,
            });
        }
    }
    Ok(found)
}

/// Records what a slot is held with. Another slot that had it and is not held has it no more.
pub(super) fn bind_devices(
    connection: &Connection,
    spec: &LeaseSpec,
    slot: SlotId,
) -> HostResult<()> {
    let id = slot.to_string();
    connection.execute("DELETE FROM slot_devices WHERE slot_id = ?1", params![id])?;
    for (_, device) in spec.devices.iter().filter(|(of, _)| *of == slot) {
        connection.execute(
            "DELETE FROM slot_devices WHERE device = ?1",
            params![device],
        )?;
        connection.execute(
            "INSERT INTO slot_devices (slot_id, device) VALUES (?1, ?2)",
            params![id, device],
        )?;
    }
    Ok(())
}

pub(super) fn raise_fence(connection: &Connection, slot: SlotId, token: Token) -> HostResult<()> {
    connection.execute(
        "INSERT INTO fences (slot_id, cell_epoch, slot_generation, workflow_epoch) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (slot_id) DO UPDATE SET cell_epoch = excluded.cell_epoch,
             slot_generation = excluded.slot_generation, workflow_epoch = excluded.workflow_epoch
         WHERE (excluded.cell_epoch, excluded.slot_generation, excluded.workflow_epoch)
             > (cell_epoch, slot_generation, workflow_epoch)",
        params![
            slot.to_string(),
            to_sql(token.cell_epoch),
            to_sql(token.slot_generation),
            to_sql(token.workflow_epoch)
        ],
    )?;
    Ok(())
}

pub(super) fn token(row: &Row<'_>, first: usize) -> rusqlite::Result<Token> {
    Ok(Token {
        cell_epoch: from_sql(row.get(first)?),
        slot_generation: from_sql(row.get(first + 1)?),
        workflow_epoch: from_sql(row.get(first + 2)?),
    })
}

pub(super) fn lease(connection: &Connection, id: LeaseId) -> HostResult<Option<LeaseRow>> {
    let found = connection
        .query_row(
            "SELECT allocation_id, boot_id, expires_nanos, request, plan FROM leases WHERE lease_id = ?1",
            params![id.to_string()],
            |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, String>(1)?,
                    row.get::<_, i64>(2)?,
                    row.get::<_, Vec<u8>>(3)?,
                    row.get::<_, Vec<u8>>(4)?,
                ))
            },
        )
        .optional()?;
    let Some((allocation, boot_id, expires, request, plan)) = found else {
        return Ok(None);
    };
    Ok(Some(LeaseRow {
        id,
        allocation: allocation.parse()?,
        expires: BootMoment {
            boot_id,
            nanos: from_sql(expires),
        },
        request: pb::AcquireLeaseRequest::decode(request.as_slice())
            .map_err(|_| corrupt("lease request"))?,
        plan: pb::BundlePlan::decode(plan.as_slice()).map_err(|_| corrupt("plan"))?,
    }))
}
