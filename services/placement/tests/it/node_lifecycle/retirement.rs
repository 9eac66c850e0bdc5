//! Nodes and slots that are gone for good, and what of them is used again.
use gpuaas_placement::force_release::{self, Attestation, Fate};
use gpuaas_placement::model::SlotStatus;
use gpuaas_placement::node_placement;
use gpuaas_placement::nodes::{self, NodeSpec};
use gpuaas_placement::{Error, Outcome, slots};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff_sqlx::ToSqlx as _;

use super::{of_slot, reported, state, word};
use crate::world::lab_slot;

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
