//! Of a slice, from a login to an empty disk: the host stops and wipes, the control plane judges the proof, the slots are
//! schedulable again (C-08, C-09).
//!
//! Billing ended when the release was accepted. A host that does not answer is called again until it does; a
//! wipe that is not proven frees the user (the guest is gone) and keeps the slots unschedulable until a repair.

use std::time::Duration;

use futures::future::BoxFuture;
use gpuaas_common::time::proto_duration;
use gpuaas_placement::node_tasks::{self, TaskType};
use gpuaas_placement::release;
use gpuaas_placement::timeline::{self, State};
use gpuaas_proto::gpuaas::agent::v1::{LeasePurpose, OperationState, ReleaseRequest};
use serde_json::json;
use sqlx::PgConnection;

use super::failure::{Failure, StepError};
use super::host::Host;
use super::lease;
use super::operation::{Order, drive, output};
use super::proof::{Recorded, proven, recorded};
use super::subject::{self, ledger};
use super::table::{Definition, Effect, OnFailure, Step, StepResult};
use super::work::Work;
use crate::config::WIPE_SECONDS;
use crate::store::workflow_rows;

/// How often a release is tried on the host before the slots wait for a repair.
const ATTEMPTS: i64 = 3;
/// Own steps around the host operation that a user sees.
const AROUND: (u32, u32) = (1, 0);

/// The workflow.
pub static DEFINITION: Definition = Definition {
    kind: "release",
    bounded: false,
    steps: &[
        Step {
            // an accepted release must end, however long the host is unreachable
            on_failure: OnFailure::RetryUntilDone,
            shown: lease::REQUESTED,
            ..lease::acquire(lease::for_release, Duration::from_secs(60))
        },
        Step {
            name: "release",
            effect: Effect::Wipe(release_vm),
            records: "the host operation with its wipe evidence",
            deadline: Duration::from_secs(WIPE_SECONDS),
            on_failure: OnFailure::Undo,
            undo: Some(&Step {
                name: "clean_up",
                effect: Effect::Outside(super::clean_up::clean_up),
                records: "the host operation",
                deadline: Duration::from_secs(300),
                // the user is free only when the guest is proven gone
                on_failure: OnFailure::RetryUntilDone,
                undo: None,
                shown: None,
            }),
            shown: None,
        },
        Step {
            name: "complete_release",
            effect: Effect::Ledger(complete_release),
            records: "nothing; the ledger says released and the slots have their evidence",
            deadline: Duration::from_secs(300),
            on_failure: OnFailure::Undo,
            undo: None,
            shown: None,
        },
        lease::RELEASE_LEASE,
    ],
    at_failure: &[Step {
        name: "block_cleanup",
        effect: Effect::Ledger(block_cleanup),
        records: "nothing; the ledger says released and the slots cleanup_blocked",
        deadline: Duration::from_secs(60),
        on_failure: OnFailure::RetryUntilDone,
        undo: None,
        shown: None,
    }],
};

fn release_vm(work: &Work) -> BoxFuture<'_, StepResult> {
    Box::pin(async move {
        let (allocation, subject) = subject::of_allocation(work).await?;
        let graceful = Duration::from_secs(work.deps.config.graceful_stop_seconds);
        let request = ReleaseRequest {
            operation_id: String::new(),
            lease_id: String::new(),
            allocation_id: allocation.id.to_string(),
            graceful_timeout: Some(proto_duration(graceful)),
            budget: Some(proto_duration(work.left)),
        };
        let host = Host::of_subject(&work.deps, &subject)?;
        let order = Order {
            task_type: TaskType::VmRelease,
            purpose: LeasePurpose::Release,
            payload: json!({"graceful_seconds": graceful.as_secs(), "budget_seconds": work.left.as_secs()}),
            start: &|host: &Host, operation_id, lease_id| {
                let request = ReleaseRequest {
                    operation_id,
                    lease_id,
                    ..request.clone()
                };
                let mut vms = host.vms.clone();
                Box::pin(async move { vms.release(request).await })
            },
            around: AROUND,
        };
        let operation = drive(work, &host, &subject, &order).await?;
        if operation.state() == OperationState::Failed {
            let failed = StepError::of_operation(
                "release",
                operation.failure.as_ref().unwrap_or(&Default::default()),
            );
            let tried = workflow_rows::failed_tasks(
                &work.deps.pool,
                work.taken.id,
                TaskType::VmRelease.as_str(),
            );
            let tried = work.deps.within(tried).await?;
            return Err(again(failed, tried));
        }
        Ok(
            json!({"operation": output(&operation), "evidence": proven(work, &subject, &operation)?}),
        )
    })
}

/// A stop or an undefine that failed is requested again. A wipe that proved nothing is not, nor is what comes after one: a
/// device that cannot be reset is no reason to wipe the disk once more.
fn again(failed: StepError, tried: i64) -> StepError {
    let is_final = |failure: &Failure| {
        failure.reason == "WIPE_NOT_PROVEN" || failure.step == "release.reset_devices"
    };
    match failed.until_clock_is_set() {
        StepError::Fail(failure) if !is_final(&failure) && tried < ATTEMPTS => StepError::Retry {
            reason: failure.reason,
            message: failure.message,
        },
        other => other,
    }
}

fn complete_release<'a>(work: &'a Work, conn: &'a mut PgConnection) -> BoxFuture<'a, StepResult> {
    Box::pin(async move {
        let Recorded { proofs, faulty } = recorded(work, "release")?;
        let id = work.allocation_id()?;
        for (slot_id, why) in faulty {
            let detail = format!("release failed at release.reset_devices: {why}");
            release::block_slot(conn, work.fence(), id, slot_id, &detail)
                .await
                .map_err(ledger)?;
        }
        let _ = release::complete(conn, work.fence(), id, &proofs)
            .await
            .map_err(ledger)?;
        node_tasks::abandon(conn, Some(id), None).await?;
        timeline::append(
            conn,
            id,
            "released",
            State::Done,
            "The disk is verified empty; the release is complete.",
        )
        .await?;
        Ok(json!({}))
    })
}

fn block_cleanup<'a>(work: &'a Work, conn: &'a mut PgConnection) -> BoxFuture<'a, StepResult> {
    Box::pin(async move {
        let detail = work.failure().detail_of("release");
        let id = work.allocation_id()?;
        let _ = release::block(conn, work.fence(), id, &detail)
            .await
            .map_err(ledger)?;
        node_tasks::abandon(conn, Some(id), None).await?;
        timeline::end_running(conn, id, "Stopped.").await?;
        let reported = "The VM is deleted and the release is complete. The slot is blocked until an operator repairs it.";
        timeline::append(conn, id, "released", State::Done, reported).await?;
        Ok(json!({}))
    })
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::agent::v1::{FailureClass, OperationFailure};
    use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

    use super::*;

    #[test]
    fn a_wipe_that_proves_nothing_is_not_asked_for_again() {
        let failed = |reason| StepError::fail(reason, "m", FailureClass::Host);
        assert!(matches!(
            again(failed(ErrorReason::HypervisorFailed), 1),
            StepError::Retry { .. }
        ));
        assert!(matches!(
            again(failed(ErrorReason::HypervisorFailed), 3),
            StepError::Fail(_)
        ));
        assert!(matches!(
            again(failed(ErrorReason::WipeNotProven), 1),
            StepError::Fail(_)
        ));
        let at = |step: &str| {
            let failure = OperationFailure {
                reason: "DEVICE_MISSING".into(),
                step: step.into(),
                ..OperationFailure::default()
            };
            again(StepError::of_operation("release", &failure), 1)
        };
        assert!(matches!(at("wipe"), StepError::Retry { .. }));
        assert!(matches!(at("reset_devices"), StepError::Fail(_)));
        // however often: the time of the step bounds it
        assert!(matches!(
            again(failed(ErrorReason::HostClockSkewed), 99),
            StepError::Retry { .. }
        ));
    }
}
