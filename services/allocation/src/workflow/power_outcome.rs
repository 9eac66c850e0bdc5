//! What came of a change of power: whether it is proven or tried again, and what is said of it.
use gpuaas_placement::model::Rescue;
use gpuaas_placement::power::Action;
use gpuaas_proto::gpuaas::agent::v1::{FailureClass, HostOperation};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::Value;
use uuid::Uuid;

use super::failure::StepError;
use crate::domain::advice::explain;

/// How often a host is called before its failure counts as an answer.
const ATTEMPTS: i64 = 3;

/// A hypervisor that failed, a host that restarted meanwhile, or one of whose parts is being started again, is called again: the VM
/// is off by then, and there is no other host for it. A guest that does not answer is not.
pub(super) fn again(failed: StepError, tried: i64) -> StepError {
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
pub(super) fn proven(
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

/// A VM that is paused has its disk open: it is stopped only when it is off or gone.
pub(super) fn power_of(domain: Option<&str>, is_rescued: bool) -> &'static str {
    match domain {
        None | Some("shut off") => "stopped",
        Some(_) if is_rescued => "rescued",
        Some(_) => "running",
    }
}

pub(super) fn host_keys(of: Option<&Value>) -> Vec<String> {
    let keys = of.and_then(|of| of["ssh_host_keys"].as_array());
    let keys = keys.into_iter().flatten().filter_map(Value::as_str);
    keys.map(str::to_owned).collect()
}

/// Whether a VM that was observed in this power after a failed change is at the boot it was at: it was not stopped. A rescue
/// never starts the VM's own disk, and its end never the rescue's.
pub(super) fn is_same_boot(action: Action, seen: &str) -> bool {
    matches!(
        (action, seen),
        (Action::Stop, _) | (Action::Rescue, "running") | (Action::Unrescue, "rescued")
    )
}

/// Power before the change, which its host was not called for.
pub(super) fn power_before(action: Action, rescue: Option<&Rescue>) -> String {
    match (action, rescue) {
        (Action::Stop, Some(_)) => "rescued".to_owned(),
        (Action::Rescue, Some(rescue)) => rescue.from.clone(),
        _ => action.powers().0.to_owned(),
    }
}

pub(super) fn failure_message(action: Action, reason: &str, power: &str) -> String {
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
