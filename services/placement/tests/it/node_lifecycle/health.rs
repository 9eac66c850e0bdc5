//! Break-fix records and findings: what takes a node or a slot out of service by itself, and its history.
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_placement::Error;
use gpuaas_placement::model::SlotStatus;
use gpuaas_placement::node_health::{self, Report, Severity};
use gpuaas_placement::node_placement::{self, Intent};
use gpuaas_placement::nodes::{self, NodeSpec};
use uuid::Uuid;

use super::{become_, latest, of_node, of_slot, reported, state, word};

#[tokio::test]
async fn a_node_is_broken_as_long_as_a_break_fix_record_is_open() {
    let (world, spec) = reported(1).await;
    let node = spec.id;
    let (first, second) = (Uuid::now_v7(), Uuid::now_v7());
    for id in [first, second] {
        call!(world, |tx| node_health::open(
            &mut tx,
            id,
            node,
            None,
            word("fan tray 2")
        ))
        .expect("opened");
    }
    let refused = world.reserve(&world.request(1)).await;
    assert!(
        matches!(refused, Err(Error::Refused { .. })),
        "nothing new: {refused:?}"
    );
    for intent in [
        Intent::Enabled,
        Intent::Cordoned,
        Intent::Maintenance,
        Intent::Retired,
    ] {
        let refused = state(become_(&world, node, intent).await);
        assert_eq!(refused, "broken; close its break-fix records first");
    }
    let refused = sqlx::query("UPDATE nodes SET admin_state = 'enabled'")
        .execute(&*world.scheduler)
        .await;
    assert!(refused.is_err(), "the database refuses as well");
    call!(world, |tx| node_health::act(
        &mut tx,
        node,
        first,
        word("replaced")
    ))
    .expect("noted");
    call!(world, |tx| node_health::close(
        &mut tx,
        node,
        first,
        word("done")
    ))
    .expect("closed");
    let mut conn = world.scheduler.acquire().await.expect("connection");
    assert_eq!(
        node_placement::get(&mut conn, node)
            .await
            .expect("node")
            .admin_state,
        "broken"
    );
    drop(conn);
    let closed = call!(world, |tx| node_health::close(
        &mut tx,
        node,
        second,
        word("same fault")
    ))
    .expect("closed");
    assert_eq!(
        (closed.outcome.as_deref(), closed.closed_by.as_deref()),
        (Some("same fault"), Some("user:root"))
    );
    assert_eq!(
        latest(&world, node).await,
        ("cordoned".into(), "same fault".into(), "user:root".into())
    );
    for closed in [
        call!(world, |tx| node_health::act(
            &mut tx,
            node,
            first,
            word("more")
        ))
        .map(|_| ()),
        call!(world, |tx| node_health::close(
            &mut tx,
            node,
            first,
            word("again")
        ))
        .map(|_| ()),
    ] {
        assert_eq!(state(closed), "closed");
    }
    become_(&world, node, Intent::Enabled)
        .await
        .expect("back in service");
    world.reserved(1).await;
}

#[tokio::test]
async fn a_critical_finding_takes_its_slot_or_node_out_of_service_and_no_other_does() {
    let (world, spec) = reported(2).await;
    let node = spec.id;
    let free = world.slots(node).await[0].id;
    let report = |slot_id, severity, message: &'static str| Report {
        node_id: node,
        slot_id,
        source: "dcgm",
        code: "XID_79",
        device: "GPU-1",
        severity,
        message,
        principal: "service:dcgm",
    };
    let reported = |report: Report<'static>| {
        let world = &world;
        async move {
            call!(world, |tx| node_health::report(
                &mut tx,
                Uuid::now_v7(),
                &report
            ))
            .expect("taken in")
        }
    };
    let first = reported(report(Some(free), Severity::Warning, "once")).await;
    assert_eq!(world.count(node, SlotStatus::Available).await, 2);
    let second = reported(report(Some(free), Severity::Critical, "fell off the bus")).await;
    assert_eq!(
        (second.id, second.seen, second.message.as_str()),
        (first.id, 2, "fell off the bus")
    );
    assert_eq!(world.count(node, SlotStatus::Disabled).await, 1);
    let mut conn = world.scheduler.acquire().await.expect("connection");
    assert_eq!(
        node_placement::get(&mut conn, node)
            .await
            .expect("node")
            .admin_state,
        "enabled"
    );
    let entries = of_slot(&mut conn, free, 1).await;
    assert_eq!(
        (
            entries[0].kind.as_str(),
            entries[0].detail.as_str(),
            entries[0].principal.as_str()
        ),
        ("disabled", "dcgm: XID_79 GPU-1", "service:dcgm")
    );
    let over = call!(world, |tx| node_health::resolve(
        &mut tx,
        node,
        first.id,
        word("reseated")
    ))
    .expect("resolved");
    let again = call!(world, |tx| node_health::resolve(
        &mut tx,
        node,
        first.id,
        word("twice")
    ))
    .expect("resolved before");
    assert_eq!(
        (over.resolution.as_deref(), &over),
        (Some("reseated"), &again)
    );
    assert_eq!(
        world.count(node, SlotStatus::Disabled).await,
        1,
        "an operator puts it back"
    );

    let anew = reported(report(None, Severity::Critical, "of the host")).await;
    assert_ne!(
        anew.id, first.id,
        "a finding that is over is not the same any more"
    );
    assert_eq!(
        node_placement::get(&mut conn, node)
            .await
            .expect("node")
            .admin_state,
        "cordoned"
    );
    let selection = Selection::parse(&node_health::FINDINGS, "", "").expect("everything");
    let mut listed = Vec::new();
    for open in [true, false] {
        let wanted = Wanted {
            page_token: "",
            size: 10,
            query: &[],
        };
        let found = node_health::findings(&mut conn, node, open, &selection, wanted).await;
        listed.push(found.expect("findings").0.len());
    }
    assert_eq!(listed, [1, 2]);
}

#[tokio::test]
async fn readiness_and_health_have_their_place_in_the_history() {
    let (world, spec) = reported(1).await;
    let sick = NodeSpec {
        schedulable: false,
        not_schedulable_reason: "nat_missing".into(),
        host_health: gpuaas_placement::model::Health::Degraded,
        ..spec.clone()
    };
    for _ in 0..2 {
        call!(world, |tx| nodes::put(&mut tx, &sick)).expect("told");
    }
    assert_eq!(
        latest(&world, spec.id).await,
        ("validating".into(), "nat_missing".into(), String::new())
    );
    call!(world, |tx| nodes::put(&mut tx, &spec)).expect("told");
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let states: Vec<String> = of_node(&mut conn, spec.id, 10)
        .await
        .into_iter()
        .map(|e| e.state)
        .collect();
    assert_eq!(
        states,
        ["ready", "validating", "ready"],
        "told twice is once"
    );
    let slot = world.slots(spec.id).await[0].id;
    let health: Vec<String> = of_slot(&mut conn, slot, 10)
        .await
        .into_iter()
        .filter(|e| e.kind == "health")
        .map(|e| e.detail)
        .collect();
    assert_eq!(health[..2], ["healthy", "degraded"]);
}
