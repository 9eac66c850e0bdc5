//! Bare-metal nodes in the queue: fair, never starved by slices, and no more than a node is kept for each.
use futures::future::join_all;
use gpuaas_placement::model::{Allocation, AllocationState, Scope, SlotClass, SlotStatus};
use gpuaas_placement::queue::{self, QueuePosition};
use gpuaas_placement::reserve::{self, Key, Pass, Request, serve_queue};
use gpuaas_placement::{Error, Result, audit, release};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use uuid::Uuid;

use crate::baremetal::{
    WITH_EXECUTOR, bare_metal, reserve, slice, tenancy, world_of, world_of_boards,
};
use crate::reserving;
use crate::world::{POLICY, REGION, World, gpu_count, h200_groups, h200_slot};

fn deadline() -> Timestamp {
    Timestamp::now() + SignedDuration::from_hours(1)
}

/// Of a project of its own.
fn of_another(request: Request) -> Request {
    Request {
        project_id: Uuid::now_v7(),
        ..request
    }
}

async fn wait(world: &World, request: &Request) -> Uuid {
    let (pool, ids) = (&world.scheduler, world.ids);
    let made = reserving::one_or_queue(pool, ids, WITH_EXECUTOR, request, deadline()).await;
    let id = made.expect("waits").allocation_id;
    assert_eq!(world.get(id).await.state, AllocationState::Requested);
    id
}

async fn pass(world: &World) -> Pass {
    serve_queue(&world.scheduler, world.ids, WITH_EXECUTOR)
        .await
        .expect("pass")
}

async fn free(world: &World, id: Uuid) -> Allocation {
    let mut tx = world.allocation.begin().await.expect("begin");
    let begun = release::begin(&mut tx, Scope::Platform, id, "", "")
        .await
        .expect("release");
    tx.commit().await.expect("commit");
    begun.allocation
}

async fn queue_position(world: &World, id: Uuid) -> Option<QueuePosition> {
    let row = world.get(id).await;
    let mut conn = world.allocation.acquire().await.expect("connection");
    let found = queue::positions(&mut conn, &[row]).await;
    found.expect("positions").remove(&id)
}

async fn kept(world: &World) -> Vec<Uuid> {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let kept = queue::backfill_reservations(&mut conn, REGION, SlotClass::H200Sxm).await;
    kept.expect("kept")
        .into_iter()
        .map(|(node, _)| node)
        .collect()
}

async fn sound(world: &World) {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let report = audit::ledger(&mut conn).await.expect("audit");
    assert_eq!(report.broken().count(), 0, "{report:#?}");
}

async fn node_of(world: &World, id: Uuid) -> Uuid {
    world.get(id).await.node_id.expect("placed")
}

/// Releases everything on some nodes.
async fn empty(world: &World, nodes: &[Uuid]) {
    let live = "SELECT id FROM allocations WHERE state = 'reserved' AND node_id = ANY ($1)";
    let live: Vec<Uuid> = sqlx::query_scalar(live)
        .bind(nodes)
        .fetch_all(&world.owner)
        .await
        .expect("allocations");
    for id in live {
        free(world, id).await;
    }
}

fn refusal(outcome: Result<Uuid>) -> ErrorReason {
    match outcome {
        Err(Error::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn b_21_b_57_a_bare_metal_node_waits_says_why_and_is_served_once_the_disks_are_proven_clean()
{
    let (world, specs) = world_of(1).await;
    let node = specs[0].id;
    let holder = reserve(&world, &bare_metal(&world))
        .await
        .expect("reserved");
    let request = of_another(bare_metal(&world));
    let waits = wait(&world, &request).await;
    assert_eq!(wait(&world, &request).await, waits, "the key leads to it");
    let stands = queue_position(&world, waits).await.expect("queued");
    let reported = (stands.position, stands.reason.as_str());
    assert_eq!(reported, (1, "SLOTS_IN_USE"));
    assert_eq!(pass(&world).await, Pass::default());
    tenancy(&world, holder, async || {}).await;
    // what the tenant left is proven by an approval, and not before
    assert_eq!(pass(&world).await, Pass::default());
    let stands = queue_position(&world, waits).await.expect("queued");
    assert_eq!(stands.reason, "INCOMPLETE_SLOT");
    let all: Vec<_> = (0..8).map(h200_slot).collect();
    world.approve(node, &all).await;
    assert_eq!(pass(&world).await.served, [waits]);
    let row = world.get(waits).await;
    let placed = (row.state, row.node_id);
    assert_eq!(placed, (AllocationState::Reserved, Some(node)));
    let claims = "SELECT count(*) FROM claims WHERE kind = 'node_exclusive' AND state = 'reserved'";
    assert_eq!(world.number(claims).await, 1);
    assert_eq!(pass(&world).await, Pass::default());
    assert!(kept(&world).await.is_empty());
    sound(&world).await;
}

/// Replicas are switched over one by one: one that does not offer bare metal leaves who is queued for one.
#[tokio::test]
async fn c_12_a_replica_that_offers_no_bare_metal_ends_nobody_who_is_queued_for_one() {
    let (world, _) = world_of(1).await;
    let holder = reserve(&world, &slice(&world)).await.expect("reserved");
    let waits = wait(&world, &bare_metal(&world)).await;
    free(&world, holder).await;
    let off = serve_queue(&world.scheduler, world.ids, POLICY).await;
    let off = off.expect("pass");
    assert_eq!((off.served, off.ended), (vec![], vec![]));
    assert_eq!(world.get(waits).await.state, AllocationState::Requested);
    assert_eq!(pass(&world).await.served, [waits]);
    sound(&world).await;
}

#[tokio::test]
async fn c_12_c_05_a_bare_metal_node_leaves_the_queue_by_its_owner_or_its_deadline() {
    let (world, _) = world_of(1).await;
    let holder = reserve(&world, &slice(&world)).await.expect("reserved");
    let given_up = wait(&world, &bare_metal(&world)).await;
    let late = wait(&world, &of_another(bare_metal(&world))).await;
    pass(&world).await;
    assert_eq!(kept(&world).await.len(), 1);
    let ended = free(&world, given_up).await;
    assert_eq!(ended.state, AllocationState::Released);
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
    assert_eq!((pass.ended, pass.served), (vec![late], vec![]));
    let failure = world.get(late).await.failure.expect("a failure").0;
    assert_eq!(failure.reason, "WAIT_EXPIRED");
    assert!(kept(&world).await.is_empty());
    sound(&world).await;
}

/// One node is kept for each bare-metal node that is asked for, and slices go on everywhere else.
#[tokio::test]
async fn b_47_no_more_than_a_node_is_kept_for_each_bare_metal_request() {
    let (world, specs) = world_of(4).await;
    let mut on = Vec::new();
    for _ in 0..4 {
        // a VM on each
        let request = Request {
            constraints: reserve::Constraints {
                anti_affinity: on.clone(),
                ..reserve::Constraints::default()
            },
            ..slice(&world)
        };
        on.push(reserve(&world, &request).await.expect("apart"));
    }
    let single = wait(&world, &of_another(bare_metal(&world))).await;
    pass(&world).await;
    assert_eq!(kept(&world).await.len(), 1);
    let stands = queue_position(&world, single).await.expect("queued");
    assert_eq!(stands.reason, "SLOTS_IN_USE");
    for _ in 0..21 {
        let id = reserve(&world, &slice(&world)).await.expect("has room");
        assert!(!kept(&world).await.contains(&node_of(&world, id).await));
    }
    let outcome = reserve(&world, &slice(&world)).await;
    assert!(matches!(&outcome, Err(Error::Refused { causes, .. })
        if causes.iter().any(|cause| cause.reason == ErrorReason::QueuedAhead && cause.gpus == 7)));
    free(&world, single).await;
    let pair = [bare_metal(&world), bare_metal(&world)];
    let key = Key {
        principal: "user:alice",
        idempotency_key: "pair",
        request_hash: &[5; 32],
    };
    let (pool, ids) = (&world.scheduler, world.ids);
    let made = reserving::all_or_queue(pool, ids, WITH_EXECUTOR, key, &pair, deadline()).await;
    let (made, _) = made.expect("waits");
    pass(&world).await;
    let kept = kept(&world).await;
    assert_eq!(kept.len(), 2);
    // both at once or none
    empty(&world, &kept[..1]).await;
    assert_eq!(pass(&world).await, Pass::default());
    assert_eq!(
        refusal(reserve(&world, &of_another(bare_metal(&world))).await),
        ErrorReason::NoCapacity
    );
    empty(&world, &kept).await;
    let mut served = pass(&world).await.served;
    served.sort_unstable();
    let mut expected = made;
    expected.sort_unstable();
    assert_eq!(served, expected);
    assert_eq!(specs.len(), 4);
    sound(&world).await;
}

/// A node becomes empty while bare-metal nodes and slices, waiting and new, want it: the first of the queue has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn p1_an_emptied_node_goes_to_the_first_of_the_queue_and_to_nobody_else() {
    let (world, specs) = world_of(1).await;
    let mut holder = reserve(&world, &bare_metal(&world))
        .await
        .expect("reserved");
    let mut queue = Vec::new();
    for _ in 0..4 {
        queue.push(wait(&world, &of_another(bare_metal(&world))).await);
    }
    let slice_behind = wait(&world, &of_another(slice(&world))).await;
    for first in queue {
        let servers =
            join_all((0..3).map(|_| serve_queue(&world.scheduler, world.ids, WITH_EXECUTOR)));
        let passers_by: Vec<Request> = (0..6)
            .map(|number| {
                of_another(if number % 2 == 0 {
                    bare_metal(&world)
                } else {
                    slice(&world)
                })
            })
            .collect();
        let created = join_all(passers_by.iter().map(|request| reserve(&world, request)));
        let (passes, created, _) = tokio::join!(servers, created, free(&world, holder));
        let mut served: Vec<Uuid> = passes
            .into_iter()
            .flat_map(|pass| pass.expect("pass").served)
            .collect();
        served.extend(pass(&world).await.served);
        assert_eq!(served, [first]);
        for outcome in created {
            assert!(
                matches!(outcome, Err(Error::Refused { .. } | Error::Busy { .. })),
                "{outcome:?}"
            );
        }
        sound(&world).await;
        holder = first;
    }
    free(&world, holder).await;
    assert_eq!(pass(&world).await.served, [slice_behind]);
    assert_eq!(world.count(specs[0].id, SlotStatus::Available).await, 7);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    /// No starvation: whatever slices come and go, what is left on the kept node only becomes less, and once it is
    /// empty the bare-metal node is served. One node is kept, and slices get every other.
    #[test]
    fn b_47_no_stream_of_slices_keeps_a_bare_metal_node_waiting_for_ever(
        before in prop::collection::vec(prop::sample::select(vec![1u32, 1, 2, 4]), 6..14),
        stream in prop::collection::vec((prop::option::of(prop::sample::select(vec![1u32, 1, 2, 4])), any::<usize>()), 20..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(stays_fair(before, stream));
    }
}

/// A request for so many GPUs as a slice, of a project of its own.
fn slices(world: &World, gpu_count: u32) -> Request {
    of_another(Request {
        gpu_count: self::gpu_count(gpu_count),
        ..slice(world)
    })
}

/// A slice of so many GPUs, unless there is no room for it. Nothing else keeps it from being placed.
async fn if_it_fits(world: &World, gpu_count: u32) -> Option<Uuid> {
    match reserve(world, &slices(world, gpu_count)).await {
        Ok(id) => Some(id),
        Err(Error::Refused { .. }) => None,
        Err(other) => panic!("{other:?}"),
    }
}

/// GPUs that slices have on a node.
async fn used(world: &World, node: Uuid) -> usize {
    8 - world.count(node, SlotStatus::Available).await
}

async fn stays_fair(before: Vec<u32>, stream: Vec<(Option<u32>, usize)>) {
    let (world, specs) = world_of_boards(2, h200_groups()).await;
    let mut live = Vec::new();
    for gpu_count in before {
        // those that fit
        live.extend(if_it_fits(&world, gpu_count).await);
    }
    // no node is empty
    live.extend(if_it_fits(&world, 8).await);
    for node in &specs {
        assert_ne!(used(&world, node.id).await, 0, "no node is empty: {live:?}");
    }
    let large = wait(&world, &of_another(bare_metal(&world))).await;
    pass(&world).await;
    let mut left = usize::MAX;
    let mut rounds = stream.into_iter();
    for _ in 0..200 {
        let kept = kept(&world).await;
        assert_eq!(kept.len(), 1, "one node for one");
        let now = used(&world, kept[0]).await;
        assert!(now <= left, "{now} of the kept node are used, {left} were");
        left = now;
        // when the stream is over, what is on the kept node ends one by one while others still ask
        let (launch, which) = rounds.next().unwrap_or((None, 0));
        match launch {
            Some(gpu_count) => {
                if let Some(id) = if_it_fits(&world, gpu_count).await {
                    assert_ne!(node_of(&world, id).await, kept[0]);
                    live.push(id);
                }
            }
            None => {
                let mut at = which % live.len();
                if rounds.len() == 0 {
                    for (place, id) in live.iter().enumerate() {
                        if node_of(&world, *id).await == kept[0] {
                            at = place;
                        }
                    }
                }
                free(&world, live.swap_remove(at)).await;
                // whoever asks at this moment gets nothing of it
                live.extend(if_it_fits(&world, 1).await);
            }
        }
        let pass = pass(&world).await;
        if pass.served.contains(&large) {
            assert!(self::kept(&world).await.is_empty());
            sound(&world).await;
            return;
        }
    }
    panic!("it still waits");
}
