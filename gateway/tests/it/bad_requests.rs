//! Requests that the edge refuses by itself: each names the field and the rule, and no service is called.
use reqwest::Method;
use serde_json::json;

use crate::world::{World, answer, field, reason};

const CREATE: &str = "/api/v1/allocations";

fn good() -> serde_json::Value {
    json!({ "name": "first", "region_code": "lab", "sku": "lab-slice", "gpu_count": 1, "image": "lab-mini", "ssh_public_keys": ["ssh-ed25519 AAAA"] })
}

fn changed(name: &str, value: serde_json::Value) -> String {
    let mut body = good();
    body[name] = value;
    body.to_string()
}

#[tokio::test]
async fn requests_that_are_refused() {
    let world = World::start().await;
    let duplicate = good().to_string().replacen('{', r#"{"name":"second","#, 1);
    let many = (0..30)
        .map(|i| format!(r#""x{i}":1"#))
        .collect::<Vec<_>>()
        .join(",");
    let table: Vec<(Method, &str, String, u16, &str, &str)> = vec![
        (
            Method::GET,
            "/api/v1/nothing",
            String::new(),
            404,
            "ROUTE_UNKNOWN",
            "",
        ),
        (
            Method::GET,
            "/api/v2/allocations",
            String::new(),
            404,
            "ROUTE_UNKNOWN",
            "",
        ),
        (Method::GET, "/api", String::new(), 404, "ROUTE_UNKNOWN", ""),
        (Method::POST, "/", "{}".into(), 404, "ROUTE_UNKNOWN", ""),
        (
            Method::GET,
            "/api/v1/allocations/",
            String::new(),
            404,
            "ROUTE_UNKNOWN",
            "",
        ),
        (
            Method::GET,
            "/api/v1/allocations/../admin/nodes%2f",
            String::new(),
            404,
            "ROUTE_UNKNOWN",
            "",
        ),
        (
            Method::POST,
            "/gpuaas.internal.scheduler.v1.PlacementService/Reserve",
            "{}".into(),
            404,
            "ROUTE_UNKNOWN",
            "",
        ),
        (
            Method::POST,
            "/api/v1/allocations/a1:explode",
            "{}".into(),
            404,
            "ROUTE_UNKNOWN",
            "",
        ),
        (
            Method::DELETE,
            CREATE,
            String::new(),
            405,
            "ROUTE_UNKNOWN",
            "",
        ),
        (
            Method::PUT,
            "/api/v1/allocations/a1",
            "{}".into(),
            405,
            "ROUTE_UNKNOWN",
            "",
        ),
        (
            Method::GET,
            "/api/v1/allocations?colour=red",
            String::new(),
            400,
            "FIELD_UNKNOWN",
            "colour",
        ),
        (
            Method::GET,
            "/api/v1/allocations?pageSize=1",
            String::new(),
            400,
            "FIELD_UNKNOWN",
            "pageSize",
        ),
        (
            Method::GET,
            "/api/v1/allocations?page_size=many",
            String::new(),
            400,
            "FIELD_INVALID",
            "page_size",
        ),
        (
            Method::GET,
            "/api/v1/allocations?page_size=1&page_size=2",
            String::new(),
            400,
            "FIELD_INVALID",
            "page_size",
        ),
        (
            Method::GET,
            "/api/v1/allocations?include_ended=1",
            String::new(),
            400,
            "FIELD_INVALID",
            "include_ended",
        ),
        (Method::GET, CREATE, "{}".into(), 400, "BODY_MALFORMED", ""),
        (Method::POST, CREATE, "{".into(), 400, "BODY_MALFORMED", ""),
        (
            Method::POST,
            CREATE,
            "name=first".into(),
            400,
            "BODY_MALFORMED",
            "",
        ),
        (
            Method::POST,
            CREATE,
            "null".into(),
            400,
            "FIELD_INVALID",
            "",
        ),
        (Method::POST, CREATE, "[]".into(), 400, "FIELD_INVALID", ""),
        (
            Method::POST,
            CREATE,
            "{}".into(),
            400,
            "FIELD_REQUIRED",
            "name",
        ),
        (
            Method::POST,
            CREATE,
            format!("{{{many}}}"),
            400,
            "FIELD_UNKNOWN",
            "x0",
        ),
        (
            Method::POST,
            CREATE,
            changed("colour", json!("red")),
            400,
            "FIELD_UNKNOWN",
            "colour",
        ),
        (
            Method::POST,
            CREATE,
            changed("regionCode", json!("lab")),
            400,
            "FIELD_UNKNOWN",
            "regionCode",
        ),
        (
            Method::POST,
            CREATE,
            duplicate,
            400,
            "FIELD_INVALID",
            "name",
        ),
        (
            Method::POST,
            CREATE,
            changed("gpu_count", json!("one")),
            400,
            "FIELD_INVALID",
            "gpu_count",
        ),
        (
            Method::POST,
            CREATE,
            changed("gpu_count", json!(-1)),
            400,
            "FIELD_INVALID",
            "gpu_count",
        ),
        (
            Method::POST,
            CREATE,
            changed("gpu_count", json!(1.5)),
            400,
            "FIELD_INVALID",
            "gpu_count",
        ),
        (
            Method::POST,
            CREATE,
            changed("gpu_count", json!(0)),
            400,
            "FIELD_REQUIRED",
            "gpu_count",
        ),
        (
            Method::POST,
            CREATE,
            changed("name", json!(["first"])),
            400,
            "FIELD_INVALID",
            "name",
        ),
        (
            Method::POST,
            CREATE,
            changed("name", json!("a\u{0}b")),
            400,
            "FIELD_INVALID",
            "name",
        ),
        (
            Method::POST,
            CREATE,
            changed("ssh_public_keys", json!("ssh-ed25519 AAAA")),
            400,
            "FIELD_INVALID",
            "ssh_public_keys",
        ),
        (
            Method::POST,
            CREATE,
            changed("ssh_public_keys", json!([7])),
            400,
            "FIELD_INVALID",
            "ssh_public_keys[0]",
        ),
        (
            Method::POST,
            CREATE,
            changed("capacity_shape", json!("mig_slice")),
            400,
            "FIELD_INVALID",
            "capacity_shape",
        ),
        (
            Method::POST,
            CREATE,
            changed("capacity_shape", json!(2)),
            400,
            "FIELD_INVALID",
            "capacity_shape",
        ),
        (
            Method::POST,
            CREATE,
            changed("labels", json!({ "a": 1 })),
            400,
            "FIELD_INVALID",
            "labels.a",
        ),
        (
            Method::POST,
            "/api/v1/allocations?name=first",
            good().to_string(),
            400,
            "FIELD_UNKNOWN",
            "name",
        ),
        (
            Method::POST,
            "/api/v1/allocations/a1:release",
            r#"{"allocation_id":"a2"}"#.into(),
            400,
            "FIELD_INVALID",
            "allocation_id",
        ),
        (
            Method::POST,
            "/api/v1/allocations/a1:release",
            r#"{"force":true}"#.into(),
            400,
            "FIELD_UNKNOWN",
            "force",
        ),
        (
            Method::POST,
            CREATE,
            " ".repeat(1024 * 1024 + 1),
            413,
            "BODY_TOO_LARGE",
            "",
        ),
    ];
    for (method, target, body, expected, expected_reason, expected_field) in table {
        let mut request = world
            .http
            .request(method.clone(), world.url(target))
            .bearer_auth(world.token("demo"))
            .header("x-idempotency-key", "k");
        if !body.is_empty() {
            request = request
                .header("content-type", "application/json")
                .body(body.clone());
        }
        let response = request.send().await.expect("answer");
        if expected == 405 {
            assert!(
                response.headers().contains_key("allow"),
                "{method} {target}"
            );
        }
        let (status, answered) = answer(response).await;
        let name = format!(
            "{method} {target} {}: {answered}",
            body.chars().take(80).collect::<String>()
        );
        assert_eq!(
            (status, reason(&answered)),
            (expected, expected_reason),
            "{name}"
        );
        assert_eq!(field(&answered), expected_field, "{name}");
    }
    assert!(world.record.all().is_empty(), "nothing reached the service");
}

#[tokio::test]
async fn every_change_needs_its_key() {
    let world = World::start().await;
    let send = |key: Option<&'static str>| {
        let mut request = world
            .http
            .post(world.url(CREATE))
            .bearer_auth(world.token("demo"))
            .json(&good());
        if let Some(key) = key {
            request = request.header("x-idempotency-key", key);
        }
        async move { answer(request.send().await.expect("answer")).await }
    };
    let (status, body) = send(None).await;
    assert_eq!(
        (status, reason(&body), field(&body)),
        (400, "IDEMPOTENCY_KEY_MISSING", "X-Idempotency-Key")
    );
    for bad in ["", "a b", "\u{e9}"] {
        let (status, body) = send(Some(bad)).await;
        assert_eq!(
            (status, reason(&body), field(&body)),
            (400, "FIELD_INVALID", "X-Idempotency-Key"),
            "{bad:?}"
        );
    }
    assert!(world.record.all().is_empty());
    assert_eq!(send(Some("k-1")).await.0, 200);
}

#[tokio::test]
async fn bodies_of_other_types_are_refused() {
    let world = World::start().await;
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/jsonp",
    ] {
        let request = world
            .http
            .post(world.url(CREATE))
            .bearer_auth(world.token("demo"))
            .header("x-idempotency-key", "k");
        let (status, body) = answer(
            request
                .header("content-type", kind)
                .body(good().to_string())
                .send()
                .await
                .expect("answer"),
        )
        .await;
        assert_eq!((status, reason(&body)), (415, "BODY_MALFORMED"), "{kind}");
    }
    assert!(world.record.all().is_empty());
}

/// 0 is what an absent number looks like, so a number that must be given is told what it must be at least.
#[tokio::test]
async fn a_count_of_nothing_is_told_its_least_value() {
    let world = World::start().await;
    let without = {
        let mut body = good();
        let _ = body.as_object_mut().expect("object").remove("gpu_count");
        body.to_string()
    };
    for body in [changed("gpu_count", json!(0)), without] {
        let request = world
            .http
            .post(world.url(CREATE))
            .bearer_auth(world.token("demo"))
            .header("x-idempotency-key", "k")
            .header("content-type", "application/json");
        let sent = request.body(body.clone()).send().await.expect("answer");
        let (status, refused) = answer(sent).await;
        assert_eq!(
            (status, reason(&refused), field(&refused)),
            (400, "FIELD_REQUIRED", "gpu_count"),
            "{body}"
        );
        let rule = "is required and must be at least 1";
        assert!(refused.to_string().contains(rule), "{body}: {refused}");
    }
    // a text that must be given has no least value
    let sent = world
        .http
        .post(world.url(CREATE))
        .bearer_auth(world.token("demo"))
        .header("x-idempotency-key", "k")
        .header("content-type", "application/json")
        .body(changed("image", json!("")));
    let (_, refused) = answer(sent.send().await.expect("answer")).await;
    assert_eq!(field(&refused), "image", "{refused}");
    assert!(!refused.to_string().contains("at least 1"), "{refused}");
    assert!(world.record.all().is_empty());
}
