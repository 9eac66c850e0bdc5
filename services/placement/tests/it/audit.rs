//! The audit: silent on a ledger that lived through everything, and able to see each way in which one is unsound.
use gpuaas_placement::audit::{self, INVARIANTS, Report};
use gpuaas_placement::provision::{self, HostState};
use gpuaas_placement::{Scope, release, repair, reservations, sequencer};
use sqlx::{AssertSqlSafe, Executor as _};

use crate::world::World;

async fn report(world: &World) -> Report {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    audit::ledger(&mut conn).await.expect("audit")
}

/// A ledger with a slot in every status that lasts, and an allocation in every state.
async fn lived_in() -> World {
    let (world, node) = World::with_lab_slots(9).await;
    world.reserved(1).await;
    let begun = world.reserved(1).await;
    let fence = world.take(begun).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = provision::start(&mut tx, fence, begun)
        .await
        .expect("start");
    tx.commit().await.expect("commit");
    world.active(1).await;
    for (wiped, blocked) in [(false, false), (true, false), (false, true)] {
        let id = world.active(1).await;
        let mut tx = world.allocation.begin().await.expect("begin");
        let _ = release::begin(&mut tx, Scope::Platform, id, "", "")
            .await
            .expect("release");
        tx.commit().await.expect("commit");
        if wiped || blocked {
            let fence = world.take(id).await;
            let proofs = world.wiped(id).await;
            let mut tx = world.allocation.begin().await.expect("begin");
            let _ = if wiped {
                release::complete(&mut tx, fence, id, &proofs).await
            } else {
                release::block(&mut tx, fence, id, "not proven").await
            }
            .expect("end");
            tx.commit().await.expect("commit");
            world.finish(fence).await;
        }
    }
    // no node has a slot of this class
    let waits = gpuaas_placement::reserve::Request {
        sku: crate::world::H200.into(),
        ..world.request(1)
    };
    crate::queue::wait(&world, &waits).await.expect("waits");
    let failed = world.reserved(1).await;
    let fence = world.take(failed).await;
    let failure = gpuaas_placement::model::Failure {
        reason: "GUEST_NO_LOGIN".into(),
        message: "The machine did not answer.".into(),
        advice: String::new(),
        step: "provision.wait_login".into(),
    };
    let dirty = HostState::Dirty {
        health_detail: "no answer",
    };
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = provision::fail(&mut tx, fence, failed, &failure, dirty)
        .await
        .expect("fail");
    tx.commit().await.expect("commit");
    world.finish(fence).await;
    let slot = world
        .slots(node)
        .await
        .into_iter()
        .find(|slot| slot.allocation_id == Some(failed))
        .expect("held");
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = repair::begin(&mut tx, node, slot.id, "", "")
        .await
        .expect("repair");
    tx.commit().await.expect("commit");
    reserve_capacity(&world).await;
    sequencer::run_once(&world.allocation)
        .await
        .expect("sequenced");
    world
}

/// A capacity reservation that holds one slot.
async fn reserve_capacity(world: &World) {
    let requested = reservations::ReservationSpec {
        principal: "user:root".into(),
        idempotency_key: "k-reserved".into(),
        request_hash: vec![1; 32],
        request_id: String::new(),
        made_by_project: false,
        project_id: world.project,
        name: "training".into(),
        region_code: crate::world::REGION.into(),
        sku: crate::world::LAB.into(),
        gpu_count: 1,
        starts_at: None,
        ends_at: jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1),
        release_unused_after: None,
        gather: false,
    };
    let policy = crate::world::POLICY;
    let made = reservations::create(&world.scheduler, world.ids, policy, &requested).await;
    assert_eq!(made.expect("made").0.reserved_gpus, 1);
}

#[tokio::test]
async fn p1_an_audit_of_a_ledger_in_use_finds_nothing() {
    let world = lived_in().await;
    let report = report(&world).await;
    assert_eq!(report.checks.len(), INVARIANTS.len());
    assert_eq!(report.broken().count(), 0, "{report:#?}");
}

/// One way to break each invariant, past constraints and triggers.
const BREAKS: [(&str, &str); 28] = [
    (
        "reserved_slot_is_its_projects",
        "UPDATE reserved_slots SET project_id = gen_random_uuid(),
                slot_id = (SELECT slot_id FROM claims WHERE state = 'active' LIMIT 1)",
    ),
    (
        "reserved_slot_matches_reservation",
        "UPDATE capacity_reservations SET state = 'ended', ended_at = now()",
    ),
    (
        "reserved_slot_idle_matches_claims",
        "UPDATE reserved_slots SET idle_since = NULL",
    ),
    (
        "reservation_not_exceeded",
        "UPDATE capacity_reservations SET released_gpus = gpu_count",
    ),
    (
        "claim_matches_slot",
        "UPDATE slots SET status = 'active' WHERE status = 'provisioning'",
    ),
    (
        "claim_matches_slot",
        "UPDATE slots SET generation = generation + 1 WHERE status = 'active'",
    ),
    (
        "claim_matches_slot",
        "DELETE FROM slots WHERE status = 'active'",
    ),
    (
        "slot_has_its_claim",
        "DELETE FROM claims WHERE state = 'active'",
    ),
    (
        "slot_has_its_claim",
        "UPDATE claims SET state = 'active', released_at = NULL WHERE state = 'released'",
    ),
    ("node_has_one_kind", "UPDATE nodes SET mode = 'baremetal'"),
    (
        "claim_matches_allocation",
        "UPDATE claims SET allocation_id = gen_random_uuid() WHERE state = 'active'",
    ),
    (
        "claim_matches_allocation",
        "UPDATE claims SET state = 'releasing' WHERE state = 'active'",
    ),
    (
        "allocation_has_its_claims",
        "UPDATE allocations SET gpu_count = 8 WHERE state = 'active'",
    ),
    (
        "quota_counts_claims",
        "UPDATE allocations SET gpu_count = 8 WHERE state = 'active'",
    ),
    ("available_slot_is_clean", "DELETE FROM clean_evidence"),
    (
        "available_slot_is_complete",
        "UPDATE slots SET management_mac = ''",
    ),
    (
        "blocked_slot_is_failed",
        "UPDATE slots SET cleanup_health = 'healthy'",
    ),
    (
        "period_matches_allocation",
        "DELETE FROM allocation_periods WHERE ended_at IS NULL",
    ),
    (
        "period_matches_allocation",
        "UPDATE allocation_periods SET ended_at = NULL",
    ),
    (
        "moving_allocation_is_worked_on",
        "UPDATE workflows SET state = 'done', ended_at = now() WHERE kind = 'provision'",
    ),
    ("queued_allocation_is_complete", "DELETE FROM fair_share"),
    (
        "batch_is_placed_together",
        "INSERT INTO queued_allocations SELECT a.id, w.batch_id, 'lab', 'QUOTA' FROM queued_allocations w, allocations a WHERE a.state = 'active'",
    ),
    (
        "backfill_reservation_of_one_batch",
        "INSERT INTO backfill_reservations SELECT 'lab-1', 'lab', gen_random_uuid(), w.batch_id
           FROM queued_allocations w CROSS JOIN generate_series(1, 2)",
    ),
    (
        "slot_in_cleanup_is_worked_on",
        "DELETE FROM workflows WHERE kind = 'repair'",
    ),
    (
        "event_explains_allocation",
        "UPDATE allocations SET revision = revision + 1 WHERE state = 'active'",
    ),
    (
        "allocation_events_are_all_there",
        "DELETE FROM outbox WHERE type = 'allocation.provisioning'",
    ),
    (
        "event_explains_slot",
        "DELETE FROM outbox WHERE type = 'slot.cleanup_blocked'",
    ),
    (
        "events_are_in_order",
        "UPDATE outbox SET revision = 1000 - revision",
    ),
];

#[tokio::test]
async fn an_audit_sees_each_way_in_which_a_ledger_is_unsound() {
    let world = lived_in().await;
    let superuser = world.db.pool("postgres").await;
    let mut seen = vec!["events_have_no_gap"];
    for (name, statement) in BREAKS {
        let mut tx = superuser.begin().await.expect("begin");
        // constraints that no role can switch off are dropped for the time of this transaction
        tx.execute("SET LOCAL search_path TO placement")
            .await
            .expect("path");
        for (table, constraint) in CHECKS {
            tx.execute(AssertSqlSafe(format!(
                "ALTER TABLE {table} DROP CONSTRAINT {constraint}"
            )))
            .await
            .expect(constraint);
        }
        tx.execute("DROP INDEX claims_one_per_slot; SET LOCAL session_replication_role = replica")
            .await
            .expect("switch off");
        let done = tx.execute(statement).await.expect(statement);
        assert!(done.rows_affected() > 0, "{statement} changes something");
        let report = audit::ledger(&mut tx).await.expect("audit");
        let broken: Vec<_> = report.broken().map(|check| check.name).collect();
        assert!(broken.contains(&name), "{statement}: {broken:?}");
        tx.rollback().await.expect("rollback");
        seen.push(name);
    }
    // a position that is missing
    let mut tx = superuser.begin().await.expect("begin");
    tx.execute(
        "SET LOCAL search_path TO placement; SET LOCAL session_replication_role = replica;
                DELETE FROM outbox WHERE position = 3",
    )
    .await
    .expect("delete");
    let report = audit::ledger(&mut tx).await.expect("audit");
    assert!(
        report
            .broken()
            .any(|check| check.name == "events_have_no_gap"),
        "{report:#?}"
    );
    tx.rollback().await.expect("rollback");
    for invariant in INVARIANTS {
        assert!(
            seen.contains(&invariant.name),
            "{} is never broken here",
            invariant.name
        );
    }
    assert_eq!(report_again(&world).await, 0);
}

async fn report_again(world: &World) -> usize {
    report(world).await.broken().count()
}

/// Checks that would refuse a break.
const CHECKS: [(&str, &str); 1] = [("slots", "slots_available_is_complete")];

#[tokio::test]
async fn events_that_were_removed_by_age_are_not_missed() {
    let world = lived_in().await;
    let superuser = world.db.pool("postgres").await;
    superuser
        .execute(
            "BEGIN; SET LOCAL session_replication_role = replica; SET LOCAL search_path TO placement;
             DELETE FROM outbox; COMMIT",
        )
        .await
        .expect("all events are old");
    let found = report(&world).await;
    assert_eq!(found.broken().count(), 0, "{found:#?}");
    // what happens from now on is explained again
    world.reserved(1).await;
    sequencer::run_once(&world.allocation)
        .await
        .expect("sequenced");
    let found = report(&world).await;
    assert_eq!(found.broken().count(), 0, "{found:#?}");
}
