//! VMs that an operator stops.
use gpuaas_proto::gpuaas::agent::v1::FailureClass;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;
use uuid::Uuid;

use super::{REASON, refused, uuid};
use crate::platform::Platform;

#[tokio::test]
async fn an_operators_stop_tells_the_members_why_and_they_start_it_again() {
    let platform = Platform::start().await;
    let id = platform.launched("web", "key-1").await;
    let before = platform.rows().await;
    for bad in ["", "  ", "two\nlines", "a\u{2028}b", &"x".repeat(501)] {
        let (code, _, field) = refused(platform.operator_stop(&id, bad, "key-2").await);
        assert_eq!(
            (code, field.as_str()),
            (Code::InvalidArgument, "reason"),
            "{bad:?}"
        );
    }
    let unknown = Uuid::now_v7().to_string();
    assert_eq!(
        refused(platform.operator_stop(&unknown, REASON, "key-2").await).0,
        Code::NotFound
    );
    assert_eq!(platform.rows().await, before, "a refusal changes nothing");

    for _ in 0..2 {
        platform
            .operator_stop(&id, REASON, "key-2")
            .await
            .expect("accepted");
    }
    let power = "SELECT power = 'stopped' FROM allocations WHERE id = $1";
    platform.world.until("stopped", power, uuid(&id)).await;
    platform.world.until_idle(uuid(&id)).await;
    let (_, reason, _) = refused(platform.operator_stop(&id, REASON, "key-3").await);
    assert_eq!(reason, ErrorReason::StateConflict, "it is stopped");
    assert_eq!(
        platform.who(&id, "stopping").await,
        ("operator".into(), REASON.into())
    );
    let status = platform.get(&id).await.status.expect("a status");
    let [condition] = status.conditions.as_slice() else {
        panic!("one condition: {:?}", status.conditions);
    };
    assert_eq!(condition.r#type, "stopped_by_operator");
    assert!(
        condition.message.contains(REASON) && condition.since.is_some(),
        "{condition:?}"
    );
    assert!(
        !condition.message.contains("user:root"),
        "operators are not named to tenants"
    );
    let reported: Vec<_> = platform.events(&id).await;
    let reported = reported
        .iter()
        .find(|(name, _)| name == "allocation.stopped_by_operator");
    assert_eq!(reported.expect("the event").1["operator_reason"], REASON);
    let audited = platform.audited("allocation.operator_stop").await;
    let [(principal, detail)] = audited.as_slice() else {
        panic!("one row: {audited:?}");
    };
    assert_eq!(
        (principal.as_str(), &detail["reason"]),
        ("user:root", &REASON.into())
    );
    crate::world::assert_of_projects(&platform.world.owner).await;
    platform.assert_sound().await;

    let start = pb::StartAllocationRequest {
        allocation_id: id.clone(),
    };
    let mut users = platform.users.clone();
    users
        .start_allocation(platform.user(start, Some("key-4")))
        .await
        .expect("accepted");
    let power = "SELECT power = 'running' FROM allocations WHERE id = $1";
    platform.world.until("running", power, uuid(&id)).await;
    assert_eq!(
        platform.who(&id, "starting").await,
        ("user:test".into(), String::new())
    );
    let status = platform.get(&id).await.status.expect("a status");
    assert!(
        status.conditions.is_empty(),
        "the stop is over: {:?}",
        status.conditions
    );
}

/// The condition stayed on a VM that runs on, and its members could not end it.
#[tokio::test]
async fn a_stop_by_an_operator_that_fails_leaves_no_condition() {
    let platform = Platform::start().await;
    let id = platform.launched("web", "key-1").await;
    platform.world.host.script(|script| {
        // not one that is tried again
        let (reason, class) = (ErrorReason::DiskUnsafe, FailureClass::Device);
        script.fail = Some(("stop", "stop", reason, class));
    });
    platform
        .operator_stop(&id, REASON, "key-2")
        .await
        .expect("accepted");
    let power = "SELECT power = 'running' FROM allocations WHERE id = $1";
    platform
        .world
        .until("running again", power, uuid(&id))
        .await;
    platform.world.until_idle(uuid(&id)).await;
    let shown = platform.get(&id).await.status.expect("a status");
    assert!(shown.conditions.is_empty(), "{:?}", shown.conditions);
}
