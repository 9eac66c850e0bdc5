//! Placement constraints: beside or away from other allocations of the project.
use std::collections::{BTreeMap, HashSet};

use futures::future::join_all;
use gpuaas_placement::catalog::{self, Sku};
use gpuaas_placement::model::SlotClass;
use gpuaas_placement::nodes::NodeSpec;
use gpuaas_placement::reserve::{Constraints, Key, Request};
use gpuaas_placement::{Error, Result};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff_sqlx::ToSqlx as _;
use serde_json::json;
use uuid::Uuid;

use crate::reserving;
use crate::world::{H200, POLICY, REGION, World, h200_sku, h200_slot, lab_spec, price};

fn with(world: &World, constraints: Constraints) -> Request {
    Request {
        constraints,
        ..world.request(1)
    }
}

/// Whether the constraints are among what refused a request.
fn ruled_out(outcome: &Result<reserving::Reserved>) -> bool {
    matches!(outcome, Err(Error::Refused { causes, .. })
        if causes.iter().any(|cause| cause.reason == ErrorReason::Affinity))
}

fn refused(outcome: Result<reserving::Reserved>) -> ErrorReason {
    match outcome {
        Err(Error::Refused { reason, .. } | Error::Invalid { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

async fn node_of(world: &World, id: Uuid) -> Uuid {
    world.get(id).await.node_id.expect("placed")
}

#[tokio::test]
async fn same_node_as_places_beside_or_not_at_all() {
    let world = World::new().await;
    for _ in 0..3 {
        world.lab_node(2).await;
    }
    let first = world.reserved(1).await;
    // the policy alone would fill the first node; full nodes elsewhere must not tempt it
    let beside = with(
        &world,
        Constraints {
            affinity: Some(first),
            ..Constraints::default()
        },
    );
    let second = world.reserve(&beside).await.expect("beside").allocation_id;
    assert_eq!(node_of(&world, first).await, node_of(&world, second).await);
    let third = with(
        &world,
        Constraints {
            affinity: Some(first),
            ..Constraints::default()
        },
    );
    match world.reserve(&third).await {
        Err(Error::Refused { causes, .. }) => {
            let reasons: HashSet<&str> = causes
                .iter()
                .map(|cause| gpuaas_common::error::reason_name(cause.reason))
                .collect();
            assert_eq!(reasons, HashSet::from(["AFFINITY", "SLOTS_IN_USE"]));
            let ruled_out = causes
                .iter()
                .find(|cause| cause.reason == ErrorReason::Affinity)
                .expect("affinity");
            assert_eq!((ruled_out.gpus, ruled_out.nodes), (4, 2));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn spread_from_keeps_away_by_id_and_by_label() {
    let world = World::new().await;
    for _ in 0..2 {
        world.lab_node(3).await;
    }
    let first = world.reserved(1).await;
    let away = with(
        &world,
        Constraints {
            anti_affinity: vec![first],
            ..Constraints::default()
        },
    );
    let second = world.reserve(&away).await.expect("away").allocation_id;
    assert_ne!(node_of(&world, first).await, node_of(&world, second).await);
    let nowhere = with(
        &world,
        Constraints {
            anti_affinity: vec![first, second],
            ..Constraints::default()
        },
    );
    assert!(ruled_out(&world.reserve(&nowhere).await));
    // every request of this world carries the label team=a
    let label = |value: &str| Constraints {
        anti_affinity_label: Some(("team".into(), value.into())),
        ..Constraints::default()
    };
    assert!(ruled_out(&world.reserve(&with(&world, label("a"))).await));
    world
        .reserve(&with(&world, label("b")))
        .await
        .expect("nobody has this label");
}

#[tokio::test]
async fn b_57_same_node_as_label_places_where_one_with_the_label_is_or_says_why_not() {
    let world = World::new().await;
    for _ in 0..3 {
        world.lab_node(2).await;
    }
    let labelled = |value: &str, beside: Option<&str>, apart: Option<&str>| {
        let label = |value: &str| ("app".to_owned(), value.to_owned());
        Request {
            labels: BTreeMap::from([label(value)]),
            constraints: Constraints {
                affinity_label: beside.map(label),
                anti_affinity_label: apart.map(label),
                ..Constraints::default()
            },
            ..world.request(1)
        }
    };
    let field = |outcome: Result<reserving::Reserved>| match outcome {
        Err(Error::Invalid { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let nobody = world.reserve(&labelled("web", Some("db"), None)).await;
    assert_eq!(field(nobody), "placement.affinity_label");
    let theirs = Request {
        project_id: Uuid::now_v7(),
        ..labelled("db", None, None)
    };
    world.reserve(&theirs).await.expect("another project's");
    let nobody = world.reserve(&labelled("web", Some("db"), None)).await;
    assert_eq!(field(nobody), "placement.affinity_label");

    // two nodes with the label: both take one beside, whatever the policy would fill first
    let mut nodes = HashSet::new();
    for _ in 0..2 {
        let made = world.reserve(&labelled("db", None, Some("db"))).await;
        nodes.insert(node_of(&world, made.expect("apart").allocation_id).await);
    }
    assert_eq!(nodes.len(), 2);
    let mut beside = HashSet::new();
    while let Ok(made) = world.reserve(&labelled("web", Some("db"), None)).await {
        assert!(beside.insert(node_of(&world, made.allocation_id).await));
    }
    assert!(!beside.is_empty() && beside.is_subset(&nodes));
    assert!(ruled_out(
        &world.reserve(&labelled("web", Some("db"), None)).await
    ));
    assert!(ruled_out(
        &world
            .reserve(&labelled("web", Some("db"), Some("db")))
            .await
    ));
}

/// Column `constraints` as it is stored.
async fn stored(world: &World, id: Uuid) -> Option<serde_json::Value> {
    let sql = "SELECT constraints FROM allocations WHERE id = $1";
    let read = sqlx::query_scalar(sql).bind(id).fetch_one(&world.owner);
    read.await.expect("an allocation")
}

#[tokio::test]
async fn con_10_where_a_launch_was_asked_to_run_is_kept_with_its_allocation() {
    let world = World::new().await;
    for _ in 0..2 {
        world.lab_node(1).await;
    }
    let first = world.reserved(1).await;
    assert_eq!(stored(&world, first).await, Some(json!({})), "anywhere");
    let all = Constraints {
        anti_affinity: vec![first],
        anti_affinity_label: Some(("app".into(), "db".into())),
        ..Constraints::default()
    };
    let requested = with(&world, all.clone());
    let second = world.reserve(&requested).await.expect("away").allocation_id;
    let said = json!({ "anti_affinity": [first], "anti_affinity_label": ["app", "db"] });
    assert_eq!(stored(&world, second).await, Some(said), "and no more");
    let read = world.get(second).await.constraints.expect("known");
    assert_eq!(read.0, all);

    // one that waits has it from the beginning
    let beside = Constraints {
        affinity: Some(first),
        ..Constraints::default()
    };
    let deadline = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let requested = with(&world, beside.clone());
    let waits =
        reserving::one_or_queue(&world.scheduler, world.ids, POLICY, &requested, deadline).await;
    let waits = waits.expect("queued").allocation_id;
    assert_eq!(
        stored(&world, waits).await,
        Some(json!({ "affinity": first }))
    );
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let (queue, _) = gpuaas_placement::queue::load(&mut conn, REGION, SlotClass::Lab)
        .await
        .expect("the queue");
    assert_eq!(
        queue[0].members[0].constraints, beside,
        "the queue knows it"
    );
}

#[tokio::test]
async fn another_projects_allocation_does_not_exist_for_a_constraint() {
    let (world, _) = World::with_lab_slots(2).await;
    let theirs = world.reserved(1).await;
    for constraints in [
        Constraints {
            affinity: Some(theirs),
            ..Constraints::default()
        },
        Constraints {
            anti_affinity: vec![theirs],
            ..Constraints::default()
        },
    ] {
        let request = Request {
            project_id: Uuid::now_v7(),
            ..with(&world, constraints)
        };
        assert_eq!(
            refused(world.reserve(&request).await),
            ErrorReason::FieldInvalid
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_label_spreads_a_batch_and_racing_requests_over_nodes() {
    let world = World::new().await;
    for _ in 0..4 {
        world.lab_node(2).await;
    }
    let replica = || Request {
        labels: BTreeMap::from([("app".into(), "db".into())]),
        constraints: Constraints {
            anti_affinity_label: Some(("app".into(), "db".into())),
            ..Constraints::default()
        },
        ..world.request(1)
    };
    let key = Key {
        principal: "user:alice",
        idempotency_key: "spread",
        request_hash: &[1; 32],
    };
    let (made, _) = reserving::all(
        &world.scheduler,
        world.ids,
        POLICY,
        key,
        &[replica(), replica()],
    )
    .await
    .expect("two nodes");
    assert_ne!(
        node_of(&world, made[0]).await,
        node_of(&world, made[1]).await
    );
    let racing: Vec<Request> = (0..4).map(|_| replica()).collect();
    let outcomes = join_all(racing.iter().map(|request| world.reserve(request))).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 2);
    assert_eq!(
        world
            .number("SELECT count(DISTINCT node_id) FROM claims WHERE state <> 'released'")
            .await,
        4
    );
    assert_eq!(
        world
            .number("SELECT count(*) FROM claims WHERE state <> 'released'")
            .await,
        4
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_label_spreads_racing_requests_of_several_skus_too() {
    // one SKU's requests of a project go one after the other at its quota; those of two SKUs meet at the nodes only
    const OTHER: &str = "h200-sxm-other";
    let world = World::new().await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let sku = Sku {
        code: OTHER.into(),
        ..h200_sku()
    };
    catalog::put_sku(&mut conn, &sku).await.expect("sku");
    catalog::put_price(&mut conn, OTHER, &price(), jiff::Timestamp::now().to_sqlx())
        .await
        .expect("price");
    drop(conn);
    for _ in 0..3 {
        let node = world
            .node(NodeSpec {
                lab: false,
                hugepages_1g_free: 1000,
                ..lab_spec()
            })
            .await;
        let slots: Vec<_> = (0..4).map(h200_slot).collect();
        world.approve(node, &slots).await;
    }
    for round in 0..4 {
        let labels = BTreeMap::from([("round".to_owned(), round.to_string())]);
        let racing: Vec<Request> = [H200, OTHER]
            .map(|sku| Request {
                sku: sku.into(),
                labels: labels.clone(),
                constraints: Constraints {
                    anti_affinity_label: Some(("round".into(), round.to_string())),
                    ..Constraints::default()
                },
                ..world.request(1)
            })
            .to_vec();
        let outcomes = join_all(racing.iter().map(|request| world.reserve(request))).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let sharing = format!(
            "SELECT count(DISTINCT node_id) FROM allocations WHERE labels->>'round' = '{round}'"
        );
        assert_eq!(world.number(&sharing).await, 2);
    }
}
