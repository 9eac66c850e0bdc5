//! Tests of the provision workflow's own judgements.
use super::*;
use gpuaas_proto::gpuaas::agent::v1::{OperationFailure, ProvisionResult};
use gpuaas_proto::gpuaas::common::v1::{ReadinessCheck, ReadinessResult};

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
    let image = Image {
        digest: "sha256:a".into(),
        ..Image::default()
    };
    let reason = |operation: &HostOperation| match judge(operation, &image) {
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

/// An agent that knows nothing of readiness checks reports a success without them.
#[test]
fn inc_24_a_success_without_the_checks_of_the_image_is_none() {
    let wire = ReadinessCheck {
        name: "nvidia-smi".into(),
        command: "nvidia-smi".into(),
        ..ReadinessCheck::default()
    };
    let image = Image {
        readiness_checks: gpuaas_common::readiness::parse(&[wire]).unwrap(),
        ..Image::default()
    };
    let result = |check: &str, passed| ReadinessResult {
        check: check.to_owned(),
        passed,
        ..ReadinessResult::default()
    };
    let judged = |readiness_results: Vec<ReadinessResult>| {
        let operation = HostOperation {
            state: OperationState::Succeeded.into(),
            provision_result: Some(ProvisionResult {
                expected_ip: "10.100.0.10".into(),
                actual_ip: "10.100.0.10".into(),
                ssh_ready: true,
                ..ProvisionResult::default()
            }),
            readiness_results,
            ..HostOperation::default()
        };
        match judge(&operation, &image) {
            Ok(()) => "ok".to_owned(),
            Err(StepError::Fail(failure)) => failure.reason,
            Err(other) => format!("{other:?}"),
        }
    };
    assert_eq!(judged(vec![result("nvidia-smi", true)]), "ok");
    for missing in [
        vec![],
        vec![result("nvidia-smi", false)],
        vec![result("cloud-init", true)],
    ] {
        assert_eq!(judged(missing), "GUEST_NOT_READY");
    }
}
