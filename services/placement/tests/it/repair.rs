//! The only way out of `cleanup_blocked` (CON-25), and the operator's intent.
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_placement::model::Attribution;
use gpuaas_placement::model::{EvidenceKind, Health, Scope, SlotEvidence, SlotStatus};
use gpuaas_placement::{Error, Outcome, node_placement, release, repair, wipes};
use uuid::Uuid;

use crate::world::{World, wiped};

/// A world with a blocked slot whose allocation has ended.
async fn blocked() -> (World, Uuid, Uuid) {
    let (world, node) = World::with_lab_slots(1).await;
    let id = world.active(1).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = release::begin(&mut tx, Scope::Platform, id, "", "")
        .await
        .expect("release");
    tx.commit().await.expect("commit");
    let fence = world.take(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = release::block(&mut tx, fence, id, "wipe not proven")
        .await
        .expect("block");
    tx.commit().await.expect("commit");
    world.finish(fence).await;
    let slot = world.slots(node).await[0].id;
    (world, node, slot)
}

#[tokio::test]
async fn a_138_repair_with_fresh_proof_brings_the_slot_back() {
    let (world, node, slot) = blocked().await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let begun = repair::begin(&mut tx, node, slot, "", "req")
        .await
        .expect("begin repair");
    assert!(begun.started && begun.allocation_id.is_some());
    assert_eq!(
        (begun.slot.status, begun.slot.generation),
        (SlotStatus::Cleanup, 2)
    );
    let again = repair::begin(&mut tx, node, slot, "", "req")
        .await
        .expect("again");
    assert_eq!(
        (again.started, again.workflow_id),
        (false, begun.workflow_id)
    );
    tx.commit().await.expect("commit");

    let fence = world.take(slot).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    // evidence of the generation before the repair proves nothing
    assert!(matches!(
        repair::complete(&mut tx, fence, slot, &wiped(slot, 1)).await,
        Err(Error::EvidenceMissing(_))
    ));
    assert_eq!(
        repair::complete(&mut tx, fence, slot, &wiped(slot, 2))
            .await
            .expect("complete"),
        Outcome::Changed
    );
    assert_eq!(
        repair::complete(&mut tx, fence, slot, &wiped(slot, 2))
            .await
            .expect("again"),
        Outcome::Unchanged
    );
    tx.commit().await.expect("commit");
    let slot = &world.slots(node).await[0];
    assert_eq!(
        (slot.status, slot.health_state, slot.allocation_id),
        (SlotStatus::Available, Health::Healthy, None)
    );
    assert_eq!(slot.clean_generation, Some(2));
    world.reserved(1).await;
}

/// The evidence names the method, which may be stronger than the policy.
#[tokio::test]
async fn d_75_a_wipe_is_listed_with_its_policy_and_its_method() {
    let (world, node, slot) = blocked().await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = repair::begin(&mut tx, node, slot, "", "req")
        .await
        .expect("begin repair");
    tx.commit().await.expect("commit");
    let fence = world.take(slot).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let proof = SlotEvidence {
        method: "sanitize_crypto_erase".into(),
        detail: serde_json::json!({ "policy": "nvme_format", "erase_method": "sanitize_crypto_erase" }),
        ..wiped(slot, 2)
    };
    let _ = repair::complete(&mut tx, fence, slot, &proof)
        .await
        .expect("complete");
    let by = |filter: &str| Selection::parse(&wipes::CATALOG, filter, "").expect("a filter");
    for (filter, expected) in [
        (
            "policy = nvme_format",
            Some(("nvme_format", "sanitize_crypto_erase")),
        ),
        ("policy = sanitize_crypto_erase", None),
    ] {
        let wanted = Wanted {
            page_token: "",
            size: 10,
            query: &[],
        };
        let listed = wipes::of_slot(&mut tx, slot, &by(filter), wanted).await;
        let (listed, _) = listed.expect("wipes");
        let found = listed
            .iter()
            .map(|one| (one.policy.as_str(), one.erase_method.as_str()));
        assert_eq!(
            found.collect::<Vec<_>>(),
            Vec::from_iter(expected),
            "{filter}"
        );
    }
}

#[tokio::test]
async fn failed_repair_blocks_again_and_can_be_repeated() {
    let (world, node, slot) = blocked().await;
    for generation in [2, 3] {
        let mut tx = world.allocation.begin().await.expect("begin");
        let begun = repair::begin(&mut tx, node, slot, "", "")
            .await
            .expect("begin repair");
        tx.commit().await.expect("commit");
        assert_eq!(begun.slot.generation, generation);
        let stale = world.take(slot).await;
        let fence = world.take(slot).await;
        let mut tx = world.allocation.begin().await.expect("begin");
        assert!(matches!(
            repair::fail(&mut tx, stale, slot, "late").await,
            Err(Error::StaleLease)
        ));
        let _ = repair::fail(&mut tx, fence, slot, "a partition table is left")
            .await
            .expect("fail");
        assert_eq!(
            repair::fail(&mut tx, fence, slot, "again")
                .await
                .expect("again"),
            Outcome::Unchanged
        );
        tx.commit().await.expect("commit");
        let mut tx = world.allocation.begin().await.expect("begin");
        let too_soon = repair::begin(&mut tx, node, slot, "", "").await;
        assert!(
            matches!(too_soon, Err(Error::Conflict { .. })),
            "{too_soon:?}"
        );
        tx.rollback().await.expect("rollback");
        world.finish(fence).await;
        let row = &world.slots(node).await[0];
        assert_eq!(
            (row.status, row.health_state),
            (SlotStatus::CleanupBlocked, Health::Failed)
        );
        assert_eq!(row.health_detail, "a partition table is left");
    }
}

#[tokio::test]
async fn destroyed_device_retires_its_slot() {
    let (world, node, slot) = blocked().await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = repair::begin(&mut tx, node, slot, "", "")
        .await
        .expect("begin repair");
    tx.commit().await.expect("commit");
    let fence = world.take(slot).await;
    let proof = SlotEvidence {
        kind: EvidenceKind::Destroyed,
        method: "shredded".into(),
        ..wiped(slot, 2)
    };
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = repair::complete(&mut tx, fence, slot, &proof)
        .await
        .expect("complete");
    tx.commit().await.expect("commit");
    assert_eq!(world.slots(node).await[0].status, SlotStatus::Retired);
    assert_eq!(
        world
            .number("SELECT count(*) FROM claims WHERE state <> 'released'")
            .await,
        0
    );
}

#[tokio::test]
async fn repair_is_for_blocked_slots_of_ended_allocations() {
    let (world, node) = World::with_lab_slots(2).await;
    let id = world.active(1).await;
    let rows = world.slots(node).await;
    let held = rows
        .iter()
        .find(|slot| slot.allocation_id == Some(id))
        .expect("held")
        .id;
    for slot in &rows {
        let mut tx = world.allocation.begin().await.expect("begin");
        assert!(matches!(
            repair::begin(&mut tx, node, slot.id, "", "").await,
            Err(Error::Conflict { what: "slot", .. })
        ));
    }
    world
        .run(&format!(
            "UPDATE slots SET status = 'cleanup_blocked' WHERE id = '{held}'"
        ))
        .await;
    let mut tx = world.allocation.begin().await.expect("begin");
    assert!(matches!(
        repair::begin(&mut tx, node, held, "", "").await,
        Err(Error::Conflict {
            what: "allocation",
            ..
        })
    ));
    drop(tx);
    let mut tx = world.allocation.begin().await.expect("begin");
    assert!(matches!(
        repair::begin(&mut tx, node, Uuid::now_v7(), "", "").await,
        Err(Error::NotFound { .. })
    ));
}

#[tokio::test]
async fn a_116_disable_follows_at_once_or_after_the_cleanup() {
    let (world, node) = World::with_lab_slots(2).await;
    let id = world.active(1).await;
    let rows = world.slots(node).await;
    let set = async |slot: Uuid, disabled: bool| {
        let mut tx = world.scheduler.begin().await.expect("begin");
        let slot = node_placement::set_slot_admin_state(
            &mut tx,
            node,
            slot,
            disabled,
            Attribution::of("user:test", "fan"),
        )
        .await
        .expect("set");
        tx.commit().await.expect("commit");
        slot
    };
    let (held, free) = if rows[0].allocation_id == Some(id) {
        (rows[0].id, rows[1].id)
    } else {
        (rows[1].id, rows[0].id)
    };
    assert_eq!(set(free, true).await.status, SlotStatus::Disabled);
    assert_eq!(set(free, true).await.status, SlotStatus::Disabled);
    assert_eq!(set(held, true).await.status, SlotStatus::Active);
    assert!(matches!(
        world.reserve(&world.request(1)).await,
        Err(Error::Refused { .. })
    ));
    assert_eq!(set(free, false).await.status, SlotStatus::Available);

    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = release::begin(&mut tx, Scope::Platform, id, "", "")
        .await
        .expect("release");
    tx.commit().await.expect("commit");
    let (fence, evidence) = (world.take(id).await, world.wiped(id).await);
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = release::complete(&mut tx, fence, id, &evidence)
        .await
        .expect("complete");
    tx.commit().await.expect("commit");
    let after = world
        .slots(node)
        .await
        .into_iter()
        .find(|slot| slot.id == held)
        .expect("slot");
    assert_eq!(
        (after.status, after.clean_generation),
        (SlotStatus::Disabled, Some(1))
    );
    assert_eq!(set(held, false).await.status, SlotStatus::Available);
}

/// The disk of each is empty; the GPU of one did not come back from its reset.
#[tokio::test]
async fn p2_a_slot_whose_device_failed_waits_for_its_repair_and_no_other_of_the_allocation() {
    let (world, node) = World::with_lab_slots(2).await;
    let id = world.active(2).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = release::begin(&mut tx, Scope::Platform, id, "", "")
        .await
        .expect("release");
    tx.commit().await.expect("commit");
    let (fence, mut evidence) = (world.take(id).await, world.wiped(id).await);
    let faulty = evidence.pop().expect("two").slot_id;
    let good = evidence[0].slot_id;

    // an allocation blocks slots of its own alone
    let mut tx = world.allocation.begin().await.expect("begin");
    release::block_slot(&mut tx, fence, id, Uuid::now_v7(), "why")
        .await
        .expect("nobody's");
    assert!(matches!(
        release::complete(&mut tx, fence, id, &evidence).await,
        Err(Error::EvidenceMissing(slot)) if slot == faulty
    ));
    drop(tx);

    let mut tx = world.allocation.begin().await.expect("begin");
    release::block_slot(&mut tx, fence, id, faulty, "DEVICE_RESET_FAILED: gpu")
        .await
        .expect("blocked");
    assert_eq!(
        release::complete(&mut tx, fence, id, &evidence)
            .await
            .expect("complete"),
        Outcome::Changed
    );
    tx.commit().await.expect("commit");
    world.finish(fence).await;
    let rows = world.slots(node).await;
    let of = |id: Uuid| rows.iter().find(|slot| slot.id == id).expect("a slot");
    assert_eq!(of(good).status, SlotStatus::Available);
    assert_eq!(
        (of(faulty).status, of(faulty).health_state),
        (SlotStatus::CleanupBlocked, Health::Failed)
    );
    assert_eq!(of(faulty).health_detail, "DEVICE_RESET_FAILED: gpu");
    // the good one is allocated; the other comes back by its repair alone
    let next = world.reserve(&world.request(1)).await.expect("room");
    assert!(matches!(
        world.reserve(&world.request(1)).await,
        Err(Error::Refused { .. })
    ));
    let mut tx = world.allocation.begin().await.expect("begin");
    let begun = repair::begin(&mut tx, node, faulty, "", "req").await;
    assert!(begun.expect("begin repair").started);
    tx.commit().await.expect("commit");
    let fence = world.take(faulty).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let generation = of(faulty).generation + 1;
    let _ = repair::complete(&mut tx, fence, faulty, &wiped(faulty, generation))
        .await
        .expect("complete");
    tx.commit().await.expect("commit");
    let rows = world.slots(node).await;
    let repaired = rows.iter().find(|slot| slot.id == faulty).expect("a slot");
    assert_eq!(repaired.status, SlotStatus::Available);
    assert_ne!(next.allocation_id, id);
}
