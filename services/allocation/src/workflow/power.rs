//! Stop, start, reboot and rescue: the host acts, and the ledger records what is proven of the VM. The end of a rescue is a
//! reboot to the host, which defines the VM on its own disks.
//!
//! After a failed change nothing is assumed: the host is queried until it answers whether the VM runs, and
//! the allocation becomes running or stopped by that answer. Its capacity stays held and billed throughout.

use std::time::Duration;

use futures::future::BoxFuture;
use gpuaas_common::time::proto_duration;
use gpuaas_placement::model::Rescue;
use gpuaas_placement::node_tasks::TaskType;
use gpuaas_placement::power::{self, Action};
use gpuaas_placement::timeline::{self, State};
use gpuaas_placement::{Scope, allocations};
use gpuaas_proto::gpuaas::agent::v1::{FailureClass, LeasePurpose, OperationState, PowerRequest};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::failure::StepError;
use super::host::Host;
use super::lease;
use super::operation::{Order, drive, ensure_ended, output};
use super::power_outcome::{
    again, failure_message, host_keys, is_same_boot, power_before, power_of, proven,
};
use super::provision::image_ref;
use super::subject::{self, ledger};
use super::table::{Definition, Effect, OnFailure, Step, StepResult};
use super::work::Work;
use crate::domain::names::vm_name;
use crate::store::workflow_rows;

/// Own steps around the host operation that a user sees.
const AROUND: (u32, u32) = (1, 0);

const ACQUIRE_LEASE: Step = Step {
    shown: lease::REQUESTED,
    ..lease::acquire(acquire_lease, Duration::from_secs(60))
};

/// The host is queried for the result of a failed change until it answers.
const OBSERVE: Step = Step {
    name: "observe",
    effect: Effect::Outside(observe),
    records: "the power that the host says the VM has",
    deadline: Duration::from_secs(60),
    on_failure: OnFailure::RetryUntilDone,
    undo: None,
    shown: None,
};

const fn act(name: &'static str) -> Step {
    Step {
        name,
        effect: Effect::Outside(change),
        records: "the host operation, with the guest's boot id after a start",
        deadline: Duration::from_secs(10 * 60),
        on_failure: OnFailure::Undo,
        undo: Some(&OBSERVE),
        shown: None,
    }
}

const RECORD_OUTCOME: Step = Step {
    name: "record_outcome",
    effect: Effect::Ledger(record_outcome),
    records: "nothing; the ledger has the new power state",
    deadline: Duration::from_secs(300),
    on_failure: OnFailure::Undo,
    undo: None,
    shown: None,
};

const FAIL: [Step; 1] = [Step {
    name: "record_failure",
    effect: Effect::Ledger(record_failure),
    records: "nothing; the ledger has the power state that the host reported last",
    deadline: Duration::from_secs(60),
    on_failure: OnFailure::RetryUntilDone,
    undo: None,
    shown: None,
}];

/// `running → stopped`.
pub static STOP: Definition = Definition {
    kind: "stop",
    bounded: true,
    steps: &[
        ACQUIRE_LEASE,
        act("stop"),
        RECORD_OUTCOME,
        lease::RELEASE_LEASE,
    ],
    at_failure: &FAIL,
};

/// `stopped → running`.
pub static START: Definition = Definition {
    kind: "start",
    bounded: true,
    steps: &[
        ACQUIRE_LEASE,
        act("start"),
        RECORD_OUTCOME,
        lease::RELEASE_LEASE,
    ],
    at_failure: &FAIL,
};

/// `running → running`, with another boot.
pub static REBOOT: Definition = Definition {
    kind: "reboot",
    bounded: true,
    steps: &[
        ACQUIRE_LEASE,
        act("reboot"),
        RECORD_OUTCOME,
        lease::RELEASE_LEASE,
    ],
    at_failure: &FAIL,
};

/// `running | stopped → rescued`.
pub static RESCUE: Definition = Definition {
    kind: "rescue",
    bounded: true,
    steps: &[
        ACQUIRE_LEASE,
        act("rescue"),
        RECORD_OUTCOME,
        lease::RELEASE_LEASE,
    ],
    at_failure: &FAIL,
};

/// `rescued → running`, on its own disks.
pub static UNRESCUE: Definition = Definition {
    kind: "unrescue",
    bounded: true,
    steps: &[
        ACQUIRE_LEASE,
        act("unrescue"),
        RECORD_OUTCOME,
        lease::RELEASE_LEASE,
    ],
    at_failure: &FAIL,
};

fn action(work: &Work) -> Result<Action, StepError> {
    let found = Action::ALL
        .into_iter()
        .find(|action| action.as_str() == work.taken.kind);
    found.ok_or_else(|| {
        let message = format!("{} changes no power", work.taken.kind);
        StepError::fail(ErrorReason::Internal, message, FailureClass::Host)
    })
}

fn task_type(action: Action) -> TaskType {
    match action {
        Action::Stop => TaskType::VmStop,
        Action::Start => TaskType::VmStart,
        Action::Reboot | Action::Unrescue => TaskType::VmReboot,
        Action::Rescue => TaskType::VmRescue,
    }
}

fn acquire_lease(work: &Work) -> BoxFuture<'_, StepResult> {
    Box::pin(async move {
        lease::of_allocation(work, LeasePurpose::Power).await?;
        Ok(json!({"lease_id": work.lease()}))
    })
}

fn change(work: &Work) -> BoxFuture<'_, StepResult> {
    Box::pin(async move {
        let action = action(work)?;
        let (allocation, subject) = subject::of_allocation(work).await?;
        let forced = work.taken.forced;
        let graceful = match forced {
            true => Duration::ZERO,
            false => Duration::from_secs(work.deps.config.power_graceful_seconds),
        };
        let rescue = allocation.rescue.as_ref().map(|rescue| &rescue.image);
        let rescue = rescue.filter(|_| action == Action::Rescue);
        let booted = rescue.unwrap_or(&allocation.image);
        let boot = Duration::from_secs(booted.boot_timeout_seconds.into());
        let request = PowerRequest {
            operation_id: String::new(),
            lease_id: String::new(),
            allocation_id: allocation.id.to_string(),
            graceful_timeout: Some(proto_duration(graceful)),
            guest_user: allocation.guest_user.clone(),
            boot_timeout: Some(proto_duration(boot)),
            budget: Some(proto_duration(work.left)),
            ssh_host_keys: allocation
                .access
                .as_ref()
                .map(|access| access.ssh_host_keys.clone())
                .unwrap_or_default(),
            rescue_image: rescue.map(image_ref),
            ssh_public_keys: match action {
                Action::Rescue => allocation.ssh_public_keys.clone(),
                _ => Vec::new(),
            },
            hostname: match action {
                Action::Rescue => allocation.name.clone(),
                _ => String::new(),
            },
        };
        let host = Host::of_subject(&work.deps, &subject)?;
        let order = Order {
            task_type: task_type(action),
            purpose: LeasePurpose::Power,
            payload: json!({"graceful_seconds": graceful.as_secs(), "budget_seconds": work.left.as_secs()}),
            start: &|host: &Host, operation_id, lease_id| {
                let request = PowerRequest {
                    operation_id,
                    lease_id,
                    ..request.clone()
                };
                let mut vms = host.vms.clone();
                Box::pin(async move {
                    match action {
                        Action::Stop => vms.stop(request).await,
                        Action::Start => vms.start(request).await,
                        Action::Reboot | Action::Unrescue => vms.reboot(request).await,
                        Action::Rescue => vms.rescue(request).await,
                    }
                })
            },
            around: AROUND,
        };
        let operation = drive(work, &host, &subject, &order).await?;
        if operation.state() == OperationState::Failed {
            let failure = operation.failure.clone().unwrap_or_default();
            let failed = StepError::of_operation(action.as_str(), &failure);
            let tried = workflow_rows::failed_tasks(
                &work.deps.pool,
                work.taken.id,
                order.task_type.as_str(),
            );
            let tried = work.deps.within(tried).await?;
            let is_final = ONCE.contains(&failure.step.as_str());
            return Err(if is_final {
                failed
            } else {
                again(failed, tried)
            });
        }
        proven(action, &operation, allocation.boot_id)?;
        Ok(output(&operation))
    })
}

/// Steps of a rescue that are not tried again: before the one the VM still runs, after the other its owner may be logged in.
const ONCE: [&str; 2] = ["verify_image", "detach_seed"];

/// Queries the power state of the VM, once the host has ended its operation.
fn observe(work: &Work) -> BoxFuture<'_, StepResult> {
    Box::pin(async move {
        let action = action(work)?;
        let id = work.allocation_id()?;
        let (_, subject) = subject::of_allocation(work).await?;
        let host = Host::of_subject(&work.deps, &subject)?;
        ensure_ended(work, &host, action.as_str(), task_type(action)).await?;
        let name = vm_name(id);
        let domains = host.holds().await?.domains;
        let domain = domains.iter().find(|domain| domain.name == name);
        let state = domain.map(|domain| domain.state.as_str());
        let is_rescued = domain.is_some_and(|domain| domain.is_rescued);
        // of an image that nobody has logged in to yet, too: its owner may, as soon as it answers
        let keys = domain.map_or(&[][..], |domain| &domain.rescue_host_keys);
        Ok(json!({
            "power": power_of(state, is_rescued), "domain": state, "ssh_host_keys": keys,
        }))
    })
}

fn record_outcome<'a>(work: &'a Work, conn: &'a mut PgConnection) -> BoxFuture<'a, StepResult> {
    Box::pin(async move {
        let action = action(work)?;
        let id = work.allocation_id()?;
        let result = work.outputs.get(action.as_str());
        let result = result.map(|output| &output["power_result"]);
        let boot_id = result.and_then(|result| result["boot_id"].as_str()?.parse().ok());
        let (_, _, power) = action.powers();
        let rescue = match action {
            Action::Rescue => Some(with_keys(conn, id, result).await?),
            _ => None,
        };
        let _ = power::record_outcome_with(conn, work.fence(), id, power, boot_id, rescue)
            .await
            .map_err(ledger)?;
        let message = match action {
            Action::Stop => {
                "The VM is stopped. It keeps its disk, address and GPUs; billing continues."
            }
            Action::Start => "The VM is running; a login verified the new boot.",
            Action::Reboot => "The VM is running again; a login verified the new boot.",
            Action::Rescue => {
                "The VM runs from the rescue image, with its own disks beside it; a login verified it. Billing continues."
            }
            Action::Unrescue => {
                "The VM is running from its own disk again; a login verified the new boot."
            }
        };
        timeline::append(conn, id, power, State::Done, message).await?;
        Ok(json!({}))
    })
}

/// The rescue with the host keys that its image was given.
async fn with_keys(
    conn: &mut PgConnection,
    id: Uuid,
    result: Option<&Value>,
) -> Result<Rescue, StepError> {
    let allocation = allocations::get(conn, Scope::Platform, id)
        .await
        .map_err(ledger)?;
    let mut rescue = allocation.rescue.map(|rescue| rescue.0).ok_or_else(|| {
        let message = "the ledger has no image of the rescue";
        StepError::fail(ErrorReason::Internal, message, FailureClass::Host)
    })?;
    rescue.ssh_host_keys = host_keys(result);
    Ok(rescue)
}

fn record_failure<'a>(work: &'a Work, conn: &'a mut PgConnection) -> BoxFuture<'a, StepResult> {
    Box::pin(async move {
        let action = action(work)?;
        let id = work.allocation_id()?;
        let observed = work.outputs.get("observe");
        let seen = observed.and_then(|output| output["power"].as_str());
        // a VM that was not stopped is at the boot it was at; one that was started without proof is at an unknown one
        let same_boot = seen.is_none() || is_same_boot(action, seen.unwrap_or_default());
        let allocation = allocations::get(conn, Scope::Platform, id)
            .await
            .map_err(ledger)?;
        // the host was not called: all is as it was
        let before = power_before(action, allocation.rescue.as_deref());
        let power = seen.unwrap_or(&before);
        let boot_id = allocation.boot_id.filter(|_| same_boot);
        let rescue = match (action, power) {
            (Action::Rescue, "rescued") => Some(with_keys(conn, id, observed).await?),
            _ => None,
        };
        let _ = power::record_outcome_with(conn, work.fence(), id, power, boot_id, rescue)
            .await
            .map_err(ledger)?;
        let message = failure_message(action, &work.failure().reason, power);
        timeline::append(conn, id, power, State::Failed, &message).await?;
        Ok(json!({}))
    })
}
