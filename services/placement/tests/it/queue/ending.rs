//! Leaving the queue without having been served: given up, too late, or impossible by now.
use std::collections::BTreeMap;

use gpuaas_placement::model::{AllocationState, SlotStatus};
use gpuaas_placement::reserve::{Constraints, Pass, Request};
use gpuaas_placement::{Error, catalog};

use super::{free, pass, sound, wait, waiter};
use crate::world::{World, lab_sku};

#[tokio::test]
async fn c_12_a_queued_allocation_is_released_without_a_trace_on_any_host() {
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
        "No capacity became free before the deadline. Last reason: All suitable GPUs are in use."
    );
    sound(&world).await;
}

#[tokio::test]
async fn what_cannot_be_placed_any_more_fails_and_says_so() {
    let (world, _) = World::with_lab_slots(1).await;
    let label = ("app".to_owned(), "db".to_owned());
    let labelled = Request {
        labels: BTreeMap::from([label.clone()]),
        ..world.request(1)
    };
    let beside = world.reserve(&labelled).await.expect("room").allocation_id;
    let wanted = [
        Constraints {
            affinity: Some(beside),
            ..Constraints::default()
        },
        Constraints {
            affinity_label: Some(label),
            ..Constraints::default()
        },
    ];
    let mut waiting = Vec::new();
    for constraints in wanted {
        let request = Request {
            constraints,
            ..world.request(1)
        };
        waiting.push(wait(&world, &request).await.expect("waits").allocation_id);
    }
    assert_eq!(pass(&world).await, Pass::default());
    free(&world, beside).await;
    assert_eq!(pass(&world).await.ended, waiting);
    for id in waiting {
        let failure = world.get(id).await.failure.expect("a failure").0;
        assert!(
            failure
                .message
                .starts_with("The request can no longer be placed: "),
            "{failure:?}"
        );
    }
    sound(&world).await;
}

#[tokio::test]
async fn a_sku_that_is_disabled_ends_who_is_queued_and_leaves_who_has_it() {
    let (world, _) = World::with_lab_slots(1).await;
    let holder = world.reserved(1).await;
    let waiting = waiter(&world, world.project).await;
    let put = async |disabled| {
        let mut conn = world.scheduler.acquire().await.expect("connection");
        let sku = catalog::Sku {
            disabled,
            ..lab_sku()
        };
        catalog::put_sku(&mut conn, &sku).await.expect("put");
    };
    put(true).await;
    let before = world.fingerprint().await;
    for refused in [
        world.reserve(&world.request(1)).await.map(drop),
        wait(&world, &world.request(1)).await.map(drop),
    ] {
        let error = refused.expect_err("refused");
        let said = matches!(&error, Error::Invalid { field: "sku", rule, .. } if rule.starts_with("is not offered any more"));
        assert!(said, "{error:?}");
    }
    assert_eq!(world.fingerprint().await, before);
    assert_eq!(pass(&world).await.ended, [waiting]);
    let failure = world.get(waiting).await.failure.expect("a failure").0;
    assert!(
        failure.message.contains("is not offered any more"),
        "{failure:?}"
    );
    assert_eq!(world.get(holder).await.state, AllocationState::Reserved);
    put(false).await;
    free(&world, holder).await;
    world
        .reserve(&world.request(1))
        .await
        .expect("allocated again");
    sound(&world).await;
}

/// Where it may be placed is where the label is when there is room, not where it was when it began to wait.
#[tokio::test]
async fn b_17_who_is_queued_to_be_beside_a_label_follows_it() {
    let (world, first) = World::with_lab_slots(2).await;
    let label = ("app".to_owned(), "db".to_owned());
    let labelled = Request {
        labels: BTreeMap::from([label.clone()]),
        ..world.request(1)
    };
    let there = world.reserve(&labelled).await.expect("room").allocation_id;
    let beside = world.reserved(1).await;
    let second = world.lab_node(2).await;
    let request = Request {
        constraints: Constraints {
            affinity_label: Some(label),
            ..Constraints::default()
        },
        ..world.request(1)
    };
    let id = wait(&world, &request).await.expect("waits").allocation_id;
    assert_eq!(pass(&world).await, Pass::default());
    let again = Request {
        labels: labelled.labels.clone(),
        ..world.request(1)
    };
    let moved = world.reserve(&again).await.expect("room").allocation_id;
    assert_eq!(world.get(moved).await.node_id, Some(second));
    free(&world, there).await;
    assert_eq!(pass(&world).await.served, [id]);
    assert_eq!(world.get(id).await.node_id, Some(second));
    assert_eq!(world.get(beside).await.node_id, Some(first));
    sound(&world).await;
}

/// What it is to keep away from ends while it is being served: it is served, and not ended for it.
#[tokio::test]
async fn b_17_what_a_queued_request_keeps_away_from_may_end_while_it_is_served() {
    for locked in ["quotas", "nodes"] {
        let (world, node) = World::with_lab_slots(1).await;
        let other = world.lab_node(1).await;
        let mut on = [world.reserved(1).await, world.reserved(1).await];
        if world.get(on[0]).await.node_id != Some(node) {
            on.reverse();
        }
        let [holder, apart_from] = on;
        let request = Request {
            constraints: Constraints {
                anti_affinity: vec![apart_from],
                ..Constraints::default()
            },
            ..world.request(1)
        };
        let id = wait(&world, &request).await.expect("waits").allocation_id;
        free(&world, holder).await;
        // who serves it has read what it asks for, and not yet decided
        let mut lock = world.owner.begin().await.expect("begin");
        let row = match locked {
            "quotas" => "SELECT FROM quotas FOR UPDATE".to_owned(),
            _ => format!("SELECT FROM nodes WHERE id = '{node}' FOR NO KEY UPDATE"),
        };
        sqlx::query(sqlx::AssertSqlSafe(row))
            .execute(&mut *lock)
            .await
            .expect("locked");
        let (served, ()) = tokio::join!(pass(&world), async {
            world.someone_waits().await;
            free(&world, apart_from).await;
            lock.rollback().await.expect("rollback");
        });
        assert_eq!((served.served, served.ended), (vec![id], Vec::new()));
        let placed = world.get(id).await.node_id;
        assert!(placed == Some(node) || placed == Some(other));
        sound(&world).await;
    }
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
