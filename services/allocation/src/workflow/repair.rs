//! Repair of a slot: what may be left of a VM is removed, the disk is wiped and proven empty, the slot is
//! schedulable again. The only way out of `cleanup_blocked` (CON-25).

use std::time::Duration;

use futures::future::BoxFuture;
use gpuaas_common::time::proto_duration;
use gpuaas_placement::node_tasks::{self, TaskType};
use gpuaas_placement::repair;
use gpuaas_proto::gpuaas::agent::v1::{
    FailureClass, LeasePurpose, OperationState, RepairSlotRequest,
};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::json;
use sqlx::PgConnection;

use super::failure::StepError;
use super::host::Host;
use super::lease;
use super::operation::{Order, drive, output};
use super::proof::{proven, recorded};
use super::subject::{self, ledger};
use super::table::{Definition, Effect, OnFailure, Step, StepResult};
use super::work::Work;
use crate::config::WIPE_SECONDS;

/// The workflow.
pub static DEFINITION: Definition = Definition {
    kind: "repair",
    // a wipe takes what its disk needs; every step has its own bound
    bounded: false,
    steps: &[
        Step {
            records: "lease id and the host instance that is repaired on",
            ..lease::acquire(acquire_lease, Duration::from_secs(120))
        },
        Step {
            name: "clean_up",
            effect: Effect::Outside(super::clean_up::clean_up),
            records: "the host operation",
            deadline: Duration::from_secs(300),
            on_failure: OnFailure::Undo,
            undo: None,
            shown: None,
        },
        Step {
            name: "repair_slot",
            effect: Effect::Wipe(repair_slot),
            records: "the host operation with its wipe evidence",
            deadline: Duration::from_secs(WIPE_SECONDS),
            on_failure: OnFailure::Undo,
            undo: None,
            shown: None,
        },
        Step {
            name: "complete_repair",
            effect: Effect::Ledger(complete_repair),
            records: "nothing; the ledger says available with evidence",
            deadline: Duration::from_secs(300),
            on_failure: OnFailure::Undo,
            undo: None,
            shown: None,
        },
        lease::RELEASE_LEASE,
    ],
    at_failure: &[Step {
        name: "fail_repair",
        effect: Effect::Ledger(fail_repair),
        records: "nothing; the ledger says cleanup_blocked",
        deadline: Duration::from_secs(60),
        on_failure: OnFailure::RetryUntilDone,
        undo: None,
        shown: None,
    }],
};

fn acquire_lease(work: &Work) -> BoxFuture<'_, StepResult> {
    Box::pin(async move {
        let subject = subject::under_repair(work).await?;
        let host = Host::of_subject(&work.deps, &subject)?;
        host.acquire(work, &subject, LeasePurpose::Repair).await?;
        Ok(json!({"lease_id": work.lease(), "instance_id": subject.instance_id}))
    })
}

fn repair_slot(work: &Work) -> BoxFuture<'_, StepResult> {
    Box::pin(async move {
        let subject = subject::under_repair(work).await?;
        let request = RepairSlotRequest {
            operation_id: String::new(),
            lease_id: String::new(),
            allocation_id: subject.allocation_id.to_string(),
            budget: Some(proto_duration(work.left)),
        };
        let host = Host::of_subject(&work.deps, &subject)?;
        let order = Order {
            task_type: TaskType::SlotRepair,
            purpose: LeasePurpose::Repair,
            payload: json!({"budget_seconds": work.left.as_secs()}),
            start: &|host: &Host, operation_id, lease_id| {
                let request = RepairSlotRequest {
                    operation_id,
                    lease_id,
                    ..request.clone()
                };
                let mut vms = host.vms.clone();
                Box::pin(async move { vms.repair_slot(request).await })
            },
            around: (0, 0),
        };
        let operation = drive(work, &host, &subject, &order).await?;
        if operation.state() == OperationState::Failed {
            let failed = StepError::of_operation(
                "repair",
                operation.failure.as_ref().unwrap_or(&Default::default()),
            );
            return Err(failed.until_clock_is_set());
        }
        Ok(
            json!({"operation": output(&operation), "evidence": proven(work, &subject, &operation)?}),
        )
    })
}

fn complete_repair<'a>(work: &'a Work, conn: &'a mut PgConnection) -> BoxFuture<'a, StepResult> {
    Box::pin(async move {
        let proofs = recorded(work, "repair_slot")?.proofs;
        let slot_id = work.slot_id()?;
        let missing = || {
            StepError::fail(
                ErrorReason::WipeNotProven,
                "no evidence of the slot",
                FailureClass::Host,
            )
        };
        let proof = proofs
            .iter()
            .find(|proof| proof.slot_id == slot_id)
            .ok_or_else(missing)?;
        let _ = repair::complete(conn, work.fence(), slot_id, proof)
            .await
            .map_err(ledger)?;
        Ok(json!({}))
    })
}

fn fail_repair<'a>(work: &'a Work, conn: &'a mut PgConnection) -> BoxFuture<'a, StepResult> {
    Box::pin(async move {
        let detail = work.failure().detail_of("repair");
        let _ = repair::fail(conn, work.fence(), work.slot_id()?, &detail)
            .await
            .map_err(ledger)?;
        node_tasks::abandon(conn, work.taken.allocation_id, work.taken.slot_id).await?;
        Ok(json!({}))
    })
}
