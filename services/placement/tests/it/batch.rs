//! Several reservations under one key: all or none.
use std::collections::BTreeMap;

use futures::future::join_all;
use gpuaas_placement::model::SlotStatus;
use gpuaas_placement::reserve::{Key, Request};
use gpuaas_placement::{Error, Result, quota};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::reserving;
use crate::world::{LAB, POLICY, World};

const HASH: [u8; 32] = [3; 32];

fn key(name: &str) -> Key<'_> {
    Key {
        principal: "user:alice",
        idempotency_key: name,
        request_hash: &HASH,
    }
}

async fn reserve(world: &World, name: &str, requests: &[Request]) -> Result<(Vec<Uuid>, bool)> {
    reserving::all(&world.scheduler, world.ids, POLICY, key(name), requests).await
}

#[tokio::test]
async fn p4_a_batch_is_reserved_whole_and_answered_again() {
    let world = World::new().await;
    let nodes = [
        world.lab_node(2).await,
        world.lab_node(2).await,
        world.lab_node(2).await,
    ];
    let requests: Vec<Request> = [2, 1, 2].map(|count| world.request(count)).to_vec();
    let (made, replayed) = reserve(&world, "b-1", &requests).await.expect("reserved");
    assert!(!replayed);
    for (id, request) in made.iter().zip(&requests) {
        let allocation = world.get(*id).await;
        assert_eq!(
            (allocation.name.as_str(), allocation.principal.as_str()),
            (request.name.as_str(), "user:alice")
        );
    }
    let mut free = 0;
    for node in nodes {
        free += world.count(node, SlotStatus::Available).await;
    }
    assert_eq!(free, 1);
    assert_eq!(
        world
            .number("SELECT count(*) FROM workflows WHERE kind = 'provision'")
            .await,
        3
    );
    assert_eq!(world.number("SELECT count(*) FROM idempotency").await, 1);

    assert_eq!(
        reserve(&world, "b-1", &requests).await.expect("replayed"),
        (made, true)
    );
    let other = Key {
        request_hash: &[4; 32],
        ..key("b-1")
    };
    match reserving::all(&world.scheduler, world.ids, POLICY, other, &requests).await {
        Err(Error::Common(error)) => assert_eq!(error.reason(), ErrorReason::IdempotencyKeyReused),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn one_that_does_not_fit_refuses_all_of_them_by_its_place() {
    let (world, node) = World::with_lab_slots(3).await;
    let before = world.fingerprint().await;
    let requests: Vec<Request> = [1, 1, 2].map(|count| world.request(count)).to_vec();
    let error = reserve(&world, "b-2", &requests)
        .await
        .expect_err("two are too many");
    assert!(
        matches!(error, Error::InBatch { index: 2, .. }),
        "{error:?}"
    );
    let error = gpuaas_common::Error::from(error);
    assert_eq!(error.reason(), ErrorReason::SlotsInUse);
    assert_eq!(error.metadata()["index"], "2");
    assert!(error.message().starts_with("allocations[2]: "), "{error}");
    assert_eq!(world.fingerprint().await, before);
    assert_eq!(world.count(node, SlotStatus::Available).await, 3);

    // the same name twice is the second one's fault
    let twin = Request {
        name: requests[0].name.clone(),
        ..world.request(1)
    };
    let error = reserve(&world, "b-3", &[requests[0].clone(), twin])
        .await
        .expect_err("name");
    let error = gpuaas_common::Error::from(error);
    assert_eq!(error.fields()[0].0, "allocations[1].name");
    assert_eq!(world.fingerprint().await, before);
}

#[tokio::test]
async fn the_quota_is_that_of_the_whole_batch() {
    let (world, _) = World::with_lab_slots(4).await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    quota::put(&mut conn, world.project, LAB, 2)
        .await
        .expect("quota");
    let three: Vec<Request> = (0..3).map(|_| world.request(1)).collect();
    let error = reserve(&world, "b-4", &three).await.expect_err("quota");
    match error {
        Error::InBatch { index: 2, source } => {
            assert!(matches!(
                *source,
                Error::Refused {
                    reason: ErrorReason::Quota,
                    ..
                }
            ));
        }
        other => panic!("{other:?}"),
    }
    reserve(&world, "b-4", &three[..2])
        .await
        .expect("the key is free, two fit");
}

#[tokio::test]
async fn validating_a_batch_keeps_nothing_and_leaves_its_key_free() {
    let (world, _) = World::with_lab_slots(2).await;
    let before = world.fingerprint().await;
    let two: Vec<Request> = (0..2).map(|_| world.request(1)).collect();
    reserving::dry_run_of_all(&world.scheduler, world.ids, POLICY, key("b-5"), &two)
        .await
        .expect("fits");
    let three: Vec<Request> = (0..3).map(|_| world.request(1)).collect();
    let refused =
        reserving::dry_run_of_all(&world.scheduler, world.ids, POLICY, key("b-5"), &three).await;
    assert!(
        matches!(refused, Err(Error::InBatch { index: 2, .. })),
        "{refused:?}"
    );
    assert_eq!(world.fingerprint().await, before);
    reserve(&world, "b-5", &two).await.expect("reserved");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn p1_batches_that_race_are_whole_or_nothing() {
    let world = World::new().await;
    for _ in 0..3 {
        world.lab_node(2).await;
    }
    // six slots, eight batches of two: three win
    let batches: Vec<(String, Vec<Request>)> = (0..8)
        .map(|number| {
            let project_id = Uuid::now_v7();
            let one = || Request {
                project_id,
                labels: BTreeMap::new(),
                ..world.request(1)
            };
            (format!("race-{number}"), vec![one(), one()])
        })
        .collect();
    let outcomes = join_all(
        batches
            .iter()
            .map(|(name, requests)| reserve(&world, name, requests)),
    )
    .await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 3);
    for outcome in outcomes {
        match outcome {
            Ok((made, _)) => assert_eq!(made.len(), 2),
            Err(Error::InBatch { source, .. }) => {
                assert!(matches!(*source, Error::Refused { .. }), "{source:?}");
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(
        world
            .number("SELECT count(*) FROM claims WHERE state <> 'released'")
            .await,
        6
    );
    assert_eq!(world.number("SELECT count(*) FROM allocations").await, 6);
}
