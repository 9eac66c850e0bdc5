//! Protection from release, and the release at a time.

use gpuaas_common::Error;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;
use uuid::Uuid;

use crate::platform::{Platform, good};

fn uuid(id: &str) -> Uuid {
    id.parse().expect("a uuid")
}

fn in_seconds(seconds: i64) -> Option<prost_types::Timestamp> {
    let seconds = jiff::Timestamp::now().as_second() + seconds;
    Some(prost_types::Timestamp { seconds, nanos: 0 })
}

impl Platform {
    async fn update(
        &self,
        id: &str,
        key: &str,
        change: pb::UpdateAllocationRequest,
    ) -> Result<pb::Allocation, Error> {
        let request = pb::UpdateAllocationRequest {
            allocation_id: id.to_owned(),
            ..change
        };
        let answer = self
            .users
            .clone()
            .update_allocation(self.user(request, Some(key)))
            .await;
        answer.map(tonic::Response::into_inner).map_err(Error::from)
    }
}

fn protect(protected: bool) -> pb::UpdateAllocationRequest {
    pb::UpdateAllocationRequest {
        termination_protection: Some(protected),
        ..Default::default()
    }
}

fn end_at(time: Option<prost_types::Timestamp>) -> pb::UpdateAllocationRequest {
    pb::UpdateAllocationRequest {
        auto_release_time: time,
        ..Default::default()
    }
}

#[tokio::test]
async fn a_protected_allocation_is_released_only_when_the_protection_is_gone() {
    let platform = Platform::start().await;
    let id = platform
        .create(good("web"), "key-1")
        .await
        .expect("created")
        .id;
    platform.world.until_state(uuid(&id), "active").await;
    platform.world.until_idle(uuid(&id)).await;
    let protected = platform
        .update(&id, "key-2", protect(true))
        .await
        .expect("protected");
    assert!(protected.termination_protection);
    let before = platform.rows().await;
    let refused = platform.release(&id, "key-3").await.expect_err("protected");
    assert_eq!(
        (refused.code(), refused.reason()),
        (Code::FailedPrecondition, ErrorReason::TerminationProtected)
    );
    assert_eq!(platform.rows().await, before, "nothing has changed");
    let both = platform
        .update(&id, "key-4", end_at(in_seconds(3600)))
        .await
        .expect_err("both");
    assert_eq!(both.fields()[0].0, "termination_protection");
    platform
        .update(&id, "key-5", protect(false))
        .await
        .expect("unprotected");
    platform.release(&id, "key-3").await.expect("accepted");
    platform.world.until_state(uuid(&id), "released").await;
}

#[tokio::test]
async fn an_operator_ends_a_protected_allocation() {
    let platform = Platform::start().await;
    let id = platform
        .create(good("web"), "key-1")
        .await
        .expect("created")
        .id;
    platform.world.until_state(uuid(&id), "active").await;
    platform
        .update(&id, "key-2", protect(true))
        .await
        .expect("protected");
    let request = pb::ReleaseTenantAllocationRequest {
        allocation_id: id.clone(),
        reason: "the host is scrapped".into(),
    };
    let mut admins = platform.admins.clone();
    let released = admins
        .release_tenant_allocation(platform.admin(request, Some("key-3")))
        .await;
    released.expect("accepted");
    platform.world.until_state(uuid(&id), "released").await;
}

#[tokio::test]
async fn an_allocation_is_released_when_its_time_has_come_and_says_so() {
    let platform = Platform::start().await;
    let id = platform
        .create(good("web"), "key-1")
        .await
        .expect("created")
        .id;
    platform.world.until_state(uuid(&id), "active").await;
    platform.world.until_idle(uuid(&id)).await;
    for (change, field) in [
        (end_at(in_seconds(-5)), "auto_release_time"),
        (
            pb::UpdateAllocationRequest {
                no_auto_release: true,
                ..end_at(in_seconds(60))
            },
            "no_auto_release",
        ),
        (pb::UpdateAllocationRequest::default(), "display_name"),
    ] {
        let error = platform
            .update(&id, "key-2", change)
            .await
            .expect_err(field);
        assert_eq!(error.fields()[0].0, field);
    }
    let later = platform
        .update(&id, "key-2", end_at(in_seconds(3600)))
        .await
        .expect("later");
    assert!(later.auto_release_time.is_some());
    let never = pb::UpdateAllocationRequest {
        no_auto_release: true,
        ..Default::default()
    };
    let never = platform.update(&id, "key-3", never).await.expect("never");
    assert!(never.auto_release_time.is_none());
    let soon = end_at(in_seconds(2));
    platform
        .update(&id, "key-4", soon.clone())
        .await
        .expect("soon");
    platform.world.until_state(uuid(&id), "released").await;
    platform.world.until_idle(uuid(&id)).await;
    // who lost the answer gets it, although the time is over
    platform.update(&id, "key-4", soon).await.expect("a repeat");
    let reported: Vec<String> = sqlx::query_scalar(
        "SELECT message FROM placement.timeline WHERE allocation_id = $1 AND step = 'releasing'",
    )
    .bind(uuid(&id))
    .fetch_all(&platform.world.owner)
    .await
    .expect("a timeline");
    assert_eq!(
        reported,
        ["The release time has come; billing ended at that time."]
    );
    let ended_then: bool = sqlx::query_scalar(
        "SELECT p.ended_at = a.billed_until AND a.billed_until = a.auto_release_at
           FROM placement.allocation_periods p JOIN placement.allocations a ON a.id = p.allocation_id WHERE a.id = $1",
    )
    .bind(uuid(&id))
    .fetch_one(&platform.world.owner)
    .await
    .expect("one period");
    assert!(ended_then, "not when the release was accepted");
    let audited: Vec<String> = sqlx::query_scalar(
        "SELECT principal FROM placement.audit WHERE action = 'allocation.auto_release'",
    )
    .fetch_all(&platform.world.owner)
    .await
    .expect("rows");
    assert_eq!(audited, ["service:allocation"]);
    crate::world::assert_of_projects(&platform.world.owner).await;
}

#[tokio::test]
async fn a_launch_says_its_protection_and_its_end() {
    let platform = Platform::start().await;
    let ends = |seconds| pb::CreateAllocationRequest {
        auto_release_time: in_seconds(seconds),
        ..good("ends")
    };
    let protected = pb::CreateAllocationRequest {
        termination_protection: true,
        ..good("kept")
    };
    for wrong in [
        ends(-5),
        pb::CreateAllocationRequest {
            termination_protection: true,
            ..ends(3600)
        },
    ] {
        let error = platform.create(wrong, "key-1").await.expect_err("refused");
        assert_eq!(error.fields()[0].0, "auto_release_time");
    }
    let kept = platform
        .create(protected.clone(), "key-1")
        .await
        .expect("created");
    assert!(kept.termination_protection);
    // the key stands for the protection, too
    let other = platform.create(good("kept"), "key-1").await;
    let error = other.expect_err("another request");
    assert_eq!(error.reason(), ErrorReason::IdempotencyKeyReused);
    let again = platform.create(protected, "key-1").await.expect("a repeat");
    assert_eq!(again.id, kept.id);
    let refused = platform.release(&kept.id, "key-2").await;
    let error = refused.expect_err("protected");
    assert_eq!(error.reason(), ErrorReason::TerminationProtected);
    // one that is not even active is released at its time
    let soon = ends(2);
    let made = platform
        .create(soon.clone(), "key-3")
        .await
        .expect("created");
    assert!(made.auto_release_time.is_some());
    platform.world.until_state(uuid(&made.id), "released").await;
    let again = platform.create(soon, "key-3").await.expect("a repeat");
    assert_eq!(again.id, made.id, "although the time is over");
}

#[tokio::test]
async fn of_two_who_change_what_they_have_read_the_second_is_told_to_read_again() {
    let platform = Platform::start().await;
    let made = platform.create(good("web"), "key-1").await;
    let id = made.expect("created").id;
    let read = platform.get(&id).await;
    assert!(!read.etag.is_empty());
    platform.world.until_state(uuid(&id), "active").await;
    // its state changes by itself, and is nobody's decision
    assert_eq!(platform.get(&id).await.etag, read.etag);

    let rename = |name: &str, etag: &str| pb::UpdateAllocationRequest {
        display_name: Some(name.to_owned()),
        etag: etag.to_owned(),
        ..Default::default()
    };
    let with = |change: pb::UpdateAllocationRequest, etag: &str| pb::UpdateAllocationRequest {
        etag: etag.to_owned(),
        ..change
    };
    let first = platform
        .update(&id, "key-2", rename("First", &read.etag))
        .await
        .expect("as it was read");
    assert_ne!(first.etag, read.etag);
    let late = [
        rename("Second", &read.etag),
        with(protect(true), &read.etag),
        with(end_at(in_seconds(3600)), &read.etag),
    ];
    let before = platform.rows().await;
    for (number, change) in late.into_iter().enumerate() {
        let key = format!("late-{number}");
        let refused = platform.update(&id, &key, change).await;
        let refused = refused.expect_err("changed meanwhile");
        assert_eq!(
            (refused.code(), refused.reason()),
            (Code::Aborted, ErrorReason::EtagStale)
        );
        assert_eq!(refused.fields()[0].0, "etag");
    }
    assert_eq!(platform.rows().await, before, "nothing has changed");
    // the same call again, and one by somebody who does not ask
    platform
        .update(&id, "key-2", rename("First", &read.etag))
        .await
        .expect("the same key");
    let protected = platform
        .update(&id, "key-3", with(protect(true), &first.etag))
        .await
        .expect("as it was read");
    assert_ne!(protected.etag, first.etag);
    platform
        .update(&id, "key-4", rename("Third", ""))
        .await
        .expect("not checked");
}
