//! One pass and the next: what goes wrong with one queue, and several who serve at once.
use std::time::Duration;

use gpuaas_placement::catalog;
use gpuaas_placement::reserve::{Limits, Pass, Passes, Request};
use uuid::Uuid;

use super::{batch, free, pass, queue_position, serve_queue, wait, waiter};
use crate::world::{POLICY, World, lab_slot, lab_spec, open_region};

/// A region in which one slot is offered.
pub async fn another_region(world: &World) -> &'static str {
    const OTHER: &str = "lab-2";
    let mut conn = world.scheduler.acquire().await.expect("connection");
    catalog::put_region(&mut conn, &open_region(OTHER))
        .await
        .expect("region");
    drop(conn);
    let mut spec = lab_spec();
    spec.region_code = OTHER.into();
    let node = world.node(spec).await;
    world.approve(node, &[lab_slot(0)]).await;
    OTHER
}

#[tokio::test]
async fn p8_a_queue_that_fails_keeps_no_other_queue_waiting() {
    let (world, _) = World::with_lab_slots(1).await;
    let region_code = another_region(&world).await;
    world.reserved(1).await;
    let here = waiter(&world, Uuid::now_v7()).await;
    let there = || Request {
        region_code: region_code.into(),
        ..world.request(1)
    };
    let holder = world.reserve(&there()).await.expect("room");
    let waits = wait(&world, &there())
        .await
        .expect("queued_allocations")
        .allocation_id;
    // the first queue cannot be served
    world
        .run(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'broken'; END $$;
             CREATE TRIGGER fail BEFORE INSERT ON backfill_reservations FOR EACH ROW
                WHEN (NEW.region_code = 'lab-1') EXECUTE FUNCTION fail()",
        )
        .await;
    free(&world, holder.allocation_id).await;
    let served = pass(&world).await;
    assert_eq!(served.served, [waits]);
    assert!(served.busy, "the first queue is looked at again soon");
    assert!(queue_position(&world, here).await.is_some());
    world
        .run("DROP TRIGGER fail ON backfill_reservations")
        .await;
    assert!(!pass(&world).await.busy);
}

/// Before, all queues had one time, every pass began with the first of them, and what a pass that was cut had served was not
/// told.
#[tokio::test]
async fn p8_a_queue_that_takes_too_long_is_cut_and_what_is_over_ends_all_the_same() {
    let (world, _) = World::with_lab_slots(1).await;
    let region_code = another_region(&world).await;
    world.reserved(1).await;
    let first = waiter(&world, Uuid::now_v7()).await;
    let late = waiter(&world, Uuid::now_v7()).await;
    let there = || Request {
        region_code: region_code.into(),
        ..world.request(1)
    };
    let holder = world.reserve(&there()).await.expect("room");
    let waits = wait(&world, &there()).await.expect("queued").allocation_id;
    free(&world, holder.allocation_id).await;
    let over =
        format!("UPDATE allocations SET deadline_at = clock_timestamp() WHERE id = '{late}'");
    world.run_past_guards(&over).await;
    // there is something to note of the first, and its row is held for longer than its queue has
    world
        .run("UPDATE queued_allocations SET reason = 'QUOTA'")
        .await;
    let mut held = world.owner.begin().await.expect("begin");
    sqlx::query("SELECT FROM queued_allocations WHERE allocation_id = $1 FOR UPDATE")
        .bind(first)
        .execute(&mut *held)
        .await
        .expect("held");
    let limits = Limits {
        queue: Duration::from_secs(5),
        ..Limits::default()
    };
    let mut passes = Passes::default();
    let cut = passes.serve(&world.scheduler, world.ids, POLICY, limits);
    let cut = cut.await.expect("pass");
    assert_eq!((cut.ended, cut.served), (vec![late], vec![waits]));
    assert!(cut.busy, "the first queue is looked at again soon");
    held.rollback().await.expect("rollback");
    assert_eq!(
        pass(&world).await,
        Pass::default(),
        "the first one waits on"
    );
    assert!(queue_position(&world, first).await.is_some());
}

#[tokio::test]
async fn p8_a_pass_begins_behind_the_queue_where_the_last_one_ended() {
    let (world, _) = World::with_lab_slots(1).await;
    let region_code = another_region(&world).await;
    let here = world.reserved(1).await;
    let waits_here = waiter(&world, Uuid::now_v7()).await;
    let there = || Request {
        region_code: region_code.into(),
        ..world.request(1)
    };
    let holder = world.reserve(&there()).await.expect("room");
    let waits_there = wait(&world, &there()).await.expect("queued").allocation_id;
    free(&world, holder.allocation_id).await;
    // each pass is over after one queue
    let limits = Limits {
        pass: Duration::ZERO,
        ..Limits::default()
    };
    let mut passes = Passes::default();
    let first = passes.serve(&world.scheduler, world.ids, POLICY, limits);
    let first = first.await.expect("pass");
    assert!(first.served.is_empty() && first.busy, "{first:?}");
    let second = passes.serve(&world.scheduler, world.ids, POLICY, limits);
    let second = second.await.expect("pass");
    assert_eq!(second.served, [waits_there]);
    // and round again
    free(&world, here).await;
    let third = passes.serve(&world.scheduler, world.ids, POLICY, limits);
    let third = third.await.expect("pass");
    assert_eq!((third.served, third.busy), (vec![waits_here], false));
}

/// What is written down about a batch is locked in one order, so that two who serve do not wait for each other.
#[tokio::test]
async fn p8_what_is_written_down_of_a_batch_is_locked_by_id() {
    let (world, _) = World::with_lab_slots(2).await;
    world.reserved(2).await;
    let requests: Vec<Request> = (0..4).map(|_| world.request(1)).collect();
    let (mut made, _) = batch(&world, "b-1", &requests)
        .await
        .expect("queued_allocations");
    made.sort_unstable();
    // the rows lie in the other order, and there is something to write down
    for table in ["queued_allocations", "timeline"] {
        for id in made.iter().rev() {
            let touch = match table {
                "queued_allocations" => {
                    format!(
                        "UPDATE queued_allocations SET reason = 'QUOTA' WHERE allocation_id = '{id}'"
                    )
                }
                _ => format!("UPDATE timeline SET message = 'old' WHERE allocation_id = '{id}'"),
            };
            world.run(&touch).await;
        }
    }
    for table in ["queued_allocations", "timeline"] {
        let lock = |of: &str| {
            format!(
                "SELECT count(*) FROM (SELECT FROM {table} WHERE allocation_id {of} FOR UPDATE SKIP LOCKED) l"
            )
        };
        let first = lock(&format!("= '{}'", made[0]));
        let others = lock(&format!("<> '{}'", made[0]));
        let mut holder = world.owner.begin().await.expect("begin");
        let held: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(first))
            .fetch_one(&mut *holder)
            .await
            .expect("held");
        assert!(held > 0, "{table}");
        let at_once = tokio::spawn({
            let (ledger, ids) = (world.scheduler.clone(), world.ids);
            async move { serve_queue(&ledger, ids, POLICY).await }
        });
        world.someone_waits().await;
        // who is queued for the first holds none of those behind it
        let all = format!(
            "SELECT count(*) FROM {table} WHERE allocation_id <> '{}'",
            made[0]
        );
        let all = world.number(&all).await;
        assert_eq!(world.number(&others).await, all, "{table}");
        holder.rollback().await.expect("rollback");
        at_once.await.expect("task").expect("pass");
        world
            .run("UPDATE queued_allocations SET reason = 'QUOTA'")
            .await;
    }
}
