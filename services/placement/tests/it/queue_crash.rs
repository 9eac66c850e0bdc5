//! The server of a queue is cut off between any two statements: who is queued is neither lost nor served twice.
use gpuaas_placement::capacity::Ledger;
use gpuaas_placement::model::{AllocationState, SlotStatus};
use gpuaas_placement::reserve::serve_queue;
use uuid::Uuid;

use crate::queue::{free, pass, sound, waiter};
use crate::wire::{Cut, Wire};
use crate::world::{POLICY, World};

#[tokio::test]
async fn p5_a_server_that_dies_between_two_statements_loses_nobody_and_serves_nobody_twice() {
    let (world, node) = World::with_lab_slots(1).await;
    let wire = Wire::new(&world.db).await;
    let wired = Ledger::new(wire.pool(&world.db, "gpuaas_scheduler"));
    let mut holder = world.reserved(1).await;
    let mut first = waiter(&world, Uuid::now_v7()).await;
    let mut crashes = 0;
    // a statement that is never sent and one whose backend is ended leave the same as the one before whose answer is
    // lost: they are tried now and then
    for (cut, stride) in [(Cut::After, 1), (Cut::Before, 9), (Cut::Terminated, 9)] {
        for left in (0..).step_by(stride) {
            let second = waiter(&world, Uuid::now_v7()).await;
            free(&world, holder).await;
            wire.order(left, cut);
            // it says so, or passes the batch over; both are the end of this server
            let _outcome = serve_queue(&wired, world.ids, POLICY).await;
            let hit = wire.ended().await;
            sound(&world).await;
            // another server goes on
            pass(&world).await;
            assert_eq!(world.get(first).await.state, AllocationState::Reserved);
            assert_eq!(world.get(second).await.state, AllocationState::Requested);
            let live = "SELECT count(*) FROM claims WHERE state <> 'released'";
            assert_eq!(world.number(live).await, 1);
            let work = format!("SELECT count(*) FROM workflows WHERE allocation_id = '{first}'");
            assert_eq!(world.number(&work).await, 1);
            assert_eq!(world.count(node, SlotStatus::Available).await, 0);
            (holder, first) = (first, second);
            if !hit {
                break;
            }
            crashes += 1;
        }
    }
    sound(&world).await;
    // a pass is more than a handful of statements, and each of them was the last one
    assert!(crashes > 40, "{crashes}");
}
