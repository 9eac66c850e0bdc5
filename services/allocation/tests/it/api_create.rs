//! Creating allocations: what is refused, what is kept, what a repeated call does.

use gpuaas_allocation::domain::request::CreateRequest;
use gpuaas_common::Error;
use gpuaas_common::error::reason_name;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::CapacityShape;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::scheduler::v1::PlacementConstraints;
use tonic::Code;

use crate::platform::{Platform, good};
use crate::world::KEY;

const OTHER_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";

#[tokio::test]
async fn bad_input_names_field_and_rule_and_changes_nothing() {
    let platform = Platform::start().await;
    let before = platform.rows().await;
    let with = |change: fn(&mut pb::CreateAllocationRequest)| {
        let mut request = good("web");
        change(&mut request);
        request
    };
    let invalid = (Code::InvalidArgument, ErrorReason::FieldInvalid);
    let required = (Code::InvalidArgument, ErrorReason::FieldRequired);
    for (request, (code, reason), field) in [
        (with(|r| r.name.clear()), required, "name"),
        (with(|r| r.name = "Not A Label".into()), invalid, "name"),
        (
            with(|r| r.region_code = "nowhere".into()),
            (Code::InvalidArgument, ErrorReason::RegionUnknown),
            "region_code",
        ),
        (
            with(|r| r.sku = "no-such".into()),
            (Code::InvalidArgument, ErrorReason::SkuUnknown),
            "sku",
        ),
        (with(|r| r.gpu_count = 0), required, "gpu_count"),
        (
            with(|r| r.user_data = "#".repeat(1 << 20)),
            invalid,
            "user_data",
        ),
        (
            with(|r| r.user_data = "#!/bin/sh\n\0".into()),
            invalid,
            "user_data",
        ),
        (
            with(|r| r.gpu_count = 3),
            (Code::InvalidArgument, ErrorReason::GpuCountNotAllowed),
            "gpu_count",
        ),
        (
            with(|r| r.image = "no-such".into()),
            (Code::InvalidArgument, ErrorReason::ImageUnknown),
            "image",
        ),
        (
            with(|r| r.image = "old-mini".into()),
            (Code::FailedPrecondition, ErrorReason::ImageNotActive),
            "image",
        ),
        (
            with(|r| r.image = "h200-base".into()),
            (Code::InvalidArgument, ErrorReason::ImageNotCompatible),
            "image",
        ),
        (
            with(|r| r.ssh_public_keys.clear()),
            required,
            "ssh_public_keys",
        ),
        (
            with(|r| r.ssh_public_keys[0] = "not a key".into()),
            invalid,
            "ssh_public_keys[0]",
        ),
        (
            with(|r| r.ssh_public_keys.push(format!("{KEY} again"))),
            invalid,
            "ssh_public_keys[1]",
        ),
        (
            with(|r| drop(r.labels.insert("A B".into(), String::new()))),
            invalid,
            "labels",
        ),
        (
            with(|r| r.scheduler_type = "cloud".into()),
            invalid,
            "scheduler_type",
        ),
        (
            with(|r| r.scheduler_type = "baremetal".into()),
            invalid,
            "scheduler_type",
        ),
        (
            with(|r| r.capacity_shape = CapacityShape::Baremetal.into()),
            invalid,
            "capacity_shape",
        ),
        (
            with(|r| r.project_id = "018f0000-0000-7000-8000-000000000001".into()),
            (Code::NotFound, ErrorReason::ProjectUnknown),
            "project_id",
        ),
    ] {
        for validate_only in [false, true] {
            let request = pb::CreateAllocationRequest {
                validate_only,
                ..request.clone()
            };
            let error = platform.create(request, "key-bad").await.expect_err(field);
            assert_eq!(
                (error.code(), reason_name(error.reason())),
                (code, reason_name(reason)),
                "{field}: {error}"
            );
            assert_eq!(
                error.fields().first().map(|(name, _)| name.as_str()),
                Some(field),
                "{error}"
            );
            assert!(!error.fields()[0].1.is_empty());
        }
    }
    let unkeyed = platform
        .users
        .clone()
        .create_allocation(platform.user(good("web"), None))
        .await;
    let error = Error::from(unkeyed.expect_err("no key"));
    assert_eq!(error.reason(), ErrorReason::IdempotencyKeyMissing);
    assert_eq!(platform.rows().await, before, "nothing was stored");
}

/// H-11, H-12.
#[tokio::test]
async fn b_14_the_smoke_request_names_region_shape_and_scheduler_and_becomes_a_slice() {
    let platform = Platform::start().await;
    let request = pb::CreateAllocationRequest {
        capacity_shape: CapacityShape::GpuSlice.into(),
        scheduler_type: "slice".into(),
        ..good("smoke")
    };
    let region_code = request.region_code.clone();
    let made = platform.create(request, "key-1").await.expect("created");
    let config = made.config.expect("the config");
    assert_eq!(
        (config.region_code.as_str(), config.capacity_shape()),
        (region_code.as_str(), CapacityShape::GpuSlice)
    );
    let id = made.id.parse().expect("a uuid");
    platform.world.until_state(id, "active").await;
    let kinds: Vec<String> = sqlx::query_scalar("SELECT kind FROM claims WHERE allocation_id = $1")
        .bind(id)
        .fetch_all(&platform.world.pool)
        .await
        .expect("claims");
    assert_eq!(kinds, ["slot"]);
}

#[tokio::test]
async fn validate_only_checks_everything_and_keeps_nothing() {
    let platform = Platform::start().await;
    let before = platform.rows().await;
    let request = pb::CreateAllocationRequest {
        validate_only: true,
        scheduler_type: "slice".into(),
        ..good("web")
    };
    let checked = platform.create(request, "key-1").await.expect("valid");
    assert_eq!(checked.id, "");
    assert_eq!(
        checked.config.expect("the config").capacity_shape(),
        CapacityShape::GpuSlice
    );
    assert_eq!(platform.rows().await, before);
}

#[tokio::test]
async fn c_35_one_key_is_one_allocation_however_often_it_is_sent() {
    let platform = Platform::start().await;
    let sent = (0..3).map(|_| platform.create(good("web"), "key-1"));
    let answers = futures::future::join_all(sent).await;
    let ids: Vec<String> = answers
        .into_iter()
        .map(|answer| answer.expect("created").id)
        .collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM allocations")
        .fetch_one(&platform.world.pool)
        .await
        .expect("a count");
    assert_eq!(count, 1);
    let other = platform
        .create(good("web2"), "key-1")
        .await
        .expect_err("another body");
    assert_eq!(other.reason(), ErrorReason::IdempotencyKeyReused);
    // what has changed since does not matter to a replay
    sqlx::query("UPDATE placement.regions SET enabled = false")
        .execute(&platform.world.owner)
        .await
        .expect("disabled");
    assert_eq!(
        platform
            .create(good("web"), "key-1")
            .await
            .expect("replayed")
            .id,
        ids[0]
    );
    let closed = platform
        .create(good("web3"), "key-3")
        .await
        .expect_err("region disabled");
    assert_eq!(closed.reason(), ErrorReason::RegionDisabled);
}

#[tokio::test]
async fn p4_a_key_from_before_the_update_is_known_with_the_hash_that_it_has() {
    let platform = Platform::start().await;
    let labelled = |team: &str| pb::CreateAllocationRequest {
        labels: [("team".to_owned(), team.to_owned())].into(),
        ..good("web")
    };
    let first = platform.create(labelled("a"), "key-1").await;
    let first = first.expect("created").id;
    let parsed = CreateRequest::parse(&labelled("a")).expect("legal");
    let former = parsed.former_hash(&platform.world.project.to_string());
    sqlx::query("UPDATE placement.idempotency SET request_hash = $1 WHERE key = 'key-1'")
        .bind(former.as_slice())
        .execute(&platform.world.owner)
        .await
        .expect("as the release before kept it");
    let again = platform.create(labelled("a"), "key-1").await;
    assert_eq!(again.expect("replayed").id, first);
    let other = platform.create(labelled("b"), "key-1").await;
    let reason = other.expect_err("another body").reason();
    assert_eq!(reason, ErrorReason::IdempotencyKeyReused);
}

#[tokio::test]
async fn c_35_con_10_a_key_is_refused_for_another_placement() {
    let platform = Platform::start().await;
    let placed = |require_prewarmed| pb::CreateAllocationRequest {
        placement: Some(PlacementConstraints {
            anti_affinity_label: "role=head".into(),
            require_prewarmed,
            ..PlacementConstraints::default()
        }),
        ..good("web")
    };
    let made = platform.create(placed(false), "key-1").await;
    let made = made.expect("created").id;
    let other = platform.create(placed(true), "key-1").await;
    let other = other.expect_err("another constraint");
    assert_eq!(other.reason(), ErrorReason::IdempotencyKeyReused);
    let again = platform.create(placed(false), "key-1").await;
    assert_eq!(again.expect("replayed").id, made);
}

/// C-20
#[tokio::test]
async fn con_10_an_allocation_tells_where_it_was_asked_to_run() {
    let platform = Platform::start().await;
    let requested = PlacementConstraints {
        anti_affinity_label: "role=head".into(),
        ..PlacementConstraints::default()
    };
    let placed = pb::CreateAllocationRequest {
        placement: Some(requested.clone()),
        ..good("web")
    };
    let where_of = |made: pb::Allocation| made.config.expect("a config").placement;
    let dry = pb::CreateAllocationRequest {
        validate_only: true,
        ..placed.clone()
    };
    let dry = platform.create(dry, "key-0").await.expect("valid");
    assert_eq!(where_of(dry), Some(requested.clone()));
    let made = platform.create(placed, "key-1").await.expect("created");
    assert_eq!(where_of(made), Some(requested));
    let anywhere = platform.create(good("any"), "key-2").await;
    let anywhere = where_of(anywhere.expect("created"));
    assert_eq!(
        anywhere,
        Some(PlacementConstraints::default()),
        "known: anywhere"
    );
}

#[tokio::test]
async fn an_allocation_shows_the_names_and_fingerprints_of_its_keys() {
    let platform = Platform::start().await;
    let keys = |validate_only| pb::CreateAllocationRequest {
        ssh_public_keys: vec![KEY.into(), OTHER_KEY.into()],
        // as the gateway sends it: it has put the key of this name behind the other
        ssh_key_names: vec!["laptop".into()],
        validate_only,
        ..good("named")
    };
    let shown = |made: pb::Allocation| made.config.expect("config").ssh_keys;
    let dry = platform.create(keys(true), "").await.expect("fits");
    let made = platform
        .create(keys(false), "key-1")
        .await
        .expect("created");
    let (dry, made) = (shown(dry), shown(made));
    assert_eq!(dry, made);
    let names: Vec<&str> = made.iter().map(|key| key.name.as_str()).collect();
    assert_eq!(names, ["", "laptop"]);
    for (key, line) in made.iter().zip([KEY, OTHER_KEY]) {
        assert_eq!(key.fingerprint, gpuaas_common::ssh::fingerprint_of(line));
        assert!(key.fingerprint.starts_with("SHA256:"));
    }
    let other = pb::CreateAllocationRequest {
        ssh_key_names: vec!["desktop".into()],
        ..keys(false)
    };
    let reused = platform.create(other, "key-1").await.expect_err("reused");
    assert_eq!(reused.reason(), ErrorReason::IdempotencyKeyReused);
}

#[tokio::test]
async fn two_keys_are_two_allocations_and_a_full_platform_refuses() {
    let platform = Platform::start().await;
    let keys = pb::CreateAllocationRequest {
        ssh_public_keys: vec![KEY.into(), OTHER_KEY.into()],
        ..good("one")
    };
    platform.create(keys, "key-1").await.expect("created");
    let taken = platform
        .create(good("one"), "key-x")
        .await
        .expect_err("name taken");
    assert_eq!(
        (taken.reason(), taken.fields()[0].0.as_str()),
        (ErrorReason::AlreadyExists, "name")
    );
    platform
        .create(good("two"), "key-2")
        .await
        .expect("created");
    let full = platform
        .create(good("three"), "key-3")
        .await
        .expect_err("full");
    assert_eq!(full.code(), Code::ResourceExhausted);
    assert_eq!(full.reason(), ErrorReason::SlotsInUse, "{full}");
    let taken = platform
        .create(good("one"), "key-4")
        .await
        .expect_err("name taken");
    assert_eq!(
        taken.reason(),
        ErrorReason::AlreadyExists,
        "a taken name is told before missing capacity"
    );
}
