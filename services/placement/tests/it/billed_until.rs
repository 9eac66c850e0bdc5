//! The billable time ends before the release is accepted where it was not the owner who was late (P3).
use gpuaas_placement::audit::{self, InvariantCheck};
use gpuaas_placement::force_release::{self, Attestation, Fate};
use gpuaas_placement::model::{AllocationState, Scope};
use gpuaas_placement::nodes::NodeSpec;
use gpuaas_placement::{auto_release, release};
use jiff_sqlx::{Timestamp, ToSqlx as _};
use uuid::Uuid;

use crate::baremetal::{bare_metal, install, reserve, world_of};
use crate::world::World;

/// An allocation that has been active for two hours and was to be released at this time.
async fn overdue(world: &World, release_time: &str) -> Uuid {
    let id = world.active(1).await;
    world
        .run_past_guards(&format!(
            "UPDATE allocations SET active_at = active_at - interval '2 hours', auto_release_at = {release_time}
              WHERE id = '{id}';
             UPDATE allocation_periods SET started_at = started_at - interval '2 hours' WHERE allocation_id = '{id}'"
        ))
        .await;
    id
}

/// Seconds from when its billable time ended to when its release was accepted, and its length.
async fn ended(world: &World, id: Uuid) -> (i64, i64) {
    sqlx::query_as(
        "SELECT extract(epoch FROM a.releasing_at - p.ended_at)::bigint, extract(epoch FROM p.ended_at - p.started_at)::bigint
           FROM allocation_periods p JOIN allocations a ON a.id = p.allocation_id WHERE a.id = $1",
    )
    .bind(id)
    .fetch_one(&world.owner)
    .await
    .expect("one period")
}

#[tokio::test]
async fn p3_a_scheduled_release_that_comes_late_is_billed_until_it_was_due() {
    let (world, _) = World::with_lab_slots(4).await;
    let late = overdue(&world, "now() - interval '1 hour'").await;
    let never = overdue(&world, "active_at - interval '1 day'").await;
    let by_hand = overdue(&world, "now() - interval '1 hour'").await;
    let early = overdue(&world, "now() + interval '1 hour'").await;
    let mut tx = world.allocation.begin().await.expect("begin");
    assert!(auto_release::begin(&mut tx, late).await.expect("released"));
    assert!(auto_release::begin(&mut tx, never).await.expect("released"));
    assert!(!auto_release::begin(&mut tx, early).await.expect("not yet"));
    for id in [by_hand, early] {
        let begun = release::begin(&mut tx, Scope::Project(world.project), id, "", "").await;
        let state = begun.expect("released").allocation.state;
        assert_eq!(state, AllocationState::Releasing);
    }
    tx.commit().await.expect("commit");

    for id in [late, by_hand] {
        let (before, length) = ended(&world, id).await;
        assert!((3600..3700).contains(&before), "{before}");
        assert!((3600..3700).contains(&length), "{length}");
    }
    assert_eq!(ended(&world, never).await.1, 0, "due before it was active");
    assert_eq!(ended(&world, early).await.0, 0, "its owner released it");
    // billing reads the end from the events
    let (states_end, all): (i64, i64) = sqlx::query_as(
        "SELECT count(*) FILTER (WHERE (o.data ->> 'billed_until')::timestamptz = p.ended_at), count(*)
           FROM outbox o JOIN allocation_periods p ON p.allocation_id = o.aggregate_id
          WHERE o.type = 'allocation.releasing' AND o.aggregate_id <> $1",
    )
    .bind(early)
    .fetch_one(&world.owner)
    .await
    .expect("events");
    assert_eq!((states_end, all), (3, 3));
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let report = audit::ledger(&mut conn).await.expect("audit");
    let broken: Vec<&InvariantCheck> = report
        .broken()
        .filter(|check| check.name == "period_matches_allocation")
        .collect();
    assert_eq!(broken, Vec::<&InvariantCheck>::new());
}

fn hours_ago(hours: i64) -> Timestamp {
    let ago = jiff::SignedDuration::from_hours(hours);
    (jiff::Timestamp::now() - ago).to_sqlx()
}

/// A tenant may stop the agent of its machine the moment it has it, and use the machine for as long as it likes.
#[tokio::test]
async fn p3_a_tenant_of_bare_metal_that_silences_the_agent_pays_until_the_forced_release() {
    for (billing_end, hours) in [(None, 3), (Some(hours_ago(1)), 2)] {
        let (world, specs) = world_of(1).await;
        let id = reserve(&world, &bare_metal(&world))
            .await
            .expect("reserved");
        install(&world, id).await;
        world
            .run_past_guards(&format!(
                "UPDATE allocations SET active_at = active_at - interval '3 hours' WHERE id = '{id}';
                 UPDATE allocation_periods SET started_at = started_at - interval '3 hours' WHERE allocation_id = '{id}'"
            ))
            .await;
        let silent = NodeSpec {
            host_lost_since: Some(hours_ago(3)),
            ..specs[0].clone()
        };
        world.node(silent).await;
        let attested = Attestation {
            principal: "user:root",
            fate: Fate::PoweredOff,
            reason: "it does not answer",
            billing_end,
        };
        let mut tx = world.allocation.begin().await.expect("begin");
        force_release::force(&mut tx, id, &attested)
            .await
            .expect("forced");
        tx.commit().await.expect("commit");
        let (_, length) = ended(&world, id).await;
        let billed = hours * 3600;
        assert!((billed - 60..billed + 60).contains(&length), "{length}");
        let heard =
            "SELECT count(*) FROM force_releases WHERE last_seen_at < now() - interval '2 hours'";
        assert_eq!(world.number(heard).await, 1, "that stays on record");
    }
}
