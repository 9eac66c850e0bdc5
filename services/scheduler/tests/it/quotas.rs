//! Limits of projects over the API: an operator sets and reads them, a member reads its own.
use gpuaas_common::identity::Caller;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_server::PlacementService as _;
use gpuaas_proto::gpuaas::scheduler::v1 as pb;
use gpuaas_proto::gpuaas::scheduler::v1::capacity_reservation_admin_service_server::CapacityReservationAdminService as _;
use gpuaas_proto::gpuaas::scheduler::v1::queue_admin_service_server::QueueAdminService as _;
use gpuaas_proto::gpuaas::scheduler::v1::quota_service_server::QuotaService as _;
use gpuaas_proto::gpuaas::scheduler::v1::sku_admin_service_server::SkuAdminService as _;
use tonic::{Code, Request};
use uuid::Uuid;

use crate::world::{LAB, World, by, ok, refused, reservation};

/// The project of [`reservation`].
const OURS: Uuid = Uuid::from_u128(5);

fn member<T>(message: T, projects: &[Uuid]) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(Caller {
        principal: "user:alice".into(),
        projects: projects.to_vec(),
        platform_role: None,
        action: None,
        request_id: "req-3".into(),
        idempotency_key: None,
    });
    request
}

async fn put(
    world: &World,
    max_allocations: u32,
    key: Option<&str>,
) -> Result<tonic::Response<pb::ProjectAllocationLimit>, tonic::Status> {
    let request = pb::PutProjectAllocationLimitRequest {
        project_id: OURS.to_string(),
        max_allocations,
        ..pb::PutProjectAllocationLimitRequest::default()
    };
    let api = &world.api;
    api.put_project_allocation_limit(by(request, key)).await
}

#[tokio::test]
async fn a_limit_on_allocations_is_put_once_per_key_and_refuses_with_its_numbers() {
    let (world, ..) = World::with_slots(3).await;
    let first = ok(put(&world, 1, Some("q1")).await);
    assert_eq!((first.max_allocations, first.used_allocations), (1, 0));
    ok(world.api.reserve(Request::new(reservation("a"))).await);
    let error = refused(world.api.reserve(Request::new(reservation("b"))).await);
    assert_eq!(
        (error.code(), error.reason()),
        (Code::ResourceExhausted, ErrorReason::Quota)
    );
    let reported =
        ["quota", "limit", "used", "requested"].map(|key| error.metadata()[key].to_string());
    assert_eq!(reported, ["allocations", "1", "1", "1"]);
    // what was answered is answered again, though the project is at its limit
    ok(world.api.reserve(Request::new(reservation("a"))).await);
    let replayed = ok(put(&world, 1, Some("q1")).await);
    assert_eq!(
        (replayed.max_allocations, replayed.used_allocations),
        (1, 1)
    );
    for (outcome, reason) in [
        (
            put(&world, 2, Some("q1")).await,
            ErrorReason::IdempotencyKeyReused,
        ),
        (
            put(&world, 2, None).await,
            ErrorReason::IdempotencyKeyMissing,
        ),
        (
            put(&world, u32::MAX, Some("q2")).await,
            ErrorReason::FieldInvalid,
        ),
    ] {
        assert_eq!(refused(outcome).reason(), reason);
    }
    let audited = "SELECT count(*) FROM placement.audit WHERE action = 'quota.put'
        AND detail->>'max_allocations' = '1' AND detail->>'project_id' IS NOT NULL AND principal = 'user:root'";
    assert_eq!(world.number(audited).await, 1);
    ok(put(&world, 2, Some("q3")).await);
    ok(world.api.reserve(Request::new(reservation("b"))).await);
    // P10: each changed something, and what the first left the second found, whatever was reserved meanwhile
    let chained = "SELECT count(*) FROM (SELECT detail->>'before_digest' AS before, detail->>'after_digest' AS after,
               lag(detail->>'after_digest') OVER (ORDER BY seq) AS left_before FROM placement.audit
         WHERE action = 'quota.put') AS one WHERE before <> after AND before = coalesce(left_before, before)";
    assert_eq!(world.number(chained).await, 2);
}

/// Everything but the etags, which are of the rest of it.
fn without_etag(
    answer: Result<tonic::Response<pb::ProjectQuotas>, tonic::Status>,
) -> pb::ProjectQuotas {
    let mut quotas = ok(answer);
    assert!(!quotas.etag.is_empty());
    for quota in &mut quotas.quotas {
        assert_eq!(std::mem::take(&mut quota.etag), quotas.etag);
    }
    quotas.etag.clear();
    quotas
}

#[tokio::test]
async fn a_limit_that_somebody_changed_meanwhile_is_not_put() {
    let (world, ..) = World::with_slots(1).await;
    let (api, project_id) = (&world.api, OURS.to_string());
    let read = async || {
        let project_id = project_id.clone();
        let request = pb::GetProjectQuotasRequest { project_id };
        ok(api.get_project_quotas(by(request, None)).await).etag
    };
    let of_sku = async |max_gpus: u32, etag: &str, key: &str| {
        let request = pb::PutProjectQuotaRequest {
            project_id: project_id.clone(),
            sku: LAB.to_owned(),
            max_gpus,
            etag: etag.to_owned(),
        };
        api.put_project_quota(by(request, Some(key))).await
    };
    let allocations = async |max_allocations: u32, etag: &str, key: &str| {
        let request = pb::PutProjectAllocationLimitRequest {
            project_id: project_id.clone(),
            max_allocations,
            etag: etag.to_owned(),
        };
        api.put_project_allocation_limit(by(request, Some(key)))
            .await
    };
    let first = read().await;
    ok(api.reserve(Request::new(reservation("a"))).await);
    assert_eq!(read().await, first, "what is in use is no change");
    let second = ok(of_sku(3, &first, "q1").await).etag;
    assert_eq!(read().await, second);
    assert_ne!(second, first);
    // one of the limits is decided by the others
    let third = ok(allocations(4, &second, "q2").await).etag;
    for late in [
        refused(allocations(9, &second, "q3").await),
        refused(of_sku(9, &second, "q4").await),
        refused(of_sku(9, &first, "q5").await),
    ] {
        assert_eq!(
            (late.code(), late.reason(), late.fields()[0].0.as_str()),
            (Code::Aborted, ErrorReason::EtagStale, "etag")
        );
    }
    assert_eq!(read().await, third, "nothing has changed");
    // repeats while the call is at work: one makes the change, and the others answer what it made
    let repeat = async || of_sku(7, &third, "q7").await;
    let (a, b, c, d) = tokio::join!(repeat(), repeat(), repeat(), repeat());
    let answered = [a, b, c, d].map(|one| ok(one).etag);
    let third = read().await;
    assert_eq!(answered.each_ref(), [&third; 4]);
    // a repeat, and a change by who has read nothing
    assert_eq!(ok(of_sku(3, &first, "q1").await).etag, third);
    ok(of_sku(5, "", "q6").await);
    assert_ne!(read().await, third);
}

#[tokio::test]
async fn a_priority_and_a_reservation_limit_that_changed_meanwhile_are_not_put() {
    let world = World::new().await;
    let (api, project_id) = (&world.api, OURS.to_string());
    let prioritise = async |priority: pb::Priority, etag: &str, key: &str| {
        let request = pb::PutProjectPriorityRequest {
            project_id: project_id.clone(),
            priority: priority.into(),
            etag: etag.to_owned(),
        };
        api.put_project_priority(by(request, Some(key))).await
    };
    let request = pb::GetProjectPriorityRequest {
        project_id: project_id.clone(),
    };
    let read = ok(api.get_project_priority(by(request, None)).await).etag;
    let high = ok(prioritise(pb::Priority::High, &read, "p1").await);
    let late = refused(prioritise(pb::Priority::Low, &read, "p2").await);
    assert_eq!(late.reason(), ErrorReason::EtagStale);
    let again = ok(prioritise(pb::Priority::High, &read, "p1").await);
    assert_eq!((&again, again.priority()), (&high, pb::Priority::High));

    let limit = async |max_gpus: u32, etag: &str, key: &str| {
        let request = pb::PutProjectReservationLimitRequest {
            project_id: project_id.clone(),
            max_gpus,
            etag: etag.to_owned(),
        };
        api.put_project_reservation_limit(by(request, Some(key)))
            .await
    };
    let request = pb::GetProjectReservationLimitRequest {
        project_id: project_id.clone(),
    };
    let read = ok(api.get_project_reservation_limit(by(request, None)).await).etag;
    let four = ok(limit(4, &read, "l1").await);
    let late = refused(limit(9, &read, "l2").await);
    assert_eq!(
        (late.reason(), late.fields()[0].0.as_str()),
        (ErrorReason::EtagStale, "etag")
    );
    let again = ok(limit(4, &read, "l1").await);
    assert_eq!((&again, again.max_gpus), (&four, 4));
}

/// The events of limits: revision and data, in their order.
async fn told(world: &World) -> Vec<(i64, serde_json::Value)> {
    sqlx::query_as(
        "SELECT revision, data::jsonb FROM placement.outbox
          WHERE type = 'quota.updated' AND aggregate_id = $1 AND project_id = $1 ORDER BY seq",
    )
    .bind(OURS)
    .fetch_all(&world.db.owner_pool().await)
    .await
    .expect("events")
}

#[tokio::test]
async fn a_limit_that_changes_is_an_event_and_one_that_stays_is_none() {
    let (world, ..) = World::with_slots(1).await;
    let api = &world.api;
    ok(put(&world, 256, Some("q1")).await);
    assert!(told(&world).await.is_empty(), "it is the default");
    // repeated, it is changed once
    for _ in 0..2 {
        ok(put(&world, 5, Some("q2")).await);
    }
    let of_sku = |sku: &str| pb::PutProjectQuotaRequest {
        project_id: OURS.to_string(),
        sku: sku.to_owned(),
        max_gpus: 3,
        ..pb::PutProjectQuotaRequest::default()
    };
    let unknown = api.put_project_quota(by(of_sku("no-such-sku"), Some("q3")));
    assert_eq!(refused(unknown.await).reason(), ErrorReason::SkuUnknown);
    ok(api.put_project_quota(by(of_sku(LAB), Some("q4"))).await);
    let limit = pb::PutProjectReservationLimitRequest {
        project_id: OURS.to_string(),
        max_gpus: 2,
        ..pb::PutProjectReservationLimitRequest::default()
    };
    ok(api
        .put_project_reservation_limit(by(limit, Some("q5")))
        .await);
    let data = |quota: &str, sku: &str, limit: i64, before: i64| serde_json::json!({ "quota": quota, "sku": sku, "limit": limit, "previous_limit": before });
    assert_eq!(
        told(&world).await,
        [
            (1, data("allocations", "", 5, 256)),
            (2, data("gpus", LAB, 3, 64)),
            (3, data("reserved_gpus", "", 2, 0)),
        ]
    );
    // a launch that a quota refuses changes none
    ok(put(&world, 0, Some("q6")).await);
    let refusal = refused(api.reserve(Request::new(reservation("a"))).await);
    assert_eq!(refusal.reason(), ErrorReason::Quota);
    assert_eq!(told(&world).await.len(), 4);
}

#[tokio::test]
async fn operators_and_members_read_what_a_project_may_hold() {
    let (world, ..) = World::with_slots(2).await;
    let of_operator = async |project_id: &str| {
        let project_id = project_id.to_owned();
        let request = pb::GetProjectQuotasRequest { project_id };
        world.api.get_project_quotas(by(request, None)).await
    };
    let of_member = async |project_id: &str, projects: &[Uuid]| {
        let project_id = project_id.to_owned();
        let request = member(pb::GetQuotasRequest { project_id }, projects);
        world.api.get_quotas(request).await
    };
    let id = OURS.to_string();
    // nothing was set and nothing is held
    let none = pb::ProjectQuotas {
        project_id: id.clone(),
        max_allocations: 256,
        used_allocations: 0,
        quotas: Vec::new(),
        default_max_gpus: 64,
        max_reserved_gpus: 0,
        reserved_gpus: 0,
        etag: String::new(),
    };
    assert_eq!(without_etag(of_operator(&id).await), none);
    let limit = pb::PutProjectReservationLimitRequest {
        project_id: id.clone(),
        max_gpus: 3,
        ..pb::PutProjectReservationLimitRequest::default()
    };
    ok(world
        .api
        .put_project_reservation_limit(by(limit, Some("r1")))
        .await);
    let none = pb::ProjectQuotas {
        max_reserved_gpus: 3,
        ..none
    };
    assert_eq!(
        without_etag(of_operator(&id).await),
        none,
        "whoever may not reserve can tell before trying"
    );
    ok(world.api.reserve(Request::new(reservation("a"))).await);
    ok(put(&world, 7, Some("q1")).await);
    let held = pb::ProjectQuotas {
        max_allocations: 7,
        used_allocations: 1,
        quotas: vec![pb::ProjectQuota {
            project_id: id.clone(),
            sku: LAB.into(),
            max_gpus: 64,
            used_gpus: 1,
            etag: String::new(),
        }],
        ..none
    };
    assert_eq!(without_etag(of_operator(&id).await), held);
    // a member of one project need not name it, and sees no other
    let other = Uuid::from_u128(6);
    assert_eq!(without_etag(of_member("", &[OURS]).await), held);
    assert_eq!(without_etag(of_member(&id, &[OURS, other]).await), held);
    let error = refused(of_member(&id, &[other]).await);
    assert_eq!(
        (error.reason(), error.fields()[0].0.as_str()),
        (ErrorReason::ProjectUnknown, "project_id")
    );
    assert_eq!(
        refused(of_member("", &[OURS, other]).await).fields()[0].0,
        "project_id"
    );
    assert_eq!(
        refused(of_operator("ours").await).fields()[0].0,
        "project_id"
    );
}

#[tokio::test]
async fn an_operator_reads_priority_and_reservation_limit() {
    let world = World::new().await;
    let project_id = OURS.to_string();
    let priority = async || {
        let project_id = project_id.clone();
        let request = pb::GetProjectPriorityRequest { project_id };
        ok(world.api.get_project_priority(by(request, None)).await).priority()
    };
    let limit = async || {
        let project_id = project_id.clone();
        let request = pb::GetProjectReservationLimitRequest { project_id };
        let requested = by(request, None);
        ok(world.api.get_project_reservation_limit(requested).await)
    };
    assert_eq!(priority().await, pb::Priority::Normal);
    assert_eq!(limit().await.max_gpus, 0);
    let put = pb::PutProjectPriorityRequest {
        project_id: project_id.clone(),
        priority: pb::Priority::High.into(),
        ..pb::PutProjectPriorityRequest::default()
    };
    ok(world.api.put_project_priority(by(put, Some("k-1"))).await);
    let put = pb::PutProjectReservationLimitRequest {
        project_id: project_id.clone(),
        max_gpus: 4,
        ..pb::PutProjectReservationLimitRequest::default()
    };
    let put = by(put, Some("k-2"));
    let answer = ok(world.api.put_project_reservation_limit(put).await);
    assert_eq!(priority().await, pb::Priority::High);
    assert_eq!(limit().await, answer);
    assert_eq!((answer.max_gpus, answer.reserved_gpus), (4, 0));
    let nobody = pb::GetProjectPriorityRequest::default();
    let error = refused(world.api.get_project_priority(by(nobody, None)).await);
    assert_eq!(error.fields()[0].0, "project_id");
}
