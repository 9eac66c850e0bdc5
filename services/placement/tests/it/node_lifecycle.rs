//! The lifecycle of nodes and slots: what an operator may make of them, what the database refuses, and what is on record.
use gpuaas_common::select::{Catalog, Selection, Wanted};
use gpuaas_placement::force_release::{self, Attestation, Fate};
use gpuaas_placement::lifecycle::{NODE_HISTORY, NodeEntry, SLOT_HISTORY, SlotEntry};
use gpuaas_placement::model::{Attribution, SlotStatus};
use gpuaas_placement::node_health::{self, Report, Severity};
use gpuaas_placement::node_placement::{self, Intent, NodePlacement};
use gpuaas_placement::nodes::{self, NodeSpec};
use gpuaas_placement::{Error, Outcome, approval, lifecycle, slots};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff_sqlx::ToSqlx as _;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::world::{World, lab_slot, lab_spec};

/// Everything, the newest first.
fn newest(catalog: &'static Catalog) -> Selection {
    Selection::parse(catalog, "", "").expect("nothing to refuse")
}

fn first(size: i64) -> Wanted<'static> {
    Wanted {
        page_token: "",
        size,
        query: &[],
    }
}

async fn of_node(conn: &mut PgConnection, node: Uuid, most: i64) -> Vec<NodeEntry> {
    let listed = lifecycle::of_node(conn, node, &newest(&NODE_HISTORY), first(most)).await;
    let (entries, _) = listed.expect("history");
    entries.into_iter().map(|(entry, _)| entry).collect()
}

async fn of_slot(conn: &mut PgConnection, slot: Uuid, most: i64) -> Vec<SlotEntry> {
    let listed = lifecycle::of_slot(conn, slot, &newest(&SLOT_HISTORY), first(most)).await;
    listed.expect("history").0
}

fn word(reason: &str) -> Attribution<'_> {
    Attribution::of("user:root", reason)
}

/// Runs one call of the ledger in a transaction of the scheduler, and commits it when it went well.
macro_rules! call {
    ($world:expr, |$tx:ident| $call:expr) => {{
        let mut $tx = $world.scheduler.begin().await.expect("begin");
        let done = $call.await;
        match done {
            Ok(answer) => {
                $tx.commit().await.expect("commit");
                Ok(answer)
            }
            Err(error) => Err(error),
        }
    }};
}

async fn become_(world: &World, node: Uuid, intent: Intent) -> Result<NodePlacement, Error> {
    call!(world, |tx| node_placement::set_intent(
        &mut tx,
        node,
        intent,
        word("test")
    ))
    .map(|(node, _)| node)
}

/// The refusal of something in the wrong state, as people read it.
fn state<T: std::fmt::Debug>(refused: Result<T, Error>) -> String {
    match refused {
        Err(Error::Conflict { state, .. }) => state,
        other => panic!("{other:?}"),
    }
}

/// The one entry of a node's history that is the latest.
async fn latest(world: &World, node: Uuid) -> (String, String, String) {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let entry = of_node(&mut conn, node, 1).await;
    let entry = entry.into_iter().next().expect("an entry");
    (entry.state, entry.reason, entry.principal)
}

/// A node of a spec that is told again, with so many slots.
async fn reported(slots: i32) -> (World, NodeSpec) {
    let world = World::new().await;
    let spec = lab_spec();
    world.node(spec.clone()).await;
    let all: Vec<_> = (0..slots).map(lab_slot).collect();
    world.approve(spec.id, &all).await;
    (world, spec)
}

#[tokio::test]
async fn a_48_a_49_mode_and_limit_change_only_out_of_service_and_never_with_a_claim() {
    let (world, spec) = reported(1).await;
    let limit = NodeSpec {
        max_vms: 1,
        ..spec.clone()
    };
    let mode = NodeSpec {
        mode: "baremetal".into(),
        ..spec.clone()
    };
    for desired in [&limit, &mode] {
        let refused = call!(world, |tx| nodes::put(&mut tx, desired));
        assert_eq!(state(refused), "schedulable; cordon it first");
    }
    // the database refuses as well, whatever the code of the service asks
    for sql in [
        "UPDATE nodes SET max_vms = 9",
        "UPDATE nodes SET mode = 'baremetal', intended_mode = 'baremetal'",
    ] {
        let refused = sqlx::query(sql).execute(&*world.scheduler).await;
        let code = refused
            .expect_err(sql)
            .as_database_error()
            .and_then(|e| e.code().map(std::borrow::Cow::into_owned));
        assert_eq!(code.as_deref(), Some("23514"), "{sql}");
    }
    let id = world.reserved(1).await;
    become_(&world, spec.id, Intent::Cordoned)
        .await
        .expect("cordoned");
    for desired in [&limit, &mode] {
        let refused = call!(world, |tx| nodes::put(&mut tx, desired));
        assert_eq!(state(refused), "in use in mode slice");
    }
    // what waits keeps the node out of service, and everything else of it counts
    let news = NodeSpec {
        hugepages_1g_free: 7,
        ..limit.clone()
    };
    let held = call!(world, |tx| nodes::put_held_back(&mut tx, &news)).expect("held back");
    assert_eq!(
        (held.max_vms, held.hugepages_1g_free, held.schedulable),
        (0, 7, false)
    );
    assert_eq!(held.not_schedulable_reason, nodes::CONFIG_WAITS);
    world
        .run_past_guards(&format!(
            "UPDATE claims SET state = 'released', released_at = now() WHERE allocation_id = '{id}'"
        ))
        .await;
    let now = call!(world, |tx| nodes::put(&mut tx, &limit)).expect("empty and out of service");
    assert_eq!((now.max_vms, now.schedulable), (1, true));
    let now = call!(world, |tx| nodes::put(
        &mut tx,
        &NodeSpec {
            max_vms: 1,
            ..mode.clone()
        }
    ))
    .expect("the same");
    assert_eq!(now.mode, "baremetal");
}

#[tokio::test]
async fn maintenance_needs_an_empty_node_and_retirement_is_the_end() {
    let (world, spec) = reported(2).await;
    let node = spec.id;
    let id = world.active(1).await;
    assert_eq!(
        state(become_(&world, node, Intent::Maintenance).await),
        "in use; drain it first"
    );
    assert_eq!(
        state(become_(&world, node, Intent::Retired).await),
        "in service; drain it first"
    );
    become_(&world, node, Intent::Draining)
        .await
        .expect("draining");
    let refused = state(become_(&world, node, Intent::Retired).await);
    assert!(refused.starts_with("holding claims"), "{refused}");
    assert_eq!(
        state(become_(&world, node, Intent::Broken).await),
        "without a break-fix record"
    );
    let mut tx = world.allocation.begin().await.expect("begin");
    gpuaas_placement::release::begin(&mut tx, gpuaas_placement::Scope::Platform, id, "", "")
        .await
        .expect("released");
    tx.commit().await.expect("commit");
    let fence = world.take(id).await;
    let wiped = world.wiped(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = gpuaas_placement::release::complete(&mut tx, fence, id, &wiped)
        .await
        .expect("wiped");
    tx.commit().await.expect("commit");
    world.finish(fence).await;

    let now = become_(&world, node, Intent::Maintenance)
        .await
        .expect("empty");
    assert_eq!(
        (now.admin_state.as_str(), now.admin_by.as_str()),
        ("maintenance", "user:root")
    );
    assert_eq!(
        latest(&world, node).await,
        ("maintenance".into(), "test".into(), "user:root".into())
    );
    let (_, outcome) = call!(world, |tx| node_placement::retire(
        &mut tx,
        node,
        word("scrapped"),
        false
    ))
    .expect("retired");
    assert_eq!(outcome, Outcome::Changed);
    let (_, again) = call!(world, |tx| node_placement::retire(
        &mut tx,
        node,
        word("scrapped"),
        false
    ))
    .expect("again");
    assert_eq!(again, Outcome::Unchanged);
    assert_eq!(world.count(node, SlotStatus::Retired).await, 2);
    assert_eq!(
        state(become_(&world, node, Intent::Enabled).await),
        "retired"
    );
    let refused = sqlx::query("UPDATE nodes SET admin_state = 'enabled'")
        .execute(&*world.scheduler)
        .await;
    assert!(refused.is_err(), "the database refuses as well");
    let look = approval::Inspection::default();
    let more = [lab_slot(5)];
    let origin = gpuaas_placement::repair::Origin::default();
    let refused = call!(world, |tx| approval::approve(
        &mut tx,
        node,
        &look,
        &more,
        origin,
        Uuid::now_v7
    ));
    assert_eq!(state(refused), "retired");
}

#[tokio::test]
async fn a_node_that_never_had_a_tenant_may_go_at_once_and_no_other() {
    let (world, spec) = reported(1).await;
    let (gone, _) = call!(world, |tx| node_placement::retire(
        &mut tx,
        spec.id,
        word("typo"),
        true
    ))
    .expect("gone");
    assert_eq!(gone.admin_state, "retired");
    let (world, spec) = reported(1).await;
    world.reserved(1).await;
    let refused = state(call!(world, |tx| node_placement::retire(
        &mut tx,
        spec.id,
        word("typo"),
        true
    )));
    assert_eq!(refused, "one that had tenants; retire it instead");
}

#[tokio::test]
async fn a_retired_slot_leaves_its_index_and_devices_to_another() {
    let (world, spec) = reported(2).await;
    let node = spec.id;
    let held = world.reserved(1).await;
    let rows = world.slots(node).await;
    let (used, free) = (
        &rows[usize::from(rows[0].allocation_id.is_none())],
        &rows[usize::from(rows[0].allocation_id.is_some())],
    );
    assert_eq!(used.allocation_id, Some(held));
    let refused = state(call!(world, |tx| slots::retire(
        &mut tx,
        node,
        used.id,
        word("disk")
    )));
    assert_eq!(refused, format!("reserved for allocation {held}"));
    // who decides by an earlier reading is refused
    let stale = call!(world, |tx| slots::expect(&mut tx, node, free.id, "0"));
    match stale {
        Err(Error::Common(error)) => assert_eq!(error.reason(), ErrorReason::EtagStale),
        other => panic!("{other:?}"),
    }
    let (gone, outcome) = call!(world, |tx| slots::retire(
        &mut tx,
        node,
        free.id,
        word("disk")
    ))
    .expect("retired");
    assert_eq!(
        (gone.status, outcome),
        (SlotStatus::Retired, Outcome::Changed)
    );
    let (_, again) = call!(world, |tx| slots::retire(
        &mut tx,
        node,
        free.id,
        word("disk")
    ))
    .expect("again");
    assert_eq!(again, Outcome::Unchanged);
    // another disk at the same place
    world.approve(node, &[lab_slot(free.slot_index)]).await;
    let now: Vec<_> = world
        .slots(node)
        .await
        .into_iter()
        .filter(|slot| slot.slot_index == free.slot_index)
        .collect();
    assert_eq!(now.len(), 2);
    assert!(
        now.iter()
            .any(|slot| slot.id != free.id && slot.status == SlotStatus::Available),
        "{now:?}"
    );

    let mut conn = world.scheduler.acquire().await.expect("connection");
    let entries = of_slot(&mut conn, free.id, 10).await;
    let kinds: Vec<(&str, &str, &str)> = entries
        .iter()
        .map(|e| (e.kind.as_str(), e.detail.as_str(), e.principal.as_str()))
        .collect();
    assert_eq!(kinds[0], ("retired", "disk", "user:root"));
    assert!(
        kinds.contains(&("evidence", "wiped: blkdiscard", "")),
        "{kinds:?}"
    );
    let entries = of_slot(&mut conn, used.id, 10).await;
    assert_eq!(
        (entries[0].kind.as_str(), entries[0].allocation_id),
        ("claimed", Some(held))
    );
}

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

#[tokio::test]
async fn c_13_destroyed_disks_retire_their_slots() {
    let (world, spec) = reported(1).await;
    let id = world.active(1).await;
    let silent = NodeSpec {
        host_lost_since: Some(jiff::Timestamp::now().to_sqlx()),
        ..spec.clone()
    };
    call!(world, |tx| nodes::put(&mut tx, &silent)).expect("lost");
    let attested = Attestation {
        principal: "user:root",
        fate: Fate::DisksDestroyed,
        reason: "shredded",
        billing_end: None,
    };
    let mut tx = world.allocation.begin().await.expect("begin");
    force_release::force(&mut tx, id, &attested)
        .await
        .expect("forced");
    tx.commit().await.expect("commit");
    let slot = &world.slots(spec.id).await[0];
    assert_eq!(
        (slot.status, slot.allocation_id),
        (SlotStatus::Retired, None)
    );
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let kinds: Vec<(String, String)> = of_slot(&mut conn, slot.id, 10)
        .await
        .into_iter()
        .map(|e| (e.kind, e.detail))
        .collect();
    assert!(
        kinds.contains(&("retired".into(), "shredded".into())),
        "{kinds:?}"
    );
    assert!(
        kinds.contains(&("evidence".into(), "destroyed: attested".into())),
        "{kinds:?}"
    );
    // nothing but a new disk is allocated at its place
    let mut tx = world.allocation.begin().await.expect("begin");
    let refused = gpuaas_placement::repair::begin(&mut tx, spec.id, slot.id, "", "").await;
    assert!(
        matches!(refused, Err(Error::Conflict { .. })),
        "{refused:?}"
    );
    drop(tx);
    world.approve(spec.id, &[lab_slot(0)]).await;
    assert_eq!(world.count(spec.id, SlotStatus::Available).await, 1);
    let report = gpuaas_placement::audit::ledger(&mut conn)
        .await
        .expect("audited");
    assert_eq!(report.broken().count(), 0);
}

#[tokio::test]
async fn a_disk_that_cannot_be_wiped_is_attested_and_its_slot_retired_while_the_host_answers() {
    let (world, spec) = reported(1).await;
    let id = world.active(1).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    gpuaas_placement::release::begin(&mut tx, gpuaas_placement::Scope::Platform, id, "", "")
        .await
        .expect("released");
    tx.commit().await.expect("commit");
    let attested = |fate| Attestation {
        principal: "user:root",
        fate,
        reason: "dead disk",
        billing_end: None,
    };
    // while the host may still wipe it, that is what has to be done
    let mut tx = world.allocation.begin().await.expect("begin");
    let early = force_release::force(&mut tx, id, &attested(Fate::DisksDestroyed)).await;
    assert!(early.is_err(), "{early:?}");
    drop(tx);
    let fence = world.take(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = gpuaas_placement::release::block(&mut tx, fence, id, "the disk does not answer")
        .await
        .expect("blocked");
    tx.commit().await.expect("commit");
    world.finish(fence).await;
    let slot = world.slots(spec.id).await[0].id;
    let refused = state(call!(world, |tx| slots::retire(
        &mut tx,
        spec.id,
        slot,
        word("dead")
    )));
    assert_eq!(refused, format!("cleanup_blocked for allocation {id}"));
    let mut tx = world.allocation.begin().await.expect("begin");
    let other = force_release::force(&mut tx, id, &attested(Fate::PoweredOff)).await;
    assert!(other.is_err(), "its host answers: {other:?}");
    drop(tx);
    let mut tx = world.allocation.begin().await.expect("begin");
    force_release::force(&mut tx, id, &attested(Fate::DisksDestroyed))
        .await
        .expect("attested");
    tx.commit().await.expect("commit");
    let now = &world.slots(spec.id).await[0];
    assert_eq!((now.status, now.allocation_id), (SlotStatus::Retired, None));
}
