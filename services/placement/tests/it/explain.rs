//! Where a request would fit, and what removes the other nodes, with numbers.
use gpuaas_placement::catalog::{self, Sku};
use gpuaas_placement::decision::Cause;
use gpuaas_placement::nodes::NodeSpec;
use gpuaas_placement::reserve::{self, Call, Request};
use gpuaas_placement::{Error, availability};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::reserving;
use crate::world::{H200, POLICY, REGION, World, gpu_count, h200_sku, h200_slot, lab_spec};

/// A GPU node whose board offers pairs, halves and the whole, with so many slots.
pub async fn gpu_node(world: &World, slots: i32) -> Uuid {
    let node = world
        .node(NodeSpec {
            lab: false,
            hugepages_1g_free: 1000,
            legal_groups: vec![
                vec![1, 2],
                vec![3, 4],
                vec![5, 6],
                vec![7, 8],
                vec![1, 2, 3, 4],
                vec![5, 6, 7, 8],
                (1..=8).collect(),
            ],
            ..lab_spec()
        })
        .await;
    world
        .approve(node, &(0..slots).map(h200_slot).collect::<Vec<_>>())
        .await;
    node
}

fn four(world: &World) -> Request {
    Request {
        sku: H200.into(),
        ..world.request(4)
    }
}

#[tokio::test]
async fn b_57_too_few_and_none_at_all_are_told() {
    let (world, node) = World::with_lab_slots(1).await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let refused = async |request: Request| match world.reserve(&request).await {
        Err(Error::Refused { message, .. }) => message,
        other => panic!("{other:?}"),
    };
    let few = "Only 1 GPU on 1 node is schedulable.";
    assert_eq!(refused(world.request(2)).await, few);
    let none = "No node in the region offers GPUs of this class.";
    assert_eq!(refused(four(&world)).await, none);
    // an explanation counts what each constraint removes, however much it is
    let apart = "1 GPU is free on 1 node, which does not have 2 that can be used together.";
    let cases = [
        (world.request(2), 1, few, apart),
        (four(&world), 0, none, none),
    ];
    for (request, nodes, reported, counted) in cases {
        let capacity = &world.capacity;
        let found = reserve::explain(&mut conn, capacity, POLICY, &request).await;
        let found = found.expect("explained");
        let messages: Vec<_> = found.removed.iter().map(|r| r.message.as_str()).collect();
        assert_eq!((found.nodes, found.nodes_fit), (nodes, 0));
        assert_eq!(messages, [counted]);
        let (sku, region) = (Some(request.sku.as_str()), Some(REGION));
        let rows = availability::list(&mut conn, capacity, POLICY, None, region, sku).await;
        let rows = rows.expect("availability");
        let row = rows.iter().find(|row| row.gpu_count == request.gpu_count);
        assert_eq!(row.expect("row").reasons[0].message, reported);
    }
    // what ends on a cordoned node is not schedulable again: the operator's word goes before what is in use
    world.reserved(1).await;
    world
        .run(&format!(
            "UPDATE nodes SET admin_state = 'cordoned' WHERE id = '{node}'"
        ))
        .await;
    let kept =
        "1 node with 1 GPU is out of service (cordoned, draining, in maintenance or broken).";
    assert_eq!(refused(world.request(1)).await, kept);
}

#[tokio::test]
async fn what_has_no_price_is_told_as_such() {
    let world = World::new().await;
    gpu_node(&world, 1).await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let new = Sku {
        code: "h200-new".into(),
        ..h200_sku()
    };
    catalog::put_sku(&mut conn, &new).await.expect("sku");
    let list = async |conn: &mut sqlx::PgConnection, sku| {
        let (capacity, region) = (&world.capacity, Some(REGION));
        let rows = availability::list(conn, capacity, POLICY, None, region, Some(sku)).await;
        rows.expect("availability").remove(0)
    };
    assert_eq!(list(&mut conn, H200).await.fits, 1);
    let row = list(&mut conn, "h200-new").await;
    let reported: Vec<_> = row.reasons.iter().map(|r| r.message.as_str()).collect();
    assert_eq!((row.fits, reported), (0, vec!["The SKU has no price yet."]));

    // a list for members has what they can launch one day, and not an operator's unfinished SKU
    for (project, is_listed) in [(None, true), (Some(world.project), false)] {
        let (capacity, region) = (&world.capacity, Some(REGION));
        let rows = availability::list(&mut conn, capacity, POLICY, project, region, None).await;
        let rows = rows.expect("availability");
        assert!(rows.iter().any(|row| row.sku == H200), "{project:?}");
        let of_new = rows.iter().any(|row| row.sku == "h200-new");
        assert_eq!(of_new, is_listed, "{project:?}");
    }
}

#[tokio::test]
async fn b_57_fragments_are_told_with_their_numbers() {
    let world = World::new().await;
    for _ in 0..2 {
        gpu_node(&world, 3).await;
    }
    let expected = "6 GPUs are free on 2 nodes, but no node has 4 that can be used together.";
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let rows = availability::list(
        &mut conn,
        &world.capacity,
        POLICY,
        None,
        Some(REGION),
        Some(H200),
    )
    .await
    .expect("availability");
    let row = rows
        .iter()
        .find(|row| row.gpu_count.get() == 4)
        .expect("four");
    assert_eq!(row.fits, 0);
    assert_eq!(row.reasons[0].message, expected);

    let error =
        gpuaas_common::Error::from(world.reserve(&four(&world)).await.expect_err("fragments"));
    assert_eq!(error.reason(), ErrorReason::Fragmented);
    assert_eq!(error.message(), expected);
    assert_eq!(error.metadata()["FRAGMENTED.gpus"], "6");
    assert_eq!(error.metadata()["FRAGMENTED.nodes"], "2");
    assert_eq!(error.metadata()["FRAGMENTED.message"], expected);
}

#[tokio::test]
async fn b_58_each_constraint_says_how_many_nodes_it_removes() {
    let world = World::new().await;
    let good = gpu_node(&world, 8).await;
    gpu_node(&world, 3).await;
    let drained = gpu_node(&world, 8).await;
    let poor = gpu_node(&world, 8).await;
    world
        .run(&format!(
            "UPDATE nodes SET admin_state = 'draining' WHERE id = '{drained}';
             UPDATE nodes SET hugepages_1g_free = 1 WHERE id = '{poor}'"
        ))
        .await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let request = four(&world);
    let call = Call::one(&request);
    let found = reserving::dry_run(&world.scheduler, world.ids, POLICY, call)
        .await
        .expect("fits once");
    assert_eq!((found.nodes, found.nodes_fit), (4, 1));
    let removed: Vec<(Cause, u32, u32)> = found
        .removed
        .iter()
        .map(|cause| (cause.cause, cause.nodes, cause.gpus))
        .collect();
    assert_eq!(
        removed,
        [
            (Cause::Fragmented, 1, 3),
            (Cause::HugepagesMissing, 1, 8),
            (Cause::NodeDraining, 1, 8)
        ]
    );
    // node by node, for operators: the one that fits first, with its slots and its score
    let (again, nodes) =
        reserve::explain_nodes(&mut conn, &world.capacity, POLICY, &four(&world), 10)
            .await
            .expect("nodes");
    assert_eq!(again, found);
    assert_eq!((nodes.len(), nodes[0].node_id), (4, good));
    let choice = nodes[0].outcome.as_ref().expect("fits");
    let choice = choice.as_ref().expect("slots");
    assert_eq!(choice.score.indexes, [0, 1, 2, 3]);
    assert_eq!(choice.score.parts()[0], ("numa_nodes", 1));
    let why = nodes
        .iter()
        .find(|node| node.node_id == poor)
        .expect("listed")
        .outcome
        .as_ref()
        .expect_err("out");
    assert_eq!(why[0].cause, Cause::HugepagesMissing);
    assert_eq!(
        reserve::explain_nodes(&mut conn, &world.capacity, POLICY, &four(&world), 2)
            .await
            .expect("nodes")
            .1
            .len(),
        2
    );
}

#[tokio::test]
async fn what_fits_nowhere_is_explained_and_not_refused() {
    let world = World::new().await;
    gpu_node(&world, 3).await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let found = reserve::explain(&mut conn, &world.capacity, POLICY, &four(&world))
        .await
        .expect("explained");
    assert_eq!((found.nodes, found.nodes_fit), (1, 0));
    assert_eq!(
        found.removed[0].message,
        "3 GPUs are free on 1 node, which does not have 4 that can be used together."
    );
    let bad = Request {
        gpu_count: gpu_count(3),
        ..four(&world)
    };
    assert!(matches!(
        reserve::explain(&mut conn, &world.capacity, POLICY, &bad).await,
        Err(Error::Invalid {
            reason: ErrorReason::GpuCountNotAllowed,
            ..
        })
    ));
}
