//! Requests that wait for capacity, on the real ledger.
use std::collections::HashSet;

use futures::future::join_all;
use gpuaas_placement::model::{Allocation, AllocationState, Priority, SlotStatus};
use gpuaas_placement::reserve::{
    self, Constraints, Key, MAX_WAITING, Pass, Request, Reserved, serve_waiting,
};
use gpuaas_placement::waiting::{self, Standing};
use gpuaas_placement::{Error, Result, Scope, audit, catalog, quota, release};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::world::{H200, LAB, POLICY, World, h200_slot, lab_spec};

/// In an hour.
pub fn deadline() -> Timestamp {
    Timestamp::now() + SignedDuration::from_hours(1)
}

pub async fn wait(world: &World, request: &Request) -> Result<Reserved> {
    reserve::reserve_or_wait(&world.scheduler, world.ids, POLICY, request, deadline()).await
}

/// A request of a project, for one lab GPU, that waits.
pub async fn waiter(world: &World, project_id: Uuid) -> Uuid {
    let request = Request {
        project_id,
        ..world.request(1)
    };
    let id = wait(world, &request).await.expect("waits").allocation_id;
    assert_eq!(world.get(id).await.state, AllocationState::Requested);
    id
}

pub async fn pass(world: &World) -> Pass {
    serve_waiting(&world.scheduler, world.ids, POLICY)
        .await
        .expect("pass")
}

/// Releases an allocation whose host was not touched, so that its slots are free at once.
pub async fn free(world: &World, id: Uuid) -> Allocation {
    let mut tx = world.allocation.begin().await.expect("begin");
    let begun = release::begin(&mut tx, Scope::Platform, id, "", "")
        .await
        .expect("release");
    tx.commit().await.expect("commit");
    begun.allocation
}

pub async fn sound(world: &World) {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let report = audit::ledger(&mut conn).await.expect("audit");
    assert_eq!(report.broken().count(), 0, "{report:#?}");
}

async fn standing(world: &World, id: Uuid) -> Option<Standing> {
    let row = world.get(id).await;
    let mut conn = world.allocation.acquire().await.expect("connection");
    waiting::standing(&mut conn, &[row])
        .await
        .expect("standing")
        .remove(&id)
}

async fn set_quota(world: &World, project: Uuid, max: i32) {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    quota::put(&mut conn, project, LAB, max)
        .await
        .expect("quota");
}

#[tokio::test]
async fn b_57_what_does_not_fit_waits_says_why_and_is_served_once() {
    let (world, node) = World::with_lab_slots(1).await;
    let holder = world.reserved(1).await;
    let request = world.request(1);
    let first = wait(&world, &request).await.expect("waits");
    let row = world.get(first.allocation_id).await;
    assert_eq!(
        (row.state, row.node_id, row.lab),
        (AllocationState::Requested, None, true)
    );
    let stands = standing(&world, row.id).await.expect("in line");
    assert_eq!(
        (stands.position, stands.reason.as_str()),
        (1, "SLOTS_IN_USE")
    );
    assert_eq!(
        world
            .number("SELECT count(*) FROM claims WHERE state <> 'released'")
            .await,
        1
    );
    // the same key leads to the same, and nothing is free yet
    let again = wait(&world, &request).await.expect("replay");
    assert_eq!(
        (again.allocation_id, again.replayed),
        (first.allocation_id, true)
    );
    assert_eq!(pass(&world).await, Pass::default());
    sound(&world).await;

    // a price that is published meanwhile is not that of this request
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let dearer = gpuaas_placement::model::Price {
        version_id: Uuid::from_u128(43),
        nanos_per_gpu_hour: 9_000_000_000,
        ..crate::world::price()
    };
    let now = jiff_sqlx::ToSqlx::to_sqlx(Timestamp::now());
    catalog::put_price(&mut conn, LAB, &dearer, now)
        .await
        .expect("price");
    drop(conn);
    free(&world, holder).await;
    assert_eq!(pass(&world).await.served, [row.id]);
    let served = world.get(row.id).await;
    assert_eq!(
        (served.state, served.node_id),
        (AllocationState::Reserved, Some(node))
    );
    assert_eq!(served.price, row.price);
    let sold_at = "SELECT (snapshot -> 'price' ->> 'nanos_per_gpu_hour')::bigint FROM claims WHERE state = 'reserved'";
    assert_eq!(world.number(sold_at).await, 2_490_000_000);
    assert_eq!(world.count(node, SlotStatus::Available).await, 0);
    assert_eq!(pass(&world).await, Pass::default());
    assert_eq!(standing(&world, row.id).await, None);
    let events: Vec<String> =
        sqlx::query_scalar("SELECT type FROM outbox WHERE aggregate_id = $1 ORDER BY revision")
            .bind(row.id)
            .fetch_all(&world.owner)
            .await
            .expect("events");
    assert_eq!(events, ["allocation.requested", "allocation.reserved"]);
    sound(&world).await;
}

#[tokio::test]
async fn who_fits_does_not_wait() {
    let (world, _) = World::with_lab_slots(1).await;
    let made = wait(&world, &world.request(1)).await.expect("reserved");
    assert_eq!(
        world.get(made.allocation_id).await.state,
        AllocationState::Reserved
    );
    assert_eq!(world.number("SELECT count(*) FROM waits").await, 0);
}

#[tokio::test]
async fn c_12_a_waiting_allocation_is_released_without_a_trace_on_any_host() {
    let (world, _) = World::with_lab_slots(1).await;
    let holder = world.reserved(1).await;
    let request = world.request(1);
    let id = wait(&world, &request).await.expect("waits").allocation_id;
    let ended = free(&world, id).await;
    assert_eq!(
        (ended.state, ended.node_id, ended.releasing_at),
        (AllocationState::Released, None, None)
    );
    // again changes nothing
    assert_eq!(free(&world, id).await.revision, ended.revision);
    assert_eq!(
        world
            .number("SELECT count(*) FROM allocation_periods")
            .await,
        0
    );
    let never_ran = "SELECT count(*) FROM workflows WHERE kind = 'release'";
    assert_eq!(world.number(never_ran).await, 0);
    free(&world, holder).await;
    assert_eq!(pass(&world).await, Pass::default());
    // its name is free again
    let other = Request {
        name: request.name,
        ..world.request(1)
    };
    world.reserve(&other).await.expect("the name is free");
    sound(&world).await;
}

#[tokio::test]
async fn c_05_the_deadline_ends_a_wait_with_a_reason_though_capacity_is_free_by_then() {
    let (world, _) = World::with_lab_slots(1).await;
    let holder = world.reserved(1).await;
    let late = waiter(&world, world.project).await;
    let in_time = waiter(&world, world.project).await;
    // past the guard of the table, as time passes
    let superuser = world.db.pool("postgres").await;
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!(
        "BEGIN; SET LOCAL session_replication_role = replica;
         UPDATE placement.allocations SET deadline_at = clock_timestamp() WHERE id = '{late}'; COMMIT"
    )))
    .execute(&superuser)
    .await
    .expect("time passes");
    free(&world, holder).await;
    let pass = pass(&world).await;
    assert_eq!((pass.ended, pass.served), (vec![late], vec![in_time]));
    let failed = world.get(late).await;
    let failure = failed.failure.expect("a failure").0;
    assert_eq!(failed.state, AllocationState::Failed);
    assert_eq!(failure.reason, "WAIT_EXPIRED");
    assert_eq!(
        failure.message,
        "No capacity became free before the deadline of the wait. At last: All GPUs that would fit are in use."
    );
    sound(&world).await;
}

#[tokio::test]
async fn a_wait_has_a_deadline_within_seven_days_and_a_quota_that_allows_it_at_all() {
    let (world, _) = World::with_lab_slots(1).await;
    world.reserved(1).await;
    let before = world.fingerprint().await;
    let now = Timestamp::now();
    for deadline in [
        now - SignedDuration::from_secs(1),
        now + SignedDuration::from_hours(7 * 24 + 1),
    ] {
        let refused = reserve::reserve_or_wait(
            &world.scheduler,
            world.ids,
            POLICY,
            &world.request(1),
            deadline,
        )
        .await;
        assert!(
            matches!(
                refused,
                Err(Error::Invalid {
                    field: "wait.deadline",
                    ..
                })
            ),
            "{refused:?}"
        );
    }
    let poor = Uuid::now_v7();
    set_quota(&world, poor, 1).await;
    let quotas = 1;
    let request = Request {
        project_id: poor,
        ..world.request(2)
    };
    let refused = wait(&world, &request).await;
    assert!(
        matches!(
            refused,
            Err(Error::Refused {
                reason: ErrorReason::Quota,
                ..
            })
        ),
        "{refused:?}"
    );
    let mut expected = before;
    expected[2] += quotas;
    assert_eq!(world.fingerprint().await, expected, "nothing was kept");
    // validating says that it would wait, and keeps nothing
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let told = reserve::validate_or_wait(
        &mut conn,
        world.ids,
        &world.capacity,
        POLICY,
        &world.request(1),
        deadline(),
    )
    .await
    .expect("it may wait");
    assert_eq!((told.nodes, told.nodes_fit), (1, 0));
    assert_eq!(world.fingerprint().await, expected);
}

#[tokio::test]
async fn no_project_fills_the_line() {
    let (world, _) = World::with_lab_slots(1).await;
    let holder = world.reserved(1).await;
    let of_sixteen =
        |count: i64| -> Vec<Request> { (0..count).map(|_| world.request(1)).collect() };
    let mut left = MAX_WAITING;
    while left > 0 {
        let requests = of_sixteen(left.min(16));
        left -= requests.len() as i64;
        let key = format!("b-{left}");
        batch(&world, &key, &requests).await.expect("they wait");
    }
    let refused = wait(&world, &world.request(1)).await;
    assert!(
        matches!(
            refused,
            Err(Error::Refused {
                reason: ErrorReason::Quota,
                ..
            })
        ),
        "{refused:?}"
    );
    waiter(&world, Uuid::now_v7()).await;
    free(&world, holder).await;
    sound(&world).await;
}

#[tokio::test]
async fn projects_take_turns_by_class_then_age() {
    let (world, _) = World::with_lab_slots(1).await;
    let mut holder = world.reserved(1).await;
    let [a, b, c] = [(); 3].map(|()| Uuid::now_v7());
    let mut conn = world.scheduler.acquire().await.expect("connection");
    waiting::priority::put(&mut conn, c, Priority::High)
        .await
        .expect("priority");
    drop(conn);
    let mut made = Vec::new();
    for project in [a, a, a, b, c] {
        made.push(waiter(&world, project).await);
    }
    let expected = [made[4], made[0], made[3], made[1], made[2]];
    for (place, id) in expected.iter().enumerate() {
        let stands = standing(&world, *id).await.expect("in line");
        assert_eq!(stands.position as usize, place + 1);
    }
    for id in expected {
        free(&world, holder).await;
        assert_eq!(pass(&world).await.served, [id]);
        holder = id;
    }
    sound(&world).await;
}

/// One slot is free, many want it: four servers at once and those who do not wait. The first of the line has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn p1_a_freed_slot_goes_to_the_first_of_the_line_and_to_nobody_else() {
    let (world, node) = World::with_lab_slots(1).await;
    let mut holder = world.reserved(1).await;
    let mut line = Vec::new();
    for _ in 0..6 {
        line.push(waiter(&world, Uuid::now_v7()).await);
    }
    for first in line {
        let servers = join_all((0..4).map(|_| serve_waiting(&world.scheduler, world.ids, POLICY)));
        let passers_by = join_all((0..8).map(|_| async {
            let request = Request {
                project_id: Uuid::now_v7(),
                ..world.request(1)
            };
            world.reserve(&request).await
        }));
        let freeing = free(&world, holder);
        let (passes, created, _) = tokio::join!(servers, passers_by, freeing);
        let mut served: Vec<Uuid> = passes
            .into_iter()
            .flat_map(|pass| pass.expect("pass").served)
            .collect();
        served.extend(pass(&world).await.served);
        assert_eq!(served, [first]);
        for outcome in created {
            match outcome {
                Err(Error::Refused { reason, .. }) => assert!(
                    matches!(reason, ErrorReason::SlotsInUse | ErrorReason::WaitingAhead),
                    "{reason:?}"
                ),
                Err(Error::Busy { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(world.count(node, SlotStatus::Reserved).await, 1);
        sound(&world).await;
        holder = first;
    }
}

/// A large request is passed on nodes that are not kept for it, and never on the one that is.
#[tokio::test]
async fn b_17_small_requests_do_not_keep_a_large_one_waiting_for_ever() {
    let world = World::new().await;
    let nodes = [world.lab_node(2).await, world.lab_node(2).await];
    let mut on: Vec<(Uuid, Uuid)> = Vec::new();
    for _ in 0..4 {
        let id = world.reserved(1).await;
        on.push((id, world.get(id).await.node_id.expect("placed")));
    }
    let large = wait(&world, &world.request(2))
        .await
        .expect("waits")
        .allocation_id;
    pass(&world).await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let kept = waiting::kept(
        &mut conn,
        crate::world::REGION,
        gpuaas_placement::model::SlotClass::Lab,
    )
    .await
    .expect("kept");
    assert_eq!(kept.len(), 1);
    let kept = kept[0].0;
    let other = *nodes.iter().find(|node| **node != kept).expect("two nodes");
    let release_one = |node: Uuid, on: &mut Vec<(Uuid, Uuid)>| {
        let place = on.iter().position(|(_, at)| *at == node).expect("held");
        on.remove(place).0
    };
    // one slot is free on the node that is kept: no small one gets it, neither at once nor by waiting
    free(&world, release_one(kept, &mut on)).await;
    let refused = world.reserve(&world.request(1)).await;
    assert!(
        matches!(&refused, Err(Error::Refused { causes, .. })
            if causes.iter().any(|cause| cause.reason == ErrorReason::WaitingAhead)),
        "{refused:?}"
    );
    let small = waiter(&world, Uuid::now_v7()).await;
    assert_eq!(pass(&world).await.served, Vec::<Uuid>::new());
    // what is free on the other node is of no use to the large one
    free(&world, release_one(other, &mut on)).await;
    assert_eq!(pass(&world).await.served, [small]);
    assert_eq!(world.get(small).await.node_id, Some(other));
    free(&world, release_one(kept, &mut on)).await;
    assert_eq!(pass(&world).await.served, [large]);
    assert_eq!(world.get(large).await.node_id, Some(kept));
    assert_eq!(world.number("SELECT count(*) FROM kept_nodes").await, 0);
    sound(&world).await;
}

#[tokio::test]
async fn who_waits_for_its_own_quota_holds_nobody_up() {
    let (world, _) = World::with_lab_slots(2).await;
    let (poor, rich) = (Uuid::now_v7(), Uuid::now_v7());
    set_quota(&world, poor, 1).await;
    let of_poor = Request {
        project_id: poor,
        ..world.request(1)
    };
    world.reserve(&of_poor).await.expect("one is allowed");
    let blocked = waiter(&world, poor).await;
    assert_eq!(
        standing(&world, blocked).await.expect("in line").reason,
        "QUOTA"
    );
    let of_rich = Request {
        project_id: rich,
        ..world.request(1)
    };
    let passed_by = world.reserve(&of_rich).await.expect("is not held up");
    assert_eq!(pass(&world).await, Pass::default());
    // a higher quota is what it waited for, and a slot
    set_quota(&world, poor, 2).await;
    pass(&world).await;
    assert_eq!(
        standing(&world, blocked).await.expect("in line").reason,
        "SLOTS_IN_USE"
    );
    free(&world, passed_by.allocation_id).await;
    assert_eq!(pass(&world).await.served, [blocked]);
    sound(&world).await;
}

async fn batch(world: &World, key: &str, requests: &[Request]) -> Result<(Vec<Uuid>, bool)> {
    let key = Key {
        principal: "user:alice",
        idempotency_key: key,
        request_hash: &[5; 32],
    };
    reserve::reserve_all_or_wait(
        &world.scheduler,
        world.ids,
        POLICY,
        key,
        requests,
        deadline(),
    )
    .await
}

#[tokio::test]
async fn p4_a_batch_waits_as_one_and_is_served_whole() {
    let world = World::new().await;
    let nodes = [world.lab_node(2).await, world.lab_node(2).await];
    let holders = [world.reserved(2).await, world.reserved(2).await];
    let requests = [world.request(2), world.request(2)];
    let (made, replayed) = batch(&world, "b-1", &requests).await.expect("waits");
    assert_eq!((made.len(), replayed), (2, false));
    assert_eq!(
        batch(&world, "b-1", &requests).await.expect("replay"),
        (made.clone(), true)
    );
    let places: HashSet<u32> = [
        standing(&world, made[0]).await.expect("in line").position,
        standing(&world, made[1]).await.expect("in line").position,
    ]
    .into();
    assert_eq!(places, HashSet::from([1]));
    pass(&world).await;
    assert_eq!(world.number("SELECT count(*) FROM kept_nodes").await, 2);
    // half of it would fit: it is kept, and not given out
    free(&world, holders[0]).await;
    assert_eq!(pass(&world).await, Pass::default());
    assert!(world.reserve(&world.request(1)).await.is_err());
    free(&world, holders[1]).await;
    assert_eq!(pass(&world).await.served.len(), 2);
    for node in nodes {
        assert_eq!(world.count(node, SlotStatus::Available).await, 0);
    }
    sound(&world).await;

    // one of another batch is given up: the rest waits on
    let (others, _) = batch(&world, "b-2", &[world.request(2), world.request(2)])
        .await
        .expect("waits");
    free(&world, others[0]).await;
    free(&world, made[0]).await;
    assert_eq!(pass(&world).await.served, [others[1]]);
    sound(&world).await;

    // a line is of one class
    let gpu = world.node(lab_spec()).await;
    world.approve(gpu, &[h200_slot(0)]).await;
    let mixed = [
        world.request(1),
        Request {
            sku: H200.into(),
            ..world.request(2)
        },
    ];
    let refused = batch(&world, "b-3", &mixed).await;
    assert!(
        matches!(
            refused,
            Err(Error::Invalid {
                field: "allocations",
                ..
            })
        ),
        "{refused:?}"
    );
}

#[tokio::test]
async fn what_cannot_be_placed_any_more_fails_and_says_so() {
    let (world, _) = World::with_lab_slots(1).await;
    let beside = world.reserved(1).await;
    let request = Request {
        constraints: Constraints {
            same_node_as: Some(beside),
            ..Constraints::default()
        },
        ..world.request(1)
    };
    let id = wait(&world, &request).await.expect("waits").allocation_id;
    free(&world, beside).await;
    assert_eq!(pass(&world).await.ended, [id]);
    let failure = world.get(id).await.failure.expect("a failure").0;
    assert!(
        failure
            .message
            .starts_with("It cannot be placed any more: "),
        "{failure:?}"
    );
    sound(&world).await;
}

/// The owner gives up at the very moment in which capacity is found.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn p5_giving_up_and_being_served_at_once_leave_nothing_behind() {
    let (world, node) = World::with_lab_slots(1).await;
    for _ in 0..12 {
        let holder = world.reserved(1).await;
        let id = waiter(&world, world.project).await;
        free(&world, holder).await;
        let (served, ended) = tokio::join!(pass(&world), free(&world, id));
        assert_eq!(ended.state, AllocationState::Released);
        assert!(served.served.is_empty() || served.served == [id]);
        pass(&world).await;
        assert_eq!(world.count(node, SlotStatus::Available).await, 1);
        sound(&world).await;
    }
}
