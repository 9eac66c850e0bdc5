//! Holds, fences and leases in the journal. What may be granted is decided in [`crate::lease::decide`], on
//! facts read in the same transaction that writes the grant.
use std::time::Duration;

use gpuaas_proto::gpuaas::agent::v1 as pb;
use prost::Message;
use rusqlite::params;

use super::lease_rows::{
    HoldRow, LeaseRow, bind_devices, check_tokens, facts, forget_launch, lease, raise_fence, token,
};
use super::{Journal, corrupt, to_sql};
use crate::error::HostResult;
use crate::host::clock::BootMoment;
use crate::ids::{AllocationId, LeaseId, SlotId, Token};
use crate::lease::{Grant, LeaseSpec, Refusal, decide};

impl Journal {
    /// Decides on a request without writing anything.
    pub fn check_lease(
        &self,
        spec: &LeaseSpec,
        now: &BootMoment,
    ) -> HostResult<Result<Grant, Refusal>> {
        self.with(|connection| {
            let (slots, leases) = facts(connection, spec, now)?;
            Ok(decide(spec, &slots, &leases))
        })
    }

    /// Decides on a request and, when it is granted, writes fences, holds and the lease.
    pub fn grant_lease(
        &self,
        spec: &LeaseSpec,
        new_id: LeaseId,
        expires: &BootMoment,
        now: &BootMoment,
        request: &pb::AcquireLeaseRequest,
        plan: &pb::BundlePlan,
    ) -> HostResult<Result<LeaseRow, Refusal>> {
        self.with(|connection| {
            let transaction = connection.transaction()?;
            let (slots, leases) = facts(&transaction, spec, now)?;
            let grant = match decide(spec, &slots, &leases) {
                Ok(grant) => grant,
                Err(refusal) => return Ok(Err(refusal)),
            };
            for (slot, token) in spec.slots.iter() {
                raise_fence(&transaction, *slot, *token)?;
            }
            for slot in &grant.take_hold {
                transaction.execute(
                    "INSERT INTO holds (slot_id, allocation_id) VALUES (?1, ?2) ON CONFLICT (slot_id) DO NOTHING",
                    params![slot.to_string(), spec.allocation.to_string()],
                )?;
            }
            for facts in &slots {
                if facts.hold.is_some() || grant.take_hold.contains(&facts.slot) {
                    bind_devices(&transaction, spec, facts.slot)?;
                }
            }
            for ended in &grant.supersedes {
                transaction.execute(
                    "DELETE FROM leases WHERE lease_id = ?1",
                    params![ended.to_string()],
                )?;
            }
            // Leases that expired or belong to an earlier boot still occupy their slots' rows.
            for (slot, _) in spec.slots.iter() {
                transaction.execute(
                    "DELETE FROM leases WHERE lease_id <> ?1
                     AND lease_id IN (SELECT lease_id FROM lease_slots WHERE slot_id = ?2)",
                    params![
                        grant.same.map(|id| id.to_string()).unwrap_or_default(),
                        slot.to_string()
                    ],
                )?;
            }
            let id = grant.same.unwrap_or(new_id);
            transaction.execute(
                "INSERT INTO leases (lease_id, allocation_id, boot_id, expires_nanos, request, plan)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (lease_id) DO UPDATE SET expires_nanos = max(expires_nanos, excluded.expires_nanos),
                     request = excluded.request, plan = excluded.plan",
                params![
                    id.to_string(),
                    spec.allocation.to_string(),
                    expires.boot_id,
                    to_sql(expires.nanos),
                    request.encode_to_vec(),
                    plan.encode_to_vec()
                ],
            )?;
            for (slot, _) in spec.slots.iter() {
                transaction.execute(
                    "INSERT INTO lease_slots (slot_id, lease_id) VALUES (?1, ?2)
                     ON CONFLICT (slot_id) DO UPDATE SET lease_id = excluded.lease_id",
                    params![slot.to_string(), id.to_string()],
                )?;
            }
            let row = lease(&transaction, id)?.ok_or_else(|| corrupt("lease"))?;
            transaction.commit()?;
            Ok(Ok(row))
        })
    }

    /// The lease with this id, expired or not.
    pub fn lease(&self, id: LeaseId) -> HostResult<Option<LeaseRow>> {
        self.with(|connection| lease(connection, id))
    }

    /// All leases that are stored, expired or not.
    pub fn leases(&self) -> HostResult<Vec<LeaseRow>> {
        self.with(|connection| {
            let mut statement =
                connection.prepare("SELECT lease_id FROM leases ORDER BY lease_id")?;
            let ids: Vec<String> = statement
                .query_map([], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            let mut leases = Vec::new();
            for id in ids {
                leases.extend(lease(connection, id.parse()?)?);
            }
            Ok(leases)
        })
    }

    /// Extends a live lease; `None` when there is none with this id that is still live. Refused with FENCED when one of
    /// the caller's tokens is behind its slot's, and without a token for each slot of the lease.
    pub fn renew_lease(
        &self,
        id: LeaseId,
        tokens: &[(SlotId, Token)],
        duration: Duration,
        now: &BootMoment,
    ) -> HostResult<Option<LeaseRow>> {
        self.with(|connection| {
            check_tokens(connection, id, tokens)?;
            let expires = now.plus(duration);
            let changed = connection.execute(
                "UPDATE leases SET expires_nanos = max(expires_nanos, ?2)
                 WHERE lease_id = ?1 AND boot_id = ?3 AND expires_nanos > ?4",
                params![
                    id.to_string(),
                    to_sql(expires.nanos),
                    now.boot_id,
                    to_sql(now.nanos)
                ],
            )?;
            if changed == 1 {
                lease(connection, id)
            } else {
                Ok(None)
            }
        })
    }

    /// Ends a lease of this allocation; the hold stays. No lease is no error. Refused with FENCED when one of the
    /// caller's tokens is behind its slot's: the lease may be that of the worker that took over. Refused also without a
    /// token for each slot of the lease.
    pub fn end_lease(
        &self,
        id: LeaseId,
        allocation: AllocationId,
        tokens: &[(SlotId, Token)],
    ) -> HostResult<()> {
        self.with(|connection| {
            check_tokens(connection, id, tokens)?;
            connection.execute(
                "DELETE FROM leases WHERE lease_id = ?1 AND allocation_id = ?2",
                params![id.to_string(), allocation.to_string()],
            )?;
            Ok(())
        })
    }

    /// All holds.
    pub fn holds(&self) -> HostResult<Vec<HoldRow>> {
        self.with(|connection| {
            let mut statement = connection.prepare(
                "SELECT h.slot_id, h.allocation_id, h.touched, f.cell_epoch, f.slot_generation, f.workflow_epoch
                 FROM holds h JOIN fences f USING (slot_id) ORDER BY h.slot_id",
            )?;
            let rows = statement.query_map([], |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, String>(1)?,
                    row.get::<_, bool>(2)?,
                    token(row, 3)?,
                ))
            })?;
            let mut holds = Vec::new();
            for row in rows {
                let (slot, allocation, touched, token) = row?;
                holds.push(HoldRow {
                    slot: slot.parse()?,
                    allocation: allocation.parse()?,
                    token,
                    touched,
                });
            }
            Ok(holds)
        })
    }

    /// Ends a hold under which nothing was written, without a live lease or a running operation. The caller has proven that
    /// nothing else of the allocation is here. Returns whether it ended.
    pub fn end_empty_hold(
        &self,
        slot: SlotId,
        allocation: AllocationId,
        now: &BootMoment,
    ) -> HostResult<bool> {
        let sql = "DELETE FROM holds WHERE slot_id = ?1 AND allocation_id = ?2 AND touched = 0
             AND NOT EXISTS (SELECT 1 FROM lease_slots s JOIN leases l USING (lease_id)
                 WHERE s.slot_id = ?1 AND l.boot_id = ?3 AND l.expires_nanos > ?4)
             AND NOT EXISTS (SELECT 1 FROM operations WHERE allocation_id = ?2 AND state = 'running')";
        self.with(|connection| {
            let values = params![
                slot.to_string(),
                allocation.to_string(),
                now.boot_id,
                to_sql(now.nanos)
            ];
            let ended = connection.execute(sql, values)? == 1;
            forget_launch(connection, &allocation.to_string())?;
            Ok(ended)
        })
    }

    /// Records that the disks of these slots may hold the allocation's bytes from now on.
    pub fn mark_touched(&self, slots: &[SlotId]) -> HostResult<()> {
        self.with(|connection| {
            for slot in slots {
                connection.execute(
                    "UPDATE holds SET touched = 1 WHERE slot_id = ?1",
                    params![slot.to_string()],
                )?;
            }
            Ok(())
        })
    }

    /// Raises a slot's fence to at least this token: what the control plane hands back at enrolment.
    pub fn restore_fence(&self, slot: SlotId, token: Token) -> HostResult<()> {
        self.with(|connection| raise_fence(connection, slot, token))
    }
}
