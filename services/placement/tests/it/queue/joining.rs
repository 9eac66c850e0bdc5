//! Joining the queue: who may, who need not, and what is refused.
use gpuaas_placement::model::{AllocationState, SlotStatus};
use gpuaas_placement::reserve::{Call, Constraints, MAX_QUEUED, Pass, Request, WhenFull};
use gpuaas_placement::{Error, catalog};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::{batch, deadline, free, pass, queue_position, set_quota, sound, wait, waiter};
use crate::reserving;
use crate::world::{LAB, POLICY, World};

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
    let stands = queue_position(&world, row.id).await.expect("queued");
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
    let allocated_at = "SELECT (snapshot -> 'price' ->> 'nanos_per_gpu_hour')::bigint FROM claims WHERE state = 'reserved'";
    assert_eq!(world.number(allocated_at).await, 2_490_000_000);
    assert_eq!(world.count(node, SlotStatus::Available).await, 0);
    assert_eq!(pass(&world).await, Pass::default());
    assert_eq!(queue_position(&world, row.id).await, None);
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
    assert_eq!(
        world
            .number("SELECT count(*) FROM queued_allocations")
            .await,
        0
    );
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
        let refused = reserving::one_or_queue(
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
    let request = world.request(1);
    let call = Call::one(&request).when_full(WhenFull::Queue(deadline()));
    let found = reserving::dry_run(&world.scheduler, world.ids, POLICY, call)
        .await
        .expect("it may be queued");
    assert_eq!((found.nodes, found.nodes_fit), (1, 0));
    assert_eq!(world.fingerprint().await, expected);
}

#[tokio::test]
async fn no_project_fills_the_queue() {
    let (world, _) = World::with_lab_slots(1).await;
    let holder = world.reserved(1).await;
    let of_sixteen =
        |count: i64| -> Vec<Request> { (0..count).map(|_| world.request(1)).collect() };
    let mut left = MAX_QUEUED;
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

/// Two that join at the same moment count each other.
#[tokio::test]
async fn no_project_fills_the_queue_by_joining_twice_at_once() {
    let (world, _) = World::with_lab_slots(1).await;
    world.reserved(1).await;
    let mut left = MAX_QUEUED - 1;
    while left > 0 {
        let requests: Vec<Request> = (0..left.min(16)).map(|_| world.request(1)).collect();
        left -= requests.len() as i64;
        let key = format!("b-{left}");
        batch(&world, &key, &requests).await.expect("they wait");
    }
    // whoever has counted waits for its project's turn
    let mut holder = world.owner.begin().await.expect("begin");
    sqlx::query("SELECT FROM fair_share FOR UPDATE")
        .execute(&mut *holder)
        .await
        .expect("locked");
    let requests = [world.request(1), world.request(1)];
    let (one, other, ()) = tokio::join!(
        wait(&world, &requests[0]),
        wait(&world, &requests[1]),
        async {
            world.so_many_wait(2).await;
            holder.rollback().await.expect("rollback");
        }
    );
    let outcomes = [one, other];
    let joined = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(joined, 1, "{outcomes:?}");
    let waiting = "SELECT count(*) FROM allocations WHERE state = 'requested'";
    assert_eq!(world.number(waiting).await, MAX_QUEUED);
    sound(&world).await;
}

/// What could never be placed is refused at once, also when the quota in use is what refuses it first.
#[tokio::test]
async fn c_05_a_request_beside_what_is_not_there_does_not_join_for_lack_of_quota() {
    let (world, _) = World::with_lab_slots(2).await;
    set_quota(&world, world.project, 1).await;
    world.reserved(1).await;
    let of_others = Request {
        project_id: Uuid::now_v7(),
        ..world.request(1)
    };
    let of_others = world.reserve(&of_others).await.expect("placed");
    let before = world.fingerprint().await;
    let request = Request {
        constraints: Constraints {
            affinity: Some(of_others.allocation_id),
            ..Constraints::default()
        },
        ..world.request(1)
    };
    let refused = wait(&world, &request).await;
    assert!(
        matches!(
            refused,
            Err(Error::Invalid {
                field: "placement.affinity",
                ..
            })
        ),
        "{refused:?}"
    );
    assert_eq!(world.fingerprint().await, before, "nothing was kept");
}
