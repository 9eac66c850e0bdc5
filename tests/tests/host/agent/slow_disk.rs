//! A disk that has become slow: what the agent and its programs write to it, the kernel holds back.
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_tests::runner::{Case, Place};
use gpuaas_tests::throttle::Throttle;
use uuid::Uuid;

use super::host::{LabHost, until};

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::Host;
        p5_a_slow_disk_holds_up_no_other_slot: 40,
        p2_a_clone_that_a_slow_disk_keeps_beyond_its_deadline_writes_nothing_after_the_wipe: 65,
    ]
}

/// Holds what the agent and every program it starts write to a disk back to so many bytes a second. None where the kernel of this
/// machine cannot.
fn slow(host: &LabHost, index: usize, bytes_per_second: u64) -> Option<Throttle> {
    let agent = host.lab.agent_process().expect("an agent");
    let throttle = Throttle::set(agent.pid, &host.device(index), bytes_per_second);
    throttle
        .inspect_err(|why| println!("skipped: this machine cannot hold a disk back: {why}"))
        .ok()
}

/// Waits until the step runs.
async fn until_in(host: &LabHost, operation: Uuid, step: &str) {
    until(&format!("step {step}"), async || {
        runs(host, operation, step).await.then_some(())
    })
    .await;
}

async fn runs(host: &LabHost, operation: Uuid, step: &str) -> bool {
    let request = pb::GetOperationRequest {
        operation_id: operation.to_string(),
    };
    let now = host
        .vms()
        .get_operation(request)
        .await
        .expect("answered")
        .into_inner();
    let found = now.steps.iter().find(|found| found.name == step);
    found.is_some_and(|found| found.state() == pb::StepState::Running)
}

async fn p5_a_slow_disk_holds_up_no_other_slot() {
    let host = LabHost::get().await;
    let image = host.image("lab-mini").await;
    let Some(throttle) = slow(&host, 0, 32 << 10) else {
        return;
    };
    let delayed = host.tenant(0, 1).await;
    let operation = host.provision(&delayed, image.clone()).await;
    until_in(&host, operation, "clone").await;

    let other = host.tenant(1, 1).await;
    host.succeeded(host.provision(&other, image).await).await;
    host.succeeded(host.release(&other).await).await;
    assert!(host.is_empty(1));
    assert!(
        runs(&host, operation, "clone").await,
        "the disk was not slow"
    );

    throttle.limit(0);
    host.succeeded(operation).await;
    until("a login", async || {
        let login = host.ssh(&delayed, "true").ok()?;
        login.status.success().then_some(())
    })
    .await;
    throttle.limit(64 << 20);
    host.succeeded(host.release(&delayed).await).await;
    assert!(host.is_empty(0));
    host.assert_no_residue().await;
    assert_eq!(host.holds().await.holds, []);
}

/// The clone's program cannot end while the disk has its writes: they reach the disk whenever it wakes.
async fn p2_a_clone_that_a_slow_disk_keeps_beyond_its_deadline_writes_nothing_after_the_wipe() {
    let host = LabHost::get().await;
    let image = host.image("lab-mini").await;
    let Some(throttle) = slow(&host, 0, 4 << 10) else {
        return;
    };
    let mut tenant = host.tenant(0, 1).await;
    let id = Uuid::now_v7();
    let request = pb::ProvisionRequest {
        budget: Some(prost_types::Duration {
            seconds: 30,
            nanos: 0,
        }),
        ..host.provision_request(&tenant, id, image)
    };
    host.vms().provision(request).await.expect("it begins");
    let failure = host.failed(id).await;
    assert_eq!(
        (failure.reason.as_str(), failure.step.as_str()),
        ("DEADLINE_EXCEEDED", "clone")
    );

    // the writes of the clone still wait for the disk, and whoever opens it waits for them
    let refused = host.failed(host.repair(&mut tenant).await).await;
    assert_eq!(refused.step, "prove_disk", "{refused:?}");
    assert_eq!(refused.failure_class(), pb::FailureClass::Device);
    assert!(refused.message.contains("/dev/loop"), "{}", refused.message);
    assert_eq!(host.holds().await.holds.len(), 1);

    throttle.limit(0);
    until("a repair", async || {
        let ended = host.ended(host.repair(&mut tenant).await).await;
        (ended.state() == pb::OperationState::Succeeded).then_some(())
    })
    .await;
    assert!(host.is_empty(0));
    host.assert_no_residue().await;
    assert_eq!(host.holds().await.holds, []);
}
