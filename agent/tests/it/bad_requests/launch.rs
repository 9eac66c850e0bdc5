//! Launches with texts that lead out.
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::ReadinessCheck;
use tonic::Code;

use super::world::{KEY, World};
use super::{Change, MEGABYTE, bad_texts, invalid, refused, text};

fn image(request: &mut pb::ProvisionRequest) -> &mut pb::ImageRef {
    request.image.as_mut().expect("an image")
}

fn provision_texts() -> Vec<(&'static str, Change<pb::ProvisionRequest>)> {
    vec![
        text("operation_id", |request: &mut pb::ProvisionRequest, bad| {
            request.operation_id = bad.into();
        }),
        text(
            "allocation_id",
            |request: &mut pb::ProvisionRequest, bad| {
                request.allocation_id = bad.into();
            },
        ),
        text("lease_id", |request: &mut pb::ProvisionRequest, bad| {
            request.lease_id = bad.into();
        }),
        text("image.slug", |request: &mut pb::ProvisionRequest, bad| {
            image(request).slug = bad.into();
        }),
        text("digest", |request: &mut pb::ProvisionRequest, bad| {
            image(request).digest = bad.into();
        }),
        text("digest", |request: &mut pb::ProvisionRequest, bad| {
            image(request).digest = format!("sha256:{bad}");
        }),
        text(
            "image.source_uri",
            |request: &mut pb::ProvisionRequest, bad| {
                image(request).source_uri = bad.into();
            },
        ),
        text(
            "image.source_uri",
            |request: &mut pb::ProvisionRequest, bad| {
                let hex = "0".repeat(64);
                image(request).source_uri = format!("oci://127.0.0.1:1/{bad}@sha256:{hex}");
            },
        ),
        text("guest_user", |request: &mut pb::ProvisionRequest, bad| {
            request.guest_user = bad.into();
        }),
        text("hostname", |request: &mut pb::ProvisionRequest, bad| {
            request.hostname = bad.into();
        }),
        text(
            "ssh_public_keys",
            |request: &mut pb::ProvisionRequest, bad| {
                request.ssh_public_keys = vec![bad.into()];
            },
        ),
        text(
            "ssh_public_keys",
            |request: &mut pb::ProvisionRequest, bad| {
                request.ssh_public_keys = vec![KEY.into(), format!("command=\"{bad}\" {KEY}")];
            },
        ),
        text(
            "network group",
            |request: &mut pb::ProvisionRequest, bad| {
                request.network_group = bad.into();
            },
        ),
        text("region_code", |request: &mut pb::ProvisionRequest, bad| {
            request.region_code = bad.into();
        }),
        text("image", |request: &mut pb::ProvisionRequest, bad| {
            image(request).readiness_checks = vec![ReadinessCheck {
                name: bad.into(),
                command: "true".into(),
                ..ReadinessCheck::default()
            }];
        }),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_text_of_a_launch_reaches_a_path_a_seed_or_a_domain() {
    type Row = (&'static str, &'static str, fn(&mut pb::ProvisionRequest));
    let rows: &[Row] = &[
        ("no image", "image", |request| request.image = None),
        ("the name of a file by digest", "image.slug", |request| {
            image(request).slug = "sha256-0".into();
        }),
        ("a hidden file", "image.slug", |request| {
            image(request).slug = ".part".into();
        }),
        (
            "an image larger than a host",
            "image.size_bytes",
            |request| {
                image(request).size_bytes = u64::MAX;
            },
        ),
        ("a file as source", "image.source_uri", |request| {
            image(request).source_uri = "file:///etc/shadow".into();
        }),
        ("no key", "ssh_public_keys", |request| {
            request.ssh_public_keys.clear();
        }),
        ("ten thousand keys", "ssh_public_keys", |request| {
            request.ssh_public_keys = vec![KEY.into(); 10_000];
        }),
        (
            "a key with a megabyte of a comment",
            "ssh_public_keys",
            |request| {
                request.ssh_public_keys = vec![format!("{KEY} {}", "a".repeat(MEGABYTE))];
            },
        ),
        ("a check with a megabyte of a command", "image", |request| {
            image(request).readiness_checks = vec![ReadinessCheck {
                name: "gpu".into(),
                command: "a".repeat(MEGABYTE),
                ..ReadinessCheck::default()
            }];
        }),
        ("a megabyte of user data", "user_data", |request| {
            request.user_data = "#".repeat(MEGABYTE);
        }),
        ("user data with a NUL", "user_data", |request| {
            request.user_data = "#!/bin/sh\n\0".into();
        }),
        ("ten thousand checks", "image", |request| {
            image(request).readiness_checks = vec![ReadinessCheck::default(); 10_000];
        }),
    ];
    let world = World::new().await;
    let before = world.snapshot().await;
    for (field, set) in provision_texts() {
        for bad in bad_texts() {
            let mut request = world.provision();
            set(&mut request, &bad);
            let answer = world.vms().provision(request).await;
            refused(&format!("{field} {bad}"), answer, invalid(field));
        }
    }
    for (what, field, change) in rows {
        let mut request = world.provision();
        change(&mut request);
        refused(what, world.vms().provision(request).await, invalid(field));
    }
    // more than a message may have: the server reads no more of it
    let mut request = world.provision();
    request.hostname = "a".repeat(5 * MEGABYTE);
    let status = world.vms().provision(request).await.expect_err("too large");
    assert_eq!(status.code(), Code::OutOfRange, "{status}");
    assert_eq!(world.snapshot().await, before);

    // the same request as it should be is taken
    let begun = world.vms().provision(world.provision()).await;
    assert_eq!(begun.expect("begun").into_inner().kind, "provision");
}
