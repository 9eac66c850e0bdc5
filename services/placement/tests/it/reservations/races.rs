//! Launches, reservations, cancelling and the loop at the same time: a GPU goes to one of them.
use futures::future::join_all;
use gpuaas_placement::model::Scope;
use gpuaas_placement::reservations::{
    self, Cancellation, CapacityReservation, Reconciled, ReservationSpec,
};
use gpuaas_placement::{Error, Result, quota};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sqlx::postgres::PgQueryResult;
use sqlx::{AssertSqlSafe, Postgres, Transaction};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::{causes, counts, create, of_others, reconcile, requested, reserved, sound};
use crate::baremetal::world_of;
use crate::busy::reserve_while;
use crate::world::{H200, LAB, POLICY, World};

#[tokio::test]
async fn p1_launches_and_reservations_race_for_the_same_gpus() {
    let world = World::new().await;
    for _ in 0..3 {
        world.lab_node(2).await;
    }
    let asks: Vec<ReservationSpec> = (0..4)
        .map(|_| ReservationSpec {
            gather: true,
            ..requested(&world, 2)
        })
        .collect();
    let launches: Vec<_> = (0..6).map(|_| of_others(&world, 1)).collect();
    let own: Vec<_> = (0..4).map(|_| world.request(1)).collect();
    let reserving = join_all(asks.iter().map(|requested| create(&world, requested)));
    let launching = join_all(launches.iter().chain(&own).map(|one| world.reserve(one)));
    let reconciling = join_all((0..3).map(|_| reconcile(&world)));
    let (made, launched, _) = tokio::join!(reserving, launching, reconciling);
    for one in &made {
        assert!(one.is_ok(), "{one:?}");
    }
    for one in &launched {
        assert!(matches!(one, Ok(_) | Err(Error::Refused { .. })), "{one:?}");
    }
    sound(&world).await;
    // six slots: each is claimed or held or free, and nobody sits on what another project holds
    let claimed = world.number("SELECT count(*) FROM claims").await;
    let idle = world
        .number("SELECT count(*) FROM reserved_slots WHERE idle_since IS NOT NULL")
        .await;
    assert!(claimed + idle <= 6, "{claimed} {idle}");
    reconcile(&world).await;
    let idle = world
        .number("SELECT count(*) FROM reserved_slots WHERE idle_since IS NOT NULL")
        .await;
    assert_eq!(claimed + idle, 6);
    let error = world.reserve(&of_others(&world, 1)).await;
    assert!(matches!(error, Err(Error::Refused { .. })), "{error:?}");
    sound(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn p1_what_was_reserved_for_others_since_a_launch_looked_is_not_taken() {
    let (world, _) = World::with_lab_slots(2).await;
    world.reserved(1).await;
    let theirs = ReservationSpec {
        project_id: Uuid::now_v7(),
        ..requested(&world, 1)
    };
    let holding = Box::pin(async {
        let row = create(&world, &theirs).await.expect("held");
        assert_eq!(row.missing(), 0);
    });
    let error = reserve_while(&world, holding).await.expect_err("reserved");
    assert!(
        causes(error).contains(&(ErrorReason::CapacityReserved, 1)),
        "the launch is told why"
    );
    sound(&world).await;
}

/// Two reservations at once, of which the first is kept waiting for a node by whoever has its lock until both have begun.
async fn both_at_once(
    world: &World,
    nodes: &[Uuid],
    first: &ReservationSpec,
    second: &ReservationSpec,
) -> (Result<CapacityReservation>, Result<CapacityReservation>) {
    let ids: Vec<String> = nodes.iter().map(|id| format!("'{id}'")).collect();
    let ids = ids.join(", ");
    let lock = format!("SELECT FROM nodes WHERE id IN ({ids}) FOR NO KEY UPDATE");
    let others = begun(world, lock).await;
    let second = async {
        world.someone_waits().await;
        create(world, second).await
    };
    let letting_go = async {
        world.someone_waits_for_a_node().await;
        world.so_many_wait(2).await;
        others.commit().await.expect("commit");
    };
    let (first, second, ()) = tokio::join!(create(world, first), second, letting_go);
    (first, second)
}

#[tokio::test]
async fn two_reservations_at_once_do_not_exceed_the_projects_limit_together() {
    let (world, specs) = world_of(1).await;
    let lab = world.lab_node(1).await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    reservations::put_limit(&mut conn, world.project, 1)
        .await
        .expect("limit");
    drop(conn);
    let own = |sku: &str| ReservationSpec {
        sku: sku.into(),
        made_by_project: true,
        ..requested(&world, 1)
    };
    let nodes = [lab, specs[0].id];
    let (first, second) = Box::pin(both_at_once(&world, &nodes, &own(LAB), &own(H200))).await;
    first.expect("within the limit");
    let refused = gpuaas_common::Error::from(second.expect_err("together they exceed it"));
    assert_eq!(refused.reason(), ErrorReason::ReservationLimit);
    assert_eq!(world.number("SELECT count(*) FROM reserved_slots").await, 1);
}

/// By operators, whom no limit binds, for a project that has none: its quota is what both are counted against.
#[tokio::test]
async fn two_reservations_at_once_do_not_exceed_the_projects_quota_together() {
    let (world, node) = World::with_lab_slots(2).await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    quota::put(&mut conn, world.project, LAB, 1)
        .await
        .expect("quota");
    drop(conn);
    let (one, other) = (requested(&world, 1), requested(&world, 1));
    let (first, second) = Box::pin(both_at_once(&world, &[node], &one, &other)).await;
    first.expect("within the quota");
    let refused = gpuaas_common::Error::from(second.expect_err("together they exceed it"));
    assert_eq!(refused.reason(), ErrorReason::Quota);
    assert_eq!(world.number("SELECT count(*) FROM reserved_slots").await, 1);
}

/// A reservation may wait for nodes for long: that is nothing to what its project launches meanwhile.
#[tokio::test]
async fn a_launch_of_the_project_does_not_wait_for_a_reservation_that_waits_for_a_node() {
    let (world, specs) = world_of(1).await;
    world.lab_node(1).await;
    let held = ReservationSpec {
        sku: H200.into(),
        ..requested(&world, 1)
    };
    let node = specs[0].id;
    let lock = format!("SELECT FROM nodes WHERE id = '{node}' FOR NO KEY UPDATE");
    let others = begun(&world, lock).await;
    let launching = async {
        world.someone_waits_for_a_node().await;
        world.reserve(&world.request(1)).await.expect("launched");
        others.commit().await.expect("commit");
    };
    let (made, ()) = tokio::join!(create(&world, &held), launching);
    assert_eq!(made.expect("held").missing(), 0);
}

#[tokio::test]
async fn a_member_that_draws_and_the_end_of_the_reservation_do_not_lose_each_other() {
    let (world, _) = World::with_lab_slots(2).await;
    for round in 0..6 {
        let row = reserved(&world, 2).await;
        let key = format!("k-{round}");
        let cancel = Cancellation {
            principal: "user:root",
            idempotency_key: &key,
            request_hash: &[1; 32],
            request_id: "",
            scope: Scope::Platform,
            id: row.id,
            reason: "",
        };
        let request = world.request(2);
        let (launched, canceled) = tokio::join!(
            world.reserve(&request),
            reservations::cancel(&world.scheduler, POLICY, &cancel)
        );
        canceled.expect("canceled");
        let launched = launched.expect("free for the member either way");
        sound(&world).await;
        assert_eq!(counts(&world, row.id).await, (0, 0, 0));
        super::free(&world, launched.allocation_id).await;
    }
    assert_eq!(reconcile(&world).await, Reconciled::default());
}

#[tokio::test]
async fn p1_a_hold_and_a_claim_by_sql_see_each_other_whoever_comes_first() {
    let (world, node) = World::with_lab_slots(2).await;
    let gather = ReservationSpec {
        gather: true,
        ..requested(&world, 2)
    };
    let other = world
        .reserve(&of_others(&world, 2))
        .await
        .expect("open")
        .allocation_id;
    let row = create(&world, &gather).await.expect("gathers");
    super::free(&world, other).await;
    let hold = |slot| {
        format!(
            "INSERT INTO reserved_slots (slot_id, node_id, reservation_id, project_id, hugepages_1g)
             VALUES ('{slot}', '{node}', '{}', '{}', 0)",
            row.id, world.project
        )
    };
    let slots = world.slots(node).await;
    let (first, second) = (slots[0].id, slots[1].id);
    let reserve = |slot| {
        format!(
            "UPDATE slots SET status = 'reserved', generation = generation + 1, revision = revision + 1 WHERE id = '{slot}';"
        )
    };
    // a claim that is not committed yet keeps the slot from being held
    let claiming = begun(&world, reserve(first)).await;
    let held = meanwhile(&world, hold(first)).await;
    claiming.commit().await.expect("commit");
    let error = held.await.expect("joined").expect_err("the slot is taken");
    assert!(error.to_string().contains("is not free"), "{error}");
    // and the other way round
    let holding = begun(&world, hold(second)).await;
    let claim = format!(
        "{} INSERT INTO claims (id, allocation_id, sku, kind, node_id, slot_id, slot_class, slot_generation, state, snapshot)
            SELECT gen_random_uuid(), '{other}', 'lab-slice', 'slot', node_id, id, 'lab', generation, 'reserved', '{{}}'
              FROM slots WHERE id = '{second}'",
        reserve(second)
    );
    let claimed = meanwhile(&world, claim).await;
    holding.commit().await.expect("commit");
    let error = claimed.await.expect("joined").expect_err("it is held");
    assert!(
        error.to_string().contains("reserved for another project"),
        "{error}"
    );
}

/// A transaction that has run statements.
async fn begun(world: &World, sql: String) -> Transaction<'static, Postgres> {
    let mut tx = world.owner.begin().await.expect("begin");
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(&mut *tx)
        .await
        .expect("done");
    tx
}

/// Statements that run in a session of their own, and wait for a lock by now.
async fn meanwhile(world: &World, sql: String) -> JoinHandle<sqlx::Result<PgQueryResult>> {
    let pool = world.owner.clone();
    let running =
        tokio::spawn(async move { sqlx::raw_sql(AssertSqlSafe(sql)).execute(&pool).await });
    world.someone_waits().await;
    running
}
