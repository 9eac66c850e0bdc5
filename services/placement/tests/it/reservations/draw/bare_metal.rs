//! Bare-metal nodes.
use gpuaas_placement::model::SlotStatus;
use gpuaas_placement::reservations::{self, Reconciled};
use gpuaas_placement::reserve::Request;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::baremetal::{
    WITH_EXECUTOR, bare_metal, reserve as reserve_bare_metal, tenancy, world_of,
};
use crate::reservations::{causes, counts, create, free, get, reconcile_by, requested, sound};
use crate::reserving;
use crate::world::H200;

#[tokio::test]
async fn b_32_a_bare_metal_node_with_a_reserved_slot_is_for_nobody_else() {
    let (world, specs) = world_of(1).await;
    let mut one = requested(&world, 1);
    one.sku = H200.into();
    let row = create(&world, &one).await.expect("made");
    let others = Request {
        project_id: Uuid::from_u128(77),
        ..bare_metal(&world)
    };
    let error = reserving::one(&world.scheduler, world.ids, WITH_EXECUTOR, &others).await;
    assert_eq!(
        causes(error.expect_err("reserved")),
        [(ErrorReason::CapacityReserved, 1)]
    );
    let own = reserving::one(
        &world.scheduler,
        world.ids,
        WITH_EXECUTOR,
        &bare_metal(&world),
    )
    .await
    .expect("the project's own")
    .allocation_id;
    assert_eq!(world.get(own).await.node_id, Some(specs[0].id));
    assert_eq!(counts(&world, row.id).await, (1, 1, 0));
    sound(&world).await;
}

#[tokio::test]
async fn b_21_a_reservation_of_bare_metal_nodes_holds_empty_nodes_as_they_are() {
    let (world, specs) = world_of(2).await;
    let mut eight = requested(&world, 8);
    eight.sku = "h200-sxm-node".into();
    let refused = create(&world, &eight)
        .await
        .expect_err("nothing brings them up");
    assert!(
        matches!(
            refused,
            gpuaas_placement::Error::Invalid { field: "sku", .. }
        ),
        "{refused:?}"
    );
    let made = reservations::create(&world.scheduler, world.ids, WITH_EXECUTOR, &eight).await;
    let (row, _) = made.expect("made");
    assert_eq!(counts(&world, row.id).await, (8, 0, 8));
    let slice = Request {
        sku: H200.into(),
        project_id: Uuid::from_u128(77),
        ..world.request(8)
    };
    let held: Uuid = sqlx::query_scalar("SELECT DISTINCT node_id FROM reserved_slots")
        .fetch_one(&world.owner)
        .await
        .expect("one node");
    let open = world.reserve(&slice).await.expect("the other node");
    assert_ne!(world.get(open.allocation_id).await.node_id, Some(held));
    let own = reserving::one(
        &world.scheduler,
        world.ids,
        WITH_EXECUTOR,
        &bare_metal(&world),
    )
    .await;
    let own = own.expect("the reserved node").allocation_id;
    assert_eq!(world.get(own).await.node_id, Some(held));
    assert!(specs.iter().any(|spec| spec.id == held));
    assert_eq!(counts(&world, row.id).await, (8, 8, 0));
    free(&world, own).await;
    assert_eq!(get(&world, row.id).await.used_gpus, 0);
    sound(&world).await;
}

#[tokio::test]
async fn b_21_a_bare_metal_node_in_use_stays_the_reservations_until_it_is_given_back() {
    let (world, _) = world_of(2).await;
    let mut eight = requested(&world, 8);
    eight.sku = "h200-sxm-node".into();
    let made = reservations::create(&world.scheduler, world.ids, WITH_EXECUTOR, &eight).await;
    let (row, _) = made.expect("made");
    let own = reserve_bare_metal(&world, &bare_metal(&world))
        .await
        .expect("drawn");
    let node = world.get(own).await.node_id.expect("placed");
    let held_on = "SELECT DISTINCT node_id FROM reserved_slots";
    tenancy(&world, own, async || {
        // its tenant writes to the disks: no slot of it is schedulable, and none is let go
        assert_eq!(world.count(node, SlotStatus::Disabled).await, 8);
        assert_eq!(
            reconcile_by(&world, WITH_EXECUTOR).await,
            Reconciled::default()
        );
        assert_eq!(counts(&world, row.id).await, (8, 8, 0));
        let on: Uuid = sqlx::query_scalar(held_on)
            .fetch_one(&world.owner)
            .await
            .expect("one node");
        assert_eq!(on, node);
        sound(&world).await;
    })
    .await;
    // what a tenant left is not allocated before it is approved: another node takes its place
    let reconciled = reconcile_by(&world, WITH_EXECUTOR).await;
    assert_eq!((reconciled.dropped, reconciled.held), (8, 8));
    let on: Uuid = sqlx::query_scalar(held_on)
        .fetch_one(&world.owner)
        .await
        .expect("one node");
    assert_ne!(on, node);
    assert_eq!(counts(&world, row.id).await, (8, 0, 8));
    sound(&world).await;
}
