//! Status, lists and what nodes hold.
use crate::common::{SKU, World, as_admin, field, status};
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::images::v1::image_admin_service_server::ImageAdminService as _;
use gpuaas_proto::gpuaas::images::v1::image_service_server::ImageService as _;
use gpuaas_proto::gpuaas::images::v1::{
    CreateImageRequest, ImageStatus, ListImagesRequest, ListNodeImageCacheRequest,
    SetImageStatusRequest,
};
use gpuaas_proto::gpuaas::internal::images::v1::ReportNodeImageRequest;
use gpuaas_proto::gpuaas::internal::images::v1::image_catalog_service_server::ImageCatalogService as _;
use tonic::Request;
use uuid::Uuid;

async fn listed(world: &World, request: ListImagesRequest) -> Vec<String> {
    let answer = world
        .api
        .list_images(as_admin("", request))
        .await
        .expect("listed");
    answer
        .into_inner()
        .images
        .into_iter()
        .map(|image| image.slug)
        .collect()
}

/// By the API and without a statement of SQL (E-25).
#[tokio::test]
async fn e_07_con_10_a_placeholder_is_activated_only_with_a_digest() {
    let world = World::new().await;
    let placeholder = CreateImageRequest {
        disabled: true,
        ..world.request("cuda", &world.uri("cuda:v1"))
    };
    let image = world.create("k1", placeholder).await.expect("created");
    assert_eq!(
        (image.status(), image.digest.as_str(), image.size_bytes),
        (ImageStatus::Disabled, "", 0)
    );
    assert_eq!(listed(&world, ListImagesRequest::default()).await, [""; 0]);

    let error = world
        .set_status("k2", status("cuda", ImageStatus::Active))
        .await
        .expect_err("nothing published");
    assert_eq!(field(&error), "source_uri");

    let pushed = world.push(&world.file(1), "cuda:v1").await;
    let image = world
        .set_status("k2", status("cuda", ImageStatus::Active))
        .await
        .expect("activated");
    assert_eq!(
        (image.status(), image.digest),
        (ImageStatus::Active, pushed.image.digest.to_string())
    );
    assert_eq!(image.source_uri, pushed.source.to_string());
    assert_eq!(listed(&world, ListImagesRequest::default()).await, ["cuda"]);

    let again = world
        .set_status("k2", status("cuda", ImageStatus::Active))
        .await
        .expect("replayed");
    assert_eq!(again.metadata.expect("metadata").revision, 2);
    let same = world
        .set_status("k3", status("cuda", ImageStatus::Active))
        .await
        .expect("unchanged");
    assert_eq!(same.metadata.expect("metadata").revision, 2);
    let digests: Vec<(Option<String>, Option<String>)> = sqlx::query_as(
        "SELECT detail->>'before_digest', detail->>'after_digest' FROM audit ORDER BY seq",
    )
    .fetch_all(&world.pool)
    .await
    .expect("audit rows");
    let (made, activated) = (&digests[0], &digests[1]);
    assert_eq!(made.0, None);
    assert_eq!(activated.0, made.1, "the change found what was made (P10)");
    assert_ne!(activated.0, activated.1);

    let error = world
        .set_status("k4", status("nope", ImageStatus::Active))
        .await
        .expect_err("unknown");
    assert_eq!(error.reason(), ErrorReason::ImageUnknown);
    let error = world
        .set_status("k4", status("cuda", ImageStatus::Unspecified))
        .await
        .expect_err("refused");
    assert_eq!(field(&error), "status");
}

#[tokio::test]
async fn an_image_that_somebody_changed_meanwhile_keeps_its_status() {
    let world = World::new().await;
    world.push(&world.file(1), "cuda:v1").await;
    let request = world.request("cuda", &world.uri("cuda:v1"));
    let made = world.create("k1", request).await.expect("created");
    let of = |to: ImageStatus, etag: &str| SetImageStatusRequest {
        etag: etag.to_owned(),
        ..status("cuda", to)
    };
    let disable = of(ImageStatus::Disabled, &made.etag);
    let disabled = world.set_status("k2", disable.clone()).await;
    let disabled = disabled.expect("the one that was read");
    assert_ne!(disabled.etag, made.etag);
    let rows = world.count("audit").await;
    let late = of(ImageStatus::Active, &made.etag);
    let error = world.set_status("k3", late).await.expect_err("late");
    assert_eq!(
        (error.reason(), field(&error)),
        (ErrorReason::EtagStale, "etag")
    );
    assert_eq!(world.count("audit").await, rows);
    let again = world.set_status("k2", disable).await.expect("a repeat");
    assert_eq!(again, disabled);
    // the key of what was refused is free still
    let back = of(ImageStatus::Active, &disabled.etag);
    let back = world.set_status("k3", back).await.expect("enabled again");
    assert_eq!(back.status(), ImageStatus::Active);
}

/// With the SKU of E-12.
#[tokio::test]
async fn e_13_images_are_listed_by_compatible_sku_in_pages() {
    let world = World::new().await;
    world.push(&world.file(1), "a:v1").await;
    for (n, skus) in [
        vec![SKU],
        vec!["h200-sxm-slice"],
        vec![SKU, "h200-sxm-slice"],
    ]
    .into_iter()
    .enumerate()
    {
        let request = CreateImageRequest {
            compatible_skus: skus.into_iter().map(str::to_owned).collect(),
            ..world.request(&format!("image-{n}"), &world.uri("a:v1"))
        };
        world
            .create(&format!("k{n}"), request)
            .await
            .expect("created");
    }
    let of = |sku: &str| ListImagesRequest {
        sku: sku.to_owned(),
        ..Default::default()
    };
    assert_eq!(
        listed(&world, of("")).await,
        ["image-0", "image-1", "image-2"]
    );
    assert_eq!(listed(&world, of(SKU)).await, ["image-0", "image-2"]);
    assert_eq!(
        listed(&world, of("h200-sxm-slice")).await,
        ["image-1", "image-2"]
    );
    assert_eq!(listed(&world, of("b200")).await, [""; 0]);

    let mut request = ListImagesRequest {
        page_size: 2,
        ..Default::default()
    };
    let first = world
        .api
        .list_images(as_admin("", request.clone()))
        .await
        .expect("page")
        .into_inner();
    assert_eq!(first.images.len(), 2);
    request.page_token = first.next_page_token;
    let second = world
        .api
        .list_images(as_admin("", request.clone()))
        .await
        .expect("page")
        .into_inner();
    assert_eq!(
        (
            second.images[0].slug.as_str(),
            second.next_page_token.as_str()
        ),
        ("image-2", "")
    );
    let selected = |filter: &str, order_by: &str| ListImagesRequest {
        filter: filter.to_owned(),
        order_by: order_by.to_owned(),
        ..Default::default()
    };
    for (filter, order_by, expected) in [
        ("slug != image-1", "slug desc", vec!["image-2", "image-0"]),
        ("slug:AGE-1 AND size_bytes > 0", "", vec!["image-1"]),
        ("status = disabled", "create_time", vec![]),
        (
            "",
            "status, slug desc",
            vec!["image-2", "image-1", "image-0"],
        ),
    ] {
        let found = listed(&world, selected(filter, order_by)).await;
        assert_eq!(found, expected, "{filter}");
    }
    for (filter, order_by, field) in [("digest:a", "", "filter"), ("", "size_bytes", "order_by")] {
        let request = as_admin("", selected(filter, order_by));
        let error = world.api.list_images(request).await.expect_err("refused");
        assert_eq!(Error::from(error).fields()[0].0, field);
    }
    // a token of one list opens no other
    let error = world
        .api
        .list_all_images(as_admin("", request))
        .await
        .expect_err("refused");
    assert_eq!(Error::from(error).reason(), ErrorReason::PageTokenInvalid);
}

/// The rows of E-03 with the columns of E-04.
#[tokio::test]
async fn e_05_e_06_only_the_right_digest_is_recorded_as_verified() {
    let world = World::new().await;
    let pushed = world.push(&world.file(1), "lab-mini:v1").await;
    world
        .create("k1", world.request("lab-mini", &world.uri("lab-mini:v1")))
        .await
        .expect("created");
    let node = Uuid::now_v7();
    let report = async |slug: &str, digest: &str| {
        let request = ReportNodeImageRequest {
            node_id: node.to_string(),
            image_slug: slug.to_owned(),
            digest: digest.to_owned(),
        };
        let answer = world.api.report_node_image(Request::new(request)).await;
        answer
            .map(|answer| answer.into_inner().verified)
            .map_err(Error::from)
    };
    let cached = async || {
        let request = ListNodeImageCacheRequest {
            node_id: node.to_string(),
            ..ListNodeImageCacheRequest::default()
        };
        let answer = world
            .api
            .list_node_image_cache(as_admin("", request))
            .await
            .expect("listed");
        let images = answer.into_inner().images;
        images
            .into_iter()
            .map(|image| (image.status, image.digest, image.verified_time.is_some()))
            .collect::<Vec<_>>()
    };
    let (right, wrong) = (
        pushed.image.digest.to_string(),
        format!("sha256:{}", "0".repeat(64)),
    );

    assert!(!report("lab-mini", &wrong).await.expect("recorded"));
    assert_eq!(
        cached().await,
        [("absent".to_owned(), wrong.clone(), false)]
    );
    assert!(report("lab-mini", &right).await.expect("recorded"));
    assert_eq!(
        cached().await,
        [("verified".to_owned(), right.clone(), true)]
    );
    assert!(
        !report("lab-mini", &wrong).await.expect("recorded"),
        "a file that went bad is not verified any more"
    );
    assert_eq!(
        cached().await,
        [("absent".to_owned(), wrong.clone(), false)]
    );

    world
        .create("k2", world.request("lab-nano", &world.uri("lab-mini:v1")))
        .await
        .expect("created");
    report("lab-nano", &wrong).await.expect("recorded");
    let (mut found, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ListNodeImageCacheRequest {
            node_id: node.to_string(),
            page_size: 1,
            page_token,
        };
        let page = world
            .api
            .list_node_image_cache(as_admin("", request))
            .await
            .expect("a page")
            .into_inner();
        assert_eq!(page.images.len(), 1);
        found.extend(page.images.into_iter().map(|image| image.image_slug));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(found, ["lab-mini", "lab-nano"]);

    assert_eq!(
        report("nope", &right).await.expect_err("unknown").reason(),
        ErrorReason::ImageUnknown
    );
    assert_eq!(
        field(&report("lab-mini", "sha256:x").await.expect_err("refused")),
        "digest"
    );

    // the database refuses it too, whoever asks
    for statement in [
        "UPDATE node_image_cache SET status = 'verified', verified_at = now()",
        "UPDATE node_image_cache SET verified_at = now()",
        "DELETE FROM node_image_cache",
    ] {
        sqlx::query(statement)
            .execute(&world.pool)
            .await
            .expect_err(statement);
    }
}
