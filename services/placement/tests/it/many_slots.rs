//! An allocation of several slots of which one is blocked: the others are neither withheld without need nor allocated unproven.
use gpuaas_placement::model::{AllocationState, SlotStatus};
use gpuaas_placement::{Error, Outcome, Scope, audit, release, repair};
use gpuaas_placement_testing as testing;
use uuid::Uuid;

use crate::world::World;

async fn assert_clean(world: &World) {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let report = audit::ledger(&mut conn).await.expect("audited");
    let broken: Vec<_> = report.broken().map(|one| one.name).collect();
    assert!(broken.is_empty(), "{broken:?}");
}

async fn begin_release(world: &World, id: Uuid) {
    let mut tx = world.allocation.begin().await.expect("begin");
    release::begin(&mut tx, Scope::Platform, id, "", "")
        .await
        .expect("accepted");
    tx.commit().await.expect("commit");
}

/// The disk of a slot came in doubt: slot and claim wait for a repair.
async fn block_one(world: &World, slot: Uuid) {
    let sql = format!(
        "UPDATE slots SET status = 'cleanup_blocked', cleanup_health = 'failed', revision = revision + 1 WHERE id = '{slot}';
         INSERT INTO outbox (type, aggregate_id, revision, at, data)
         SELECT 'slot.cleanup_blocked', id, revision, clock_timestamp(), '{{}}' FROM slots WHERE id = '{slot}';
         UPDATE claims SET state = 'cleanup_blocked' WHERE slot_id = '{slot}' AND state <> 'released'"
    );
    world.run_past_guards(&sql).await;
}

/// One slot of the node is blocked and the others are available: these are allocated, each once, and the blocked one only after a
/// repair with its wipe.
async fn allocates_all_but(world: &World, node: Uuid, blocked: Uuid) {
    assert_clean(world).await;
    let now = world.slots(node).await;
    for slot in &now {
        let expected = if slot.id == blocked {
            SlotStatus::CleanupBlocked
        } else {
            SlotStatus::Available
        };
        assert_eq!(slot.status, expected, "{slot:?}");
    }
    let others = u32::try_from(now.len() - 1).expect("few");
    let next = world.reserved(others).await;
    let held = world.slots(node).await;
    assert!(
        held.iter()
            .all(|slot| (slot.id == blocked) != (slot.allocation_id == Some(next))),
        "{held:?}"
    );
    let full = world.reserve(&world.request(1)).await;
    assert!(matches!(full, Err(Error::Refused { .. })), "{full:?}");
    let mut tx = world.allocation.begin().await.expect("begin");
    repair::begin(&mut tx, node, blocked, "", "")
        .await
        .expect("repaired by an operator");
    tx.commit().await.expect("commit");
    testing::wipe(&world.allocation, node).await;
    assert_eq!(world.count(node, SlotStatus::Available).await, 1);
    assert_clean(world).await;
}

#[tokio::test]
async fn p1_p2_a_reservation_with_one_blocked_slot_gives_the_others_back() {
    let (world, node) = World::with_lab_slots(2).await;
    let id = world.reserved(2).await;
    let blocked = world.slots(node).await[1].id;
    block_one(&world, blocked).await;
    begin_release(&world, id).await;
    assert_eq!(world.get(id).await.state, AllocationState::Released);
    allocates_all_but(&world, node, blocked).await;
}

#[tokio::test]
async fn p1_p2_a_release_with_one_blocked_slot_returns_those_that_are_proven() {
    let (world, node) = World::with_lab_slots(2).await;
    let id = world.active(2).await;
    let blocked = world.slots(node).await[1].id;
    block_one(&world, blocked).await;
    begin_release(&world, id).await;
    let fence = world.take(id).await;
    let all = world.wiped(id).await;
    // what is proven of the blocked one makes it no freer, and of the others none goes without
    let of = |keep: &dyn Fn(Uuid) -> bool| {
        let mut kept = all.clone();
        kept.retain(|proof| keep(proof.slot_id));
        kept
    };
    let first = all
        .iter()
        .map(|proof| proof.slot_id)
        .find(|slot| *slot != blocked)
        .expect("another");
    let mut tx = world.allocation.begin().await.expect("begin");
    let missing = release::complete(&mut tx, fence, id, &of(&|slot| slot != first)).await;
    assert!(
        matches!(missing, Err(Error::EvidenceMissing(slot)) if slot == first),
        "{missing:?}"
    );
    tx.rollback().await.expect("rollback");
    assert_eq!(world.count(node, SlotStatus::Available).await, 0);

    let mut tx = world.allocation.begin().await.expect("begin");
    let done = release::complete(&mut tx, fence, id, &of(&|slot| slot != blocked)).await;
    assert_eq!(done.expect("complete"), Outcome::Changed);
    tx.commit().await.expect("commit");
    world.finish(fence).await;
    assert_eq!(world.get(id).await.state, AllocationState::Released);
    allocates_all_but(&world, node, blocked).await;
}

/// The host failed to prove one of several disks and gave no proof of any: none is allocated until each has one.
#[tokio::test]
async fn p2_a_release_without_proof_blocks_every_slot_and_each_repair_returns_its_own() {
    let (world, node) = World::with_lab_slots(2).await;
    let id = world.active(2).await;
    begin_release(&world, id).await;
    let fence = world.take(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let blocked = release::block(&mut tx, fence, id, "one disk is not empty").await;
    assert_eq!(blocked.expect("blocked"), Outcome::Changed);
    tx.commit().await.expect("commit");
    world.finish(fence).await;
    assert_eq!(world.count(node, SlotStatus::CleanupBlocked).await, 2);
    assert_clean(&world).await;
    let held = world.slots(node).await;
    for (count, slot) in held.iter().enumerate() {
        let request = world.request(1 + u32::try_from(count).expect("few"));
        let full = world.reserve(&request).await;
        assert!(matches!(full, Err(Error::Refused { .. })), "{full:?}");
        let mut tx = world.allocation.begin().await.expect("begin");
        repair::begin(&mut tx, node, slot.id, "", "")
            .await
            .expect("repaired by an operator");
        tx.commit().await.expect("commit");
        testing::wipe(&world.allocation, node).await;
        assert_eq!(world.count(node, SlotStatus::Available).await, count + 1);
        assert_clean(&world).await;
    }
    world.reserved(2).await;
}
