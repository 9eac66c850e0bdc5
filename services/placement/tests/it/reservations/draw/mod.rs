//! Who may draw on what is reserved, and what others are told.
mod bare_metal;
mod batch;
mod disabled_sku;

use gpuaas_placement::catalog::{self, Sku};
use gpuaas_placement::decision::Cause;
use gpuaas_placement::model::Scope;
use gpuaas_placement::reserve::{self, Request, serve_queue};
use gpuaas_placement::{availability, reservations};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff::{SignedDuration, Timestamp};
use jiff_sqlx::ToSqlx as _;
use uuid::Uuid;

use super::{causes, counts, create, free, get, of_others, requested, reserved, sound};
use crate::baremetal::world_of;
use crate::reserving;
use crate::world::{H200, LAB, POLICY, REGION, World, gpu_count, gpu_counts, h200_sku, price};

/// What fits of one count of the lab SKU, for a project or for everybody.
async fn fits(world: &World, project: Option<Uuid>, gpu_count: u32) -> (u32, Vec<ErrorReason>) {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let rows = availability::list(
        &mut conn,
        &world.capacity,
        POLICY,
        project,
        Some(REGION),
        Some(LAB),
    )
    .await
    .expect("availability");
    let row = rows
        .into_iter()
        .find(|row| row.gpu_count.get() == gpu_count);
    let row = row.expect("a count of the SKU");
    (
        row.fits,
        row.reasons.into_iter().map(|r| r.reason).collect(),
    )
}

#[tokio::test]
async fn p1_members_draw_on_what_is_reserved_and_others_are_told_why_not() {
    let (world, first) = World::with_lab_slots(2).await;
    let second = world.lab_node(2).await;
    let row = reserved(&world, 2).await;
    let held: Uuid = sqlx::query_scalar("SELECT DISTINCT node_id FROM reserved_slots")
        .fetch_one(&world.owner)
        .await
        .expect("both slots are on one node");
    assert!(held == first || held == second);
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let launches = reservations::launches(&mut conn, &row).await;
    assert_eq!(
        launches.expect("launches"),
        [(gpu_count(1), 2), (gpu_count(2), 1)]
    );
    drop(conn);

    let open = world.reserve(&of_others(&world, 2)).await.expect("open");
    assert_ne!(world.get(open.allocation_id).await.node_id, Some(held));
    let error = world.reserve(&of_others(&world, 1)).await;
    assert_eq!(
        causes(error.expect_err("reserved")),
        [
            (ErrorReason::SlotsInUse, 2),
            (ErrorReason::CapacityReserved, 2)
        ]
    );
    let reported = [ErrorReason::SlotsInUse, ErrorReason::CapacityReserved];
    assert_eq!(fits(&world, None, 1).await, (0, reported.to_vec()));
    assert_eq!(fits(&world, Some(world.project), 1).await.0, 2);
    assert_eq!(fits(&world, Some(world.project), 2).await.0, 1);

    let own = world.reserved(1).await;
    assert_eq!(world.get(own).await.node_id, Some(held));
    assert_eq!(counts(&world, row.id).await, (2, 1, 1));
    assert_eq!(fits(&world, Some(world.project), 1).await.0, 1);
    sound(&world).await;

    // what a member gives back is reserved again, and unused since then
    let since = get(&world, row.id).await.unused_since;
    free(&world, own).await;
    assert_eq!(counts(&world, row.id).await, (2, 0, 2));
    assert_eq!(get(&world, row.id).await.unused_since, since);
    let error = world.reserve(&of_others(&world, 1)).await;
    assert_eq!(causes(error.expect_err("still reserved")).len(), 2);
    world.reserved(2).await;
    assert_eq!(counts(&world, row.id).await, (2, 2, 0));
    assert_eq!(get(&world, row.id).await.unused_since, None);
    sound(&world).await;
}

#[tokio::test]
async fn b_36_a_reservation_comes_before_the_open_capacity_that_ranks_better() {
    let (world, busy) = World::with_lab_slots(3).await;
    let row = reserved(&world, 1).await;
    assert_eq!(counts(&world, row.id).await, (1, 0, 1));
    let empty = world.lab_node(1).await;
    // the node that is in use already would be filled first
    let other = world.reserve(&of_others(&world, 1)).await.expect("open");
    assert_eq!(world.get(other.allocation_id).await.node_id, Some(busy));
    let own = world.reserved(1).await;
    assert_eq!(world.get(own).await.node_id, Some(busy));
    assert_eq!(counts(&world, row.id).await, (1, 1, 0));
    // what is left for it now is what is open
    let (a, b) = (world.reserved(1).await, world.reserved(1).await);
    let nodes = [world.get(a).await.node_id, world.get(b).await.node_id];
    assert!(nodes.contains(&Some(busy)) && nodes.contains(&Some(empty)));
    assert_eq!(counts(&world, row.id).await, (1, 1, 0));
    sound(&world).await;
}

#[tokio::test]
async fn b_57_explanations_count_what_is_left_for_the_project_that_asks() {
    let (world, _) = World::with_lab_slots(2).await;
    reserved(&world, 2).await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let of = |project_id| Request {
        project_id,
        ..world.request(1)
    };
    let (own, other) = (of(world.project), of(Uuid::from_u128(77)));
    let found = reserve::explain(&mut conn, &world.capacity, POLICY, &own).await;
    assert_eq!(found.expect("explained").nodes_fit, 1);
    let found = reserve::explain(&mut conn, &world.capacity, POLICY, &other)
        .await
        .expect("explained");
    assert_eq!((found.nodes, found.nodes_fit), (1, 0));
    assert_eq!(found.removed[0].cause, Cause::CapacityReserved);
    assert_eq!(
        found.removed[0].message,
        "2 GPUs are reserved for others on 1 node."
    );
}

#[tokio::test]
async fn who_is_queued_gets_nothing_reserved_and_keeps_no_member_from_it() {
    let (world, _) = World::with_lab_slots(2).await;
    let row = reserved(&world, 1).await;
    let taken = world.reserve(&of_others(&world, 1)).await.expect("open");
    let deadline = Timestamp::now() + SignedDuration::from_hours(1);
    let waiter = of_others(&world, 1);
    let waits = reserving::one_or_queue(&world.scheduler, world.ids, POLICY, &waiter, deadline);
    let waits = waits.await.expect("waits").allocation_id;
    let serve = || async {
        let pass = serve_queue(&world.scheduler, world.ids, POLICY).await;
        pass.expect("pass").served
    };
    assert!(serve().await.is_empty());
    // it was there first, and its queue has nothing to do with what is reserved
    let own = world.reserved(1).await;
    assert_eq!(counts(&world, row.id).await, (1, 1, 0));
    free(&world, own).await;
    assert!(serve().await.is_empty());
    free(&world, taken.allocation_id).await;
    assert_eq!(serve().await, [waits]);
    assert_eq!(counts(&world, row.id).await, (1, 0, 1));
    sound(&world).await;
}

#[tokio::test]
async fn a_queued_member_is_served_from_what_is_reserved_though_others_are_before() {
    let (world, _) = World::with_lab_slots(2).await;
    let row = reserved(&world, 1).await;
    world.reserve(&of_others(&world, 1)).await.expect("open");
    let own = world.reserved(1).await;
    let deadline = Timestamp::now() + SignedDuration::from_hours(1);
    let mut waiting = Vec::new();
    for request in [of_others(&world, 1), world.request(1)] {
        let waits =
            reserving::one_or_queue(&world.scheduler, world.ids, POLICY, &request, deadline).await;
        waiting.push(waits.expect("waits").allocation_id);
    }
    let serve = || async {
        let pass = serve_queue(&world.scheduler, world.ids, POLICY).await;
        pass.expect("pass").served
    };
    assert!(serve().await.is_empty());
    free(&world, own).await;
    assert_eq!(serve().await, [waiting[1]]);
    assert_eq!(counts(&world, row.id).await, (1, 1, 0));
    sound(&world).await;
}

#[tokio::test]
async fn what_is_held_can_be_launched_as_it_is_offered() {
    let (world, _) = world_of(1).await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    // offered by two and by eight only
    let pairs = Sku {
        allowed_gpu_counts: gpu_counts(&[2, 8]),
        ..h200_sku()
    };
    catalog::put_sku(&mut conn, &pairs).await.expect("sku");
    let now = Timestamp::now().to_sqlx();
    catalog::put_price(&mut conn, H200, &price(), now)
        .await
        .expect("price");
    drop(conn);
    let odd = reservations::ReservationSpec {
        sku: H200.into(),
        ..requested(&world, 3)
    };
    let error = gpuaas_common::Error::from(create(&world, &odd).await.expect_err("not allocated"));
    assert_eq!(error.reason(), ErrorReason::GpuCountNotAllowed);
    assert_eq!(error.fields()[0].1, "must be a multiple of 2, at most 1024");
    // the node reports no pairs, so only all eight can be had
    let six = reservations::ReservationSpec {
        sku: H200.into(),
        ..requested(&world, 6)
    };
    let error = gpuaas_common::Error::from(create(&world, &six).await.expect_err("no pairs"));
    assert_eq!(error.reason(), ErrorReason::Fragmented);
    assert!(
        error
            .message()
            .starts_with("0 of 6 GPUs can be reserved now.")
    );
    let eight = reservations::ReservationSpec {
        sku: H200.into(),
        ..requested(&world, 8)
    };
    let row = create(&world, &eight).await.expect("made");
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let launches = reservations::launches(&mut conn, &row).await;
    assert_eq!(
        launches.expect("launches"),
        [(gpu_count(2), 0), (gpu_count(8), 1)]
    );
    let seen = reservations::get(&mut conn, Scope::Project(Uuid::from_u128(77)), row.id).await;
    assert!(matches!(
        seen,
        Err(gpuaas_placement::Error::NotFound { .. })
    ));
}
