//! What operators see of the allocations of all projects and do to them, and what the members read of it.

use gpuaas_common::Error;
use gpuaas_placement::audit;
use gpuaas_proto::gpuaas::agent::v1::FailureClass;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sha2::{Digest as _, Sha256};
use tonic::Code;
use uuid::Uuid;

use crate::host::DISK_BYTES;
use crate::platform::{Platform, good};

const REASON: &str = "The node goes into maintenance on Monday";

fn uuid(id: &str) -> Uuid {
    id.parse().expect("a uuid")
}

/// Name, or field, of a refusal.
pub fn refused<T: std::fmt::Debug>(
    answer: Result<T, tonic::Status>,
) -> (Code, ErrorReason, String) {
    let error = Error::from(answer.expect_err("refused"));
    let field = error.fields().first().map(|(field, _)| field.clone());
    (error.code(), error.reason(), field.unwrap_or_default())
}

impl Platform {
    pub async fn launched(&self, name: &str, key: &str) -> String {
        let id = self.create(good(name), key).await.expect("created").id;
        self.world.until_state(uuid(&id), "active").await;
        self.world.until_idle(uuid(&id)).await;
        id
    }

    async fn timeline(&self, id: &str) -> Vec<pb::TimelineEntry> {
        let request = pb::ListTimelineRequest {
            allocation_id: id.to_owned(),
            page_size: 500,
            ..Default::default()
        };
        let mut users = self.users.clone();
        let answer = users.list_timeline(self.user(request, None)).await;
        answer.expect("a timeline").into_inner().entries
    }

    /// The last entry of a step: who asked for it, and why.
    async fn who(&self, id: &str, step: &str) -> (String, String) {
        let entries = self.timeline(id).await;
        let found = entries.into_iter().rev().find(|entry| entry.step == step);
        let found = found.unwrap_or_else(|| panic!("no entry {step}"));
        (found.actor, found.reason)
    }

    async fn operator_stop(
        &self,
        id: &str,
        reason: &str,
        key: &str,
    ) -> Result<pb::Allocation, tonic::Status> {
        let request = pb::StopTenantAllocationRequest {
            allocation_id: id.to_owned(),
            reason: reason.to_owned(),
        };
        let mut admins = self.admins.clone();
        let answer = admins
            .stop_tenant_allocation(self.admin(request, Some(key)))
            .await;
        answer.map(tonic::Response::into_inner)
    }

    async fn operator_release(
        &self,
        id: &str,
        reason: &str,
        key: &str,
    ) -> Result<pb::Allocation, tonic::Status> {
        let request = pb::ReleaseTenantAllocationRequest {
            allocation_id: id.to_owned(),
            reason: reason.to_owned(),
        };
        let mut admins = self.admins.clone();
        let answer = admins
            .release_tenant_allocation(self.admin(request, Some(key)))
            .await;
        answer.map(tonic::Response::into_inner)
    }

    async fn all(&self, request: pb::ListAllAllocationsRequest) -> pb::ListAllAllocationsResponse {
        let mut admins = self.admins.clone();
        let answer = admins.list_all_allocations(self.admin(request, None)).await;
        answer.expect("a list").into_inner()
    }

    pub async fn rename(
        &self,
        id: &str,
        name: Option<&str>,
        key: &str,
    ) -> Result<pb::Allocation, tonic::Status> {
        let request = pb::UpdateAllocationRequest {
            allocation_id: id.to_owned(),
            display_name: name.map(str::to_owned),
            ..Default::default()
        };
        let mut users = self.users.clone();
        let answer = users.update_allocation(self.user(request, Some(key))).await;
        answer.map(tonic::Response::into_inner)
    }

    pub async fn events(&self, id: &str) -> Vec<(String, serde_json::Value)> {
        sqlx::query_as("SELECT type::text, data::jsonb FROM placement.outbox WHERE aggregate_id = $1 ORDER BY seq")
            .bind(uuid(id))
            .fetch_all(&self.world.owner)
            .await
            .expect("events")
    }

    async fn audited(&self, action: &str) -> Vec<(String, serde_json::Value)> {
        sqlx::query_as("SELECT principal::text, detail::jsonb FROM placement.audit WHERE action = $1 ORDER BY id")
            .bind(action)
            .fetch_all(&self.world.owner)
            .await
            .expect("rows")
    }

    async fn assert_sound(&self) {
        let mut conn = self.world.scheduler.acquire().await.expect("a connection");
        let report = audit::ledger(&mut conn).await.expect("an audit");
        assert_eq!(
            report.broken().collect::<Vec<_>>(),
            Vec::<&audit::InvariantCheck>::new()
        );
    }
}

#[tokio::test]
async fn operators_list_the_allocations_of_all_projects_by_state_project_and_node() {
    let platform = Platform::start().await;
    let first = platform.launched("web", "key-1").await;
    let request = platform.as_person(
        good("other"),
        "user:other",
        Uuid::now_v7(),
        false,
        Some("key-2"),
    );
    let second = platform.users.clone().create_allocation(request).await;
    let second = second.expect("created").into_inner();
    platform.world.until_state(uuid(&second.id), "active").await;
    platform.world.until_idle(uuid(&second.id)).await;

    let denied = platform.admins.clone();
    let denied = denied
        .clone()
        .list_all_allocations(platform.user(Default::default(), None))
        .await;
    assert_eq!(denied.expect_err("no admin").code(), Code::PermissionDenied);

    let ids = |page: pb::ListAllAllocationsResponse| -> Vec<String> {
        let of = |one: pb::TenantAllocation| one.allocation.expect("an allocation").id;
        page.allocations.into_iter().map(of).collect()
    };
    let everything = platform.all(Default::default()).await;
    let node = platform.world.node_id.to_string();
    assert!(everything.allocations.iter().all(|one| one.node_id == node));
    assert_eq!(
        ids(everything),
        [second.id.clone(), first.clone()],
        "newest first"
    );

    let one = |page_token| pb::ListAllAllocationsRequest {
        page_size: 1,
        page_token,
        ..Default::default()
    };
    let page = platform.all(one(String::new())).await;
    let token = page.next_page_token.clone();
    assert_eq!(ids(page), std::slice::from_ref(&second.id));
    let page = platform.all(one(token.clone())).await;
    assert!(page.next_page_token.is_empty());
    assert_eq!(ids(page), std::slice::from_ref(&first));

    let of_project = pb::ListAllAllocationsRequest {
        project_id: platform.world.project.to_string(),
        ..Default::default()
    };
    assert_eq!(
        ids(platform.all(of_project).await),
        std::slice::from_ref(&first)
    );
    let elsewhere = pb::ListAllAllocationsRequest {
        node_id: Uuid::now_v7().to_string(),
        ..Default::default()
    };
    assert!(ids(platform.all(elsewhere).await).is_empty());
    let here = pb::ListAllAllocationsRequest {
        node_id: node,
        ..Default::default()
    };
    assert_eq!(ids(platform.all(here).await).len(), 2);

    platform.release(&first, "key-3").await.expect("accepted");
    platform.world.until_state(uuid(&first), "released").await;
    let in_state = |state: pb::AllocationState| pb::ListAllAllocationsRequest {
        state: state.into(),
        ..Default::default()
    };
    assert_eq!(
        ids(platform.all(in_state(pb::AllocationState::Released)).await),
        std::slice::from_ref(&first)
    );
    assert_eq!(
        ids(platform.all(in_state(pb::AllocationState::Active)).await),
        std::slice::from_ref(&second.id)
    );
    assert_eq!(
        ids(platform.all(Default::default()).await),
        std::slice::from_ref(&second.id),
        "ended ones are left out"
    );
    let ended = pb::ListAllAllocationsRequest {
        include_ended: true,
        ..Default::default()
    };
    assert_eq!(ids(platform.all(ended).await).len(), 2);

    let selected = |filter: &str, order_by: &str| pb::ListAllAllocationsRequest {
        filter: filter.into(),
        order_by: order_by.into(),
        ..Default::default()
    };
    let (first_id, second_id) = (first.clone(), second.id.clone());
    for (filter, order_by, expected) in [
        // a filter that names the state finds ended ones
        ("state != requested", "", vec![&second_id, &first_id]),
        ("state:*", "create_time", vec![&first_id, &second_id]),
        (
            "NOT (state = released OR lab = false)",
            "",
            vec![&second_id],
        ),
        ("name = other", "", vec![&second_id]),
        ("name:OTH", "name, create_time desc", vec![&second_id]),
        ("power = running AND gpu_count >= 1", "", vec![&second_id]),
        ("active_time:* AND auto_release_time:*", "", vec![]),
        ("labels:team", "", vec![]),
        ("create_time < 2000-01-01", "", vec![]),
        ("creator = \"user:other\"", "project_id", vec![&second_id]),
        ("name = \"other' OR 'a' = 'a\"", "", vec![]),
    ] {
        let found = ids(platform.all(selected(filter, order_by)).await);
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{filter}");
    }
    let of_first = format!("state = released AND id = {first}");
    let found = ids(platform.all(selected(&of_first, "")).await);
    assert_eq!(found, std::slice::from_ref(&first));

    let bad = [
        (selected("owner = me", ""), "filter"),
        (selected("", "owner"), "order_by"),
        (
            pb::ListAllAllocationsRequest {
                page_token: token.clone(),
                ..selected("lab = true", "")
            },
            "page_token",
        ),
        (
            pb::ListAllAllocationsRequest {
                project_id: "p".into(),
                ..Default::default()
            },
            "project_id",
        ),
        (
            pb::ListAllAllocationsRequest {
                node_id: "n".into(),
                ..Default::default()
            },
            "node_id",
        ),
        (
            pb::ListAllAllocationsRequest {
                state: 99,
                ..Default::default()
            },
            "state",
        ),
        (
            pb::ListAllAllocationsRequest {
                page_size: -1,
                ..Default::default()
            },
            "page_size",
        ),
        (
            pb::ListAllAllocationsRequest {
                page_token: token,
                ..Default::default()
            }
            .include_ended(),
            "page_token",
        ),
    ];
    for (request, field) in bad {
        let mut admins = platform.admins.clone();
        let answer = admins
            .list_all_allocations(platform.admin(request, None))
            .await;
        assert_eq!(refused(answer).2, field);
    }
}

trait IncludeEnded {
    fn include_ended(self) -> Self;
}

impl IncludeEnded for pb::ListAllAllocationsRequest {
    /// Another query than that of the token.
    fn include_ended(mut self) -> Self {
        self.include_ended = true;
        self
    }
}

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

#[tokio::test]
async fn an_allocation_is_renamed_for_people_and_says_who_launched_it_and_what_it_has() {
    let platform = Platform::start().await;
    let id = platform.launched("web", "key-1").await;
    let before = platform.get(&id).await;
    assert_eq!(
        (before.display_name.as_str(), before.creator.as_str()),
        ("", "user:test")
    );
    assert_eq!(platform.timeline(&id).await[0].actor, "user:test");
    let resources = before
        .status
        .clone()
        .and_then(|status| status.resources)
        .expect("of the slot");
    let expected = pb::VmResources {
        vcpus: 1,
        memory_mib: 256,
        disks: 1,
        disk_bytes: DISK_BYTES,
    };
    assert_eq!(resources, expected);

    for (bad, field) in [
        (None, "display_name"),
        (Some("two\nlines"), "display_name"),
        (Some("web\u{202e}gnp"), "display_name"),
        (Some(&*"x".repeat(201)), "display_name"),
    ] {
        assert_eq!(refused(platform.rename(&id, bad, "key-2").await).2, field);
    }
    for _ in 0..2 {
        let renamed = platform
            .rename(&id, Some(" Training, run 7 "), "key-2")
            .await
            .expect("renamed");
        assert_eq!(renamed.display_name, "Training, run 7");
        assert_eq!(
            renamed.config.expect("a config").name,
            "web",
            "the host name stays"
        );
    }
    let same = platform
        .rename(&id, Some("Training, run 7"), "key-3")
        .await
        .expect("the same");
    let revision = |one: &pb::Allocation| one.metadata.as_ref().expect("metadata").revision;
    assert_eq!(
        revision(&same),
        revision(&before) + 1,
        "the same name is no change"
    );
    let audited = platform.audited("allocation.update").await;
    let [(_, first), (_, second)] = audited.as_slice() else {
        panic!("two rows: {audited:?}");
    };
    assert_ne!(first["before_digest"], first["after_digest"]);
    assert_eq!(
        [&second["before_digest"], &second["after_digest"]],
        [&first["after_digest"]; 2],
        "P10: the second one found what the first had left, and changed nothing"
    );
    // as the operator's guide says it: what the event tells, without claims, in canonical JSON
    let mut told = platform.events(&id).await.pop().expect("an event").1;
    told["claims"] = serde_json::json!([]);
    told.sort_all_objects();
    let digest = hex::encode(Sha256::digest(told.to_string()));
    assert_eq!(first["after_digest"], digest, "{told}");
    let launched = platform.audited("allocation.create").await;
    let made = &launched[0].1;
    assert_eq!(made.get("before_digest"), None);
    assert!(made["after_digest"].is_string());
    platform.assert_sound().await;

    let request = pb::UpdateAllocationRequest {
        allocation_id: id.clone(),
        display_name: Some("mine".into()),
        ..Default::default()
    };
    let mut users = platform.users.clone();
    let foreign = platform.as_person(request, "user:stranger", Uuid::now_v7(), false, Some("k"));
    assert_eq!(
        refused(users.update_allocation(foreign).await).1,
        ErrorReason::AllocationNotFound
    );
    let unnamed = platform
        .rename(&id, Some(""), "key-4")
        .await
        .expect("renamed");
    assert_eq!(unnamed.display_name, "");
}
