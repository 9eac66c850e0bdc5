//! Slots that nobody has by the ledger and that their host holds.
use std::collections::BTreeMap;

use gpuaas_placement::force_release::{self, Attestation, Fate};
use gpuaas_placement::host_holds::{self, HostHold};
use gpuaas_placement::model::{Slot, SlotStatus};
use gpuaas_placement::nodes::NodeSpec;
use gpuaas_placement::{Outcome, audit, repair};
use jiff_sqlx::ToSqlx as _;
use uuid::Uuid;

use crate::world::{World, lab_slot, lab_spec, wiped};

/// What a visit of the reconciler notes: so many slots changed.
async fn note(world: &World, node: Uuid, held: &[(&Slot, Uuid, Option<i64>)]) -> usize {
    let held: BTreeMap<Uuid, HostHold> = held
        .iter()
        .map(|(slot, holder, leaked_at)| {
            let hold = HostHold {
                holder: *holder,
                leaked_at: *leaked_at,
            };
            (slot.id, hold)
        })
        .collect();
    let mut tx = world.allocation.begin().await.expect("begin");
    let changed = host_holds::note(&mut tx, node, &held).await.expect("noted");
    tx.commit().await.expect("commit");
    changed
}

#[tokio::test]
async fn p1_p2_a_slot_that_only_its_host_holds_is_not_offered_until_a_wipe_under_that_hold_is_proven()
 {
    let (world, node) = World::with_lab_slots(2).await;
    let slots = world.slots(node).await;
    let (held, free) = (&slots[0], &slots[1]);
    let unknown = Uuid::now_v7();
    // it changed hands while the host was asked, or somebody works on it
    for leaked_at in [None, Some(held.generation - 1), Some(held.generation + 1)] {
        assert_eq!(note(&world, node, &[(held, unknown, leaked_at)]).await, 0);
    }
    let now = (held, unknown, Some(held.generation));
    assert_eq!(note(&world, node, &[now]).await, 1);
    assert_eq!(note(&world, node, &[now]).await, 0, "the same is no news");
    let after = world.slots(node).await;
    assert_eq!(after[0].status, SlotStatus::CleanupBlocked);
    assert_eq!(after[0].host_holder, Some(unknown));
    assert!(after[0].host_held_since.is_some() && after[0].health_detail.contains("Repair"));
    assert_eq!(
        (after[1].status, after[1].revision),
        (SlotStatus::Available, free.revision)
    );
    assert_eq!(world.count(node, SlotStatus::Available).await, 1);

    let mut tx = world.allocation.begin().await.expect("begin");
    let begun = repair::begin(&mut tx, node, held.id, "", "req").await;
    let begun = begun.expect("begun");
    assert_eq!(
        begun.allocation_id, None,
        "the ledger knows none of that id"
    );
    tx.commit().await.expect("commit");
    // while it is repaired, nothing of it is noted: the workflow works under that id
    assert_eq!(note(&world, node, &[]).await, 0);
    assert_eq!(world.slots(node).await[0].host_holder, Some(unknown));
    let fence = world.take(held.id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let proof = wiped(held.id, begun.slot.generation);
    let done = repair::complete(&mut tx, fence, held.id, &proof).await;
    assert_eq!(done.expect("complete"), Outcome::Changed);
    tx.commit().await.expect("commit");
    world.finish(fence).await;
    let clean = &world.slots(node).await[0];
    assert_eq!(
        (clean.status, clean.host_holder),
        (SlotStatus::Available, None)
    );
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let report = audit::ledger(&mut conn).await.expect("audited");
    let broken: Vec<_> = report.broken().map(|one| one.name).collect();
    assert!(broken.is_empty(), "{broken:?}");
}

#[tokio::test]
async fn p5_what_is_claimed_is_never_touched_and_a_hold_that_ends_is_forgotten() {
    let (world, node) = World::with_lab_slots(2).await;
    let id = world.active(1).await;
    let slots = world.slots(node).await;
    let (claimed, free) = match slots[0].allocation_id {
        Some(_) => (&slots[0], &slots[1]),
        None => (&slots[1], &slots[0]),
    };
    let other = Uuid::now_v7();
    let noted = note(&world, node, &[(claimed, other, Some(claimed.generation))]).await;
    assert_eq!(noted, 0);
    let of = async |wanted: &Slot| {
        let all = world.slots(node).await;
        let found = all.into_iter().find(|slot| slot.id == wanted.id);
        found.expect("the slot")
    };
    let now = of(claimed).await;
    assert_eq!(
        (now.status, now.allocation_id, now.revision),
        (SlotStatus::Active, Some(id), claimed.revision)
    );

    note(&world, node, &[(free, other, Some(free.generation))]).await;
    assert_eq!(of(free).await.status, SlotStatus::CleanupBlocked);
    assert_eq!(note(&world, node, &[]).await, 1);
    let now = of(free).await;
    assert_eq!((now.host_holder, now.host_held_since), (None, None));
    assert_eq!(
        now.status,
        SlotStatus::CleanupBlocked,
        "what was on the disk is not known: it takes a repair"
    );
    // the allocation by whose id the host holds a slot must have ended
    note(&world, node, &[(free, id, Some(free.generation))]).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let refused = repair::begin(&mut tx, node, free.id, "", "req").await;
    assert!(refused.is_err(), "{refused:?}");
}

/// What its host holds it for may be another allocation than the one that was released, or none that the ledger knows.
#[tokio::test]
async fn c_13_p5_a_slot_that_was_released_by_force_is_repaired_under_the_hold_of_its_host() {
    let (world, spec) = (World::new().await, lab_spec());
    let node = world.node(spec.clone()).await;
    world.approve(node, &[lab_slot(0), lab_slot(1)]).await;
    let (gone, claimed) = (world.active(1).await, world.active(1).await);
    let of = async |wanted: Uuid| {
        let all = world.slots(node).await;
        let found = all
            .into_iter()
            .find(|slot| slot.allocation_id == Some(wanted));
        found.expect("its slot").id
    };
    let (first, second) = (of(gone).await, of(claimed).await);
    let silent = NodeSpec {
        host_lost_since: Some(jiff::Timestamp::now().to_sqlx()),
        ..spec
    };
    world.node(silent).await;
    let attested = Attestation {
        principal: "user:root",
        fate: Fate::WrittenOff,
        reason: "its journal was restored",
        billing_end: None,
    };
    for id in [gone, claimed] {
        let mut tx = world.allocation.begin().await.expect("begin");
        let ended = force_release::force(&mut tx, id, &attested).await;
        ended.expect("forced");
        tx.commit().await.expect("commit");
    }
    // whom the repair is for, which is not kept
    let holder = async |slot: Uuid| {
        let mut tx = world.allocation.begin().await.expect("begin");
        let begun = repair::begin(&mut tx, node, slot, "", "req").await;
        begun.expect("begun").allocation_id
    };
    assert_eq!(holder(first).await, Some(gone));
    assert_eq!(holder(second).await, Some(claimed));
    for (found, expected) in [(Uuid::now_v7(), None), (gone, Some(gone))] {
        let all = world.slots(node).await;
        let slot = all.iter().find(|slot| slot.id == second);
        let slot = slot.expect("the slot");
        let noted = note(&world, node, &[(slot, found, Some(slot.generation))]).await;
        assert_eq!(noted, 1);
        assert_eq!(holder(second).await, expected);
    }
}
