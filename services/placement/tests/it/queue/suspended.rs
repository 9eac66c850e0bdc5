//! What is queued in a suspended project stays queued until the project is resumed, and keeps nobody else waiting.
use gpuaas_placement::model::AllocationState;
use gpuaas_placement::reserve::Pass;
use gpuaas_placement::suspensions::{self, Suspension};
use uuid::Uuid;

use super::{free, pass, queue_position, sound, wait, waiter};
use crate::world::World;

/// What the gateway says of a project; whether it changes something.
pub async fn suspend(world: &World, project_id: Uuid, suspended: bool, version: i64) -> bool {
    let said = Suspension {
        project_id,
        suspended,
        version,
    };
    let mut tx = world.scheduler.begin().await.expect("begin");
    let changed = suspensions::put(&mut tx, &[said]).await.expect("put");
    tx.commit().await.expect("commit");
    changed
}

#[tokio::test]
async fn a_suspended_project_stays_queued_and_others_are_served_past_it() {
    let (world, _) = World::with_lab_slots(2).await;
    let holders = [world.reserved(1).await, world.reserved(1).await];
    let unpaid = Uuid::now_v7();
    let first = waiter(&world, unpaid).await;
    let second = waiter(&world, Uuid::now_v7()).await;
    assert!(suspend(&world, unpaid, true, 2).await);
    assert_eq!(pass(&world).await, Pass::default(), "nothing is free");
    let shown = queue_position(&world, first).await.expect("queued");
    assert_eq!(
        (shown.position, shown.reason.as_str()),
        (1, "PROJECT_SUSPENDED"),
        "it is told what it waits for, and keeps its place"
    );
    let told = "SELECT count(*) FROM timeline WHERE step = 'wait' AND state = 'running'
                   AND message LIKE 'Queued: The project is suspended%'";
    assert_eq!(world.number(told).await, 1);

    // all that is free is for the others: who is behind it, and who comes now
    free(&world, holders[0]).await;
    assert_eq!(pass(&world).await.served, [second]);
    free(&world, holders[1]).await;
    assert!(pass(&world).await.served.is_empty());
    let reserved = "SELECT count(*) FROM backfill_reservations";
    assert_eq!(world.number(reserved).await, 0, "no node is kept for it");
    let third = world.request(1);
    let third = wait(&world, &third).await.expect("room").allocation_id;
    assert_eq!(world.get(third).await.state, AllocationState::Reserved);
    assert_eq!(world.get(first).await.state, AllocationState::Requested);

    // resumed, it is served as any other
    assert!(suspend(&world, unpaid, false, 3).await);
    assert_eq!(pass(&world).await, Pass::default());
    let shown = queue_position(&world, first).await.expect("queued");
    assert_eq!(shown.reason, "SLOTS_IN_USE");
    free(&world, third).await;
    assert_eq!(pass(&world).await.served, [first]);
    sound(&world).await;
}

#[tokio::test]
async fn what_the_gateway_said_last_counts_in_whatever_order_it_comes() {
    let (world, _) = World::with_lab_slots(1).await;
    let project = Uuid::now_v7();
    assert!(
        !suspend(&world, project, false, 1).await,
        "it was not suspended"
    );
    assert!(suspend(&world, project, true, 4).await);
    assert!(!suspend(&world, project, true, 4).await, "the same again");
    assert!(!suspend(&world, project, true, 5).await, "renamed");
    assert!(!suspend(&world, project, false, 3).await, "too late");
    let mut conn = world.scheduler.acquire().await.expect("connection");
    assert_eq!(suspensions::all(&mut conn).await.expect("all"), [project]);
    // of several at once, too
    let of = |suspended, version| Suspension {
        project_id: project,
        suspended,
        version,
    };
    let said = [of(false, 9), of(true, 8)];
    let changed = suspensions::put(&mut conn, &said);
    assert!(changed.await.expect("put"));
    assert!(suspensions::all(&mut conn).await.expect("all").is_empty());
    assert!(!suspensions::put(&mut conn, &[]).await.expect("nothing"));
}

/// Once the ledger has taken it in, nothing of the project is served any more, also not by who was about to.
#[tokio::test]
async fn p8_who_serves_a_project_while_it_is_suspended_is_before_it_or_not_at_all() {
    let (world, _) = World::with_lab_slots(1).await;
    let holder = world.reserved(1).await;
    let project = Uuid::now_v7();
    let queued = waiter(&world, project).await;
    free(&world, holder).await;
    let mut tx = world.scheduler.begin().await.expect("begin");
    let said = Suspension {
        project_id: project,
        suspended: true,
        version: 2,
    };
    suspensions::put(&mut tx, &[said]).await.expect("put");
    let serving = pass(&world);
    let committing = async {
        world.someone_waits().await;
        tx.commit().await.expect("commit");
    };
    let (served, ()) = tokio::join!(serving, committing);
    assert!(served.served.is_empty(), "{served:?}");
    let shown = queue_position(&world, queued).await.expect("queued");
    assert_eq!(shown.reason, "PROJECT_SUSPENDED");
    world.reserved(1).await;
}
