//! Queued requests, over the API of the operator.
use gpuaas_common::time::proto_time;
use gpuaas_placement::reserve::serve_queue;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_server::PlacementService as _;
use gpuaas_proto::gpuaas::internal::scheduler::v1::suspension_service_server::SuspensionService as _;
use gpuaas_proto::gpuaas::internal::scheduler::v1::{
    ProjectSuspension, PutProjectSuspensionsRequest, ReserveBatchRequest, ReserveRequest,
};
use gpuaas_proto::gpuaas::scheduler::v1::queue_admin_service_server::QueueAdminService as _;
use gpuaas_proto::gpuaas::scheduler::v1::{ListQueueRequest, Priority, PutProjectPriorityRequest};
use jiff::{SignedDuration, Timestamp};
use tonic::{Code, Request};
use uuid::Uuid;

use crate::world::{REGION, World, approval, by, ok, refused, reservation};

fn waiting(key: &str, project: u128) -> ReserveRequest {
    ReserveRequest {
        project_id: Uuid::from_u128(project).to_string(),
        wait_until: Some(proto_time(Timestamp::now() + SignedDuration::from_hours(1))),
        ..reservation(key)
    }
}

fn prioritise(project: u128, priority: i32) -> PutProjectPriorityRequest {
    PutProjectPriorityRequest {
        project_id: Uuid::from_u128(project).to_string(),
        priority,
        ..PutProjectPriorityRequest::default()
    }
}

#[tokio::test]
async fn an_operator_sees_the_queue_and_puts_projects_in_classes() {
    let (world, node_id, _) = World::with_slots(1).await;
    ok(world.api.reserve(Request::new(reservation("a"))).await);
    let mut made = Vec::new();
    for (key, project) in [("b", 11), ("c", 12)] {
        made.push(ok(world.api.reserve(Request::new(waiting(key, project))).await).allocation_id);
    }
    let queue = || async {
        let request = ListQueueRequest {
            region_code: REGION.into(),
            ..ListQueueRequest::default()
        };
        ok(world.api.list_queue(by(request, None)).await).requests
    };
    let reported = queue().await;
    assert_eq!(
        reported
            .iter()
            .map(|one| (
                one.position,
                one.allocation_ids[0].as_str(),
                one.reason.as_str(),
                one.gpus
            ))
            .collect::<Vec<_>>(),
        [
            (1, made[0].as_str(), "SLOTS_IN_USE", 1),
            (2, made[1].as_str(), "SLOTS_IN_USE", 1)
        ]
    );
    assert_eq!(reported[0].slot_class, "lab");
    let put = prioritise(12, Priority::High.into());
    for _ in 0..2 {
        let answer = ok(world
            .api
            .put_project_priority(by(put.clone(), Some("k-1")))
            .await);
        assert_eq!(answer.priority(), Priority::High);
    }
    let audited = "SELECT count(*) FROM placement.audit WHERE action = 'queue.prioritise'";
    assert_eq!(world.number(audited).await, 1);
    assert_eq!(queue().await[0].allocation_ids, [made[1].clone()]);
    assert_eq!(queue().await[0].priority(), Priority::High);

    // a slot that becomes schedulable is given to the first
    let mut more = approval(&node_id, 2);
    more.slots.remove(0);
    more.idempotency_key = "k-more".into();
    world.approve(more).await;
    let pass = serve_queue(&world.api.pool, world.api.ids, world.api.policy)
        .await
        .expect("pass");
    assert_eq!(pass.served, [made[1].parse::<Uuid>().expect("id")]);
    assert_eq!(queue().await.len(), 1);
}

#[tokio::test]
async fn b_57_a_queue_is_read_page_by_page_and_says_how_long_it_is() {
    let (world, ..) = World::with_slots(1).await;
    ok(world.api.reserve(Request::new(reservation("a"))).await);
    let mut made = Vec::new();
    for number in 0..5 {
        let request = waiting(&format!("w-{number}"), 11);
        made.push(ok(world.api.reserve(Request::new(request)).await).allocation_id);
    }
    let mut requested = ListQueueRequest {
        region_code: REGION.into(),
        page_size: 2,
        ..ListQueueRequest::default()
    };
    let mut seen = Vec::new();
    loop {
        let page = ok(world.api.list_queue(by(requested.clone(), None)).await);
        assert!(page.requests.len() <= 2, "{page:?}");
        assert_eq!(page.total, 5);
        seen.extend(page.requests);
        requested.page_token = page.next_page_token;
        if requested.page_token.is_empty() {
            break;
        }
    }
    let places: Vec<(u32, String)> = seen
        .into_iter()
        .map(|one| (one.position, one.allocation_ids[0].clone()))
        .collect();
    assert_eq!(places, (1..).zip(made).collect::<Vec<_>>());

    for (request, reason, field) in [
        (
            ListQueueRequest {
                page_token: "x".into(),
                ..requested.clone()
            },
            ErrorReason::PageTokenInvalid,
            "page_token",
        ),
        (
            ListQueueRequest {
                page_size: -1,
                ..requested
            },
            ErrorReason::FieldInvalid,
            "page_size",
        ),
    ] {
        let error = refused(world.api.list_queue(by(request, None)).await);
        assert_eq!(
            (error.reason(), error.fields()[0].0.as_str()),
            (reason, field)
        );
    }
}

#[tokio::test]
async fn what_is_queued_in_a_suspended_project_says_so_until_it_is_resumed() {
    let (world, ..) = World::with_slots(1).await;
    let project = Uuid::from_u128(11).to_string();
    let said = async |suspended, version| {
        let request = PutProjectSuspensionsRequest {
            projects: vec![ProjectSuspension {
                project_id: project.clone(),
                suspended,
                version,
            }],
        };
        let answer = world.api.put_project_suspensions(Request::new(request));
        ok(answer.await).suspended_project_ids
    };
    assert_eq!(said(true, 2).await, [project.as_str()]);
    ok(world.api.reserve(Request::new(reservation("a"))).await);
    let made = ok(world.api.reserve(Request::new(waiting("b", 11))).await).allocation_id;
    let pass = async || {
        let api = &world.api;
        serve_queue(&api.pool, api.ids, api.policy)
            .await
            .expect("pass")
    };
    pass().await;
    let request = ListQueueRequest {
        region_code: REGION.into(),
        ..ListQueueRequest::default()
    };
    let queued = ok(world.api.list_queue(by(request, None)).await).requests;
    assert_eq!(queued[0].reason, "PROJECT_SUSPENDED");
    assert!(said(false, 1).await == [project.as_str()], "an old message");
    assert!(said(false, 3).await.is_empty());
    pass().await;
    let request = ListQueueRequest {
        region_code: REGION.into(),
        ..ListQueueRequest::default()
    };
    let queued = ok(world.api.list_queue(by(request, None)).await).requests;
    assert_eq!(
        (
            queued[0].reason.as_str(),
            queued[0].allocation_ids[0].as_str()
        ),
        ("SLOTS_IN_USE", made.as_str())
    );
    let nothing = PutProjectSuspensionsRequest {
        projects: vec![ProjectSuspension::default()],
    };
    let error = refused(
        world
            .api
            .put_project_suspensions(Request::new(nothing))
            .await,
    );
    assert_eq!(error.reason(), ErrorReason::FieldRequired);
}

#[tokio::test]
async fn bad_waits_and_classes_name_their_field() {
    let (world, ..) = World::with_slots(1).await;
    ok(world.api.reserve(Request::new(reservation("a"))).await);
    let late = ReserveRequest {
        wait_until: Some(proto_time(Timestamp::now() - SignedDuration::from_secs(1))),
        ..waiting("b", 11)
    };
    let error = refused(world.api.reserve(Request::new(late.clone())).await);
    assert_eq!(
        (error.code(), error.fields()[0].0.as_str()),
        (Code::InvalidArgument, "wait.deadline")
    );
    let dry = ReserveRequest {
        validate_only: true,
        ..late
    };
    let error = refused(world.api.reserve(Request::new(dry)).await);
    assert_eq!(error.fields()[0].0, "wait.deadline");
    let batch = ReserveBatchRequest {
        principal: "user:alice".into(),
        idempotency_key: "k".into(),
        request_hash: vec![1; 32],
        reservations: vec![reservation("c"), reservation("d")],
        validate_only: true,
        wait_until: waiting("b", 11).wait_until,
    };
    ok(world.api.reserve_batch(Request::new(batch)).await);
    for (priority, reason) in [
        (0, ErrorReason::FieldRequired),
        (9, ErrorReason::FieldInvalid),
    ] {
        let error = refused(
            world
                .api
                .put_project_priority(by(prioritise(11, priority), Some("k-3")))
                .await,
        );
        assert_eq!(
            (error.reason(), error.fields()[0].0.as_str()),
            (reason, "priority")
        );
    }
    let nowhere = ListQueueRequest {
        region_code: "nowhere".into(),
        ..ListQueueRequest::default()
    };
    let error = refused(world.api.list_queue(by(nowhere, None)).await);
    assert_eq!(error.reason(), ErrorReason::RegionUnknown);
    assert_eq!(
        world
            .number("SELECT count(*) FROM placement.queued_allocations")
            .await,
        0
    );
}
