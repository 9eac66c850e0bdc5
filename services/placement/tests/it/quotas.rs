//! How many allocations, of all SKUs together, a project may hold.
use futures::future::join_all;
use gpuaas_placement::model::AllocationState;
use gpuaas_placement::quota::{self, Quotas, SkuQuota};
use gpuaas_placement::reserve::{self, Call, Key, Pass, Policy, Request};
use gpuaas_placement::{Error, Result, Scope, audit, release};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::reserving;
use crate::world::{H200, LAB, POLICY, World, h200_slot, lab_spec};

/// A world with a lab node and a node of the GPU class of so many slots each.
async fn world_of_two_skus(slots: i32) -> (World, [Uuid; 2]) {
    let (world, lab) = World::with_lab_slots(slots).await;
    let spec = gpuaas_placement::nodes::NodeSpec {
        lab: false,
        hugepages_1g_free: 1000,
        ..lab_spec()
    };
    let h200 = world.node(spec).await;
    let definitions: Vec<_> = (0..slots).map(h200_slot).collect();
    world.approve(h200, &definitions).await;
    (world, [lab, h200])
}

fn of_sku(world: &World, sku: &str) -> Request {
    Request {
        sku: sku.into(),
        ..world.request(1)
    }
}

async fn limit(world: &World, most: i32) {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let done = quota::put_allocations(&mut conn, world.project, most).await;
    done.expect("limit");
}

/// Releases an allocation whose host was not touched: it has ended at once.
async fn end(world: &World, id: Uuid) {
    let mut tx = world.allocation.begin().await.expect("begin");
    let begun = release::begin(&mut tx, Scope::Platform, id, "", "").await;
    assert_eq!(
        begun.expect("release").allocation.state,
        AllocationState::Released
    );
    tx.commit().await.expect("commit");
}

fn is_quota<T>(outcome: &Result<T>) -> bool {
    match outcome {
        Err(Error::Refused { reason, .. }) => *reason == ErrorReason::Quota,
        Err(Error::InBatch { source, .. }) => {
            matches!(**source, Error::Refused { reason, .. } if reason == ErrorReason::Quota)
        }
        _ => false,
    }
}

async fn sound(world: &World) {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let report = audit::ledger(&mut conn).await.expect("audit");
    assert_eq!(report.broken().count(), 0, "{report:#?}");
}

async fn quotas(world: &World) -> Quotas {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let found = quota::of_project(&mut conn, world.project, POLICY).await;
    found.expect("quotas")
}

#[tokio::test]
async fn a_project_holds_no_more_allocations_of_all_skus_than_its_limit() {
    let (world, _) = world_of_two_skus(3).await;
    limit(&world, 2).await;
    let first = world.reserve(&of_sku(&world, LAB)).await.expect("first");
    world.reserve(&of_sku(&world, H200)).await.expect("second");
    let before = world.fingerprint().await;
    for sku in [LAB, H200] {
        let request = of_sku(&world, sku);
        let error = world.reserve(&request).await.expect_err("two are held");
        let error = gpuaas_common::Error::from(error);
        assert_eq!(error.reason(), ErrorReason::Quota);
        assert_eq!(
            error.message(),
            "The quota of the project is 2 allocations and 2 are in use."
        );
        assert_eq!(error.fields()[0].0, "project_id");
        for (key, value) in [
            ("quota", "allocations"),
            ("limit", "2"),
            ("used", "2"),
            ("requested", "1"),
        ] {
            assert_eq!(error.metadata()[key], value, "{key}");
        }
        // the same without reserving
        let call = Call::one(&request);
        let dry = reserving::dry_run(&world.scheduler, world.ids, POLICY, call).await;
        assert!(is_quota(&dry), "{dry:?}");
    }
    assert_eq!(world.fingerprint().await, before);
    let elsewhere = Request {
        project_id: Uuid::now_v7(),
        ..world.request(1)
    };
    world.reserve(&elsewhere).await.expect("its own limit");
    let of = |sku: &str, used_gpus| SkuQuota {
        sku: sku.into(),
        max_gpus: 1000,
        used_gpus,
    };
    let held = Quotas {
        max_allocations: 2,
        used_allocations: 2,
        skus: vec![of(H200, 1), of(LAB, 1)],
    };
    assert_eq!(quotas(&world).await, held);
    // one that has ended does not count, and its SKU is still told of
    end(&world, first.allocation_id).await;
    assert_eq!(quotas(&world).await.skus, [of(H200, 1), of(LAB, 0)]);
    world.reserve(&of_sku(&world, H200)).await.expect("again");
    // less than it holds stops nothing, and lets nothing begin
    limit(&world, 0).await;
    let now = quotas(&world).await;
    assert_eq!((now.max_allocations, now.used_allocations), (0, 2));
    assert!(is_quota(&world.reserve(&world.request(1)).await));
    sound(&world).await;
}

#[tokio::test]
async fn a_project_without_a_limit_on_allocations_has_the_sites() {
    let (world, _) = World::with_lab_slots(3).await;
    let policy = Policy {
        default_quota_allocations: 1,
        ..POLICY
    };
    let reserve = async || {
        let request = world.request(1);
        reserving::one(&world.scheduler, world.ids, policy, &request).await
    };
    reserve().await.expect("one");
    assert!(is_quota(&reserve().await));
    limit(&world, 2).await;
    reserve().await.expect("its own limit counts");
    assert!(is_quota(&reserve().await));
    // the GPUs that it may not hold are told before
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let put = quota::put(&mut conn, world.project, LAB, 2).await;
    put.expect("quota");
    let error = reserve().await.expect_err("both limits");
    let error = gpuaas_common::Error::from(error);
    assert_eq!(error.metadata()["quota"], "gpus");
    assert_eq!(error.metadata()["limit"], "2");
    assert_eq!(error.fields()[0].0, "gpu_count");
}

/// Launches of two SKUs lock no row of a SKU that both of them lock: the project's row makes them count one after the
/// other, also the first launches, which make it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_last_allocation_is_one_when_two_skus_race_for_it() {
    for rows_are_there in [false, true] {
        let (world, nodes) = world_of_two_skus(2).await;
        let policy = Policy {
            default_quota_allocations: 1,
            ..POLICY
        };
        if rows_are_there {
            limit(&world, 1).await;
            let mut conn = world.scheduler.acquire().await.expect("connection");
            for sku in [LAB, H200] {
                let put = quota::put(&mut conn, world.project, sku, 8).await;
                put.expect("quota");
            }
        }
        // whoever has counted waits for its node
        let mut busy = world.owner.begin().await.expect("begin");
        sqlx::query("SELECT FROM nodes WHERE id = ANY ($1) FOR NO KEY UPDATE")
            .bind(nodes)
            .execute(&mut *busy)
            .await
            .expect("lock");
        let requests = [of_sku(&world, LAB), of_sku(&world, H200)];
        let launches = requests
            .iter()
            .map(|request| reserving::one(&world.scheduler, world.ids, policy, request));
        let letting_go = async {
            world.someone_waits_for_a_node().await;
            world.so_many_wait(2).await;
            busy.commit().await.expect("commit");
        };
        let (outcomes, ()) = tokio::join!(join_all(launches), letting_go);
        let made = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(made, 1, "{rows_are_there}: {outcomes:?}");
        assert!(outcomes.iter().any(is_quota), "{outcomes:?}");
        assert_eq!(quotas(&world).await.used_allocations, 1);
    }
}

#[tokio::test]
async fn each_allocation_of_a_batch_counts_and_one_too_many_changes_nothing() {
    let (world, _) = world_of_two_skus(3).await;
    limit(&world, 2).await;
    let requests = [LAB, H200, LAB].map(|sku| of_sku(&world, sku));
    let key = Key {
        principal: "user:alice",
        idempotency_key: "b-1",
        request_hash: &[3; 32],
    };
    let reserve = async |requests: &[Request]| {
        reserving::all(&world.scheduler, world.ids, POLICY, key, requests).await
    };
    let before = world.fingerprint().await;
    let refused = reserve(&requests).await;
    assert!(is_quota(&refused), "{refused:?}");
    let error = gpuaas_common::Error::from(refused.expect_err("three"));
    assert_eq!(error.fields()[0].0, "allocations[2].project_id");
    assert_eq!(error.metadata()["quota"], "allocations");
    assert_eq!(world.fingerprint().await, before);
    let (made, _) = reserve(&requests[..2]).await.expect("two, by the same key");
    assert_eq!(made.len(), 2);
    assert_eq!(quotas(&world).await.used_allocations, 2);
    sound(&world).await;
}

#[tokio::test]
async fn p4_a_key_answers_again_after_the_limit_is_reached() {
    let (world, _) = World::with_lab_slots(2).await;
    limit(&world, 1).await;
    let request = world.request(1);
    let made = world.reserve(&request).await.expect("made");
    assert!(is_quota(&world.reserve(&world.request(1)).await));
    limit(&world, 0).await;
    let again = world.reserve(&request).await.expect("answered again");
    assert_eq!(
        (again.allocation_id, again.replayed),
        (made.allocation_id, true)
    );
}

#[tokio::test]
async fn what_waits_does_not_count_against_the_limit_and_is_served_within_it() {
    let (world, _) = World::with_lab_slots(3).await;
    limit(&world, 1).await;
    let deadline = Timestamp::now() + SignedDuration::from_hours(1);
    let wait = async |request: &Request| {
        reserving::one_or_queue(&world.scheduler, world.ids, POLICY, request, deadline).await
    };
    let pass = async || {
        let pass = reserve::serve_queue(&world.scheduler, world.ids, POLICY).await;
        pass.expect("pass")
    };
    let held = world.reserved(1).await;
    let waiting = wait(&world.request(1)).await.expect("waits").allocation_id;
    let row = world.get(waiting).await;
    assert_eq!(row.state, AllocationState::Requested);
    assert_eq!(quotas(&world).await.used_allocations, 1);
    assert_eq!(pass().await, Pass::default());
    // it waits for its own project's limit and holds nobody up
    let elsewhere = Request {
        project_id: Uuid::now_v7(),
        ..world.request(1)
    };
    let other = wait(&elsewhere).await.expect("made").allocation_id;
    assert_eq!(world.get(other).await.state, AllocationState::Reserved);
    // two could never be held at once
    let two = [world.request(1), world.request(1)];
    let key = Key {
        principal: "user:alice",
        idempotency_key: "b-1",
        request_hash: &[3; 32],
    };
    let before = world.fingerprint().await;
    let policy = POLICY;
    let refused =
        reserving::all_or_queue(&world.scheduler, world.ids, policy, key, &two, deadline).await;
    assert!(is_quota(&refused), "{refused:?}");
    assert_eq!(world.fingerprint().await, before);
    end(&world, held).await;
    assert_eq!(pass().await.served, [waiting]);
    // of two that wait one is served for each that the limit allows
    let more = [world.request(1), world.request(1)];
    let first = wait(&more[0]).await.expect("waits").allocation_id;
    let second = wait(&more[1]).await.expect("waits").allocation_id;
    limit(&world, 2).await;
    assert_eq!(pass().await.served, [first]);
    limit(&world, 3).await;
    end(&world, other).await;
    assert_eq!(pass().await.served, [second]);
    sound(&world).await;
}
