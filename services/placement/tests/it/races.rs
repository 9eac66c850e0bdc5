//! Many at once: a GPU is allocated once (P1), a key has one effect (P4), a quota is a quota.
use std::collections::HashSet;
use std::time::Duration;

use futures::future::join_all;
use gpuaas_placement::model::SlotStatus;
use gpuaas_placement::reserve::{self, Policy};
use gpuaas_placement::{Error, quota};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::reserving;
use crate::world::{LAB, POLICY, World};

/// Whether a caller would simply try again.
fn busy(error: &Error) -> bool {
    matches!(error, Error::Busy { .. })
}

/// G-08, L-08: nothing is allocated beyond what there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn p1_two_hundred_racers_for_eight_slots_have_eight_winners() {
    let world = World::new().await;
    let nodes = [world.lab_node(5).await, world.lab_node(3).await];
    let racers = (0..200).map(|_| async {
        let request = reserve::Request {
            project_id: Uuid::now_v7(),
            ..world.request(1)
        };
        loop {
            match world.reserve(&request).await {
                Err(error) if busy(&error) => {}
                other => return other,
            }
        }
    });
    let outcomes = join_all(racers).await;
    let winners: HashSet<Uuid> = outcomes
        .iter()
        .filter_map(|outcome| outcome.as_ref().ok())
        .map(|won| won.allocation_id)
        .collect();
    assert_eq!(winners.len(), 8);
    for outcome in outcomes {
        match outcome {
            Ok(_)
            | Err(Error::Refused {
                reason: ErrorReason::SlotsInUse,
                ..
            }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    for node in nodes {
        assert_eq!(world.count(node, SlotStatus::Available).await, 0);
    }
    assert_eq!(
        world
            .number("SELECT count(*) FROM claims WHERE state <> 'released'")
            .await,
        8
    );
    assert_eq!(world.number("SELECT count(*) FROM allocations").await, 8);
    assert_eq!(world.number("SELECT count(*) FROM idempotency").await, 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn p4_one_key_thrice_at_once_is_one_allocation() {
    let (world, _) = World::with_lab_slots(4).await;
    let request = world.request(1);
    let outcomes = join_all((0..3).map(|_| world.reserve(&request))).await;
    let ids: HashSet<Uuid> = outcomes
        .iter()
        .map(|outcome| outcome.as_ref().expect("reserved").allocation_id)
        .collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(
        outcomes
            .iter()
            .filter(|outcome| outcome.as_ref().is_ok_and(|won| !won.replayed))
            .count(),
        1
    );
    assert_eq!(world.number("SELECT count(*) FROM allocations").await, 1);

    let other_body = reserve::Request {
        request_hash: vec![8; 32],
        ..request.clone()
    };
    match world.reserve(&other_body).await {
        Err(Error::Common(error)) => assert_eq!(error.reason(), ErrorReason::IdempotencyKeyReused),
        other => panic!("{other:?}"),
    }
    let other_principal = reserve::Request {
        principal: "user:bob".into(),
        name: "bobs".into(),
        ..request
    };
    assert!(
        !world
            .reserve(&other_principal)
            .await
            .expect("a scope of its own")
            .replayed
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn quota_holds_under_a_race() {
    let world = World::new().await;
    // several nodes, so that the node locks do not serialise the racers
    for _ in 0..4 {
        world.lab_node(4).await;
    }
    let mut conn = world.scheduler.acquire().await.expect("connection");
    quota::put(&mut conn, world.project, LAB, 3)
        .await
        .expect("quota");
    let requests: Vec<_> = (0..12).map(|_| world.request(1)).collect();
    let outcomes = join_all(requests.iter().map(|request| world.reserve(request))).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 3);
    for outcome in outcomes {
        if let Err(error) = outcome {
            assert!(
                matches!(
                    error,
                    Error::Refused {
                        reason: ErrorReason::Quota,
                        ..
                    }
                ),
                "{error:?}"
            );
        }
    }
    let used = quota::read(&mut conn, world.project, LAB, POLICY)
        .await
        .expect("quota");
    assert_eq!((used.max_gpus, used.used_gpus), (3, 3));
}

/// There is no row of the project's quota to lock before its first launch: those that come while the first makes one
/// wait for it, and then for each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn first_launches_at_once_do_not_exceed_a_default_quota_together() {
    let (world, node) = World::with_lab_slots(2).await;
    let policy = Policy {
        default_quota_gpus: 1,
        ..POLICY
    };
    let mut busy = world.owner.begin().await.expect("begin");
    sqlx::query("SELECT FROM nodes WHERE id = $1 FOR NO KEY UPDATE")
        .bind(node)
        .execute(&mut *busy)
        .await
        .expect("lock");
    // a launch that makes the row, and will be refused for something else
    let mut first = world.owner.begin().await.expect("begin");
    sqlx::query("INSERT INTO quotas (project_id, sku) VALUES ($1, $2)")
        .bind(world.project)
        .bind(LAB)
        .execute(&mut *first)
        .await
        .expect("made");
    let requests = [world.request(1), world.request(1)];
    let launches = requests
        .iter()
        .map(|request| reserving::one(&world.scheduler, world.ids, policy, request));
    let letting_go = async {
        world.so_many_wait(2).await;
        first.commit().await.expect("commit");
        // one has counted and waits for the node, the other to count; or both have counted
        world.someone_waits_for_a_node().await;
        world.so_many_wait(2).await;
        busy.commit().await.expect("commit");
    };
    let (outcomes, ()) = tokio::join!(join_all(launches), letting_go);
    let refused = |outcome: &Result<_, Error>| {
        matches!(
            outcome,
            Err(Error::Refused {
                reason: ErrorReason::Quota,
                ..
            })
        )
    };
    let made = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(made, 1, "{outcomes:?}");
    assert!(outcomes.iter().any(refused), "{outcomes:?}");
    assert_eq!(world.number("SELECT count(*) FROM claims").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn b_39_a_busy_node_does_not_look_full() {
    let (world, node) = World::with_lab_slots(1).await;
    let mut other = world.owner.begin().await.expect("begin");
    sqlx::query("SELECT FROM nodes WHERE id = $1 FOR NO KEY UPDATE")
        .bind(node)
        .execute(&mut *other)
        .await
        .expect("lock");
    let request = world.request(1);
    let letting_go = async {
        // the racer must be seen waiting for the lock before it is given back
        world.someone_waits().await;
        other.commit().await.expect("commit");
    };
    let (outcome, ()) = tokio::join!(world.reserve(&request), letting_go);
    outcome.expect("the node was waited for");
}

#[tokio::test]
async fn a_node_that_stays_busy_is_not_called_full() {
    let (world, node) = World::with_lab_slots(1).await;
    let mut other = world.owner.begin().await.expect("begin");
    sqlx::query("SELECT FROM nodes WHERE id = $1 FOR NO KEY UPDATE")
        .bind(node)
        .execute(&mut *other)
        .await
        .expect("lock");
    let policy = Policy {
        node_lock_timeout: Duration::from_millis(50),
        placement_timeout: Duration::from_millis(50),
        ..POLICY
    };
    let error = reserving::one(&world.scheduler, world.ids, policy, &world.request(1))
        .await
        .expect_err("busy");
    assert!(busy(&error), "{error:?}");
    let error = gpuaas_common::Error::from(error);
    assert_eq!(error.reason(), ErrorReason::Overloaded);
    assert!(error.is_transient());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn b_50_a_drain_that_commits_first_wins() {
    let (world, node) = World::with_lab_slots(1).await;
    let mut drain = world.owner.begin().await.expect("begin");
    sqlx::query("UPDATE nodes SET admin_state = 'draining' WHERE id = $1")
        .bind(node)
        .execute(&mut *drain)
        .await
        .expect("drain");
    let request = world.request(1);
    let committing = async {
        world.someone_waits().await;
        drain.commit().await.expect("commit");
    };
    let (outcome, ()) = tokio::join!(world.reserve(&request), committing);
    assert!(
        matches!(
            outcome,
            Err(Error::Refused {
                reason: ErrorReason::NodeDraining,
                ..
            })
        ),
        "{outcome:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_vm_per_node_holds_under_a_race() {
    let (world, node) = World::with_lab_slots(4).await;
    world
        .run(&format!("UPDATE nodes SET max_vms = 1 WHERE id = '{node}'"))
        .await;
    let requests: Vec<_> = (0..8)
        .map(|_| reserve::Request {
            project_id: Uuid::now_v7(),
            ..world.request(1)
        })
        .collect();
    let outcomes = join_all(requests.iter().map(|request| world.reserve(request))).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
}
