//! Tests of the provision workflow's own judgements.
use super::*;
use gpuaas_proto::gpuaas::agent::v1::{OperationFailure, ProvisionResult};

/// C-28, C-29, C-30
#[test]
fn inc_22_the_window_is_longer_than_the_hosts_budget() {
    let window =
        Duration::from_secs(gpuaas_placement::workflows::PROVISION_WINDOW_SECONDS.unsigned_abs());
    assert_eq!(PROVISION_BUDGET, Duration::from_secs(20 * 60));
    assert_eq!(window, Duration::from_secs(30 * 60));
}

/// D-68
#[test]
fn inc_41_a_success_without_a_login_is_none() {
    let good = ProvisionResult {
        expected_ip: "10.100.0.10".into(),
        actual_ip: "10.100.0.10".into(),
        ssh_ready: true,
        image_digest: "sha256:a".into(),
        ..ProvisionResult::default()
    };
    let operation = |result: ProvisionResult| HostOperation {
        state: OperationState::Succeeded.into(),
        provision_result: Some(result),
        ..HostOperation::default()
    };
    let reason = |operation: &HostOperation| match judge(operation, "sha256:a") {
        Ok(()) => "ok".to_owned(),
        Err(StepError::Fail(failure)) => failure.reason,
        Err(other) => format!("{other:?}"),
    };
    assert_eq!(reason(&operation(good.clone())), "ok");
    assert_eq!(
        reason(&operation(ProvisionResult {
            ssh_ready: false,
            ..good.clone()
        })),
        "GUEST_NO_LOGIN"
    );
    assert_eq!(
        reason(&operation(ProvisionResult {
            actual_ip: "10.100.0.11".into(),
            ..good.clone()
        })),
        "GUEST_NO_ADDRESS"
    );
    assert_eq!(
        reason(&operation(ProvisionResult {
            image_digest: "sha256:b".into(),
            ..good
        })),
        "IMAGE_DIGEST_MISMATCH"
    );
    let failed = HostOperation {
        state: OperationState::Failed.into(),
        failure: Some(OperationFailure {
            reason: "DISK_UNSAFE".into(),
            ..OperationFailure::default()
        }),
        ..HostOperation::default()
    };
    assert_eq!(reason(&failed), "DISK_UNSAFE");
}

#[test]
fn c_07_slots_are_free_again_only_when_the_host_says_it_holds_nothing() {
    let (nothing, held) = (json!({"held": false}), json!({"held": true}));
    let first = |step: &str| step == "begin";
    let second = |step: &str| matches!(step, "begin" | "acquire_lease");
    let third = |_: &str| true;
    assert!(host_is_untouched("DEADLINE_EXCEEDED", first, None));
    assert!(host_is_untouched("HOST_NOT_READY", second, Some(&nothing)));
    assert!(!host_is_untouched("HOST_NOT_READY", second, Some(&held)));
    assert!(!host_is_untouched("HOST_UNREACHABLE", second, None));
    assert!(!host_is_untouched("DISK_UNSAFE", second, Some(&nothing)));
    assert!(!host_is_untouched("LEASE_HELD", second, Some(&nothing)));
    assert!(!host_is_untouched("HOST_NOT_READY", third, Some(&nothing)));
}
