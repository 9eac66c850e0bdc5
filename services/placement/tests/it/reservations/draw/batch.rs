//! Launches of a batch, and a large fleet.
use gpuaas_placement::reservations::CapacityReservation;
use gpuaas_placement::reserve::{Key, MAX_BATCH, Request};

use crate::reservations::{counts, of_others, reserved, sound};
use crate::reserving;
use crate::world::{POLICY, World};

/// Launches so many GPUs one by one in a batch, and asserts that all of them are those of the reservations.
async fn draw_at_once(world: &World, rows: &[CapacityReservation]) {
    let key = Key {
        principal: "user:alice",
        idempotency_key: "many at once",
        request_hash: &[7; 32],
    };
    let batch: Vec<Request> = rows.iter().map(|_| world.request(1)).collect();
    let done = reserving::all(&world.scheduler, world.ids, POLICY, key, &batch).await;
    assert_eq!(done.expect("reserved").0.len(), rows.len());
    for row in rows {
        assert_eq!(counts(world, row.id).await, (1, 1, 0));
    }
    sound(world).await;
}

#[tokio::test]
async fn b_36_each_of_a_batch_draws_on_what_is_reserved_before_it_takes_what_is_open_beside_it() {
    let (world, _) = World::with_lab_slots(2).await;
    let here = reserved(&world, 1).await;
    // so that the next one is held on the next node
    world.run("UPDATE nodes SET admin_state = 'cordoned'").await;
    world.lab_node(2).await;
    let there = reserved(&world, 1).await;
    world.run("UPDATE nodes SET admin_state = 'enabled'").await;
    // each node has one reserved slot and one that is open
    draw_at_once(&world, &[here, there]).await;
}

/// There are more nodes with something reserved than each of them looks at first, and the others have taken those.
#[tokio::test]
async fn b_36_each_of_a_batch_finds_what_is_reserved_before_it_takes_what_is_open_elsewhere() {
    let world = World::new().await;
    let mut rows = Vec::new();
    for _ in 0..MAX_BATCH {
        world.lab_node(1).await;
        rows.push(reserved(&world, 1).await);
    }
    for _ in 0..4 {
        world.lab_node(2).await;
    }
    draw_at_once(&world, &rows).await;
}

/// The nodes to look at first are a few of many: those with something of its own are among them.
#[tokio::test]
async fn b_36_in_a_large_fleet_a_project_finds_its_own_reserved_nodes_first() {
    let (world, own) = World::with_lab_slots(2).await;
    let row = reserved(&world, 2).await;
    // nothing is open on it; of the others a few are looked at for each launch
    for _ in 0..24 {
        world.lab_node(2).await;
    }
    let others = world.reserve(&of_others(&world, 1)).await.expect("open");
    assert_ne!(world.get(others.allocation_id).await.node_id, Some(own));
    for _ in 0..2 {
        let drawn = world.reserved(1).await;
        assert_eq!(world.get(drawn).await.node_id, Some(own));
    }
    assert_eq!(counts(&world, row.id).await, (2, 2, 0));
    let more = world.reserved(1).await;
    assert_ne!(world.get(more).await.node_id, Some(own));
    sound(&world).await;
}
