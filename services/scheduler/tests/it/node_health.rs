//! Break-fix records, findings of health agents and maintenance as administrators call them.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_server::PlacementService as _;
use gpuaas_proto::gpuaas::internal::scheduler::v1::{PutNodeRequest, RetireNodeRequest};
use gpuaas_proto::gpuaas::scheduler::v1::node_health_service_server::NodeHealthService as _;
use gpuaas_proto::gpuaas::scheduler::v1::node_placement_service_server::NodePlacementService as _;
use gpuaas_proto::gpuaas::scheduler::v1::{
    AddBreakFixActionRequest, CloseBreakFixRequest, FindingSeverity, GetNodePlacementRequest,
    ListBreakFixesRequest, ListNodeFindingsRequest, NodePlacement, OpenBreakFixRequest,
    ReportNodeFindingRequest, ResolveNodeFindingRequest, StartNodeMaintenanceRequest,
    UncordonNodeRequest,
};
use tonic::{Code, Request};
use uuid::Uuid;

use crate::world::{World, by, node, ok, refused};

async fn placement(world: &World, node_id: &str) -> NodePlacement {
    let request = GetNodePlacementRequest {
        node_id: node_id.into(),
    };
    ok(world.api.get_node_placement(by(request, None)).await)
}

#[tokio::test]
async fn break_fix_records_and_findings_are_said_once_per_key_and_on_record() {
    let (world, node_id, slots) = World::with_slots(1).await;
    let open = || OpenBreakFixRequest {
        node_id: node_id.clone(),
        slot_id: String::new(),
        fault: "fan tray 2 stands".into(),
    };
    let unkeyed = refused(world.api.open_break_fix(by(open(), None)).await);
    assert_eq!(unkeyed.reason(), ErrorReason::IdempotencyKeyMissing);
    let record = ok(world.api.open_break_fix(by(open(), Some("o"))).await);
    assert_eq!(
        ok(world.api.open_break_fix(by(open(), Some("o"))).await),
        record
    );
    assert_eq!(placement(&world, &node_id).await.admin_state, "broken");
    let act = || AddBreakFixActionRequest {
        node_id: node_id.clone(),
        break_fix_id: record.id.clone(),
        action: "tray replaced".into(),
    };
    for _ in 0..2 {
        let now = ok(world.api.add_break_fix_action(by(act(), Some("a"))).await);
        assert_eq!(
            (now.actions.len(), now.actions[0].principal.as_str()),
            (1, "user:root")
        );
    }
    let close = || CloseBreakFixRequest {
        node_id: node_id.clone(),
        break_fix_id: record.id.clone(),
        outcome: "all fans turn".into(),
    };
    for _ in 0..2 {
        let now = ok(world.api.close_break_fix(by(close(), Some("c"))).await);
        assert_eq!(
            (now.outcome.as_str(), now.closed_by.as_str()),
            ("all fans turn", "user:root")
        );
    }
    let late = refused(
        world
            .api
            .add_break_fix_action(by(act(), Some("late")))
            .await,
    );
    assert_eq!(late.reason(), ErrorReason::StateConflict);
    let now = placement(&world, &node_id).await;
    assert_eq!(
        (now.admin_state.as_str(), now.admin_principal.as_str()),
        ("cordoned", "user:root")
    );
    let list = ListBreakFixesRequest {
        node_id: node_id.clone(),
        ..Default::default()
    };
    let listed = ok(world.api.list_break_fixes(by(list, None)).await).break_fixes;
    assert_eq!((listed.len(), listed[0].actions.len()), (1, 1));

    let report = || ReportNodeFindingRequest {
        node_id: node_id.clone(),
        slot_id: slots[0].id.clone(),
        source: "dcgm".into(),
        code: "XID_79".into(),
        device: "GPU-1".into(),
        severity: FindingSeverity::Critical.into(),
        message: "fell off the bus".into(),
    };
    let first = ok(world.api.report_node_finding(by(report(), Some("f"))).await);
    let again = ok(world.api.report_node_finding(by(report(), Some("f"))).await);
    assert_eq!(
        (&first, again.count),
        (&again, 1),
        "the same report, sent twice"
    );
    let next = ok(world
        .api
        .report_node_finding(by(report(), Some("f2")))
        .await);
    assert_eq!((next.id.as_str(), next.count), (first.id.as_str(), 2));
    let resolve = ResolveNodeFindingRequest {
        node_id: node_id.clone(),
        finding_id: first.id.clone(),
        resolution: "reseated".into(),
    };
    ok(world.api.resolve_node_finding(by(resolve, Some("r"))).await);
    // the key of a report of a known finding is for that one, whatever is reported later
    let other = ok(world
        .api
        .report_node_finding(by(report(), Some("f3")))
        .await);
    assert_ne!(other.id, first.id);
    for key in ["f", "f2"] {
        let again = ok(world.api.report_node_finding(by(report(), Some(key))).await);
        assert_eq!((again.id.as_str(), again.count), (first.id.as_str(), 2));
    }
    let resolve = ResolveNodeFindingRequest {
        node_id: node_id.clone(),
        finding_id: other.id.clone(),
        resolution: "reseated".into(),
    };
    ok(world
        .api
        .resolve_node_finding(by(resolve, Some("r3")))
        .await);
    let list = |include_resolved| ListNodeFindingsRequest {
        node_id: node_id.clone(),
        include_resolved,
        ..Default::default()
    };
    assert!(
        ok(world.api.list_node_findings(by(list(false), None)).await)
            .findings
            .is_empty()
    );
    assert_eq!(
        ok(world.api.list_node_findings(by(list(true), None)).await)
            .findings
            .len(),
        2
    );
    for (action, times) in [
        ("break_fix.open", 1),
        ("break_fix.act", 1),
        ("break_fix.close", 1),
        ("finding.report", 3),
        ("finding.resolve", 2),
    ] {
        let sql = format!("SELECT count(*) FROM placement.audit WHERE action = '{action}'");
        assert_eq!(world.number(&sql).await, times, "{action}");
    }
    for (bad, field) in [
        (
            ReportNodeFindingRequest {
                source: "DCGM!".into(),
                ..report()
            },
            "source",
        ),
        (
            ReportNodeFindingRequest {
                code: String::new(),
                ..report()
            },
            "code",
        ),
        (
            ReportNodeFindingRequest {
                device: "x".repeat(101),
                ..report()
            },
            "device",
        ),
        (
            ReportNodeFindingRequest {
                severity: 0,
                ..report()
            },
            "severity",
        ),
        (
            ReportNodeFindingRequest {
                slot_id: "1".into(),
                ..report()
            },
            "slot_id",
        ),
    ] {
        let error = refused(world.api.report_node_finding(by(bad, Some("bad"))).await);
        assert_eq!(error.fields()[0].0, field);
    }
}

#[tokio::test]
async fn p4_a_finding_and_the_end_of_a_record_sent_twice_at_once_are_one() {
    let (world, node_id, _) = World::with_slots(1).await;
    let report = || {
        let request = ReportNodeFindingRequest {
            node_id: node_id.clone(),
            source: "dcgm".into(),
            code: "XID_79".into(),
            severity: FindingSeverity::Info.into(),
            ..Default::default()
        };
        world.api.report_node_finding(by(request, Some("f")))
    };
    let (one, other) = world.at_once(&node_id, report(), report()).await;
    let (one, other) = (ok(one), ok(other));
    assert_eq!((one.count, &one), (1, &other));
    // a repeat does not wait for what else is at work on the node
    let owner = world.db.owner_pool().await;
    let mut held = owner.begin().await.expect("a transaction");
    sqlx::query("SELECT id FROM placement.nodes WHERE id = $1 FOR UPDATE")
        .bind(node_id.parse::<Uuid>().expect("an id"))
        .execute(&mut *held)
        .await
        .expect("the node");
    assert_eq!(ok(report().await), one);
    held.rollback().await.expect("rollback");

    let open = OpenBreakFixRequest {
        node_id: node_id.clone(),
        fault: "fan".into(),
        ..Default::default()
    };
    let opened = ok(world.api.open_break_fix(by(open, Some("o"))).await);
    let close = || {
        let request = CloseBreakFixRequest {
            node_id: node_id.clone(),
            break_fix_id: opened.id.clone(),
            outcome: "replaced".into(),
        };
        world.api.close_break_fix(by(request, Some("c")))
    };
    let (one, other) = world.at_once(&node_id, close(), close()).await;
    assert_eq!(ok(one), ok(other));
}

#[tokio::test]
async fn a_stale_etag_is_refused_and_maintenance_ends_with_an_uncordon() {
    let (world, node_id, _) = World::with_slots(1).await;
    let seen = placement(&world, &node_id).await.etag;
    let start = |etag: &str| StartNodeMaintenanceRequest {
        node_id: node_id.clone(),
        reason: "new firmware".into(),
        etag: etag.into(),
    };
    let now = ok(world
        .api
        .start_node_maintenance(by(start(&seen), Some("m")))
        .await);
    assert_eq!(now.admin_state, "maintenance");
    assert_ne!(now.etag, seen);
    let stale = refused(
        world
            .api
            .start_node_maintenance(by(start(&seen), Some("n")))
            .await,
    );
    assert_eq!(
        (stale.code(), stale.reason()),
        (Code::Aborted, ErrorReason::EtagStale)
    );
    // what its host reports is no change of what an operator says
    let reported = PutNodeRequest {
        node_id: node_id.clone(),
        hugepages_1g_free: 5,
        ..node()
    };
    ok(world.api.put_node(Request::new(reported)).await);
    let end = UncordonNodeRequest {
        node_id: node_id.clone(),
        etag: now.etag,
        ..UncordonNodeRequest::default()
    };
    assert_eq!(
        ok(world.api.uncordon_node(by(end, Some("u"))).await).admin_state,
        "enabled"
    );
}

#[tokio::test]
async fn a_48_a_mode_that_waits_takes_the_node_out_of_service_and_everything_else_in() {
    let (world, node_id, _) = World::with_slots(1).await;
    let desired = PutNodeRequest {
        node_id: node_id.clone(),
        mode: "baremetal".into(),
        hugepages_1g_free: 5,
        ..node()
    };
    let waits = refused(world.api.put_node(Request::new(desired.clone())).await);
    assert_eq!(waits.reason(), ErrorReason::StateConflict);
    let now = placement(&world, &node_id).await;
    assert_eq!((now.mode.as_str(), now.schedulable), ("slice", false));
    assert_eq!(now.not_schedulable_reason, "configuration_waits");
    assert_eq!(
        world
            .number("SELECT hugepages_1g_free::bigint FROM placement.nodes")
            .await,
        5
    );
    let start = StartNodeMaintenanceRequest {
        node_id: node_id.clone(),
        reason: "retag".into(),
        etag: String::new(),
    };
    ok(world.api.start_node_maintenance(by(start, Some("m"))).await);
    ok(world.api.put_node(Request::new(desired)).await);
    let now = placement(&world, &node_id).await;
    assert_eq!((now.mode.as_str(), now.schedulable), ("baremetal", true));
}

#[tokio::test]
async fn a_node_is_retired_once_per_key() {
    let (world, node_id, _) = World::with_slots(1).await;
    let retire = |never_used| RetireNodeRequest {
        node_id: node_id.clone(),
        reason: "scrapped".into(),
        principal: "user:root".into(),
        request_id: "req".into(),
        idempotency_key: format!("k{never_used}"),
        never_used,
    };
    let refused_now = refused(world.api.retire_node(Request::new(retire(false))).await);
    assert_eq!(refused_now.reason(), ErrorReason::StateConflict);
    for _ in 0..2 {
        let gone = ok(world.api.retire_node(Request::new(retire(true))).await);
        assert_eq!(gone.admin_state, "retired");
    }
    let audited = "SELECT count(*) FROM placement.audit WHERE action = 'node.delete'";
    assert_eq!(world.number(audited).await, 1);
}

#[tokio::test]
async fn records_and_findings_are_listed_page_by_page() {
    let (world, node_id, _) = World::with_slots(1).await;
    for number in 0..5 {
        let open = OpenBreakFixRequest {
            node_id: node_id.clone(),
            fault: format!("fault {number}"),
            ..Default::default()
        };
        let key = format!("o{number}");
        ok(world.api.open_break_fix(by(open, Some(&key))).await);
        let report = ReportNodeFindingRequest {
            node_id: node_id.clone(),
            source: "dcgm".into(),
            code: format!("XID_{number}"),
            severity: FindingSeverity::Info.into(),
            ..Default::default()
        };
        let key = format!("f{number}");
        ok(world.api.report_node_finding(by(report, Some(&key))).await);
    }
    let (mut faults, mut codes) = (Vec::new(), Vec::new());
    let mut token = String::new();
    loop {
        let list = ListBreakFixesRequest {
            node_id: node_id.clone(),
            page_size: 2,
            page_token: token,
            ..Default::default()
        };
        let page = ok(world.api.list_break_fixes(by(list, None)).await);
        assert!(page.break_fixes.len() <= 2);
        faults.extend(page.break_fixes.into_iter().map(|record| record.fault));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    let list = |page_token: String, include_resolved| ListNodeFindingsRequest {
        node_id: node_id.clone(),
        include_resolved,
        page_size: 2,
        page_token,
        ..Default::default()
    };
    loop {
        let page = ok(world
            .api
            .list_node_findings(by(list(token, false), None))
            .await);
        codes.extend(page.findings.into_iter().map(|finding| finding.code));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
        // a token is of its own list alone
        let other = refused(
            world
                .api
                .list_node_findings(by(list(token.clone(), true), None))
                .await,
        );
        assert_eq!(other.reason(), ErrorReason::PageTokenInvalid);
    }
    let newest_first = |name: &str| -> Vec<String> {
        (0..5)
            .rev()
            .map(|number| format!("{name}{number}"))
            .collect()
    };
    assert_eq!(faults, newest_first("fault "));
    assert_eq!(codes, newest_first("XID_"));
}
