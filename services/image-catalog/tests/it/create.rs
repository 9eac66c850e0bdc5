//! Creating an image: validated, once, and never over an existing one.
use crate::common::{SKU, World, field, status};
use gpuaas_image_catalog::store::images;
use gpuaas_proto::gpuaas::common::v1::ReadinessCheck;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::images::v1::{CreateImageRequest, ImageStatus};
use gpuaas_proto::gpuaas::internal::images::v1::GetImageRequest;
use gpuaas_proto::gpuaas::internal::images::v1::image_catalog_service_server::ImageCatalogService as _;
use tonic::{Code, Request};

#[tokio::test]
async fn bad_requests_name_the_field_and_change_nothing() {
    let world = World::new().await;
    world.push(&world.file(1), "lab-mini:v1").await;
    let good = world.request("lab-mini", &world.uri("lab-mini:v1"));
    let with = |change: &dyn Fn(&mut CreateImageRequest)| {
        let mut request = good.clone();
        change(&mut request);
        request
    };
    let invalid = Code::InvalidArgument;
    let foreign = "oci://registry.example:5000/lab-mini:v1".to_owned();
    let table = [
        (with(&|r| r.slug = String::new()), invalid, "slug"),
        (with(&|r| r.slug = "../etc".to_owned()), invalid, "slug"),
        (
            with(&|r| r.display_name = "a\nb".to_owned()),
            invalid,
            "display_name",
        ),
        (
            with(&|r| r.display_name = "x".repeat(121)),
            invalid,
            "display_name",
        ),
        (with(&|r| r.driver_strategy = 0), invalid, "driver_strategy"),
        (
            with(&|r| r.boot_timeout_seconds = 3601),
            invalid,
            "boot_timeout_seconds",
        ),
        (
            with(&|r| r.readiness_checks.push(ReadinessCheck::default())),
            invalid,
            "readiness_checks[0].name",
        ),
        (
            with(&|r| r.compatible_skus.clear()),
            invalid,
            "compatible_skus",
        ),
        (
            with(&|r| r.compatible_skus.push(SKU.to_owned())),
            invalid,
            "compatible_skus",
        ),
        (
            with(&|r| r.compatible_skus.push("b200".to_owned())),
            Code::NotFound,
            "compatible_skus",
        ),
        (
            with(&|r| r.source_uri = String::new()),
            invalid,
            "source_uri",
        ),
        (
            with(&|r| r.source_uri = "lab-mini:v1".to_owned()),
            invalid,
            "source_uri",
        ),
        (
            with(&|r| r.source_uri = foreign.clone()),
            invalid,
            "source_uri",
        ),
        (
            with(&|r| r.source_uri = world.uri("lab-mini:v2")),
            invalid,
            "source_uri",
        ),
        (
            with(&|r| r.source_uri = world.uri("nothing-here:v1")),
            invalid,
            "source_uri",
        ),
        (
            with(&|r| r.source_uri = world.uri(&format!("lab-mini@sha256:{}", "0".repeat(64)))),
            invalid,
            "source_uri",
        ),
    ];
    for (request, code, want) in table {
        let error = world
            .create("k", request.clone())
            .await
            .expect_err("refused");
        assert_eq!(
            (error.code(), field(&error)),
            (code, want),
            "{request:?}: {error:?}"
        );
    }
    let error = world.create("", good).await.expect_err("refused");
    assert_eq!(error.reason(), ErrorReason::IdempotencyKeyMissing);
    for table in ["os_images", "audit", "idempotency"] {
        assert_eq!(world.count(table).await, 0, "{table}");
    }
}

#[tokio::test]
async fn a_retried_create_has_one_effect() {
    let world = World::new().await;
    world.push(&world.file(1), "lab-mini:v1").await;
    let request = world.request("lab-mini", &world.uri("lab-mini:v1"));
    let (a, b, c) = tokio::join!(
        world.create("k1", request.clone()),
        world.create("k1", request.clone()),
        world.create("k1", request.clone()),
    );
    let first = a.expect("created");
    assert_eq!(
        (b.expect("replayed"), c.expect("replayed")),
        (first.clone(), first.clone())
    );

    world
        .set_status("k2", status("lab-mini", ImageStatus::Disabled))
        .await
        .expect("disabled");
    let replay = world.create("k1", request.clone()).await.expect("replayed");
    assert_eq!(
        replay.status(),
        ImageStatus::Disabled,
        "a replay shows the current form"
    );

    let mut other = request.clone();
    other.boot_timeout_seconds = 60;
    let error = world
        .create("k1", other.clone())
        .await
        .expect_err("refused");
    assert_eq!(error.reason(), ErrorReason::IdempotencyKeyReused);
    let error = world.create("k3", other).await.expect_err("refused");
    assert_eq!(
        (error.code(), error.reason()),
        (Code::AlreadyExists, ErrorReason::AlreadyExists)
    );
    assert_eq!(world.count("os_images").await, 1);
    assert_eq!(world.count("audit").await, 2);
}

/// The table has two keys that begin with the slug: whichever of them two calls meet at, one creates the image and the other
/// hears that it is there (P4).
#[tokio::test]
async fn of_creates_of_one_slug_at_once_one_makes_it() {
    let world = World::new().await;
    world.push(&world.file(1), "lab-mini:v1").await;
    let resolved = world.resolved("lab-mini:v1").await;
    for round in 0..40 {
        let image = world.new_image(&format!("at-once-{round}"), &resolved);
        let made = futures::future::join_all((0..8).map(|_| async {
            let mut connection = world.pool.acquire().await.expect("a connection");
            images::insert(&mut connection, &image).await
        }))
        .await;
        let made: Vec<bool> = made
            .into_iter()
            .map(|made| made.expect("made or there").is_some())
            .collect();
        assert_eq!(
            made.iter().filter(|made| **made).count(),
            1,
            "{round}: {made:?}"
        );
    }
}

/// E-26.
#[tokio::test]
async fn inc_38_seeding_again_keeps_a_materialised_digest_and_status() {
    let world = World::new().await;
    world.push(&world.file(1), "cuda:v1").await;
    let placeholder = CreateImageRequest {
        disabled: true,
        ..world.request("ubuntu-24.04-h200-cuda", &world.uri("cuda:later"))
    };
    let active = world
        .create(
            "k1",
            world.request("ubuntu-24.04-h200-cuda", &world.uri("cuda:v1")),
        )
        .await
        .expect("created");
    // a release seeds its placeholder row over the active image
    let error = world
        .create("seed", placeholder)
        .await
        .expect_err("refused");
    assert_eq!(error.code(), Code::AlreadyExists);
    let request = Request::new(GetImageRequest {
        slug: "ubuntu-24.04-h200-cuda".to_owned(),
    });
    assert_eq!(
        world
            .api
            .get_image(request)
            .await
            .expect("found")
            .into_inner(),
        active
    );

    // and not even direct SQL of the service's role takes the digest away
    for statement in [
        "UPDATE os_images SET digest_sha256 = NULL, size_bytes = NULL, status = 'disabled'",
        "UPDATE os_images SET digest_sha256 = 'sha256:' || repeat('0', 64)",
        "UPDATE os_images SET size_bytes = size_bytes + 1",
        "UPDATE os_images SET slug = 'other'",
        "DELETE FROM os_images",
    ] {
        sqlx::query(statement)
            .execute(&world.pool)
            .await
            .expect_err(statement);
    }
}
