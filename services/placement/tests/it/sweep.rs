//! Old events go, in order and without a gap; young ones, ones without a position and the last one stay.
use gpuaas_common::idempotency;
use gpuaas_placement::model::Scope;
use gpuaas_placement::{events, node_placement, release, sequencer, sweep};

use crate::world::World;

#[tokio::test]
async fn events_older_than_ninety_days_go_and_what_stays_has_no_gap() {
    let (world, _) = World::with_lab_slots(3).await;
    for _ in 0..2 {
        world.reserved(1).await;
    }
    sequencer::run_once(&world.allocation)
        .await
        .expect("sequenced");
    let count = world.number("SELECT count(*) FROM outbox").await;
    let age = |from: i64, to: i64, days: i64| {
        format!(
            "ALTER TABLE outbox DISABLE TRIGGER outbox_guard;
             UPDATE outbox SET at = clock_timestamp() - interval '{days} days' WHERE position BETWEEN {from} AND {to};
             ALTER TABLE outbox ENABLE TRIGGER outbox_guard"
        )
    };
    assert_eq!(sweep::outbox(&world.allocation).await.expect("sweep"), 0);
    world.run(&age(1, 1, 89)).await;
    assert_eq!(sweep::outbox(&world.allocation).await.expect("sweep"), 0);
    // an old one behind a young one stays: readers go on from the first that is kept
    world.run(&age(1, 1, 91)).await;
    world.run(&age(3, 3, 91)).await;
    assert_eq!(sweep::outbox(&world.allocation).await.expect("sweep"), 1);
    let mut conn = world.allocation.acquire().await.expect("connection");
    let (kept, head) = events::read(&mut conn, 0, 100).await.expect("events");
    let positions: Vec<i64> = kept.iter().map(|event| event.position).collect();
    assert_eq!(positions, (2..=count).collect::<Vec<_>>());
    assert_eq!(head, count);
    // the last one stays, however old
    world.run(&age(1, count, 400)).await;
    sweep::outbox(&world.allocation).await.expect("sweep");
    assert_eq!(
        world.number("SELECT min(position) FROM outbox").await,
        count
    );
    // not sequenced: nobody has read it yet
    world.reserved(1).await;
    world
        .run(
            "ALTER TABLE outbox DISABLE TRIGGER outbox_guard;
              UPDATE outbox SET at = clock_timestamp() - interval '400 days';
              ALTER TABLE outbox ENABLE TRIGGER outbox_guard",
        )
        .await;
    let waiting = world
        .number("SELECT count(*) FROM outbox WHERE position IS NULL")
        .await;
    assert!(waiting > 0);
    sweep::outbox(&world.allocation).await.expect("sweep");
    assert_eq!(
        world
            .number("SELECT count(*) FROM outbox WHERE position IS NULL")
            .await,
        waiting
    );
}

#[tokio::test]
async fn p4_keys_are_kept_seven_days() {
    let (world, _) = World::with_lab_slots(3).await;
    let (old, young) = (world.request(1), world.request(1));
    for request in [&old, &young] {
        world.reserve(request).await.expect("reserved");
    }
    for (key, days) in [(&old.idempotency_key, 8), (&young.idempotency_key, 6)] {
        world
            .run(&format!(
                "UPDATE idempotency SET created_at = clock_timestamp() - interval '{days} days' WHERE key = '{key}'"
            ))
            .await;
    }
    assert_eq!(
        idempotency::sweep(&world.allocation).await.expect("sweep"),
        1
    );
    assert_eq!(
        idempotency::sweep(&world.scheduler).await.expect("sweep"),
        0
    );
    assert!(world.reserve(&young).await.expect("answered").replayed);
    // what is forgotten may be said anew
    let again = gpuaas_placement::reserve::Request {
        name: "again".into(),
        ..old
    };
    assert!(!world.reserve(&again).await.expect("reserved").replayed);
}

#[tokio::test]
async fn a_sweep_takes_more_than_one_batch() {
    let world = World::new().await;
    world
        .run("INSERT INTO idempotency (principal, method, key, request_hash, resource_id, created_at)
              SELECT 'user:a', 'M', n::text, sha256(n::text::bytea), 'r', clock_timestamp() - interval '8 days'
                FROM generate_series(1, 2500) AS n")
        .await;
    assert_eq!(
        idempotency::sweep(&world.scheduler).await.expect("sweep"),
        2500
    );
    assert_eq!(world.number("SELECT count(*) FROM idempotency").await, 0);
}

/// Ended work goes after its retention; what is held, billed, proven or recorded stays.
#[tokio::test]
async fn ended_work_is_kept_ninety_days_and_what_bills_and_proves_for_ever() {
    let (world, node) = World::with_lab_slots(3).await;
    let (ended, young, live) = (
        world.active(1).await,
        world.active(1).await,
        world.active(1).await,
    );
    for id in [ended, young] {
        let mut tx = world.allocation.begin().await.expect("begin");
        release::begin(&mut tx, Scope::Platform, id, "", "")
            .await
            .expect("release");
        tx.commit().await.expect("commit");
        let (fence, evidence) = (world.take(id).await, world.wiped(id).await);
        let mut tx = world.allocation.begin().await.expect("begin");
        let _ = release::complete(&mut tx, fence, id, &evidence)
            .await
            .expect("complete");
        tx.commit().await.expect("commit");
        world.finish(fence).await;
    }
    let age = |id: uuid::Uuid, days: i64| {
        format!(
            "UPDATE workflows SET ended_at = clock_timestamp() - interval '{days} days' WHERE allocation_id = '{id}';
             UPDATE allocations SET ended_at = clock_timestamp() - interval '{days} days' WHERE id = '{id}' AND ended_at IS NOT NULL"
        )
    };
    for (id, days) in [(ended, 91), (young, 89), (live, 400)] {
        world.run_past_guards(&age(id, days)).await;
    }
    let kept = async || {
        let mut counts = Vec::new();
        for table in [
            "allocations",
            "allocation_periods",
            "claims",
            "clean_evidence",
            "audit",
            "outbox",
        ] {
            counts.push(world.number(&format!("SELECT count(*) FROM {table}")).await);
        }
        counts
    };
    let of = async |id: uuid::Uuid| {
        let mut counts = Vec::new();
        for table in ["workflows", "node_tasks", "timeline", "timeline_heads"] {
            let sql = format!("SELECT count(*) FROM {table} WHERE allocation_id = '{id}'");
            counts.push(world.number(&sql).await);
        }
        counts
    };
    let (for_ever, of_young, of_live) = (kept().await, of(young).await, of(live).await);
    assert_eq!(of(ended).await, [2, 1, 1, 1]);
    // two workflows and a timeline
    assert_eq!(sweep::work(&world.allocation, 90).await.expect("sweep"), 3);
    assert_eq!(sweep::work(&world.allocation, 90).await.expect("sweep"), 0);
    assert_eq!(of(ended).await, [0, 0, 0, 0]);
    assert_eq!(
        (kept().await, of(young).await, of(live).await),
        (for_ever, of_young, of_live)
    );
    // the last repair of each slot says when it was wiped first, however long ago
    world
        .run_past_guards("UPDATE workflows SET ended_at = '2020-01-01' WHERE slot_id IS NOT NULL")
        .await;
    assert_eq!(sweep::work(&world.allocation, 90).await.expect("sweep"), 0);
    let too_short = sweep::work(&world.allocation, 29).await;
    assert!(too_short.is_err(), "{too_short:?}");
    assert_eq!(world.slots(node).await.len(), 3);
    let refused = sqlx::query("SELECT sweep_work(interval '90 days', 1)")
        .execute(&*world.scheduler)
        .await;
    assert!(refused.is_err(), "not the scheduler's");
}

#[tokio::test]
async fn only_the_role_of_the_log_may_sweep_it() {
    let world = World::new().await;
    let error = sqlx::query("SELECT sweep_outbox(1)")
        .execute(&*world.scheduler)
        .await
        .expect_err("refused");
    assert_eq!(
        error
            .as_database_error()
            .and_then(sqlx::error::DatabaseError::code)
            .as_deref(),
        Some("42501")
    );
}

#[tokio::test]
async fn histories_past_their_retention_go_and_the_latest_of_each_stays() {
    let (world, node) = World::with_lab_slots(2).await;
    let slot = world.slots(node).await[0].id;
    let set = async |disabled| {
        let mut tx = world.scheduler.begin().await.expect("begin");
        let word = gpuaas_placement::model::Attribution::of("user:root", "tried");
        node_placement::set_slot_admin_state(&mut tx, node, slot, disabled, word)
            .await
            .expect("set");
        tx.commit().await.expect("commit");
    };
    for disabled in [true, false, true, false] {
        set(disabled).await;
    }
    world
        .run(&format!(
            "UPDATE nodes SET admin_state = 'cordoned', admin_by = 'user:root' WHERE id = '{node}';
             UPDATE nodes SET admin_state = 'enabled' WHERE id = '{node}';
             UPDATE slots SET host_health = 'degraded' WHERE id = '{slot}';
             UPDATE slots SET host_health = 'healthy' WHERE id = '{slot}';
             UPDATE slots SET host_health = 'failed' WHERE id = '{slot}'"
        ))
        .await;
    let counts = async || {
        let mut counts = Vec::new();
        for table in ["node_history", "slot_history", "slot_health_events"] {
            let of = format!(
                "SELECT count(*) FROM {table} WHERE {}",
                if table == "node_history" {
                    format!("node_id = '{node}'")
                } else {
                    format!("slot_id = '{slot}'")
                }
            );
            counts.push(world.number(&of).await);
        }
        counts
    };
    let before = counts().await;
    assert!(before.iter().all(|count| *count > 1), "{before:?}");
    assert_eq!(
        sweep::histories(&world.allocation, 400)
            .await
            .expect("sweep"),
        0
    );
    world
        .run_past_guards(
            "UPDATE node_history SET at = at - interval '401 days';
             UPDATE slot_history SET at = at - interval '401 days';
             UPDATE slot_health_events SET started_at = started_at - interval '401 days', ended_at = ended_at - interval '401 days'",
        )
        .await;
    assert!(
        sweep::histories(&world.allocation, 400)
            .await
            .expect("sweep")
            > 0
    );
    assert_eq!(counts().await, [1, 1, 1], "what each was last stays");
    let too_short = sweep::histories(&world.allocation, 29).await;
    assert!(too_short.is_err(), "{too_short:?}");
    let refused = sqlx::query("SELECT sweep_histories(interval '400 days', 1)")
        .execute(&*world.scheduler)
        .await;
    assert!(refused.is_err(), "not the scheduler's");
    // nobody erases what happened this month
    set(true).await;
    let young = sqlx::query("DELETE FROM slot_history WHERE slot_id = $1")
        .bind(slot)
        .execute(&world.owner)
        .await;
    assert!(young.is_err(), "{young:?}");
}
