//! Power of an active allocation: legal changes, their events, and that capacity and billing stay as they are.
use gpuaas_placement::model::Scope;
use gpuaas_placement::power::{self, Action};
use gpuaas_placement::{Error, Fence, Outcome, events, release, sequencer};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::world::World;

async fn begin(world: &World, id: Uuid, action: Action) -> Result<Uuid, Error> {
    let mut tx = world.allocation.begin().await.expect("begin");
    let (_, workflow_id) =
        power::begin(&mut tx, Scope::Platform, id, action, false, "", "").await?;
    tx.commit().await.expect("commit");
    Ok(workflow_id)
}

async fn record_outcome(
    world: &World,
    fence: Fence,
    id: Uuid,
    power: &str,
    boot_id: Option<Uuid>,
) -> Result<Outcome, Error> {
    let mut tx = world.allocation.begin().await.expect("begin");
    let outcome = power::record_outcome(&mut tx, fence, id, power, boot_id).await?;
    tx.commit().await.expect("commit");
    Ok(outcome)
}

async fn is(world: &World, id: Uuid) -> (String, Option<Uuid>) {
    let row = world.get(id).await;
    (row.power.expect("a power"), row.boot_id)
}

async fn change(world: &World, id: Uuid, action: Action, boot_id: Option<Uuid>) {
    begin(world, id, action).await.expect("accepted");
    let (_, meanwhile, after) = action.powers();
    assert_eq!(is(world, id).await.0, meanwhile);
    let fence = world.take(id).await;
    let outcome = record_outcome(world, fence, id, after, boot_id).await;
    assert!(matches!(outcome, Ok(Outcome::Changed)), "{outcome:?}");
    let again = record_outcome(world, fence, id, after, boot_id).await;
    assert!(matches!(again, Ok(Outcome::Unchanged)), "{again:?}");
    world.finish(fence).await;
}

#[tokio::test]
async fn stop_start_and_reboot_keep_claims_and_billing() {
    let (world, _) = World::with_lab_slots(1).await;
    let id = world.active(1).await;
    let held = "SELECT count(*) FROM claims WHERE state = 'active'";
    let open = "SELECT count(*) FROM allocation_periods WHERE ended_at IS NULL";
    let (first, second) = (Uuid::now_v7(), Uuid::now_v7());
    change(&world, id, Action::Stop, None).await;
    assert_eq!(
        (world.number(held).await, world.number(open).await),
        (1, 1),
        "a stopped allocation is held and billed"
    );
    change(&world, id, Action::Start, Some(first)).await;
    assert_eq!(is(&world, id).await, ("running".into(), Some(first)));
    change(&world, id, Action::Reboot, Some(second)).await;
    assert_eq!(is(&world, id).await, ("running".into(), Some(second)));
    assert_eq!((world.number(held).await, world.number(open).await), (1, 1));
    assert_eq!(
        world
            .number("SELECT count(*) FROM allocation_periods")
            .await,
        1
    );

    sequencer::run_once(&world.allocation)
        .await
        .expect("sequenced");
    let mut conn = world.allocation.acquire().await.expect("connection");
    let (reported, _) = events::read(&mut conn, 0, 100).await.expect("events");
    let kinds: Vec<&str> = reported
        .iter()
        .filter(|event| event.aggregate_id == id)
        .map(|event| event.kind.as_str())
        .skip_while(|kind| *kind != "allocation.active")
        .collect();
    assert_eq!(
        kinds,
        [
            "allocation.active",
            "allocation.stopping",
            "allocation.stopped",
            "allocation.starting",
            "allocation.running",
            "allocation.rebooting",
            "allocation.running"
        ]
    );
}

#[tokio::test]
async fn the_wrong_state_is_refused_with_a_sentence() {
    let (world, _) = World::with_lab_slots(2).await;
    let reserved = world.reserved(1).await;
    let id = world.active(1).await;
    let refused = async |id, action| {
        let error = begin(&world, id, action).await.expect_err("refused");
        let error = gpuaas_common::Error::from(error);
        assert_eq!(error.reason(), ErrorReason::StateConflict);
        error.message().to_owned()
    };
    assert_eq!(
        refused(reserved, Action::Stop).await,
        "The allocation is reserved, so it cannot stop; only an active allocation has a VM to stop."
    );
    assert_eq!(
        refused(id, Action::Start).await,
        "The allocation is running, so it cannot start now; reboot it instead."
    );
    begin(&world, id, Action::Stop).await.expect("accepted");
    for action in Action::ALL {
        let reported = refused(id, action).await;
        assert!(reported.ends_with("wait until that is done."), "{reported}");
    }
    let fence = world.take(id).await;
    let _ = record_outcome(&world, fence, id, "stopped", None)
        .await
        .expect("stopped");
    world.finish(fence).await;
    assert_eq!(
        refused(id, Action::Reboot).await,
        "The allocation is stopped, so it cannot reboot now; start it instead."
    );
    let reported = refused(id, Action::Stop).await;
    assert!(reported.ends_with("nothing is to be done."), "{reported}");
}

#[tokio::test]
async fn a_release_works_from_every_power_and_fences_the_change() {
    for steps in [
        vec![Action::Stop],
        vec![Action::Reboot],
        vec![Action::Stop, Action::Start],
    ] {
        for recorded in [false, true] {
            let (world, _) = World::with_lab_slots(1).await;
            let id = world.active(1).await;
            let (last, before) = steps.split_last().expect("one");
            for action in before {
                change(&world, id, *action, Some(Uuid::now_v7())).await;
            }
            begin(&world, id, *last).await.expect("accepted");
            let fence = world.take(id).await;
            let after = last.powers().2;
            if recorded {
                let _ = record_outcome(&world, fence, id, after, None)
                    .await
                    .expect("recorded");
            }
            let mut tx = world.allocation.begin().await.expect("begin");
            let begun = release::begin(&mut tx, Scope::Platform, id, "", "").await;
            assert!(begun.expect("accepted").workflow_id.is_some());
            tx.commit().await.expect("commit");
            assert_eq!(world.get(id).await.power, None);
            let late = record_outcome(&world, fence, id, after, None).await;
            assert!(matches!(late, Err(Error::StaleLease)), "{late:?}");
        }
    }
}

#[tokio::test]
async fn the_database_knows_the_changes_of_power() {
    let (world, _) = World::with_lab_slots(1).await;
    let id = world.active(1).await;
    let change = async |power: &'static str| {
        sqlx::query("UPDATE allocations SET power = $2, revision = revision + 1 WHERE id = $1")
            .bind(id)
            .bind(power)
            .execute(&world.allocation)
            .await
    };
    for (from, to) in [
        ("running", ["starting", "gone"]),
        ("stopped", ["rescued", "unrescuing"]),
    ] {
        change(from).await.expect("legal: it powered off by itself");
        for power in to {
            let refused = change(power).await.expect_err(power);
            let code = refused
                .as_database_error()
                .and_then(sqlx::error::DatabaseError::code);
            assert_eq!(code.as_deref(), Some("23514"), "{from} to {power}");
        }
    }
    let rewritten = sqlx::query("INSERT INTO power_transitions VALUES ('running', 'starting')")
        .execute(&world.allocation)
        .await
        .expect_err("not its table");
    let code = rewritten
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code);
    assert_eq!(code.as_deref(), Some("42501"));
}
