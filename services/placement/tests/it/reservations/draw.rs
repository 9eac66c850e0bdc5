//! Who may draw on what is reserved, and what others are told.
use gpuaas_placement::catalog::{self, Sku};
use gpuaas_placement::decision::Cause;
use gpuaas_placement::model::{Scope, SlotStatus};
use gpuaas_placement::reservations::{CapacityReservation, Reconciled};
use gpuaas_placement::reserve::{self, Key, MAX_BATCH, Request, serve_queue};
use gpuaas_placement::{Error, availability, reservations};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff::{SignedDuration, Timestamp};
use jiff_sqlx::ToSqlx as _;
use uuid::Uuid;

use super::{
    causes, counts, create, free, get, limits, of_others, reconcile_by, requested, reserved, sound,
};
use crate::baremetal::{
    WITH_EXECUTOR, bare_metal, reserve as reserve_bare_metal, tenancy, world_of,
};
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

/// What an operator disables stays with who has reserved it: until its end a reservation can be launched on, and is
/// neither made larger nor goes anywhere else; canceled, it gives its GPUs back at once.
#[tokio::test]
async fn a_reservation_of_a_sku_that_is_disabled_can_be_launched_on_and_canceled() {
    let (world, _) = World::with_lab_slots(1).await;
    world.lab_node(1).await;
    let row = reserved(&world, 2).await;
    world.lab_node(2).await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let lab = catalog::sku(&mut conn, LAB).await.expect("lab");
    let disabled = Sku {
        disabled: true,
        ..lab
    };
    catalog::put_sku(&mut conn, &disabled).await.expect("put");
    let held = reservations::reserved_gpus(&mut conn, &[LAB, H200]).await;
    assert_eq!(held.expect("held"), [(LAB.to_owned(), 2)].into());
    drop(conn);

    let invalid = async |request: &Request| match world.reserve(request).await {
        Err(Error::Invalid { reason, field, .. }) => (reason, field),
        other => panic!("{other:?}"),
    };
    let not_offered = (ErrorReason::StateConflict, "sku");
    assert_eq!(invalid(&of_others(&world, 1)).await, not_offered);
    // it would fit beside what is reserved, of which no node has two
    let error = world.reserve(&world.request(2)).await;
    let causes = causes(error.expect_err("fits nowhere"));
    assert_eq!(causes, [(ErrorReason::Fragmented, 2)]);
    let error = create(&world, &requested(&world, 1)).await;
    assert!(matches!(
        error.expect_err("no more of it is reserved"),
        Error::Invalid { field: "sku", .. }
    ));
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let explained = async |conn: &mut _, request: &Request| {
        reserve::explain(conn, &world.capacity, POLICY, request).await
    };
    let found = explained(&mut conn, &world.request(1)).await;
    assert_eq!(found.expect("explained").nodes_fit, 2);
    let found = explained(&mut conn, &world.request(2)).await;
    assert_eq!(found.expect("explained").nodes_fit, 0);
    explained(&mut conn, &of_others(&world, 1))
        .await
        .expect_err("not offered");
    // its project alone sees it, and what it has of it
    let listed = async |conn: &mut _, project: Uuid| {
        let skus = catalog::skus(conn, Some(&[project]), 9).await;
        let skus = skus.expect("listed").into_iter().map(|sku| sku.code);
        let rows = availability::list(conn, &world.capacity, POLICY, Some(project), None, None);
        let rows = rows.await.expect("availability").into_iter();
        let lab = rows.filter(|row| row.sku == LAB);
        let fits: Vec<_> = lab.map(|row| (row.gpu_count.get(), row.fits)).collect();
        (skus.collect::<Vec<_>>(), fits)
    };
    let own = (vec![H200.to_owned(), LAB.to_owned()], vec![(1, 2), (2, 0)]);
    assert_eq!(listed(&mut conn, world.project).await, own);
    let others = (vec![H200.to_owned()], vec![]);
    assert_eq!(listed(&mut conn, Uuid::from_u128(77)).await, others);
    drop(conn);
    // while others change its nodes, it is told to try again, and not that it has nothing
    let mut busy = world.owner.begin().await.expect("begin");
    sqlx::query("SELECT FROM nodes FOR NO KEY UPDATE")
        .execute(&mut *busy)
        .await
        .expect("locked");
    let error = world.reserve(&world.request(1)).await;
    assert!(matches!(error, Err(Error::Busy { nodes: 2 })), "{error:?}");
    busy.rollback().await.expect("unlocked");

    let own = world.reserved(1).await;
    assert_eq!(counts(&world, row.id).await, (2, 1, 1));
    let other = world.reserved(1).await;
    assert_eq!(counts(&world, row.id).await, (2, 2, 0));
    // what is not reserved is open to nobody
    assert_eq!(invalid(&world.request(1)).await, not_offered);
    free(&world, other).await;
    assert_eq!(counts(&world, row.id).await, (2, 1, 1));
    sound(&world).await;

    limits::cancel(&world, "off", Scope::Platform, row.id)
        .await
        .expect("canceled");
    assert_eq!(invalid(&world.request(1)).await, not_offered);
    assert_eq!(get(&world, row.id).await.reserved_gpus, 0);
    assert!(world.get(own).await.node_id.is_some(), "it goes on");
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let held = reservations::reserved_gpus(&mut conn, &[LAB]).await;
    assert!(held.expect("held").is_empty());
    drop(conn);
    sound(&world).await;
}

/// Of a disabled SKU a project gets what is reserved of it, and not what is reserved of another SKU of the class.
#[tokio::test]
async fn a_launch_of_a_disabled_sku_draws_on_no_reservation_of_another_sku() {
    const OTHER: &str = "h200-other";
    let (world, _) = world_of(1).await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let other = Sku {
        code: OTHER.into(),
        ..h200_sku()
    };
    catalog::put_sku(&mut conn, &other).await.expect("put");
    for sku in [H200, OTHER] {
        let now = Timestamp::now().to_sqlx();
        catalog::put_price(&mut conn, sku, &price(), now)
            .await
            .expect("price");
    }
    drop(conn);
    let of = async |sku: &str, gpu_count| {
        let requested = reservations::ReservationSpec {
            sku: sku.into(),
            ..requested(&world, gpu_count)
        };
        create(&world, &requested).await.expect("made")
    };
    let (of_other, own) = (of(OTHER, 2).await, of(H200, 1).await);
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let disabled = Sku {
        disabled: true,
        ..h200_sku()
    };
    catalog::put_sku(&mut conn, &disabled).await.expect("put");
    drop(conn);
    let request = |name: &str| Request {
        name: name.into(),
        sku: H200.into(),
        ..world.request(1)
    };
    world.reserve(&request("own")).await.expect("launched");
    assert_eq!(counts(&world, own.id).await, (1, 1, 0));
    let error = world.reserve(&request("more")).await;
    assert!(
        matches!(error, Err(Error::Invalid { field: "sku", .. })),
        "{error:?}"
    );
    assert_eq!(counts(&world, of_other.id).await, (2, 0, 2));
    sound(&world).await;
}

/// A shortage that passes, as a host that is not ready, queues a launch of a disabled SKU on what is reserved of it.
#[tokio::test]
async fn a_launch_of_a_disabled_sku_waits_in_the_queue_for_what_is_reserved_of_it() {
    let (world, held) = World::with_lab_slots(1).await;
    reserved(&world, 1).await;
    world.lab_node(1).await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let lab = catalog::sku(&mut conn, LAB).await.expect("lab");
    let disabled = Sku {
        disabled: true,
        ..lab
    };
    catalog::put_sku(&mut conn, &disabled).await.expect("put");
    drop(conn);
    let ready = async |ready: bool| {
        let set = format!("UPDATE nodes SET schedulable = {ready} WHERE id = '{held}'");
        world.run(&set).await;
    };
    ready(false).await;
    let deadline = Timestamp::now() + SignedDuration::from_hours(1);
    let request = world.request(1);
    let queued = reserving::one_or_queue(&world.scheduler, world.ids, POLICY, &request, deadline);
    let queued = queued.await.expect("queued").allocation_id;
    let serve = || async {
        let pass = serve_queue(&world.scheduler, world.ids, POLICY).await;
        pass.expect("pass")
    };
    // the other node is open, and nothing of it is reserved
    let pass = serve().await;
    assert_eq!((pass.served, pass.ended), (vec![], vec![]));
    ready(true).await;
    assert_eq!(serve().await.served, [queued]);
    assert_eq!(world.get(queued).await.node_id, Some(held));
    sound(&world).await;
}
