//! Writing and reading operations and their steps.
use gpuaas_proto::gpuaas::agent::v1 as pb;
use prost::Message;
use rusqlite::{Connection, OptionalExtension, params};

use super::lease_rows::{close_holds, live_lease};
use super::rows::{Failure, Kind, NewOperation, OperationRow, State, StepRow, StepStatus};
use super::{Journal, corrupt, from_sql, power, to_sql};
use crate::error::{HostError, HostResult};
use crate::host::clock::BootMoment;
use crate::ids::{AllocationId, OperationId, SlotId, Token};

impl Journal {
    /// Records an operation, after its lease was checked in the same transaction: one that ends meanwhile begins nothing.
    /// The same id with the same request is no error and changes nothing; another request is refused with
    /// OPERATION_CONFLICT. Returns whether it is new.
    pub fn start_operation(&self, new: &NewOperation) -> HostResult<bool> {
        let done = self.with(|connection| {
            let transaction = connection.transaction()?;
            let existing: Option<(String, String)> = transaction
                .query_row(
                    "SELECT kind, request_hash FROM operations WHERE operation_id = ?1",
                    params![new.id.to_string()],
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )
                .optional()?;
            if let Some((kind, hash)) = existing {
                if kind == new.kind.as_str() && hash == new.request_hash {
                    return Ok(false);
                }
                return Err(HostError::host(
                    gpuaas_proto::gpuaas::errors::v1::ErrorReason::OperationConflict,
                    format!("operation {} exists with another request", new.id),
                ));
            }
            let leased = match &new.lease {
                Some((lease, now)) => Some(live_lease(&transaction, *lease, new.allocation, now)?),
                None => None,
            };
            let (lease_request, plan) = match &leased {
                Some(lease) => (&lease.request, &lease.plan),
                None => (&new.lease_request, &new.plan),
            };
            transaction.execute(
                "INSERT INTO operations (operation_id, kind, allocation_id, request, request_hash, lease_request, plan,
                     traceparent, state, boot_id, deadline_nanos, started_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'running', ?9, ?10, ?11)",
                params![
                    new.id.to_string(),
                    new.kind.as_str(),
                    new.allocation.to_string(),
                    new.request,
                    new.request_hash,
                    lease_request.encode_to_vec(),
                    plan.encode_to_vec(),
                    new.traceparent,
                    new.deadline.boot_id,
                    to_sql(new.deadline.nanos),
                    new.started_ms
                ],
            )?;
            for (position, name) in new.steps.iter().enumerate() {
                transaction.execute(
                    "INSERT INTO steps (operation_id, position, name, state) VALUES (?1, ?2, ?3, 'pending')",
                    params![new.id.to_string(), to_sql(position as u64), name],
                )?;
            }
            transaction.commit()?;
            Ok(true)
        })?;
        self.wake();
        Ok(done)
    }

    /// The operation with this id.
    pub fn operation(&self, id: OperationId) -> HostResult<Option<OperationRow>> {
        self.with(|connection| operation(connection, id))
    }

    /// The message that launched an allocation's VM, while the host holds something for it.
    pub fn launch(&self, allocation: AllocationId) -> HostResult<Option<Vec<u8>>> {
        let sql = "SELECT request FROM operations
             WHERE kind = 'provision' AND allocation_id = ?1
                 AND EXISTS (SELECT 1 FROM holds WHERE holds.allocation_id = ?1)
             ORDER BY started_ms DESC LIMIT 1";
        self.with(|connection| {
            let found =
                connection.query_row(sql, params![allocation.to_string()], |row| row.get(0));
            Ok(found.optional()?)
        })
    }

    /// The operation that launched an allocation's VM, once the VM had its seed and while the host holds something for it.
    pub fn launched(&self, allocation: AllocationId) -> HostResult<Option<OperationRow>> {
        self.last(Kind::Provision, allocation)
    }

    /// The last rescue of an allocation's VM, once it had its seed and while the host holds something for it.
    pub fn last_rescue(&self, allocation: AllocationId) -> HostResult<Option<OperationRow>> {
        self.last(Kind::Rescue, allocation)
    }

    fn last(&self, kind: Kind, allocation: AllocationId) -> HostResult<Option<OperationRow>> {
        let sql = "SELECT operation_id FROM operations
             WHERE kind = ?2 AND allocation_id = ?1
                 AND EXISTS (SELECT 1 FROM holds WHERE holds.allocation_id = ?1)
                 AND EXISTS (SELECT 1 FROM steps WHERE steps.operation_id = operations.operation_id
                     AND steps.name = 'seed' AND steps.state = 'done')
             ORDER BY started_ms DESC LIMIT 1";
        self.with(|connection| {
            let id: Option<String> = connection
                .query_row(sql, params![allocation.to_string(), kind.as_str()], |row| {
                    row.get(0)
                })
                .optional()?;
            id.map_or(Ok(None), |id| operation(connection, id.parse()?))
        })
    }

    /// Operations that had not ended.
    pub fn running_operations(&self) -> HostResult<Vec<OperationRow>> {
        self.with(|connection| {
            let mut statement = connection
                .prepare("SELECT operation_id FROM operations WHERE state = 'running' ORDER BY started_ms, operation_id")?;
            let ids: Vec<String> = statement
                .query_map([], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            let mut rows = Vec::new();
            for id in ids {
                rows.extend(operation(connection, id.parse()?)?);
            }
            Ok(rows)
        })
    }

    /// Forgets operations that ended before this time, the oldest first and at most `most` of them; returns how many.
    /// Between two calls others get their turn. The launch of a VM that is there is never old, nor is its last rescue: they are
    /// read as long as it runs.
    pub fn prune(&self, before_ms: i64, most: u32) -> HostResult<usize> {
        let sql = "DELETE FROM operations WHERE operation_id IN (
                SELECT operation_id FROM operations WHERE state <> 'running' AND ended_ms < ?1
                    AND NOT (kind = 'provision' AND allocation_id IN (SELECT allocation_id FROM holds))
                    AND NOT (kind = 'rescue' AND allocation_id IN (SELECT allocation_id FROM holds)
                        AND started_ms = (SELECT max(other.started_ms) FROM operations AS other
                            WHERE other.kind = 'rescue' AND other.allocation_id = operations.allocation_id))
                ORDER BY ended_ms LIMIT ?2)";
        self.with(|connection| Ok(connection.execute(sql, params![before_ms, most])?))
    }

    /// Records a step before its effect. A step that was begun before retains its first start time.
    pub fn begin_step(&self, id: OperationId, name: &str, now_ms: i64) -> HostResult<()> {
        self.step_sql(
            "UPDATE steps SET state = 'running', percent = 0, started_ms = coalesce(started_ms, ?3)
             WHERE operation_id = ?1 AND name = ?2",
            params![id.to_string(), name, now_ms],
        )
    }

    /// Records how far a step is.
    pub fn progress(
        &self,
        id: OperationId,
        name: &str,
        percent: u32,
        message: &str,
    ) -> HostResult<()> {
        self.step_sql(
            "UPDATE steps SET percent = ?3, message = ?4 WHERE operation_id = ?1 AND name = ?2",
            params![id.to_string(), name, percent, message],
        )
    }

    /// Records, while a step runs, what its next run needs to know; its end takes the place of this.
    pub fn note(&self, id: OperationId, name: &str, note: &serde_json::Value) -> HostResult<()> {
        self.step_sql(
            "UPDATE steps SET output = ?3 WHERE operation_id = ?1 AND name = ?2 AND state = 'running'",
            params![id.to_string(), name, note.to_string()],
        )
    }

    /// Records a step after its effect.
    pub fn end_step(
        &self,
        id: OperationId,
        name: &str,
        status: StepStatus,
        message: &str,
        output: &serde_json::Value,
        now_ms: i64,
    ) -> HostResult<()> {
        self.step_sql(
            "UPDATE steps SET state = ?3, percent = CASE WHEN ?3 = 'done' THEN 100 ELSE percent END,
                 message = ?4, output = ?5, ended_ms = ?6 WHERE operation_id = ?1 AND name = ?2",
            params![id.to_string(), name, status.as_str(), message, output.to_string(), now_ms],
        )
    }

    /// Records a step that failed. What it noted stays: it is what is known of its effect.
    pub fn fail_step(
        &self,
        id: OperationId,
        name: &str,
        message: &str,
        now_ms: i64,
    ) -> HostResult<()> {
        self.step_sql(
            "UPDATE steps SET state = ?3, message = ?4, ended_ms = ?5 WHERE operation_id = ?1 AND name = ?2",
            params![id.to_string(), name, StepStatus::Failed.as_str(), message, now_ms],
        )
    }

    /// Records why an operation fails, before its undo.
    pub fn record_failure(&self, id: OperationId, failure: &Failure) -> HostResult<()> {
        let text = serde_json::to_string(failure).map_err(|_| corrupt("failure"))?;
        self.step_sql(
            "UPDATE operations SET failure = ?2 WHERE operation_id = ?1",
            params![id.to_string(), text],
        )
    }

    /// Ends an operation with its failure.
    pub fn fail(&self, id: OperationId, failure: &Failure, now_ms: i64) -> HostResult<()> {
        let text = serde_json::to_string(failure).map_err(|_| corrupt("failure"))?;
        self.with(|connection| {
            let transaction = connection.transaction()?;
            let (allocation, kind, boot_id) = of_power(&transaction, id)?;
            power::ended(&transaction, &allocation, kind, &boot_id, false)?;
            transaction.execute(
                "UPDATE operations SET failure = ?2, state = 'failed', ended_ms = ?3 WHERE operation_id = ?1",
                params![id.to_string(), text, now_ms],
            )?;
            transaction.commit()?;
            Ok(())
        })?;
        self.wake();
        Ok(())
    }

    /// Ends an operation with success; the holds it proved free end in the same transaction.
    pub fn succeed(
        &self,
        id: OperationId,
        result: &pb::HostOperation,
        now_ms: i64,
        ends_holds: &[(SlotId, Token)],
    ) -> HostResult<()> {
        self.with(|connection| {
            let transaction = connection.transaction()?;
            let (allocation, kind, boot_id) = of_power(&transaction, id)?;
            power::ended(&transaction, &allocation, kind, &boot_id, true)?;
            close_holds(&transaction, ends_holds, allocation.parse()?)?;
            transaction.execute(
                "UPDATE operations SET state = 'succeeded', result = ?2, ended_ms = ?3 WHERE operation_id = ?1",
                params![id.to_string(), result.encode_to_vec(), now_ms],
            )?;
            transaction.commit()?;
            Ok(())
        })?;
        self.wake();
        Ok(())
    }

    fn step_sql(&self, sql: &str, values: impl rusqlite::Params) -> HostResult<()> {
        let changed = self.with(|connection| Ok(connection.execute(sql, values)?))?;
        if changed != 1 {
            return Err(corrupt("operation"));
        }
        self.wake();
        Ok(())
    }
}

/// Whose VM an operation works on, how, and in which boot.
fn of_power(connection: &Connection, id: OperationId) -> HostResult<(String, Kind, String)> {
    let (allocation, kind, boot_id) = connection.query_row(
        "SELECT allocation_id, kind, boot_id FROM operations WHERE operation_id = ?1",
        params![id.to_string()],
        |row| Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?)),
    )?;
    Ok((allocation, Kind::parse(&kind)?, boot_id))
}

fn operation(connection: &Connection, id: OperationId) -> HostResult<Option<OperationRow>> {
    let found = connection
        .query_row(
            "SELECT kind, allocation_id, request, request_hash, lease_request, plan, traceparent, state, failure,
                 result, boot_id, deadline_nanos, started_ms, ended_ms
             FROM operations WHERE operation_id = ?1",
            params![id.to_string()],
            |row| {
                Ok((
                    (row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, Vec<u8>>(2)?),
                    (row.get::<_, String>(3)?, row.get::<_, Vec<u8>>(4)?, row.get::<_, Vec<u8>>(5)?),
                    (row.get::<_, String>(6)?, row.get::<_, String>(7)?, row.get::<_, Option<String>>(8)?),
                    (row.get::<_, Option<Vec<u8>>>(9)?, row.get::<_, String>(10)?, row.get::<_, i64>(11)?),
                    (row.get::<_, i64>(12)?, row.get::<_, Option<i64>>(13)?),
                ))
            },
        )
        .optional()?;
    let Some((
        (kind, allocation, request),
        (request_hash, lease_request, plan),
        (traceparent, state, failure),
        (result, boot_id, deadline),
        (started_ms, ended_ms),
    )) = found
    else {
        return Ok(None);
    };
    Ok(Some(OperationRow {
        id,
        kind: Kind::parse(&kind)?,
        allocation: allocation.parse()?,
        request,
        request_hash,
        lease_request: pb::AcquireLeaseRequest::decode(lease_request.as_slice())
            .map_err(|_| corrupt("lease request"))?,
        plan: pb::BundlePlan::decode(plan.as_slice()).map_err(|_| corrupt("plan"))?,
        traceparent,
        state: State::parse(&state)?,
        failure: failure
            .map(|text| serde_json::from_str(&text))
            .transpose()
            .map_err(|_| corrupt("failure"))?,
        result: pb::HostOperation::decode(result.unwrap_or_default().as_slice())
            .map_err(|_| corrupt("result"))?,
        deadline: BootMoment {
            boot_id,
            nanos: from_sql(deadline),
        },
        started_ms,
        ended_ms,
        steps: steps(connection, id)?,
    }))
}

fn steps(connection: &Connection, id: OperationId) -> HostResult<Vec<StepRow>> {
    let mut statement = connection.prepare(
        "SELECT name, state, percent, message, output, started_ms, ended_ms FROM steps
         WHERE operation_id = ?1 ORDER BY position",
    )?;
    let rows = statement.query_map(params![id.to_string()], |row| {
        Ok((
            row.get::<_, String>(0)?,
            row.get::<_, String>(1)?,
            row.get::<_, u32>(2)?,
            row.get::<_, String>(3)?,
            row.get::<_, String>(4)?,
            row.get::<_, Option<i64>>(5)?,
            row.get::<_, Option<i64>>(6)?,
        ))
    })?;
    let mut steps = Vec::new();
    for row in rows {
        let (name, status, percent, message, output, started_ms, ended_ms) = row?;
        steps.push(StepRow {
            name,
            status: StepStatus::parse(&status)?,
            percent,
            message,
            output: serde_json::from_str(&output).map_err(|_| corrupt("step output"))?,
            started_ms,
            ended_ms,
        });
    }
    Ok(steps)
}
