//! Allocations that an operator releases.
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;

use super::{REASON, refused, uuid};
use crate::platform::{Platform, good};

#[tokio::test]
async fn an_operators_release_ends_an_allocation_of_any_project_with_a_reason() {
    let platform = Platform::start().await;
    let id = platform.launched("web", "key-1").await;
    let request = pb::ReleaseTenantAllocationRequest {
        allocation_id: id.clone(),
        reason: REASON.into(),
    };
    let mut admins = platform.admins.clone();
    let denied = admins
        .release_tenant_allocation(platform.user(request, Some("key-2")))
        .await;
    assert_eq!(
        denied.expect_err("no operator").code(),
        Code::PermissionDenied
    );
    assert_eq!(
        refused(platform.operator_release(&id, " ", "key-2").await).2,
        "reason"
    );

    for _ in 0..2 {
        platform
            .operator_release(&id, REASON, "key-2")
            .await
            .expect("accepted");
    }
    let (_, reason, _) = refused(platform.operator_release(&id, "another", "key-2").await);
    assert_eq!(reason, ErrorReason::IdempotencyKeyReused);
    platform.world.until_state(uuid(&id), "released").await;
    platform.world.until_idle(uuid(&id)).await;
    assert_eq!(
        platform.who(&id, "releasing").await,
        ("operator".into(), REASON.into())
    );
    let status = platform.get(&id).await.status.expect("a status");
    assert_eq!(status.conditions[0].r#type, "released_by_operator");
    assert!(status.conditions[0].message.contains(REASON));
    assert_eq!(
        platform.audited("allocation.operator_release").await.len(),
        1
    );
    let names: Vec<_> = platform
        .events(&id)
        .await
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let of = |wanted: &str| names.iter().position(|name| name == wanted);
    assert!(
        of("allocation.released_by_operator") < of("allocation.releasing"),
        "{names:?}"
    );
    platform.assert_sound().await;
    // what the owner had ended is the owner's doing
    let own = platform.launched("own", "key-5").await;
    platform.release(&own, "key-6").await.expect("accepted");
    platform
        .operator_release(&own, REASON, "key-7")
        .await
        .expect("nothing to do");
    let status = platform.get(&own).await.status.expect("a status");
    assert!(status.conditions.is_empty(), "{:?}", status.conditions);
    assert_eq!(
        platform.who(&own, "releasing").await,
        ("user:test".into(), String::new())
    );
}

#[tokio::test]
async fn a_request_in_the_queue_is_ended_by_an_operator_with_a_reason() {
    let platform = Platform::start().await;
    for (name, key) in [("a", "key-1"), ("b", "key-2")] {
        platform.launched(name, key).await;
    }
    let deadline = jiff::Timestamp::now().as_second() + 3600;
    let wait = pb::Wait {
        deadline: Some(prost_types::Timestamp {
            seconds: deadline,
            nanos: 0,
        }),
    };
    let request = pb::CreateAllocationRequest {
        wait: Some(wait),
        ..good("queued")
    };
    let id = platform.create(request, "key-3").await.expect("queued").id;
    assert_eq!(platform.timeline(&id).await[0].actor, "user:test");
    platform
        .operator_release(&id, REASON, "key-4")
        .await
        .expect("accepted");
    let status = platform.get(&id).await.status.expect("a status");
    assert_eq!(status.state(), pb::AllocationState::Released);
    assert_eq!(status.conditions[0].r#type, "released_by_operator");
    assert_eq!(platform.who(&id, "releasing").await.0, "operator");
    platform.assert_sound().await;
}
