//! Calls that reach a service: what travels with them, what comes back, and what happens when it does not.
use std::time::Duration;

use gpuaas_common::config::TelemetrySettings;
use gpuaas_common::telemetry;
use gpuaas_dev::until::until;
use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{World, answer, detail, field, reason};

const CREATE: &str = "/api/v1/allocations";

fn launch(name: &str) -> Value {
    json!({ "name": name, "region_code": "lab", "sku": "lab-slice", "gpu_count": 1, "image": "lab-mini", "ssh_public_keys": ["ssh-ed25519 AAAA"], "capacity_shape": "gpu_slice" })
}

/// The headers of H-08; a key is any text (H-09).
#[tokio::test]
async fn a_call_carries_caller_key_request_id_and_deadline() {
    let world = World::start().await;
    let request = world
        .http
        .post(world.url(CREATE))
        .bearer_auth(world.token("demo"))
        .json(&launch("first"));
    let response = request
        .header("x-idempotency-key", "k-1")
        .header("x-request-id", "run-7")
        .send()
        .await
        .expect("answer");
    assert_eq!(response.headers()["x-request-id"], "run-7");
    assert_eq!(response.headers()["cache-control"], "no-store");
    let (status, body) = answer(response).await;
    assert_eq!(status, 200);
    assert_eq!(body["id"], "a1");
    assert_eq!(body["status"]["state"], "reserved");
    assert_eq!(
        body["config"]["ssh_public_keys"],
        json!([]),
        "unset lists are written"
    );
    assert_eq!(body["status"].get("access"), None, "unset messages are not");

    let seen = &world.record.all()[0];
    assert_eq!(seen.caller.principal, "user:demo");
    assert_eq!(seen.caller.projects, [world.seeded.project_id]);
    assert_eq!(seen.caller.platform_role, None);
    assert_eq!(seen.caller.idempotency_key.as_deref(), Some("k-1"));
    assert_eq!(seen.caller.request_id, "run-7");
    assert!(seen.has_deadline);
    assert!(
        seen.message.contains("capacity_shape: GpuSlice"),
        "{}",
        seen.message
    );
}

#[tokio::test]
async fn validate_only_needs_no_key_and_path_and_query_are_bound() {
    let world = World::start().await;
    let mut body = launch("first");
    body["validate_only"] = json!(true);
    let request = world
        .http
        .post(world.url(CREATE))
        .bearer_auth(world.token("demo"))
        .json(&body);
    assert_eq!(answer(request.send().await.expect("answer")).await.0, 200);
    assert_eq!(
        world
            .call(Method::GET, "/api/v1/allocations/a%2Fb", "demo")
            .await
            .1["id"],
        "a/b"
    );
    assert_eq!(
        world
            .call(
                Method::GET,
                "/api/v1/allocations?page_size=7&include_ended=true",
                "demo"
            )
            .await
            .0,
        200
    );
    assert_eq!(
        world
            .post("/api/v1/allocations/a9:release", &json!({}), "k")
            .await
            .1["id"],
        "a9"
    );
    let seen = world.record.all();
    assert_eq!(
        seen.iter().map(|s| s.rpc).collect::<Vec<_>>(),
        ["create", "get", "list", "release"]
    );
    assert!(
        seen[2].message.contains("page_size: 7") && seen[2].message.contains("include_ended: true")
    );
}

#[tokio::test]
async fn a_services_refusal_is_passed_on_with_field_and_rule() {
    let world = World::start().await;
    let (status, body) = world.post(CREATE, &launch("quota"), "k").await;
    assert_eq!(
        (status, reason(&body), field(&body)),
        (403, "QUOTA", "gpu_count")
    );
    assert_eq!(body["error"]["status"], "RESOURCE_EXHAUSTED");
    assert_eq!(
        detail(&body, "ErrorInfo")["metadata"],
        json!({ "max_gpus": "2" })
    );
    let (status, body) = world
        .call(Method::GET, "/api/v1/allocations/foreign", "demo")
        .await;
    assert_eq!((status, reason(&body)), (404, "ALLOCATION_NOT_FOUND"));
}

#[tokio::test]
async fn a_services_fault_shows_nothing_of_itself() {
    let world = World::start().await;
    for name in ["broken", "bare"] {
        let (status, body) = world.post(CREATE, &launch(name), "k").await;
        assert_eq!((status, reason(&body)), (500, "INTERNAL"), "{name}");
        assert!(!body.to_string().contains("hunter2"), "{body}");
    }
}

#[tokio::test]
async fn a_service_that_is_away_or_slow_is_told_apart() {
    let world = World::start().await;
    let (_another, base) = world.another_gateway_without("inventory");
    world.until_answers(&base).await;
    let request = world.http.get(format!("{base}/api/v1/regions"));
    let request = request.bearer_auth(world.token("demo"));
    let (status, body) = answer(request.send().await.expect("answer")).await;
    assert_eq!((status, reason(&body)), (503, "DEPENDENCY_UNAVAILABLE"));
    let world = World::start_with(|config, _| config.request_timeout_seconds = 1).await;
    let (status, body) = world.post(CREATE, &launch("slow"), "k").await;
    assert_eq!((status, reason(&body)), (504, "DEADLINE_EXCEEDED"));
}

/// Returns when the service has got the call.
async fn until_taken(world: &World) {
    until("the call", Duration::from_secs(30), async || {
        (!world.record.all().is_empty()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn more_calls_than_it_takes_are_turned_away_and_health_still_answers() {
    let world = World::start_with(|config, _| config.max_in_flight = 1).await;
    let slow = world
        .http
        .post(world.url(CREATE))
        .bearer_auth(world.token("demo"))
        .header("x-idempotency-key", "k")
        .json(&launch("slow"));
    let slow = tokio::spawn(slow.send());
    until_taken(&world).await;
    let response = world
        .http
        .get(world.url(CREATE))
        .bearer_auth(world.token("demo"))
        .send()
        .await
        .expect("answer");
    assert_eq!(response.headers()["retry-after"], "1");
    let (status, body) = answer(response).await;
    assert_eq!((status, reason(&body)), (503, "OVERLOADED"));
    for path in ["/healthz", "/readyz"] {
        assert_eq!(
            world
                .http
                .get(world.url(path))
                .send()
                .await
                .expect("answer")
                .status(),
            200
        );
    }
    slow.abort();
}

#[tokio::test]
async fn a_callers_trace_goes_on_to_the_service() {
    let _telemetry =
        telemetry::install("gateway", &TelemetrySettings::default()).expect("telemetry");
    let world = World::start().await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let request = world
        .http
        .get(world.url(CREATE))
        .bearer_auth(world.token("demo"))
        .header("traceparent", format!("00-{trace}-b7ad6b7169203331-01"));
    assert_eq!(answer(request.send().await.expect("answer")).await.0, 200);
    assert_eq!(world.call(Method::GET, CREATE, "demo").await.0, 200);
    let seen = world.record.all();
    assert!(
        seen[0].traceparent.starts_with(&format!("00-{trace}-")),
        "{}",
        seen[0].traceparent
    );
    assert!(
        seen[1].traceparent.len() == 55 && !seen[1].traceparent.contains(trace),
        "without one a trace begins: {}",
        seen[1].traceparent
    );
}

#[tokio::test]
async fn documents_health_and_metrics_need_no_token() {
    let world = World::start().await;
    let get = |target: String| {
        let http = world.http.clone();
        async move { http.get(target).send().await.expect("answer") }
    };
    let document: Value = get(world.url("/api/openapi.json"))
        .await
        .json()
        .await
        .expect("JSON");
    assert_eq!(document["openapi"], "3.1.0");
    let keys: Value = get(world.url("/.well-known/jwks.json"))
        .await
        .json()
        .await
        .expect("JSON");
    assert_eq!(keys["keys"][0]["crv"], "Ed25519");
    assert!(keys["keys"][0].get("d").is_none(), "no private part");
    world.call(Method::GET, CREATE, "demo").await;
    let text = get(format!("{}/metrics", world.metrics))
        .await
        .text()
        .await
        .expect("text");
    assert!(
        text.contains(r#"http_server_duration_seconds_count{method="GET""#),
        "{text}"
    );
    assert!(text.contains(r#"route="/api/v1/allocations""#), "{text}");
}

#[tokio::test]
async fn a_connection_without_headers_is_let_go_and_does_not_hold_up_others() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let world = World::start_with(|config, _| config.header_timeout_seconds = 4).await;
    let address = world.base.trim_start_matches("http://").to_owned();
    let mut slow = tokio::net::TcpStream::connect(address)
        .await
        .expect("connected");
    slow.write_all(b"GET /healthz HTTP/1.1\r\nx-slow: ")
        .await
        .expect("sent");
    assert_eq!(world.call(Method::GET, CREATE, "demo").await.0, 200);
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(20), slow.read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "the connection is closed by the gateway");
}

#[tokio::test]
async fn a_running_request_ends_well_at_shutdown() {
    let mut world = World::start().await;
    let held = world
        .http
        .post(world.url(CREATE))
        .bearer_auth(world.token("demo"))
        .header("x-idempotency-key", "k")
        .json(&launch("held"));
    let held = tokio::spawn(held.send());
    until_taken(&world).await;
    world.shutdown.cancel();
    world.record.release.notify_one();
    let answered = held.await.expect("no panic");
    let (status, body) = answer(answered.expect("an answer, not a broken connection")).await;
    assert_eq!(status, 200, "{body}");
    while let Some(ended) = world.running.join_next().await {
        ended.expect("no panic").expect("ended well");
    }
}

#[tokio::test]
async fn it_stops_when_told() {
    let mut world = World::start().await;
    world.shutdown.cancel();
    while let Some(ended) = world.running.join_next().await {
        ended.expect("no panic").expect("ended well");
    }
    assert!(world.http.get(world.url("/healthz")).send().await.is_err());
}
