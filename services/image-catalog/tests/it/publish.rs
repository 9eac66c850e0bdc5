//! What is published: resolved, checked and pinned.
use crate::common::{World, as_admin, field};
use gpuaas_common::Error;
use gpuaas_image_catalog::api::Api;
use gpuaas_image_catalog::domain::source::Source;
use gpuaas_image_catalog::registry::Registry;
use gpuaas_proto::gpuaas::common::v1::ReadinessCheck;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::images::v1::image_admin_service_server::ImageAdminService as _;
use gpuaas_proto::gpuaas::images::v1::{CreateImageRequest, ImageStatus};
use gpuaas_proto::gpuaas::internal::images::v1::GetImageRequest;
use gpuaas_proto::gpuaas::internal::images::v1::image_catalog_service_server::ImageCatalogService as _;
use tonic::{Code, Request};

/// The row of E-01 with the keys of E-02. The public reference stays in its metadata (E-19).
#[tokio::test]
async fn e_15_e_16_an_image_is_pinned_to_what_the_registry_holds() {
    let world = World::new().await;
    let pushed = world.push(&world.file(1), "lab-mini:v1").await;
    assert!(pushed.uploaded);
    let image = world
        .create(
            "k1",
            CreateImageRequest {
                readiness_checks: vec![ReadinessCheck {
                    name: "gpus".to_owned(),
                    command: "nvidia-smi -L".to_owned(),
                    expected_text: "NVIDIA H200".to_owned(),
                    line_per_gpu: true,
                    ..ReadinessCheck::default()
                }],
                ..world.request("lab-mini", &world.uri("lab-mini:v1"))
            },
        )
        .await
        .expect("created");
    let check = &image.readiness_checks[0];
    assert_eq!(
        (
            check.command.as_str(),
            check.line_per_gpu,
            check.timeout_seconds
        ),
        ("nvidia-smi -L", true, 60)
    );
    assert_eq!(image.status(), ImageStatus::Active);
    assert_eq!(image.digest, pushed.image.digest.to_string());
    assert_eq!(image.size_bytes, 9_000_001);
    assert_eq!(image.source_uri, pushed.source.to_string());
    assert!(
        image.source_uri.contains("@sha256:"),
        "{}",
        image.source_uri
    );
    assert_eq!(
        (image.display_name.as_str(), image.boot_timeout_seconds),
        ("lab-mini", 600)
    );

    // the tag moves on, the image does not
    let other = world.push(&world.file(2), "lab-mini:v1").await;
    assert_ne!(other.source, pushed.source);
    let request = Request::new(GetImageRequest {
        slug: "lab-mini".to_owned(),
    });
    let again = world
        .api
        .get_image(request)
        .await
        .expect("found")
        .into_inner();
    assert_eq!(again, image);
    let metadata: serde_json::Value = sqlx::query_scalar("SELECT metadata FROM os_images")
        .fetch_one(&world.pool)
        .await
        .expect("row");
    let artifact_ref = world.uri("lab-mini:v1").replace("oci://", "");
    let image_path = "/var/lib/gpuaas/slice-images/lab-mini.raw";
    assert_eq!(
        metadata,
        serde_json::json!({ "image_path": image_path, "artifact_ref": artifact_ref })
    );
}

#[tokio::test]
async fn pushing_twice_uploads_once_and_changes_nothing() {
    let world = World::new().await;
    let first = world.push(&world.file(1), "a:v1").await;
    let second = world.push(&world.file(1), "a:v1").await;
    assert!(first.uploaded && !second.uploaded);
    assert_eq!((first.image, first.source), (second.image, second.source));
    let empty = world.files.path().join("empty.raw");
    std::fs::write(&empty, b"").expect("write");
    let target = Source::parse(&world.uri("a:v2")).expect("a source");
    world
        .api
        .registry
        .push(&empty, &target)
        .await
        .expect_err("an empty file is no image");
}

#[tokio::test]
async fn e_28_content_that_does_not_match_its_digest_is_refused() {
    let world = World::new().await;
    let pushed = world.push(&world.file(1), "lab-mini:v1").await;
    let hex = pushed.image.digest.as_str().trim_start_matches("sha256:");
    let blob = world.registry.blobs().join(format!(
        "docker/registry/v2/blobs/sha256/{}/{hex}/data",
        &hex[..2]
    ));
    let good = std::fs::read(&blob).expect("the registry keeps blobs in files");

    let mut flipped = good.clone();
    flipped[4_000_000] ^= 1;
    std::fs::write(&blob, flipped).expect("corrupt");
    let request = world.request("lab-mini", &world.uri("lab-mini:v1"));
    let error = world
        .create("k1", request.clone())
        .await
        .expect_err("refused");
    assert_eq!(
        (error.code(), error.reason(), field(&error)),
        (
            Code::FailedPrecondition,
            ErrorReason::ImageDigestMismatch,
            "source_uri"
        ),
        "{error:?}"
    );

    std::fs::write(&blob, &good[..5_000_000]).expect("truncate");
    let error = world
        .create("k1", request.clone())
        .await
        .expect_err("refused");
    assert_eq!(field(&error), "source_uri", "{error:?}");
    assert_eq!(world.count("os_images").await, 0);
    assert_eq!(
        world.count("idempotency").await,
        0,
        "a refusal may be retried with the same key"
    );

    std::fs::write(&blob, good).expect("mend");
    world.create("k1", request).await.expect("created");
}

#[tokio::test]
async fn a_registry_that_is_down_or_not_ours_is_said_to_be() {
    let world = World::new().await;
    world.push(&world.file(1), "lab-mini:v1").await;
    let request = world.request("lab-mini", &world.uri("lab-mini:v1"));
    // without the site's authority its certificate means nothing
    let stranger = Api {
        registry: Registry::new(None, std::time::Duration::from_secs(5)).expect("client"),
        ..world.api.clone()
    };
    let answer = stranger.create_image(as_admin("k", request.clone())).await;
    let error = Error::from(answer.expect_err("refused"));
    assert_eq!(
        (error.code(), field(&error)),
        (Code::Unavailable, "source_uri"),
        "{error:?}"
    );

    world.registry.server().stop();
    let error = world.create("k", request).await.expect_err("refused");
    assert_eq!(
        (error.code(), field(&error)),
        (Code::Unavailable, "source_uri"),
        "{error:?}"
    );
    assert_eq!(world.count("os_images").await, 0);
}

#[tokio::test]
async fn an_artifact_of_another_kind_is_refused() {
    let world = World::new().await;
    let pushed = world.push(&world.file(1), "lab-mini:v1").await;
    // the same blob, described as something else
    let manifest = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": { "mediaType": "application/vnd.oci.empty.v1+json", "size": 2,
                    "digest": "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" },
        "layers": [{ "mediaType": "application/vnd.oci.image.layer.v1.tar", "size": 9_000_001,
                     "digest": pushed.image.digest.as_str() }],
    });
    let url = format!(
        "https://{}/v2/slice-guest-images/lab-mini/manifests/tar",
        world.registry.server().host()
    );
    let body = world.files.path().join("manifest.json");
    std::fs::write(&body, manifest.to_string()).expect("write");
    let put = std::process::Command::new("curl")
        .args(["-sf", "--noproxy", "*", "--cacert"])
        .arg(world.registry.server().ca_file())
        .args([
            "-X",
            "PUT",
            "-H",
            "Content-Type: application/vnd.oci.image.manifest.v1+json",
            "-T",
        ])
        .arg(&body)
        .arg(&url)
        .status()
        .expect("curl");
    assert!(put.success());
    let error = world
        .create("k", world.request("lab-mini", &world.uri("lab-mini:tar")))
        .await
        .expect_err("refused");
    assert_eq!(
        (error.code(), field(&error)),
        (Code::InvalidArgument, "source_uri"),
        "{error:?}"
    );
}

#[tokio::test]
async fn the_push_tool_prints_what_the_catalog_needs() {
    let world = World::new().await;
    let file = world.file(3);
    let reference = world.uri("tool:v1").replace("oci://", "");
    let push = |reference: String| {
        std::process::Command::new(env!("CARGO_BIN_EXE_gpuaas-image-push"))
            .arg("--file")
            .arg(&file)
            .args(["--reference", &reference, "--ca-file"])
            .arg(world.registry.server().ca_file())
            .output()
            .expect("runs")
    };
    let output = push(reference.clone());
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let value = |key: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{key}=")));
        line.unwrap_or_else(|| panic!("no {key} in {text}"))
            .to_owned()
    };
    assert_eq!(
        (value("size_bytes"), value("uploaded")),
        ("9000001".to_owned(), "true".to_owned())
    );
    let image = world
        .create("k1", world.request("tool", &value("source_uri")))
        .await
        .expect("created");
    assert_eq!(image.digest, value("digest"));
    for bad in [
        "no-registry:v1".to_owned(),
        reference.replace(":v1", ""),
        value("source_uri"),
    ] {
        assert!(!push(bad.clone()).status.success(), "{bad}");
    }
}

#[tokio::test]
async fn e_32_i_148_an_image_is_sent_to_another_address_and_keeps_its_public_one() {
    let world = World::new().await;
    let file = world.file(4);
    let host = world.registry.server().host();
    let push = |arguments: &[&str]| {
        std::process::Command::new(env!("CARGO_BIN_EXE_gpuaas-image-push"))
            .arg("--file")
            .arg(&file)
            .args(arguments)
            .arg("--ca-file")
            .arg(world.registry.server().ca_file())
            .output()
            .expect("runs")
    };
    // nobody answers at the public address from here
    let public = "registry.invalid:5000";
    let output = push(&[
        "--registry",
        public,
        "--image",
        "cuda",
        "--tag",
        "v1",
        "--push-host",
        &host,
    ]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let source = text
        .lines()
        .find_map(|line| line.strip_prefix("source_uri="))
        .expect("a source");
    let reference = format!("oci://{public}/slice-guest-images/cuda@sha256:");
    assert!(source.starts_with(&reference), "{source}");
    // it is there, at the address it was sent to
    let image = world
        .create("k1", world.request("cuda", &source.replace(public, &host)))
        .await
        .expect("created");
    assert!(text.contains(&image.digest), "{text}");
    let bad = push(&["--registry", public, "--image", "cuda", "--push-host", "-x"]);
    assert!(!bad.status.success());
}
