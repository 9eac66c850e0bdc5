//! Drives one host operation to its end: starts it or attaches to it, reports to the timeline, renews the lease.

use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use gpuaas_common::Error;
use gpuaas_placement::node_tasks::{self, NewTask, TaskType};
use gpuaas_placement::timeline::State;
use gpuaas_proto::gpuaas::agent::v1::{
    GetOperationRequest, HostOperation, LeasePurpose, OperationState, StepState, WipeEvidence,
};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::{Value, json};
use tonic::Status;
use uuid::Uuid;

use super::failure::{StepError, class_name};
use super::host::{Host, refused};
use super::subject::Subject;
use super::work::Work;
use crate::domain::names::operation_id;
use crate::domain::operation::{Progress, Reported, ReportedSteps, changes, progress};
use crate::store::workflow_rows::{self, Lost};

/// How often the host lease is renewed while an operation runs.
const RENEW: Duration = Duration::from_secs(60);

/// Starts the operation on the host: `(host, operation id, lease id)`.
pub type Start<'a> = dyn Fn(&'a Host, String, String) -> BoxFuture<'a, Result<tonic::Response<HostOperation>, Status>>
    + Send
    + Sync
    + 'a;

/// What to run.
pub struct Order<'a> {
    /// What is recorded of the call.
    pub task_type: TaskType,
    /// Checks the host makes when the lease must be taken again.
    pub purpose: LeasePurpose,
    /// The request, without secrets, for the task's row (C-31).
    pub payload: Value,
    /// The call.
    pub start: &'a Start<'a>,
    /// Own steps in front of the operation and behind it, for progress.
    pub around: (u32, u32),
}

/// Runs the order to its end and returns the operation, succeeded or failed.
///
/// # Errors
/// Retryable while the host does not answer; [`StepError::Lost`] when another runner has the work.
pub async fn drive<'a>(
    work: &Work,
    host: &'a Host,
    subject: &Subject,
    order: &Order<'a>,
) -> Result<HostOperation, StepError> {
    let id = next_id(work, &work.step.step, order.task_type).await?;
    let operation = match get(host, id).await? {
        Some(operation) => operation,
        None => start(work, host, subject, order, id).await?,
    };
    let mut reporter = work.deps.within(Reporter::new(work, order.around)).await?;
    let ended = if ended(&operation) {
        work.deps.within(reporter.report(&operation)).await?;
        operation
    } else {
        watch(work, host, subject, id, &mut reporter).await?
    };
    work.deps.within(finish(work, id, &ended)).await?;
    Ok(ended)
}

/// The id of the step's operation that runs, or is to be started next: a failed one is followed by another.
async fn next_id(work: &Work, step: &str, task_type: TaskType) -> Result<Uuid, StepError> {
    let pool = &work.deps.pool;
    let failed = workflow_rows::failed_tasks(pool, work.taken.id, task_type.as_str());
    let failed = work.deps.within(failed).await?;
    let attempt = u32::try_from(failed).unwrap_or(u32::MAX).saturating_add(1);
    Ok(operation_id(work.taken.id, step, attempt))
}

/// Makes sure that the host is not at the step's operation any more, and records how that ended.
///
/// # Errors
/// Retryable while it runs, and while the host does not answer.
pub async fn ensure_ended(
    work: &Work,
    host: &Host,
    step: &str,
    task_type: TaskType,
) -> Result<(), StepError> {
    let id = next_id(work, step, task_type).await?;
    match get(host, id).await? {
        None => {
            let abandoned = async {
                let mut conn = work.conn().await?;
                let abandon =
                    node_tasks::abandon(&mut conn, work.taken.allocation_id, work.taken.slot_id);
                abandon.await.map_err(StepError::from)
            };
            work.deps.within(abandoned).await?;
            Ok(())
        }
        Some(operation) if ended(&operation) => {
            work.deps.within(finish(work, id, &operation)).await
        }
        Some(_) => Err(StepError::Retry {
            reason: "OPERATION_CONFLICT".into(),
            message: "the host is still at the operation".into(),
        }),
    }
}

async fn get(host: &Host, id: Uuid) -> Result<Option<HostOperation>, StepError> {
    let mut request = tonic::Request::new(GetOperationRequest {
        operation_id: id.to_string(),
    });
    request.set_timeout(Duration::from_secs(30));
    match host.vms.clone().get_operation(request).await {
        Ok(response) => Ok(Some(response.into_inner())),
        Err(status) => {
            let error = Error::from(status);
            if error.reason() == ErrorReason::OperationNotFound {
                Ok(None)
            } else {
                Err(StepError::of_host(&error))
            }
        }
    }
}

/// Records the call and makes it, under a lease of this very taking: a lease that an earlier taking got may
/// have ended, and a runner that lost its lease must not start anything.
async fn start<'a>(
    work: &Work,
    host: &'a Host,
    subject: &Subject,
    order: &Order<'a>,
    id: Uuid,
) -> Result<HostOperation, StepError> {
    let lease_id = match work.lease() {
        Some(lease_id) => lease_id,
        None => lease_of(host.acquire(work, subject, order.purpose).await?)?,
    };
    let task = NewTask {
        id,
        task_type: order.task_type,
        workflow_id: work.taken.id,
        allocation_id: work.taken.allocation_id,
        slot_id: work.taken.slot_id,
        node_id: subject.node_id,
        payload: &order.payload,
    };
    let begins = async {
        let mut tx = work.deps.pool.begin().await?;
        workflow_rows::hold(&mut tx, work.taken.id, work.taken.lease_epoch)
            .await?
            .map_err(|Lost| StepError::Lost)?;
        node_tasks::begin(&mut tx, &task).await?;
        tx.commit().await.map_err(StepError::from)
    };
    work.deps.within(begins).await?;
    match (order.start)(host, id.to_string(), lease_id).await {
        Ok(response) => Ok(response.into_inner()),
        Err(status) => match refused(status) {
            // the lease ended meanwhile: the next attempt takes it again
            StepError::Fail(failure)
                if matches!(failure.reason.as_str(), "LEASE_EXPIRED" | "LEASE_REQUIRED") =>
            {
                work.set_lease(None);
                Err(StepError::Retry {
                    reason: failure.reason,
                    message: failure.message,
                })
            }
            // the host is still at an earlier operation for this allocation
            StepError::Fail(failure) if failure.reason == "OPERATION_CONFLICT" => {
                Err(StepError::Retry {
                    reason: failure.reason,
                    message: failure.message,
                })
            }
            other => Err(other),
        },
    }
}

fn lease_of(
    response: gpuaas_proto::gpuaas::agent::v1::AcquireLeaseResponse,
) -> Result<String, StepError> {
    let missing = || StepError::Retry {
        reason: "INTERNAL".into(),
        message: "the host granted no lease".into(),
    };
    response
        .lease
        .map(|lease| lease.lease_id)
        .ok_or_else(missing)
}

/// Follows the operation until it ends. A stream that breaks is a retry: the next attempt attaches again.
async fn watch(
    work: &Work,
    host: &Host,
    subject: &Subject,
    id: Uuid,
    reporter: &mut Reporter<'_>,
) -> Result<HostOperation, StepError> {
    let request = GetOperationRequest {
        operation_id: id.to_string(),
    };
    let mut stream = host
        .vms
        .clone()
        .watch_operation(request)
        .await
        .map_err(refused)?
        .into_inner();
    let mut renewed = Instant::now();
    loop {
        let due = RENEW.saturating_sub(renewed.elapsed());
        let Ok(message) = tokio::time::timeout(due, stream.message()).await else {
            host.renew(work, subject).await;
            renewed = Instant::now();
            continue;
        };
        match message.map_err(refused)? {
            Some(operation) => {
                work.deps.within(reporter.report(&operation)).await?;
                if ended(&operation) {
                    return Ok(operation);
                }
            }
            None => {
                return Err(StepError::Retry {
                    reason: "HOST_UNREACHABLE".into(),
                    message: "the host closed the stream before the operation ended".into(),
                });
            }
        }
    }
}

fn ended(operation: &HostOperation) -> bool {
    matches!(
        operation.state(),
        OperationState::Succeeded | OperationState::Failed
    )
}

async fn finish(work: &Work, id: Uuid, operation: &HostOperation) -> Result<(), StepError> {
    let mut tx = work.deps.pool.begin().await?;
    workflow_rows::hold(&mut tx, work.taken.id, work.taken.lease_epoch)
        .await?
        .map_err(|Lost| StepError::Lost)?;
    node_tasks::finish(
        &mut tx,
        id,
        operation.state() == OperationState::Succeeded,
        &output(operation),
    )
    .await?;
    tx.commit().await?;
    Ok(())
}

/// Tells the timeline what is new.
struct Reporter<'a> {
    work: &'a Work,
    around: (u32, u32),
    seen: ReportedSteps,
    progress: Option<Progress>,
}

impl<'a> Reporter<'a> {
    /// Loads what earlier runners of this workflow have reported.
    async fn new(work: &'a Work, around: (u32, u32)) -> Result<Self, StepError> {
        let mut seen = ReportedSteps::new();
        let prefix = format!("{}.", work.taken.kind);
        for (step, state, percent) in
            workflow_rows::shown_steps(&work.deps.pool, work.taken.id).await?
        {
            let Some(step) = step.strip_prefix(&prefix) else {
                continue;
            };
            let state = match state.as_str() {
                "done" => Reported::Done,
                "failed" => Reported::Failed,
                _ => Reported::Running,
            };
            seen.insert(
                step.to_owned(),
                (state, u32::try_from(percent).unwrap_or_default()),
            );
        }
        Ok(Self {
            work,
            around,
            seen,
            progress: None,
        })
    }

    async fn report(&mut self, operation: &HostOperation) -> Result<(), StepError> {
        let changes = changes(&mut self.seen, operation);
        let progress = progress(operation, self.around.0, self.around.1);
        if changes.is_empty()
            && self
                .progress
                .as_ref()
                .is_some_and(|was| was.step == progress.step)
        {
            return Ok(());
        }
        let failure = operation
            .failure
            .as_ref()
            .map(|f| json!({"reason": f.reason, "message": f.message}));
        let mut tx = self.work.deps.pool.begin().await?;
        self.work.progress(&mut tx, &progress).await?;
        for change in changes {
            let (state, error) = match change.state {
                Reported::Running => (State::Running, None),
                Reported::Done => (State::Done, None),
                Reported::Failed => (State::Failed, failure.as_ref()),
            };
            self.work
                .record_timeline(
                    &mut tx,
                    &change.step,
                    state,
                    change.percent,
                    &change.message,
                    error,
                )
                .await?;
        }
        tx.commit().await?;
        self.progress = Some(progress);
        Ok(())
    }
}

/// What `node_tasks.output` stores of an operation (C-27).
pub fn output(operation: &HostOperation) -> Value {
    let step_state = |state: StepState| {
        state
            .as_str_name()
            .trim_start_matches("STEP_STATE_")
            .to_lowercase()
    };
    let steps: Vec<Value> = operation
        .steps
        .iter()
        .map(|step| json!({"name": step.name, "state": step_state(step.state()), "message": step.message}))
        .collect();
    json!({
        "succeeded": operation.state() == OperationState::Succeeded,
        "steps": steps,
        "failure": operation.failure.as_ref().map(|f| json!({
            "reason": f.reason, "message": f.message, "step": f.step,
            "failure_class": class_name(f.failure_class()), "host_clean": f.host_clean,
        })),
        "provision_result": operation.provision_result.as_ref().map(|r| json!({
            "mac": r.mac, "expected_ip": r.expected_ip, "actual_ip": r.actual_ip, "lease_state": r.lease_state,
            "ssh_ready": r.ssh_ready, "ssh_port": r.ssh_port, "access_host": r.access_host,
            "access_port": r.access_port, "ssh_host_keys": r.ssh_host_keys, "domain_uuid": r.domain_uuid,
            "image_digest": r.image_digest, "boot_id": r.boot_id,
        })),
        "power_result": operation.power_result.as_ref().map(|r| json!({
            "boot_id": r.boot_id, "ssh_host_keys": r.ssh_host_keys,
        })),
        "wipe_evidence": operation.wipe_evidence.iter().map(evidence).collect::<Vec<_>>(),
    })
}

/// One wipe evidence as it is stored with the slot's clean evidence.
pub fn evidence(proof: &WipeEvidence) -> Value {
    let token = proof.token.unwrap_or_default();
    json!({
        "slot_id": proof.slot_id, "policy": proof.policy, "erase_method": proof.erase_method, "disk_identity": proof.disk_identity,
        "disk_bytes": proof.disk_bytes, "verified_bytes": proof.verified_bytes, "no_signatures": proof.no_signatures,
        "token": [token.cell_epoch, token.slot_generation, token.workflow_epoch],
        "wipe_time": proof.wipe_time.map(|t| t.seconds), "verify_time": proof.verify_time.map(|t| t.seconds),
    })
}
