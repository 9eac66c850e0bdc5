//! Usage follows the ledger's log: each event exactly once, in order, whatever is killed when (P3).
use std::collections::BTreeSet;

use crate::common::killer::{Cut, Killer};
use crate::common::{ROLE, World, at, event};
use gpuaas_billing::HostLost;
use gpuaas_billing::domain::inconsistency::Inconsistency;
use gpuaas_billing::domain::reconcile::{Difference, Period, Periods};
use gpuaas_billing::store::usage::{Opened, periods};
use gpuaas_billing::workflow::apply::apply;
use gpuaas_billing::workflow::consumer::RoundError;
use gpuaas_billing::workflow::reconciler::Reconciler;
use gpuaas_common::id::IdGen;
use gpuaas_proto::gpuaas::internal::events::v1::Event;
use jiff_sqlx::ToSqlx as _;
use uuid::Uuid;

/// Why a round stopped.
pub fn cause(outcome: Result<(), RoundError>) -> Inconsistency {
    match outcome {
        Err(RoundError::Inconsistent(cause)) => cause,
        other => panic!("expected an inconsistency, got {other:?}"),
    }
}

#[tokio::test]
async fn g_01_g_09_usage_names_allocation_sku_gpu_count_price_and_claims() {
    let world = World::new().await;
    let (allocation, project) = (Uuid::now_v7(), Uuid::now_v7());
    world.ledger.set(world.lifecycle(1, allocation, project));
    world.consumer.catch_up().await.expect("applied");

    let row: (Uuid, Uuid, String, i32, Uuid, serde_json::Value) = sqlx::query_as(
        "SELECT allocation_id, project_id, sku, gpu_count, price_version_id, claims FROM usage_intervals",
    )
    .fetch_one(&world.pool)
    .await
    .expect("one interval");
    let claims = serde_json::json!([{"kind": "slot", "slot_index": 0}]);
    assert_eq!(
        row,
        (
            allocation,
            project,
            crate::common::SKU.to_owned(),
            2,
            world.price_version,
            claims
        )
    );
    let want = (
        allocation,
        at(10_000_000).to_sqlx(),
        Some(at(100_000_000).to_sqlx()),
    );
    assert_eq!(world.intervals().await, [want]);
    assert_eq!(world.reconciler.reconcile().await.expect("reconciled"), []);
}

#[tokio::test]
async fn g_10_a_failed_provision_is_not_billed() {
    let world = World::new().await;
    let (failed, cancelled, project) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
    world.ledger.set(vec![
        event(1, "allocation.reserved", failed, project, at(0)),
        event(2, "allocation.reserved", cancelled, project, at(1)),
        event(3, "allocation.provisioning", failed, project, at(2)),
        event(4, "allocation.failed", failed, project, at(3)),
        event(5, "allocation.releasing", cancelled, project, at(4)),
        event(6, "allocation.released", cancelled, project, at(5)),
        event(7, "slot.available", Uuid::now_v7(), project, at(6)),
    ]);
    world.consumer.catch_up().await.expect("applied");
    assert_eq!(world.position().await, 7);
    assert_eq!(world.intervals().await, []);
    assert_eq!(world.reconciler.reconcile().await.expect("reconciled"), []);
}

#[tokio::test]
async fn c_14_an_allocation_that_fails_after_active_is_billed_until_then() {
    let world = World::new().await;
    let (allocation, project) = (Uuid::now_v7(), Uuid::now_v7());
    world.ledger.set(vec![
        world.active(1, allocation, project, at(5)),
        event(2, "allocation.failed", allocation, project, at(9)),
    ]);
    world.consumer.catch_up().await.expect("applied");
    assert_eq!(
        world.intervals().await,
        [(allocation, at(5).to_sqlx(), Some(at(9).to_sqlx()))]
    );
}

#[tokio::test]
async fn a_replay_is_harmless() {
    let world = World::new().await;
    let events = world.lifecycle(1, Uuid::now_v7(), Uuid::now_v7());
    let ids = IdGen::new(1);
    let first = apply(&world.pool, &ids, HostLost::Charge, &events)
        .await
        .expect("applied");
    assert_eq!((first.position, first.events, first.stopped), (5, 5, None));
    let before = world.intervals().await;
    let twice: Vec<Event> = events.iter().chain(&events).cloned().collect();
    for batch in [&events[..], &events[2..4], &twice] {
        let again = apply(&world.pool, &ids, HostLost::Charge, batch)
            .await
            .expect("skipped");
        assert_eq!((again.position, again.events, again.stopped), (5, 0, None));
    }
    assert_eq!(world.intervals().await, before);
}

#[tokio::test]
async fn a_gap_stops_usage_and_is_never_skipped() {
    let world = World::new().await;
    let (allocation, project) = (Uuid::now_v7(), Uuid::now_v7());
    let whole = world.lifecycle(1, allocation, project);
    let mut gap = whole.clone();
    gap.remove(3);
    world.ledger.set(gap);
    for _ in 0..2 {
        assert_eq!(
            cause(world.consumer.catch_up().await),
            Inconsistency::Gap { after: 3, found: 5 }
        );
        assert_eq!(
            world.position().await,
            3,
            "what came before the gap is kept"
        );
        assert_eq!(
            world.intervals().await,
            [(allocation, at(10_000_000).to_sqlx(), None)]
        );
    }
    world.ledger.set(whole);
    world
        .consumer
        .catch_up()
        .await
        .expect("goes on once the log is whole");
    assert_eq!(world.position().await, 5);
}

#[tokio::test]
async fn events_out_of_order_are_refused() {
    let world = World::new().await;
    let mut events = world.lifecycle(1, Uuid::now_v7(), Uuid::now_v7());
    events.swap(2, 3);
    let applied = apply(&world.pool, &IdGen::new(1), HostLost::Charge, &events)
        .await
        .expect("database answers");
    assert_eq!(
        applied.stopped,
        Some(Inconsistency::Gap { after: 2, found: 4 })
    );
    assert_eq!(applied.position, 2);
    assert_eq!(world.intervals().await, []);
}

#[tokio::test]
async fn a_ledger_that_lost_events_stops_usage() {
    let world = World::new().await;
    let events = world.lifecycle(1, Uuid::now_v7(), Uuid::now_v7());
    world.ledger.set(events.clone());
    world.consumer.catch_up().await.expect("applied");
    world.ledger.set(events[..3].to_vec());
    assert_eq!(
        cause(world.consumer.catch_up().await),
        Inconsistency::LedgerBehind { after: 5, head: 3 }
    );
}

#[tokio::test]
async fn contradicting_events_stop_usage() {
    let world = World::new().await;
    let (a, project) = (Uuid::now_v7(), Uuid::now_v7());
    let ids = IdGen::new(1);
    apply(
        &world.pool,
        &ids,
        HostLost::Charge,
        &[world.active(1, a, project, at(50))],
    )
    .await
    .expect("applied");
    let other_price = |sku: &str, nanos: i64, version: Uuid| {
        let mut event = world.active(2, Uuid::now_v7(), project, at(60));
        let data = event.data.as_mut().expect("data");
        let fields = [
            ("sku", crate::common::text(sku)),
            ("price", crate::common::price("EUR", nanos)),
            (
                "price_version_id",
                crate::common::text(&version.to_string()),
            ),
        ];
        data.fields
            .extend(fields.map(|(name, value)| (name.to_owned(), value)));
        event
    };
    let without = |field: &str| {
        let mut event = world.active(2, Uuid::now_v7(), project, at(60));
        event.data.as_mut().expect("data").fields.remove(field);
        event
    };
    let known = world.price_version;
    let table = [
        (world.active(2, a, project, at(60)), "started_before"),
        (
            event(2, "allocation.releasing", a, project, at(49)),
            "ends_before_start",
        ),
        (
            other_price("h200-sxm-slice", crate::common::PRICE_NANOS, known),
            "price_differs",
        ),
        (
            other_price(crate::common::SKU, crate::common::PRICE_NANOS + 1, known),
            "price_differs",
        ),
        (
            other_price(
                crate::common::SKU,
                crate::common::PRICE_NANOS,
                Uuid::now_v7(),
            ),
            "price_differs",
        ),
        (without("sku"), "payload"),
        (without("gpu_count"), "payload"),
        (without("price_version_id"), "payload"),
        (without("price"), "payload"),
        (without("claims"), "payload"),
    ];
    for (wrong, label) in table {
        let applied = apply(
            &world.pool,
            &ids,
            HostLost::Charge,
            std::slice::from_ref(&wrong),
        )
        .await
        .expect("database answers");
        assert_eq!(
            applied.stopped.expect("stopped").label(),
            label,
            "{wrong:?}"
        );
        assert_eq!(world.position().await, 1);
        assert_eq!(world.intervals().await, [(a, at(50).to_sqlx(), None)]);
    }
}

#[tokio::test]
async fn what_the_database_refuses_stops_usage_and_keeps_what_came_before() {
    let world = World::new().await;
    let (a, b, project) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
    // an interval nobody's event opened, at a position the log will reach
    sqlx::query(
        "INSERT INTO usage_intervals (id, allocation_id, project_id, sku, gpu_count, price_version_id, claims,
                                      started_at, opened_position)
         VALUES ($1, $2, $3, 'lab-slice', 1, $4, '[]', now(), 3)",
    )
    .bind(Uuid::now_v7())
    .bind(Uuid::now_v7())
    .bind(project)
    .bind(world.price_version)
    .execute(&world.pool)
    .await
    .expect("inserted");
    let events = [
        world.active(1, a, project, at(1)),
        event(2, "allocation.releasing", a, project, at(2)),
        world.active(3, b, project, at(3)),
    ];
    let applied = apply(&world.pool, &IdGen::new(1), HostLost::Charge, &events)
        .await
        .expect("database answers");
    assert_eq!(applied.position, 2);
    let constraint = "usage_intervals_opened_position_key".to_owned();
    assert_eq!(
        applied.stopped,
        Some(Inconsistency::Refused {
            position: 3,
            constraint
        })
    );
}

#[tokio::test]
async fn a_crash_between_any_two_statements_neither_loses_nor_repeats_an_event() {
    let world = World::new().await;
    let ids = IdGen::new(1);
    let mut position = 0;
    for cut in [Cut::BeforeStatement, Cut::BeforeAnswer] {
        let mut kills = 0;
        for statement in 0.. {
            let events = world.lifecycle(position + 1, Uuid::now_v7(), Uuid::now_v7());
            let killer = Killer::new(&world.db, ROLE, statement, cut).await;
            let outcome = apply(killer.pool(), &ids, HostLost::Charge, &events).await;
            if !killer.hit() {
                outcome.expect("nothing was cut");
            } else {
                kills += 1;
            }
            let again = apply(&world.pool, &ids, HostLost::Charge, &events)
                .await
                .expect("applied after the crash");
            position += 5;
            assert_eq!(
                (again.position, again.stopped),
                (position, None),
                "{cut:?} at statement {statement}"
            );
            let count: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM usage_intervals WHERE ended_at - started_at = interval '90 s'
                 AND opened_position = $1 - 2 AND closed_position = $1 - 1",
            )
            .bind(position)
            .fetch_one(&world.pool)
            .await
            .expect("count");
            assert_eq!(count, 1, "{cut:?} at statement {statement}");
            if !killer.hit() {
                break;
            }
        }
        assert!(kills >= 10, "{cut:?} hit only {kills} statements");
    }
    world.ledger.set(Vec::new());
    let all: i64 = sqlx::query_scalar("SELECT count(*) FROM usage_intervals")
        .fetch_one(&world.pool)
        .await
        .expect("count");
    assert_eq!(all, position / 5);
}

#[tokio::test]
async fn two_replicas_share_the_work_without_doing_it_twice() {
    let world = World::new().await;
    let project = Uuid::now_v7();
    let lives: Vec<Event> = (0..300)
        .flat_map(|n| world.lifecycle(n * 5 + 1, Uuid::now_v7(), project))
        .collect();
    world.ledger.set(lives);
    let other = gpuaas_billing::workflow::consumer::Consumer {
        pool: world.db.pool(ROLE).await,
        ..world.consumer.clone()
    };
    let (first, second) = tokio::join!(world.consumer.catch_up(), other.catch_up());
    first.expect("applied");
    second.expect("applied");
    assert_eq!(world.position().await, 1500);
    assert_eq!(world.intervals().await.len(), 300);
    assert_eq!(world.reconciler.reconcile().await.expect("reconciled"), []);
}

/// The ledger removes the event that opened an interval between two of the reconciler's calls.
#[tokio::test]
async fn p3_events_that_are_removed_during_a_reconciliation_are_no_difference() {
    let world = World::new().await;
    let project = Uuid::now_v7();
    let mut events = world.lifecycle(1, Uuid::now_v7(), project);
    events.extend(world.lifecycle(6, Uuid::now_v7(), project));
    world.ledger.set(events);
    world.consumer.catch_up().await.expect("applied");

    *world.ledger.removed_next.lock().expect("no panic") = Some(3);
    let found = world.reconciler.reconcile().await.expect("reconciled");
    assert!(found.is_empty(), "{found:?}");
    let kept = world.ledger.events.lock().expect("no panic").len();
    assert_eq!(kept, 7, "they were removed meanwhile");
}

/// The events that opened them are removed by age; what ends them, or that nothing does, is proven all the same.
#[tokio::test]
async fn p3_intervals_that_began_before_the_log_does_are_compared_by_their_ends() {
    let world = World::new().await;
    let (project, gone) = (Uuid::now_v7(), Uuid::now_v7());
    let (runs, ended, lost) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
    let mut events = world.lifecycle(1, gone, project);
    events.push(world.active(6, runs, project, at(1)));
    events.push(world.active(7, ended, project, at(2)));
    events.push(world.active(8, lost, project, at(3)));
    events.push(event(9, "allocation.releasing", ended, project, at(50)));
    events.push(event(10, "allocation.releasing", lost, project, at(60)));
    world.ledger.set(events.clone());
    world.consumer.catch_up().await.expect("applied");
    world.ledger.set(events[8..].to_vec());
    assert_eq!(world.reconciler.reconcile().await.expect("reconciled"), []);

    let owner = world.db.owner_pool().await;
    for statement in [
        "ALTER TABLE billing.usage_intervals DISABLE TRIGGER USER",
        "UPDATE billing.usage_intervals SET ended_at = started_at + interval '1 minute', closed_position = 10000 WHERE opened_position = 6",
        "UPDATE billing.usage_intervals SET ended_at = ended_at + interval '1 microsecond' WHERE opened_position = 7",
        "UPDATE billing.usage_intervals SET ended_at = NULL, closed_position = NULL WHERE opened_position = 8",
    ] {
        sqlx::query(statement)
            .execute(&owner)
            .await
            .expect(statement);
    }
    let found = world.reconciler.reconcile().await.expect("reconciled");
    let found: BTreeSet<Uuid> = found
        .iter()
        .map(|difference| match difference {
            Difference::Unequal { allocation_id, .. } => *allocation_id,
            Difference::Overlap { .. } => panic!("there is no overlap: {difference:?}"),
        })
        .collect();
    assert_eq!(found, BTreeSet::from([runs, ended, lost]));
}

#[tokio::test]
async fn the_reconciler_finds_lost_and_invented_time() {
    let world = World::new().await;
    let project = Uuid::now_v7();
    let (a, b) = (Uuid::now_v7(), Uuid::now_v7());
    let mut events = world.lifecycle(1, a, project);
    events.extend(world.lifecycle(6, b, project));
    world.ledger.set(events);
    world.consumer.catch_up().await.expect("applied");

    let owner = world.db.owner_pool().await;
    for statement in [
        "ALTER TABLE billing.usage_intervals DISABLE TRIGGER USER",
        "DELETE FROM billing.usage_intervals WHERE opened_position = 3",
        "UPDATE billing.usage_intervals SET ended_at = ended_at - interval '1 microsecond' WHERE opened_position = 8",
    ] {
        sqlx::query(statement)
            .execute(&owner)
            .await
            .expect(statement);
    }
    let found = world.reconciler.reconcile().await.expect("reconciled");
    let mut unequal: Vec<Uuid> = found
        .iter()
        .map(|difference| match difference {
            Difference::Unequal { allocation_id, .. } => *allocation_id,
            Difference::Overlap { .. } => panic!("there is no overlap: {difference:?}"),
        })
        .collect();
    unequal.sort();
    let mut want = vec![a, b];
    want.sort();
    assert_eq!(unequal, want);
    let metric = world
        .metric("billing_reconcile_differences")
        .expect("metric");
    assert!(metric.ends_with(" 2"), "{metric}");
}

/// A page of the log may end anywhere in the life of an allocation, and usage may move between two pages.
#[tokio::test]
async fn p3_a_page_border_inside_an_allocation_changes_no_reconciliation() {
    let world = World::new().await;
    let (a, b, open, project) = (
        Uuid::now_v7(),
        Uuid::now_v7(),
        Uuid::now_v7(),
        Uuid::now_v7(),
    );
    world.ledger.set(vec![
        world.active(1, a, project, at(1)),
        world.active(2, b, project, at(2)),
        event(3, "allocation.releasing", a, project, at(3)),
        world.active(4, open, project, at(4)),
        event(5, "allocation.released", a, project, at(5)),
        event(6, "allocation.releasing", b, project, at(6)),
    ]);
    world.consumer.catch_up().await.expect("applied");
    let of_pages = async |page: i32| {
        let reconciler = Reconciler {
            page,
            ..world.reconciler.clone()
        };
        reconciler.reconcile().await.expect("reconciled")
    };
    for page in 1..=7 {
        assert_eq!(of_pages(page).await, [], "pages of {page}");
    }

    // as of position 6 the last one is billable still, whatever has been applied since
    let last = event(7, "allocation.releasing", open, project, at(7));
    world.ledger.push(last);
    world.consumer.catch_up().await.expect("applied");
    for (upto, end) in [(6, None), (7, Some(at(7)))] {
        let opened = Opened {
            after: 3,
            last: 6,
            upto,
        };
        let found = periods(&world.pool, opened).await.expect("read");
        let start = at(4);
        assert_eq!(found, Periods::from([(open, vec![Period { start, end }])]));
    }

    let owner = world.db.owner_pool().await;
    for statement in [
        "ALTER TABLE billing.usage_intervals DISABLE TRIGGER USER",
        "DELETE FROM billing.usage_intervals WHERE opened_position = 1",
    ] {
        sqlx::query(statement)
            .execute(&owner)
            .await
            .expect(statement);
    }
    for page in 1..=8 {
        let start = at(1);
        let end = Some(at(3));
        let lost = Difference::Unequal {
            allocation_id: a,
            billable: vec![Period { start, end }],
            billed: Vec::new(),
        };
        assert_eq!(of_pages(page).await, [lost], "pages of {page}");
    }
}
