//! SKUs that an operator disabled.
use gpuaas_placement::catalog::{self, Sku};
use gpuaas_placement::model::Scope;
use gpuaas_placement::reserve::{self, Request, serve_queue};
use gpuaas_placement::{Error, availability, reservations};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff::{SignedDuration, Timestamp};
use jiff_sqlx::ToSqlx as _;
use uuid::Uuid;

use crate::baremetal::world_of;
use crate::reservations::{
    causes, counts, create, free, get, limits, of_others, requested, reserved, sound,
};
use crate::reserving;
use crate::world::{H200, LAB, POLICY, World, h200_sku, price};

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
