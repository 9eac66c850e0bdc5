//! Filters and orders of reservations, the queue, nodes, health events, break-fix records and findings.
use gpuaas_common::select::Catalog;
use gpuaas_common::time::proto_time;
use gpuaas_common::{Error, Result};
use gpuaas_placement::reservations::RESERVATIONS;
use gpuaas_placement::{fleet, node_health, node_placement};
use gpuaas_proto::gpuaas::common::v1::HealthState;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_server::PlacementService as _;
use gpuaas_proto::gpuaas::internal::scheduler::v1::{PutNodeRequest, ReserveRequest};
use gpuaas_proto::gpuaas::scheduler::v1 as pb;
use gpuaas_proto::gpuaas::scheduler::v1::capacity_reservation_admin_service_server::CapacityReservationAdminService as _;
use gpuaas_proto::gpuaas::scheduler::v1::capacity_reservation_service_server::CapacityReservationService as _;
use gpuaas_proto::gpuaas::scheduler::v1::fleet_admin_service_server::FleetAdminService as _;
use gpuaas_proto::gpuaas::scheduler::v1::health_event_service_server::HealthEventService as _;
use gpuaas_proto::gpuaas::scheduler::v1::node_health_service_server::NodeHealthService as _;
use gpuaas_proto::gpuaas::scheduler::v1::node_placement_service_server::NodePlacementService as _;
use gpuaas_proto::gpuaas::scheduler::v1::queue_admin_service_server::QueueAdminService as _;
use jiff::{SignedDuration, Timestamp};
use tonic::{Request, Response, Status};
use uuid::Uuid;

use crate::reservations::member;
use crate::world::{LAB, REGION, World, by, node, ok, reservation};

/// The project of [`reservation`].
const OURS: Uuid = Uuid::from_u128(5);

/// What a list answers: a text of each row, and the token of the next page.
type Listed = Result<(Vec<String>, String)>;

fn listed<T, R>(
    answer: Result<Response<T>, Status>,
    rows: impl FnOnce(T) -> (Vec<R>, String),
    text: impl Fn(R) -> String,
) -> Listed {
    let (rows, next) = rows(answer.map_err(Error::from)?.into_inner());
    Ok((rows.into_iter().map(text).collect(), next))
}

/// Filter, order, and what is expected of each row.
type Case<'a> = (&'a str, &'a str, &'a [&'a str]);

/// Lists by each case page by page, by every field that there is, and by what there is not.
async fn selects(
    cases: &[Case<'_>],
    catalog: &Catalog,
    list: impl AsyncFn(&str, &str, &str) -> Listed,
) {
    for (filter, order_by, expected) in cases {
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let page = list(filter, order_by, &token).await;
            let (rows, next) =
                page.unwrap_or_else(|error| panic!("{filter} {order_by}: {error:?}"));
            assert!(rows.len() < 2, "a page has one row");
            found.extend(rows);
            token = next;
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(found, *expected, "{filter} by {order_by}");
    }
    for field in catalog.fields {
        let name = field.name;
        let set = list(&format!("{name}:*"), "", "").await;
        assert!(set.is_ok(), "{name}: {set:?}");
        let ordered = list("", name, "").await;
        match ordered {
            Ok((_, next)) => {
                assert!(field.sortable, "{name}");
                let rest = list("", name, &next).await;
                assert!(rest.is_ok(), "{name}: {rest:?}");
                // a token is of its order
                if !next.is_empty() {
                    let other = list("", &format!("{name} desc"), &next).await;
                    assert_eq!(other.expect_err("foreign").fields()[0].0, "page_token");
                }
            }
            Err(error) => {
                assert!(!field.sortable, "{name}: {error:?}");
                assert_eq!(error.fields()[0].0, "order_by");
            }
        }
    }
    for (filter, order_by, field) in [("nonsense = 1", "", "filter"), ("", "nonsense", "order_by")]
    {
        let error = list(filter, order_by, "").await.expect_err("refused");
        assert_eq!(error.fields()[0].0, field, "{error:?}");
    }
}

#[tokio::test]
async fn reservations_are_filtered_and_ordered() {
    let (world, ..) = World::with_slots(3).await;
    let in_hours = |hours| proto_time(Timestamp::now() + SignedDuration::from_hours(hours));
    for (name, gpus, starts, gather) in [
        ("now", 1, 0, false),
        ("large", 4, 0, true),
        ("later", 1, 2, false),
        ("over", 1, 0, false),
    ] {
        let config = pb::CapacityReservationConfig {
            project_id: OURS.to_string(),
            name: name.into(),
            region_code: REGION.into(),
            sku: LAB.into(),
            gpu_count: gpus,
            start_time: (starts > 0).then(|| in_hours(starts)),
            end_time: Some(in_hours(starts + 1)),
            ..Default::default()
        };
        if name == "over" {
            let all = pb::ListAllReservationsRequest::default();
            let all = ok(world.api.list_all_reservations(by(all, None)).await).reservations;
            // what gathers leaves nothing
            let large = pb::CancelProjectReservationRequest {
                reservation_id: all[1].id.clone(),
                reason: "over".into(),
            };
            let large = by(large, Some("over"));
            ok(world.api.cancel_project_reservation(large).await);
        }
        let request = pb::CreateProjectReservationRequest {
            config: Some(config),
            gather,
        };
        let request = by(request, Some(name));
        ok(world.api.create_project_reservation(request).await);
    }
    let name = |one: pb::CapacityReservation| one.config.expect("a config").name;
    let of_all = async |filter: &str, order_by: &str, token: &str| {
        let request = pb::ListAllReservationsRequest {
            filter: filter.into(),
            order_by: order_by.into(),
            page_token: token.into(),
            page_size: 1,
            ..Default::default()
        };
        let answer = world.api.list_all_reservations(by(request, None)).await;
        listed(answer, |all| (all.reservations, all.next_page_token), name)
    };
    let cases: [Case<'_>; 5] = [
        ("", "", &["over", "later", "now"]),
        ("", "name", &["later", "now", "over"]),
        ("state = scheduled", "", &["later"]),
        // a state finds those that are over, too
        ("state = canceled OR gpu_count > 2", "", &["large"]),
        (
            "reserved_gpus = 1 AND made_by_project = false",
            "start_time desc, name",
            &["over", "now"],
        ),
    ];
    selects(&cases, &RESERVATIONS, of_all).await;
    let of_project = async |filter: &str, order_by: &str, token: &str| {
        let request = pb::ListCapacityReservationsRequest {
            filter: filter.into(),
            order_by: order_by.into(),
            page_token: token.into(),
            page_size: 1,
            ..Default::default()
        };
        let request = member(request, &[OURS], None);
        let answer = world.api.list_capacity_reservations(request).await;
        listed(answer, |all| (all.reservations, all.next_page_token), name)
    };
    let cases: [Case<'_>; 1] = [("name:O AND state = active", "name desc", &["over", "now"])];
    selects(&cases, &RESERVATIONS, of_project).await;
}

#[tokio::test]
async fn the_queue_is_filtered_and_ordered() {
    let (world, ..) = World::with_slots(1).await;
    ok(world.api.reserve(Request::new(reservation("a"))).await);
    for (key, project, gpus) in [("b", 11_u128, 1), ("c", 12, 1), ("d", 11, 2)] {
        let request = ReserveRequest {
            project_id: Uuid::from_u128(project).to_string(),
            gpu_count: gpus,
            wait_until: Some(proto_time(Timestamp::now() + SignedDuration::from_hours(1))),
            ..reservation(key)
        };
        ok(world.api.reserve(Request::new(request)).await);
    }
    let put = pb::PutProjectPriorityRequest {
        project_id: Uuid::from_u128(12).to_string(),
        priority: pb::Priority::High.into(),
        ..Default::default()
    };
    ok(world.api.put_project_priority(by(put, Some("p"))).await);
    let text = |one: pb::QueuedRequest| format!("{} {}", one.position, one.gpus);
    let queue = async |filter: &str, order_by: &str, token: &str| {
        let request = pb::ListQueueRequest {
            region_code: REGION.into(),
            filter: filter.into(),
            order_by: order_by.into(),
            page_token: token.into(),
            page_size: 1,
        };
        let answer = world.api.list_queue(by(request, None)).await;
        let rows = |all: pb::ListQueueResponse| {
            assert_eq!(all.total, 3, "of the region, whatever the filter");
            (all.requests, all.next_page_token)
        };
        listed(answer, rows, text)
    };
    let project = format!("project_id = {}", Uuid::from_u128(11));
    let cases: [Case<'_>; 5] = [
        ("", "", &["1 1", "2 1", "3 2"]),
        ("priority = high", "", &["1 1"]),
        (&project, "position desc", &["3 2", "2 1"]),
        (
            "gpus >= 2 OR NOT priority = normal",
            "gpus desc",
            &["3 2", "1 1"],
        ),
        (
            "slot_class = lab AND reason:SLOTS AND deadline < 2020-01-01",
            "",
            &[],
        ),
    ];
    selects(&cases, &gpuaas_scheduler::api::queue::QUEUED, queue).await;
}

#[tokio::test]
async fn nodes_are_filtered_and_ordered() {
    let (world, ..) = World::with_slots(2).await;
    for (hostname, rack) in [("b", "r1"), ("a", "r2")] {
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
    let fleet_nodes = async |filter: &str, order_by: &str, token: &str| {
        let request = pb::ListFleetNodesRequest {
            filter: filter.into(),
            order_by: order_by.into(),
            page_token: token.into(),
            page_size: 1,
            ..Default::default()
        };
        let answer = world.api.list_fleet_nodes(by(request, None)).await;
        let rows = |all: pb::ListFleetNodesResponse| (all.nodes, all.next_page_token);
        listed(answer, rows, |one| one.hostname)
    };
    let cases: [Case<'_>; 4] = [
        ("", "", &["a", "b", "lab-host"]),
        ("health = degraded", "rack", &["b", "a"]),
        ("NOT reason = kvm", "", &["lab-host"]),
        ("hardware_type = lab AND mode = slice", "", &["lab-host"]),
    ];
    selects(&cases, &fleet::NODES, fleet_nodes).await;
    let placements = async |filter: &str, order_by: &str, token: &str| {
        let request = pb::ListNodePlacementsRequest {
            filter: filter.into(),
            order_by: order_by.into(),
            page_token: token.into(),
            page_size: 1,
            ..Default::default()
        };
        let answer = world.api.list_node_placements(by(request, None)).await;
        let rows = |all: pb::ListNodePlacementsResponse| (all.nodes, all.next_page_token);
        listed(answer, rows, |one| one.hostname)
    };
    let cases: [Case<'_>; 4] = [
        ("", "", &["lab-host", "b", "a"]),
        (
            "",
            "available_slots desc, hostname",
            &["lab-host", "a", "b"],
        ),
        (
            "schedulable = false AND live_claims = 0",
            "hostname",
            &["a", "b"],
        ),
        ("admin_state = draining", "", &[]),
    ];
    selects(&cases, &node_placement::NODES, placements).await;
}

#[tokio::test]
async fn what_is_wrong_with_nodes_is_filtered_and_ordered() {
    let (world, node_id, _) = World::with_slots(1).await;
    ok(world.api.reserve(Request::new(reservation("k1"))).await);
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
    let events = async |filter: &str, order_by: &str, token: &str| {
        let request = pb::ListHealthEventsRequest {
            filter: filter.into(),
            order_by: order_by.into(),
            page_token: token.into(),
            page_size: 1,
            ..Default::default()
        };
        let request = member(request, &[OURS], None);
        let answer = world.api.list_health_events(request).await;
        let rows = |all: pb::ListHealthEventsResponse| (all.events, all.next_page_token);
        listed(answer, rows, |one| one.health().as_str_name().to_owned())
    };
    let (unknown, degraded) = ("HEALTH_STATE_UNKNOWN", "HEALTH_STATE_DEGRADED");
    let cases: [Case<'_>; 4] = [
        ("", "", &[degraded, unknown]),
        ("", "start_time", &[unknown, degraded]),
        ("NOT end_time:*", "", &[degraded]),
        ("health = unknown AND break_fix = false", "", &[unknown]),
    ];
    selects(&cases, &fleet::EVENTS, events).await;

    for (source, code, severity) in [
        ("dcgm", "XID_79", pb::FindingSeverity::Warning),
        ("dcgm", "XID_48", pb::FindingSeverity::Info),
        ("nvsentinel", "XID_79", pb::FindingSeverity::Warning),
    ] {
        let report = pb::ReportNodeFindingRequest {
            node_id: node_id.clone(),
            source: source.into(),
            code: code.into(),
            severity: severity.into(),
            message: format!("{source} saw {code}"),
            ..Default::default()
        };
        let key = format!("{source}-{code}");
        ok(world.api.report_node_finding(by(report, Some(&key))).await);
    }
    let findings = async |filter: &str, order_by: &str, token: &str| {
        let request = pb::ListNodeFindingsRequest {
            node_id: node_id.clone(),
            filter: filter.into(),
            order_by: order_by.into(),
            page_token: token.into(),
            page_size: 1,
            ..Default::default()
        };
        let answer = world.api.list_node_findings(by(request, None)).await;
        let rows = |all: pb::ListNodeFindingsResponse| (all.findings, all.next_page_token);
        listed(answer, rows, |one| one.message)
    };
    let [one, two, three] = [
        "dcgm saw XID_79",
        "dcgm saw XID_48",
        "nvsentinel saw XID_79",
    ];
    let cases: [Case<'_>; 4] = [
        ("", "", &[three, two, one]),
        ("", "code, source", &[two, one, three]),
        ("severity = warning AND source = dcgm", "", &[one]),
        ("code:xid AND NOT severity = warning", "", &[two]),
    ];
    selects(&cases, &node_health::FINDINGS, findings).await;

    for fault in ["fan", "power supply"] {
        let open = pb::OpenBreakFixRequest {
            node_id: node_id.clone(),
            fault: fault.into(),
            ..Default::default()
        };
        let record = ok(world.api.open_break_fix(by(open, Some(fault))).await);
        if fault == "fan" {
            let close = pb::CloseBreakFixRequest {
                node_id: node_id.clone(),
                break_fix_id: record.id,
                outcome: "it turns".into(),
            };
            ok(world.api.close_break_fix(by(close, Some("close"))).await);
        }
    }
    let records = async |filter: &str, order_by: &str, token: &str| {
        let request = pb::ListBreakFixesRequest {
            node_id: node_id.clone(),
            filter: filter.into(),
            order_by: order_by.into(),
            page_token: token.into(),
            page_size: 1,
        };
        let answer = world.api.list_break_fixes(by(request, None)).await;
        let rows = |all: pb::ListBreakFixesResponse| (all.break_fixes, all.next_page_token);
        listed(answer, rows, |one| one.fault)
    };
    let cases: [Case<'_>; 3] = [
        ("", "", &["power supply", "fan"]),
        ("NOT close_time:*", "", &["power supply"]),
        ("outcome:turns", "open_time", &["fan"]),
    ];
    selects(&cases, &node_health::BREAK_FIXES, records).await;
}
