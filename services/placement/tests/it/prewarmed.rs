//! Images in the caches of hosts: what they make of the rank of a node, and `require_prewarmed`.
use gpuaas_placement::model::{Image, SlotStatus};
use gpuaas_placement::nodes::{self, NodeSpec};
use gpuaas_placement::reports::Outcome;
use gpuaas_placement::reserve::{self, Constraints, Explanation, Key, Pass, Request, serve_queue};
use gpuaas_placement::{Error, Reason, Result};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::baremetal::{self, WITH_EXECUTOR};
use crate::reports::evacuation;
use crate::reserving;
use crate::world::{POLICY, World, lab_slot, lab_spec};

fn digest(start: &str) -> String {
    format!("sha256:{start:0<64}")
}

/// A lab node with two slots and these images.
async fn node(world: &World, images: &[&str]) -> NodeSpec {
    let spec = NodeSpec {
        image_digests: images.iter().map(|start| digest(start)).collect(),
        ..lab_spec()
    };
    world.node(spec.clone()).await;
    world.approve(spec.id, &[lab_slot(0), lab_slot(1)]).await;
    spec
}

/// The host says what it has now.
async fn report(world: &World, spec: &mut NodeSpec, images: &[&str]) {
    spec.image_digests = images.iter().map(|start| digest(start)).collect();
    world.node(spec.clone()).await;
}

/// A launch of the image `ab…`.
fn launch(world: &World) -> Request {
    Request {
        image: Image {
            slug: "lab-mini".into(),
            digest: digest("ab"),
            ..Image::default()
        },
        ..world.request(1)
    }
}

fn prewarmed(world: &World) -> Request {
    Request {
        constraints: Constraints {
            require_prewarmed: true,
            ..Constraints::default()
        },
        ..launch(world)
    }
}

async fn placed(world: &World, request: &Request) -> Result<Uuid> {
    let made = world.reserve(request).await?;
    Ok(world.get(made.allocation_id).await.node_id.expect("placed"))
}

async fn explain(world: &World, request: &Request) -> Explanation {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let reported = reserve::explain(&mut conn, &world.capacity, POLICY, request).await;
    reported.expect("explained")
}

fn not_cached(gpus: u32, nodes: u32, message: &str) -> Vec<Reason> {
    vec![Reason {
        reason: ErrorReason::ImageNotCached,
        gpus,
        nodes,
        message: message.to_owned(),
    }]
}

#[tokio::test]
async fn con_10_of_nodes_that_are_alike_the_one_with_the_image_is_taken() {
    let world = World::new().await;
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(node(&world, &["cd"]).await);
    }
    nodes.sort_by_key(|spec| spec.id);
    report(&world, &mut nodes[2], &["ab", "cd"]).await;
    let taken = placed(&world, &launch(&world)).await.expect("placed");
    assert_eq!(taken, nodes[2].id, "not the lowest id");
    // what fills a node counts for more than what starts sooner
    let other = Request {
        image: Image {
            digest: digest("ef"),
            ..launch(&world).image
        },
        ..launch(&world)
    };
    let taken = placed(&world, &other).await.expect("placed");
    assert_eq!(taken, nodes[2].id);
    let taken = placed(&world, &launch(&world)).await.expect("placed");
    assert_eq!(taken, nodes[0].id, "nobody else has it: the lowest id");
}

/// E-20 and E-21: not the list of targets, but what each node verified decides.
#[tokio::test]
async fn con_10_b_57_require_prewarmed_takes_a_node_with_the_image_or_says_how_many_have_none() {
    let world = World::new().await;
    let mut first = node(&world, &[]).await;
    let second = node(&world, &["cd"]).await;
    let expected = not_cached(4, 2, "4 GPUs are free on 2 nodes without the cached image.");
    let before = world.fingerprint().await;
    match world.reserve(&prewarmed(&world)).await {
        Err(Error::Refused {
            reason: ErrorReason::ImageNotCached,
            causes,
            ..
        }) => assert_eq!(causes, expected),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.fingerprint().await, before, "nothing was kept");
    let reported = explain(&world, &prewarmed(&world)).await;
    let removed: Vec<Reason> = reported.removed.into_iter().map(Reason::from).collect();
    assert_eq!(
        (reported.nodes, reported.nodes_fit, removed),
        (2, 0, expected)
    );
    // who does not ask for it is not refused
    assert_eq!(explain(&world, &launch(&world)).await.nodes_fit, 2);
    // a host that has it says so, and the copy in memory learns of it
    report(&world, &mut first, &["ab"]).await;
    assert_eq!(explain(&world, &prewarmed(&world)).await.nodes_fit, 1);
    let taken = placed(&world, &prewarmed(&world)).await.expect("placed");
    assert_eq!(taken, first.id);
    // a cache that lost it has it no more
    report(&world, &mut first, &[]).await;
    assert_eq!(explain(&world, &prewarmed(&world)).await.nodes_fit, 0);
    assert!(placed(&world, &prewarmed(&world)).await.is_err());
    // an image that no node can have
    let of_no_digest = Request {
        image: Image {
            digest: "sha256:ab".into(),
            ..launch(&world).image
        },
        ..prewarmed(&world)
    };
    assert!(placed(&world, &of_no_digest).await.is_err());
    assert_eq!(world.count(second.id, SlotStatus::Available).await, 2);
}

/// What a node had when it was ranked counts for nothing once another had its lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn con_10_b_42_the_image_is_looked_for_again_under_the_nodes_lock() {
    let world = World::new().await;
    let spec = node(&world, &["ab"]).await;
    let gone = NodeSpec {
        image_digests: Vec::new(),
        ..spec
    };
    let mut tx = world.scheduler.begin().await.expect("begin");
    nodes::put(&mut tx, &gone).await.expect("put");
    let request = prewarmed(&world);
    let (outcome, ()) = tokio::join!(world.reserve(&request), async {
        world.someone_waits().await;
        tx.commit().await.expect("commit");
    });
    match outcome {
        Err(Error::Refused { reason, .. }) => assert_eq!(reason, ErrorReason::ImageNotCached),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn con_10_a_batch_is_placed_where_the_image_is_or_not_at_all() {
    let world = World::new().await;
    node(&world, &["ab"]).await;
    node(&world, &[]).await;
    let batch = async |count: usize| {
        let requests: Vec<Request> = (0..count).map(|_| prewarmed(&world)).collect();
        let key = format!("batch-{count}");
        let key = Key {
            principal: "user:alice",
            idempotency_key: &key,
            request_hash: &[5; 32],
        };
        reserving::all(&world.scheduler, world.ids, POLICY, key, &requests).await
    };
    match batch(3).await {
        Err(Error::InBatch { index, .. }) => assert_eq!(index, 2),
        other => panic!("{other:?}"),
    }
    assert_eq!(batch(2).await.expect("two fit").0.len(), 2);
}

#[tokio::test]
async fn con_10_who_is_queued_for_a_node_with_the_image_holds_up_nobody_else() {
    let world = World::new().await;
    let mut spec = node(&world, &[]).await;
    let deadline = Timestamp::now() + SignedDuration::from_hours(1);
    let request = prewarmed(&world);
    let (pool, ids) = (&world.scheduler, world.ids);
    let waits = reserving::one_or_queue(pool, ids, POLICY, &request, deadline).await;
    let waits = waits.expect("waits").allocation_id;
    let pass = async || serve_queue(pool, ids, POLICY).await.expect("pass");
    assert_eq!(pass().await, Pass::default());
    assert_eq!(
        world
            .number("SELECT count(*) FROM backfill_reservations")
            .await,
        0
    );
    let reason = "SELECT count(*) FROM queued_allocations WHERE reason = 'IMAGE_NOT_CACHED'";
    assert_eq!(world.number(reason).await, 1);
    // free slots without the image are of no use to it
    world.reserve(&launch(&world)).await.expect("placed");
    report(&world, &mut spec, &["ab"]).await;
    // the one that is left is for the one that waits
    match world.reserve(&launch(&world)).await {
        Err(Error::Refused { causes, .. }) => {
            let ahead = |cause: &Reason| cause.reason == ErrorReason::QueuedAhead;
            assert!(causes.iter().any(ahead), "{causes:?}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(pass().await.served, [waits]);
}

#[tokio::test]
async fn con_10_a_bare_metal_node_has_no_image_to_wait_for() {
    let (world, _) = baremetal::world_of(1).await;
    let request = Request {
        constraints: prewarmed(&world).constraints,
        ..baremetal::bare_metal(&world)
    };
    let (pool, ids) = (&world.scheduler, world.ids);
    match reserving::one(pool, ids, WITH_EXECUTOR, &request).await {
        Err(Error::Invalid { field, .. }) => assert_eq!(field, "placement.require_prewarmed"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn e_06_the_database_takes_nothing_but_digests() {
    let world = World::new().await;
    node(&world, &["ab"]).await;
    let text = "x".repeat(64);
    for bad in [
        "'{sha256:ab}'".to_owned(),
        format!("'{{sha256:{text}}}'"),
        "ARRAY[NULL]::text[]".to_owned(),
        "'{\"\"}'".to_owned(),
    ] {
        let statement = format!("UPDATE nodes SET image_digests = {bad}");
        let refused = sqlx::query(sqlx::AssertSqlSafe(statement))
            .execute(&world.owner)
            .await
            .expect_err("refused");
        assert!(refused.into_database_error().is_some(), "{bad}");
    }
}

#[tokio::test]
async fn con_10_b_49_an_evacuation_plan_keeps_to_the_image_that_a_launch_requires() {
    let world = World::new().await;
    let home = node(&world, &["ab"]).await;
    let id = world.reserve(&prewarmed(&world)).await.expect("placed");
    let id = id.allocation_id;
    let mut without = node(&world, &["cd"]).await;
    let planned = async || {
        let plan = evacuation(&world, &[home.id]).await.expect("planned");
        let of = plan.allocations.into_iter();
        of.map(|one| (one.allocation.id, one.outcome))
            .collect::<Vec<_>>()
    };
    let reported = not_cached(2, 1, "2 GPUs are free on 1 node without the cached image.");
    assert_eq!(planned().await, [(id, Outcome::Nowhere(reported))]);
    let with = node(&world, &["cd", "ab"]).await;
    let [(_, Outcome::Fits(place))] = &planned().await[..] else {
        panic!("{:?}", planned().await);
    };
    assert_eq!(place.node_id, with.id);
    report(&world, &mut without, &["ab"]).await;
    let [(_, Outcome::Fits(place))] = &planned().await[..] else {
        panic!("{:?}", planned().await);
    };
    assert_eq!(place.node_id, without.id);
}
