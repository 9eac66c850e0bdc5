//! Removal of what a VM left on its host: domain, NVRAM, seed, reservation. Never the disk.
//!
//! A step of the other workflows, and a workflow of its own that the reconciler starts when a host shows
//! residue of an allocation that is over.

use std::time::Duration;

use futures::future::BoxFuture;
use gpuaas_common::time::proto_duration;
use gpuaas_placement::node_tasks::TaskType;
use gpuaas_proto::gpuaas::agent::v1::{CleanUpRequest, LeasePurpose, OperationState};
use serde_json::json;

use super::failure::StepError;
use super::host::Host;
use super::lease;
use super::operation::{Order, drive, output};
use super::subject;
use super::table::{Definition, Effect, OnFailure, Step, StepResult};
use super::work::Work;

/// The workflow.
pub static DEFINITION: Definition = Definition {
    kind: "clean_up",
    bounded: true,
    steps: &[
        lease::acquire(lease::for_release, Duration::from_secs(120)),
        Step {
            name: "clean_up",
            effect: Effect::Outside(clean_up),
            records: "the host operation",
            deadline: Duration::from_secs(300),
            on_failure: OnFailure::Undo,
            undo: None,
            shown: None,
        },
        lease::RELEASE_LEASE,
    ],
    at_failure: &[],
};

/// Removes domain, NVRAM, seed and reservation. Nothing there is as good as removed.
pub fn clean_up(work: &Work) -> BoxFuture<'_, StepResult> {
    Box::pin(async move {
        let repairing = work.taken.slot_id.is_some();
        let subject = subject::of_work(work).await?;
        let request = CleanUpRequest {
            operation_id: String::new(),
            lease_id: String::new(),
            allocation_id: subject.allocation_id.to_string(),
            budget: Some(proto_duration(work.left)),
        };
        let host = Host::of_subject(&work.deps, &subject)?;
        let order = Order {
            task_type: TaskType::VmCleanUp,
            purpose: if repairing {
                LeasePurpose::Repair
            } else {
                LeasePurpose::Release
            },
            payload: json!({"budget_seconds": work.left.as_secs()}),
            start: &|host: &Host, operation_id, lease_id| {
                let request = CleanUpRequest {
                    operation_id,
                    lease_id,
                    ..request.clone()
                };
                let mut vms = host.vms.clone();
                Box::pin(async move { vms.clean_up(request).await })
            },
            around: (0, 0),
        };
        let operation = drive(work, &host, &subject, &order).await?;
        if operation.state() == OperationState::Failed {
            return Err(StepError::of_operation(
                "clean_up",
                operation.failure.as_ref().unwrap_or(&Default::default()),
            ));
        }
        Ok(output(&operation))
    })
}
