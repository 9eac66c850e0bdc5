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
use gpuaas_proto::gpuaas::agent::v1::{
    FailureClass, HostOperation, LeasePurpose, OperationState, PowerRequest,
};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::failure::StepError;
use super::host::Host;
use super::lease;
use super::operation::{Order, drive, ensure_ended, output};
use super::provision::image_ref;
use super::subject::{self, ledger};
use super::table::{Definition, Effect, OnFailure, Step, StepResult};
use super::work::Work;
use crate::domain::advice::explain;
use crate::domain::names::vm_name;
use crate::store::workflow_rows;

/// How often a host is called before its failure counts as an answer.
const ATTEMPTS: i64 = 3;
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
            )
            .await?;
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

/// A hypervisor that failed, a host that restarted meanwhile, or one of whose parts is being started again, is called again: the VM
/// is off by then, and there is no other host for it. A guest that does not answer is not.
fn again(failed: StepError, tried: i64) -> StepError {
    match failed {
        StepError::Fail(failure)
            if matches!(
                failure.reason.as_str(),
                "HYPERVISOR_FAILED" | "HOST_NOT_READY" | "LEASE_EXPIRED"
            ) && tried < ATTEMPTS =>
        {
            StepError::Retry {
                reason: failure.reason,
                message: failure.message,
            }
        }
        other => other,
    }
}

/// A start is proven by the boot id of a guest that was logged in to, and it is another than before.
fn proven(
    action: Action,
    operation: &HostOperation,
    before: Option<Uuid>,
) -> Result<Option<Uuid>, StepError> {
    if action == Action::Stop {
        return Ok(None);
    }
    let result = operation.power_result.clone().unwrap_or_default();
    match result.boot_id.parse::<Uuid>() {
        Ok(now) if before != Some(now) => Ok(Some(now)),
        Ok(_) => Err(StepError::fail(
            ErrorReason::HypervisorFailed,
            "the guest is still at the boot it was at before",
            FailureClass::Host,
        )),
        Err(_) => Err(StepError::fail(
            ErrorReason::GuestNoLogin,
            "the host reported success without a boot id",
            FailureClass::Guest,
        )),
    }
}

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

/// A VM that is paused has its disk open: it is stopped only when it is off or gone.
fn power_of(domain: Option<&str>, is_rescued: bool) -> &'static str {
    match domain {
        None | Some("shut off") => "stopped",
        Some(_) if is_rescued => "rescued",
        Some(_) => "running",
    }
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

fn host_keys(of: Option<&Value>) -> Vec<String> {
    let keys = of.and_then(|of| of["ssh_host_keys"].as_array());
    let keys = keys.into_iter().flatten().filter_map(Value::as_str);
    keys.map(str::to_owned).collect()
}

/// Whether a VM that was observed in this power after a failed change is at the boot it was at: it was not stopped. A rescue
/// never starts the VM's own disk, and its end never the rescue's.
fn is_same_boot(action: Action, seen: &str) -> bool {
    matches!(
        (action, seen),
        (Action::Stop, _) | (Action::Rescue, "running") | (Action::Unrescue, "rescued")
    )
}

/// Power before the change, which its host was not called for.
fn power_before(action: Action, rescue: Option<&Rescue>) -> String {
    match (action, rescue) {
        (Action::Stop, Some(_)) => "rescued".to_owned(),
        (Action::Rescue, Some(rescue)) => rescue.from.clone(),
        _ => action.powers().0.to_owned(),
    }
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

fn failure_message(action: Action, reason: &str, power: &str) -> String {
    let verb = action.as_str();
    if reason == "HOST_REPLACED" {
        return "The VM is gone: its host was installed anew. Release the allocation; billing continues until then.".to_owned();
    }
    if reason == "GUEST_NO_LOGIN" && power != "stopped" {
        return format!(
            "The {verb} is not verified: the VM is running, but no login succeeded within the boot timeout of its image."
        );
    }
    let is = match power {
        "running" => "The VM runs",
        "rescued" => "The VM runs from the rescue image",
        _ => "The VM is off",
    };
    format!(
        "The {verb} failed. {} {is}; billing continues, and you can try again.",
        explain(reason, None).message
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuaas_placement::model::Image;
    use gpuaas_proto::gpuaas::agent::v1::PowerResult;

    const BEFORE: Uuid = Uuid::from_u128(1);

    #[test]
    fn a_start_is_proven_by_another_boot_id() {
        let judged = |action, boot_id: &str| {
            let operation = HostOperation {
                power_result: Some(PowerResult {
                    boot_id: boot_id.to_owned(),
                    ssh_host_keys: Vec::new(),
                }),
                ..HostOperation::default()
            };
            match proven(action, &operation, Some(BEFORE)) {
                Ok(boot_id) => Ok(boot_id),
                Err(StepError::Fail(failure)) => Err(failure.reason),
                Err(other) => Err(format!("{other:?}")),
            }
        };
        let now = Uuid::from_u128(2);
        assert_eq!(judged(Action::Start, &now.to_string()), Ok(Some(now)));
        assert_eq!(judged(Action::Reboot, &now.to_string()), Ok(Some(now)));
        assert_eq!(judged(Action::Stop, ""), Ok(None));
        let same = judged(Action::Reboot, &BEFORE.to_string());
        assert_eq!(same, Err("HYPERVISOR_FAILED".to_owned()));
        for boot_id in ["", "nonsense"] {
            let none = judged(Action::Start, boot_id);
            assert_eq!(none, Err("GUEST_NO_LOGIN".to_owned()));
        }
    }

    #[test]
    fn what_the_host_shows_decides_the_power() {
        for (domain, power) in [
            (None, "stopped"),
            (Some("shut off"), "stopped"),
            (Some("running"), "running"),
            (Some("paused"), "running"),
        ] {
            assert_eq!(power_of(domain, false), power, "{domain:?}");
        }
        assert_eq!(power_of(Some("running"), true), "rescued");
        assert_eq!(power_of(Some("shut off"), true), "stopped");
    }

    #[test]
    fn a_change_that_never_reached_its_host_leaves_the_power_as_it_was() {
        let rescue = |from: &str| Rescue {
            image: Image::default(),
            from: from.to_owned(),
            ssh_host_keys: Vec::new(),
        };
        for (action, rescue, before) in [
            (Action::Stop, None, "running"),
            (Action::Stop, Some(rescue("stopped")), "rescued"),
            (Action::Start, None, "stopped"),
            (Action::Rescue, Some(rescue("stopped")), "stopped"),
            (Action::Rescue, Some(rescue("running")), "running"),
            (Action::Unrescue, Some(rescue("running")), "rescued"),
        ] {
            assert_eq!(power_before(action, rescue.as_ref()), before, "{action:?}");
        }
    }

    #[test]
    fn a_guest_that_does_not_answer_is_not_started_again_and_again() {
        let failed = |reason| StepError::fail(reason, "m", FailureClass::Host);
        let retried =
            |reason, tried| matches!(again(failed(reason), tried), StepError::Retry { .. });
        assert!(retried(ErrorReason::HypervisorFailed, 1));
        assert!(retried(ErrorReason::HostNotReady, 2));
        assert!(!retried(ErrorReason::HypervisorFailed, ATTEMPTS));
        assert!(!retried(ErrorReason::GuestNoLogin, 1));
        assert!(!retried(ErrorReason::DiskUnsafe, 1));
    }
}
