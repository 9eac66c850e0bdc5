//! The state in which the last operation left each VM. It distinguishes an unexpected shutdown from one by the VM's
//! owner.
use rusqlite::{Connection, params};

use super::{Journal, Kind};
use crate::error::HostResult;
use crate::ids::AllocationId;

/// What the last operation left a VM in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PowerRow {
    /// Whose VM.
    pub allocation: AllocationId,
    /// It ran; else it was shut off.
    pub running: bool,
    /// Boot of the host in which that was.
    pub boot_id: String,
}

impl Journal {
    /// The recorded states of every VM.
    pub fn power(&self) -> HostResult<Vec<PowerRow>> {
        self.with(|connection| {
            let mut statement = connection.prepare(
                "SELECT allocation_id, running, boot_id FROM power ORDER BY allocation_id",
            )?;
            let rows = statement.query_map([], |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, bool>(1)?,
                    row.get::<_, String>(2)?,
                ))
            })?;
            let mut found = Vec::new();
            for row in rows {
                let (allocation, running, boot_id) = row?;
                found.push(PowerRow {
                    allocation: allocation.parse()?,
                    running,
                    boot_id,
                });
            }
            Ok(found)
        })
    }
}

/// Records what an operation that ended left behind; a failed one leaves an unknown state. An operation never
/// outlives the boot it began in.
pub(super) fn ended(
    connection: &Connection,
    allocation: &str,
    kind: Kind,
    boot_id: &str,
    succeeded: bool,
) -> HostResult<()> {
    let running = match kind {
        Kind::Provision | Kind::Start | Kind::Reboot | Kind::Rescue if succeeded => Some(true),
        Kind::Stop if succeeded => Some(false),
        _ => None,
    };
    match running {
        Some(running) => connection.execute(
            "INSERT INTO power (allocation_id, running, boot_id) VALUES (?1, ?2, ?3)
             ON CONFLICT (allocation_id) DO UPDATE SET running = excluded.running, boot_id = excluded.boot_id",
            params![allocation, running, boot_id],
        )?,
        None => connection.execute(
            "DELETE FROM power WHERE allocation_id = ?1",
            params![allocation],
        )?,
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::agent::v1 as pb;
    use uuid::Uuid;

    use super::*;
    use crate::host::clock::BootMoment;
    use crate::ids::OperationId;
    use crate::journal::{Failure, NewOperation};

    #[test]
    fn the_last_operation_says_what_a_vm_was_left_in() {
        let journal = Journal::in_memory().unwrap();
        let allocation = AllocationId(Uuid::now_v7());
        let begin = |kind, boot: &str| {
            let id = OperationId(Uuid::now_v7());
            let new = NewOperation {
                id,
                kind,
                allocation,
                request: Vec::new(),
                request_hash: String::new(),
                lease: None,
                lease_request: pb::AcquireLeaseRequest::default(),
                plan: pb::BundlePlan::default(),
                traceparent: String::new(),
                deadline: BootMoment {
                    boot_id: boot.into(),
                    nanos: 1,
                },
                started_ms: 0,
                steps: Vec::new(),
            };
            journal.start_operation(&new).unwrap();
            id
        };
        let left = || {
            let rows = journal.power().unwrap();
            rows.first().map(|row| (row.running, row.boot_id.clone()))
        };
        for (kind, boot, expected) in [
            (Kind::Provision, "one", Some((true, "one".to_owned()))),
            (Kind::Stop, "one", Some((false, "one".to_owned()))),
            (Kind::Start, "two", Some((true, "two".to_owned()))),
            (Kind::Rescue, "two", Some((true, "two".to_owned()))),
            (Kind::Release, "two", None),
        ] {
            let id = begin(kind, boot);
            let result = pb::HostOperation::default();
            journal.succeed(id, &result, 1, &[]).unwrap();
            assert_eq!(left(), expected, "{kind:?}");
        }
        let id = begin(Kind::Start, "two");
        journal
            .succeed(id, &pb::HostOperation::default(), 1, &[])
            .unwrap();
        let id = begin(Kind::Reboot, "two");
        let failure = Failure {
            reason: "GUEST_NO_LOGIN".into(),
            message: String::new(),
            step: String::new(),
            class: 0,
            host_clean: false,
            serial_log_end: String::new(),
        };
        journal.fail(id, &failure, 1).unwrap();
        assert_eq!(left(), None, "nobody knows what a failed reboot left");
    }
}
