//! Several allocations in one call, and where an allocation may be placed.
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::scheduler::v1::PlacementConstraints;
use tonic::Code;

use crate::platform::{Platform, good};

async fn batch(
    platform: &Platform,
    names: &[&str],
    key: Option<&str>,
    change: impl Fn(&mut pb::BatchCreateAllocationsRequest),
) -> Result<Vec<pb::Allocation>, Error> {
    let mut request = pb::BatchCreateAllocationsRequest {
        allocations: names.iter().map(|name| good(name)).collect(),
        ..pb::BatchCreateAllocationsRequest::default()
    };
    change(&mut request);
    let answer = platform
        .users
        .clone()
        .batch_create_allocations(platform.user(request, key))
        .await;
    answer
        .map(|response| response.into_inner().allocations)
        .map_err(Error::from)
}

#[tokio::test]
async fn p4_a_batch_is_created_once_and_answered_again() {
    let platform = Platform::start().await;
    let made = batch(&platform, &["web-1", "web-2"], Some("k-batch"), |_| {})
        .await
        .expect("created");
    let names: Vec<&str> = made
        .iter()
        .map(|one| one.config.as_ref().expect("config").name.as_str())
        .collect();
    assert_eq!(names, ["web-1", "web-2"]);
    assert_ne!(made[0].id, made[1].id);
    let again = batch(&platform, &["web-1", "web-2"], Some("k-batch"), |_| {})
        .await
        .expect("answered");
    let ids = |all: &[pb::Allocation]| all.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&again), ids(&made));
    let other = batch(&platform, &["web-1", "web-3"], Some("k-batch"), |_| {})
        .await
        .expect_err("another request");
    assert_eq!(other.reason(), ErrorReason::IdempotencyKeyReused);
}

#[tokio::test]
async fn a_batch_that_does_not_fit_leaves_nothing_and_says_which_one() {
    let platform = Platform::start().await;
    let before = platform.rows().await;
    let many: Vec<String> = (0..16).map(|number| format!("web-{number}")).collect();
    let names: Vec<&str> = many.iter().map(String::as_str).collect();
    let error = batch(&platform, &names, Some("k-many"), |_| {})
        .await
        .expect_err("too many");
    assert_eq!(
        (error.code(), error.reason()),
        (Code::ResourceExhausted, ErrorReason::SlotsInUse)
    );
    assert!(error.metadata().contains_key("index"), "{error}");
    assert!(error.message().starts_with("allocations["), "{error}");

    let bad = batch(&platform, &["web-1", "web-2"], Some("k-bad"), |request| {
        request.allocations[1].gpu_count = 7;
    })
    .await
    .expect_err("count");
    assert_eq!(bad.reason(), ErrorReason::GpuCountNotAllowed);
    assert_eq!(bad.fields()[0].0, "allocations[1].gpu_count");
    for (field, change) in [
        (
            "allocations",
            (|request| request.allocations.clear()) as fn(&mut pb::BatchCreateAllocationsRequest),
        ),
        ("allocations[0].project_id", |request| {
            request.allocations[0].project_id = "p".into();
        }),
        ("allocations[0].validate_only", |request| {
            request.allocations[0].validate_only = true;
        }),
        ("allocations[1].name", |request| {
            request.allocations[1].name = "Web".into();
        }),
    ] {
        let error = batch(&platform, &["web-1", "web-2"], Some("k-bad"), change)
            .await
            .expect_err(field);
        assert_eq!(
            (error.code(), error.fields()[0].0.as_str()),
            (Code::InvalidArgument, field)
        );
    }
    let unkeyed = batch(&platform, &["web-1"], None, |_| {})
        .await
        .expect_err("no key");
    assert_eq!(unkeyed.reason(), ErrorReason::IdempotencyKeyMissing);
    let valid = batch(&platform, &["web-1", "web-2"], None, |request| {
        request.validate_only = true;
    })
    .await;
    assert!(valid.expect("two fit").is_empty());
    assert_eq!(platform.rows().await, before, "nothing was stored");
}

#[tokio::test]
async fn validate_only_says_where_it_would_fit() {
    let platform = Platform::start().await;
    let request = pb::CreateAllocationRequest {
        validate_only: true,
        ..good("web")
    };
    let found = platform
        .create(request, "")
        .await
        .expect("valid")
        .placement
        .expect("explained");
    assert_eq!(
        (
            found.region_code.as_str(),
            found.sku.as_str(),
            found.gpu_count
        ),
        ("lab-1", "lab-slice", 1)
    );
    assert!(found.nodes >= 1 && found.nodes_fit >= 1);
}

#[tokio::test]
async fn constraints_reach_placement_and_belong_to_the_request_of_a_key() {
    let platform = Platform::start().await;
    let first = platform.create(good("web"), "k-1").await.expect("created");
    let with = |placement| pb::CreateAllocationRequest {
        placement: Some(placement),
        ..good("db")
    };
    let away = PlacementConstraints {
        anti_affinity: vec![first.id.clone()],
        ..PlacementConstraints::default()
    };
    let error = platform
        .create(with(away.clone()), "k-2")
        .await
        .expect_err("there is one node");
    assert!(error.metadata().contains_key("AFFINITY.nodes"), "{error}");
    let beside = PlacementConstraints {
        affinity: first.id.clone(),
        ..PlacementConstraints::default()
    };
    platform
        .create(with(beside.clone()), "k-2")
        .await
        .expect("beside");
    let other = platform
        .create(with(away), "k-2")
        .await
        .expect_err("another request");
    assert_eq!(other.reason(), ErrorReason::IdempotencyKeyReused);
    let nobody = PlacementConstraints {
        affinity: uuid::Uuid::now_v7().to_string(),
        ..PlacementConstraints::default()
    };
    let error = platform
        .create(
            pb::CreateAllocationRequest {
                name: "cache".into(),
                ..with(nobody)
            },
            "k-3",
        )
        .await
        .expect_err("no such allocation");
    assert_eq!(
        (error.code(), error.fields()[0].0.as_str()),
        (Code::InvalidArgument, "placement.affinity")
    );
}
