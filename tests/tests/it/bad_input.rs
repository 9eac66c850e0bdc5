//! Bad input through the whole system: the right status, the reason, the field, and nothing changed.
use gpuaas_tests::api::launch_body;
use gpuaas_tests::system::System;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sqlx::Row as _;

/// What a refused call must not change.
async fn state(system: &System) -> (i64, i64, i64) {
    let row = sqlx::query(
        "SELECT (SELECT count(*) FROM placement.allocations), (SELECT count(*) FROM placement.claims),
                (SELECT count(*) FROM placement.outbox)",
    )
    .fetch_one(&mut system.database().await)
    .await
    .expect("counts");
    (row.get(0), row.get(1), row.get(2))
}

struct Case {
    what: &'static str,
    change: fn(&mut Value, &System),
    status: StatusCode,
    reason: &'static str,
    field: &'static str,
}

const BAD: StatusCode = StatusCode::BAD_REQUEST;

fn cases() -> Vec<Case> {
    let case = |what, status, reason, field, change| Case {
        what,
        change,
        status,
        reason,
        field,
    };
    vec![
        case("unknown SKU", BAD, "SKU_UNKNOWN", "sku", |b, _| {
            b["sku"] = json!("no-such-sku");
        }),
        case("unknown image", BAD, "IMAGE_UNKNOWN", "image", |b, _| {
            b["image"] = json!("no-such-image");
        }),
        case(
            "count not allowed",
            BAD,
            "GPU_COUNT_NOT_ALLOWED",
            "gpu_count",
            |b, _| b["gpu_count"] = json!(3),
        ),
        case("count zero", BAD, "", "gpu_count", |b, _| {
            b["gpu_count"] = json!(0);
        }),
        case(
            "unknown region",
            BAD,
            "REGION_UNKNOWN",
            "region_code",
            |b, _| b["region_code"] = json!("nowhere"),
        ),
        case("name not a label", BAD, "FIELD_INVALID", "name", |b, _| {
            b["name"] = json!("Not_a_label");
        }),
        case("name too long", BAD, "FIELD_INVALID", "name", |b, _| {
            b["name"] = json!("a".repeat(64));
        }),
        case("no name", BAD, "FIELD_REQUIRED", "name", |b, _| {
            b["name"] = json!("");
        }),
        case(
            "no key",
            BAD,
            "FIELD_REQUIRED",
            "ssh_public_keys",
            |b, _| b["ssh_public_keys"] = json!([]),
        ),
        case(
            "malformed key",
            BAD,
            "FIELD_INVALID",
            "ssh_public_keys",
            |b, _| {
                b["ssh_public_keys"] = json!(["ssh-ed25519 not-base64"]);
            },
        ),
        case(
            "key with a line break",
            BAD,
            "FIELD_INVALID",
            "ssh_public_keys",
            |b, s| {
                b["ssh_public_keys"] = json!([format!("{}\nssh-ed25519 AAAA", s.public_key)]);
            },
        ),
        case(
            "duplicate key",
            BAD,
            "FIELD_INVALID",
            "ssh_public_keys",
            |b, s| {
                let with_comment = format!(
                    "{} other-comment",
                    s.public_key.rsplit_once(' ').expect("comment").0
                );
                b["ssh_public_keys"] = json!([s.public_key, with_comment]);
            },
        ),
        case(
            "unknown JSON field",
            BAD,
            "FIELD_UNKNOWN",
            "gpus",
            |b, _| b["gpus"] = json!(1),
        ),
        case("wrong type", BAD, "", "gpu_count", |b, _| {
            b["gpu_count"] = json!("one");
        }),
        case(
            "image of another SKU",
            BAD,
            "IMAGE_NOT_COMPATIBLE",
            "image",
            |b, _| {
                b["sku"] = json!("h200-sxm-slice");
            },
        ),
        case(
            "disabled region",
            BAD,
            "REGION_DISABLED",
            "region_code",
            |b, _| b["region_code"] = json!("lab-2"),
        ),
        case(
            "foreign project",
            StatusCode::NOT_FOUND,
            "PROJECT_UNKNOWN",
            "project_id",
            |b, _| {
                b["project_id"] = json!(uuid::Uuid::now_v7());
            },
        ),
    ]
}

#[tokio::test]
async fn a_bad_create_names_field_and_rule_and_changes_nothing() {
    let system = System::get().await;
    let before = state(&system).await;
    for case in cases() {
        let mut body = launch_body("bad-input", "lab-mini", &system.public_key);
        (case.change)(&mut body, &system);
        let refusal = match system.user.post("/api/v1/allocations", body).await {
            Ok(created) => panic!("{}: accepted: {created}", case.what),
            Err(refusal) => refusal,
        };
        let what = case.what;
        let conflict_is_fine = case.status == BAD && refusal.status == StatusCode::CONFLICT;
        assert!(
            refusal.status == case.status || conflict_is_fine,
            "{what}: {} {}",
            refusal.status,
            refusal.body
        );
        if !case.reason.is_empty() {
            assert_eq!(refusal.reason(), case.reason, "{what}: {}", refusal.body);
        }
        let fields = refusal.fields();
        assert!(
            fields
                .iter()
                .any(|(field, rule)| field.starts_with(case.field) && !rule.is_empty()),
            "{what}: {}",
            refusal.body
        );
        assert!(!refusal.request_id().is_empty(), "{what}: {}", refusal.body);
    }
    assert_eq!(state(&system).await, before, "a refusal changes nothing");
}

#[tokio::test]
async fn a_mutation_without_key_and_foreign_things_are_refused() {
    let system = System::get().await;
    let before = state(&system).await;
    let body = launch_body("no-key", "lab-mini", &system.public_key);
    let refused = system
        .user
        .call(
            Method::POST,
            "/api/v1/allocations",
            None,
            Some(body.clone()),
        )
        .await
        .expect_err("no key");
    assert_eq!(refused.reason(), "IDEMPOTENCY_KEY_MISSING");

    let foreign = uuid::Uuid::now_v7();
    for (method, path) in [
        (Method::GET, format!("/api/v1/allocations/{foreign}")),
        (
            Method::GET,
            format!("/api/v1/allocations/{foreign}/timeline"),
        ),
        (
            Method::POST,
            format!("/api/v1/allocations/{foreign}:release"),
        ),
    ] {
        let body = (method == Method::POST).then(|| json!({}));
        let refused = system
            .user
            .call(method, &path, Some("k"), body)
            .await
            .expect_err("foreign id");
        assert_eq!(
            (refused.status, refused.reason()),
            (StatusCode::NOT_FOUND, "ALLOCATION_NOT_FOUND"),
            "{path}"
        );
    }
    // an administrator's route is not a member's
    let refused = system
        .user
        .get("/api/v1/admin/nodes")
        .await
        .expect_err("not an admin");
    assert_eq!(
        (refused.status, refused.reason()),
        (StatusCode::FORBIDDEN, "PERMISSION_DENIED")
    );
    let refused = system
        .user
        .with_token("nonsense")
        .get("/api/v1/skus")
        .await
        .expect_err("bad token");
    assert_eq!(
        (refused.status, refused.reason()),
        (StatusCode::UNAUTHORIZED, "CREDENTIAL_INVALID")
    );

    // validate_only says yes and keeps nothing; it needs no key
    let mut body = body;
    body["validate_only"] = json!(true);
    let checked = system
        .user
        .call(Method::POST, "/api/v1/allocations", None, Some(body))
        .await;
    assert!(checked.is_ok(), "{:?}", checked.err().map(|r| r.body));
    assert_eq!(state(&system).await, before);
}
