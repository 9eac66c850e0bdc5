//! One pass and the next: what goes wrong with one queue, and several who serve at once.
use gpuaas_placement::catalog;
use gpuaas_placement::reserve::Request;
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
