//! The fleet record as programs ask for it.
use gpuaas_common::identity::Caller;
use gpuaas_proto::gpuaas::common::v1::HealthState;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1::PutNodeRequest;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_server::PlacementService as _;
use gpuaas_proto::gpuaas::scheduler::v1::fleet_admin_service_server::FleetAdminService as _;
use gpuaas_proto::gpuaas::scheduler::v1::health_event_service_server::HealthEventService as _;
use gpuaas_proto::gpuaas::scheduler::v1::{
    GetFleetCountsRequest, ListFleetNodesRequest, ListHealthEventsRequest,
};
use tonic::Request;
use uuid::Uuid;

use crate::world::{REGION, World, by, node, ok, refused, reservation};

async fn names(world: &World, request: ListFleetNodesRequest) -> (Vec<String>, String) {
    let answer = ok(world.api.list_fleet_nodes(by(request, None)).await);
    let names = answer.nodes.into_iter().map(|node| node.hostname).collect();
    (names, answer.next_page_token)
}

#[tokio::test]
async fn nodes_are_listed_page_by_page_and_filtered() {
    let (world, _, _) = World::with_slots(2).await;
    for (hostname, rack) in [("b", "r1"), ("a", "r1"), ("c", "r2")] {
        let other = PutNodeRequest {
            hostname: hostname.into(),
            rack: rack.into(),
            host_health: HealthState::Degraded.into(),
            schedulable: false,
            not_schedulable_reason: "kvm".into(),
            ..node()
        };
        ok(world.api.put_node(Request::new(other)).await);
    }
    let mut found = Vec::new();
    let mut request = ListFleetNodesRequest {
        page_size: 3,
        ..Default::default()
    };
    loop {
        let (page, next) = names(&world, request.clone()).await;
        found.extend(page);
        if next.is_empty() {
            break;
        }
        request.page_token = next;
    }
    assert_eq!(found, ["a", "b", "c", "lab-host"]);
    let rack = ListFleetNodesRequest {
        rack: "r1".into(),
        health: HealthState::Degraded.into(),
        in_use: Some(false),
        ..Default::default()
    };
    assert_eq!(names(&world, rack.clone()).await.0, ["a", "b"]);
    // a token belongs to its query
    let (_, next) = names(
        &world,
        ListFleetNodesRequest {
            page_size: 1,
            ..rack
        },
    )
    .await;
    let other = ListFleetNodesRequest {
        page_token: next,
        rack: "r2".into(),
        ..Default::default()
    };
    let error = refused(world.api.list_fleet_nodes(by(other, None)).await);
    assert_eq!(error.reason(), ErrorReason::PageTokenInvalid);
    for (request, field) in [
        (
            ListFleetNodesRequest {
                region_code: "nowhere".into(),
                ..Default::default()
            },
            "region_code",
        ),
        (
            ListFleetNodesRequest {
                project_id: "x".into(),
                ..Default::default()
            },
            "project_id",
        ),
        (
            ListFleetNodesRequest {
                reservation_id: "x".into(),
                ..Default::default()
            },
            "reservation_id",
        ),
        (
            ListFleetNodesRequest {
                health: 99,
                ..Default::default()
            },
            "health",
        ),
        (
            ListFleetNodesRequest {
                page_size: -1,
                ..Default::default()
            },
            "page_size",
        ),
    ] {
        let error = format!(
            "{:?}",
            refused(world.api.list_fleet_nodes(by(request, None)).await)
        );
        assert!(error.contains(field), "{field}: {error}");
    }
    let shown = ok(world
        .api
        .list_fleet_nodes(by(ListFleetNodesRequest::default(), None))
        .await);
    assert_eq!(
        (shown.nodes[0].reason.as_str(), shown.nodes[0].rack.as_str()),
        ("kvm", "r1")
    );
}

#[tokio::test]
async fn the_counters_are_those_of_the_record() {
    let (world, _, _) = World::with_slots(2).await;
    ok(world.api.reserve(Request::new(reservation("k1"))).await);
    let request = GetFleetCountsRequest {
        region_code: REGION.into(),
    };
    let counted = ok(world.api.get_fleet_counts(by(request, None)).await);
    let gpus = counted.gpus.expect("GPUs");
    assert_eq!(
        (gpus.delivered, gpus.healthy, gpus.reserved, gpus.active),
        (2, 2, 1, 0)
    );
    assert_eq!(counted.pools[0].hardware_type, "lab");
    assert_eq!(counted.pools[0].gpus, Some(gpus));
    let nodes = ok(world
        .api
        .list_fleet_nodes(by(ListFleetNodesRequest::default(), None))
        .await);
    assert_eq!(nodes.nodes[0].gpus, Some(gpus));
    assert_eq!(
        nodes.nodes[0].occupants[0].project_id,
        Uuid::from_u128(5).to_string()
    );
}

/// A request of a member of these projects.
fn member<T>(message: T, projects: Vec<Uuid>) -> Request<T> {
    let mut request = by(message, None);
    let caller = Caller {
        principal: "user:alice".into(),
        projects,
        platform_role: None,
        action: None,
        request_id: "req-1".into(),
        idempotency_key: None,
    };
    request.extensions_mut().insert(caller);
    request
}

#[tokio::test]
async fn a_member_reads_the_health_of_what_its_project_has() {
    let (world, node_id, _) = World::with_slots(1).await;
    ok(world.api.reserve(Request::new(reservation("k1"))).await);
    let own = Uuid::from_u128(5);
    for health in [
        HealthState::Unknown,
        HealthState::Healthy,
        HealthState::Degraded,
    ] {
        let spec = PutNodeRequest {
            node_id: node_id.clone(),
            host_health: health.into(),
            ..node()
        };
        ok(world.api.put_node(Request::new(spec)).await);
    }
    let mut request = ListHealthEventsRequest {
        page_size: 1,
        ..Default::default()
    };
    let mut read = Vec::new();
    loop {
        let answer = ok(world
            .api
            .list_health_events(member(request.clone(), vec![own]))
            .await);
        read.extend(answer.events);
        if answer.next_page_token.is_empty() {
            break;
        }
        request.page_token = answer.next_page_token;
    }
    let said: Vec<_> = read
        .iter()
        .map(|one| (one.health(), one.gpu_count, one.end_time.is_some()))
        .collect();
    assert_eq!(
        said,
        [
            (HealthState::Degraded, 1, false),
            (HealthState::Unknown, 1, true)
        ]
    );
    assert!(read.iter().all(|one| !one.message.is_empty()));

    let request = ListHealthEventsRequest {
        project_id: own.to_string(),
        ..Default::default()
    };
    let foreign = refused(
        world
            .api
            .list_health_events(member(request, vec![Uuid::from_u128(6)]))
            .await,
    );
    assert_eq!(foreign.reason(), ErrorReason::ProjectUnknown);
    let others = ListHealthEventsRequest::default();
    let others = ok(world
        .api
        .list_health_events(member(others, vec![Uuid::from_u128(6)]))
        .await);
    assert!(others.events.is_empty());
}
