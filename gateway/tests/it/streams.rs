//! Streams over HTTP: both forms, going on after the last message, what ends them, and what they do not hold.
use std::time::{Duration, Instant};

use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::world::{World, detail, reason};

async fn open(world: &World, target: &str, headers: &[(&str, &str)]) -> Response {
    open_by(world, target, headers, world.token("demo")).await
}

async fn open_by(world: &World, target: &str, headers: &[(&str, &str)], token: String) -> Response {
    let mut request = world.http.get(world.url(target)).bearer_auth(token);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.expect("answer")
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

/// Server-sent events as (id, event, data).
fn events(text: &str) -> Vec<(String, String, Value)> {
    let field = |block: &str, name: &str| {
        block
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            .collect::<Vec<_>>()
            .join("\n")
    };
    text.split("\n\n")
        .filter(|block| block.contains("data: "))
        .map(|block| {
            let data = serde_json::from_str(&field(block, "data")).expect("JSON in data");
            (field(block, "id"), field(block, "event"), data)
        })
        .collect()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    gpuaas_dev::until::until(what, Duration::from_secs(20), async || {
        holds().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_stream_is_json_lines_unless_events_are_asked_for() {
    let world = World::start().await;
    let response = open(&world, "/api/v1/allocations/whole:watch", &[]).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    assert_eq!(response.headers()["cache-control"], "no-store");
    assert!(response.headers().contains_key("x-request-id"));
    let found = lines(&response.text().await.expect("text"));
    assert_eq!(found.len(), 5, "{found:?}");
    assert_eq!(found[0]["synced"], json!({}));
    assert_eq!(found[3]["entry"]["sequence"], "3");
    assert_eq!(found[3]["resume_token"], "3");
    assert_eq!(found[4]["end"], json!({}));
    let seen = world.record.all();
    assert!(!seen[0].has_deadline, "a stream has no deadline");

    let accept = [("accept", "text/event-stream")];
    let response = open(&world, "/api/v1/allocations/whole:watch", &accept).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let found = events(&response.text().await.expect("text"));
    let kinds: Vec<&str> = found.iter().map(|(_, kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["synced", "entry", "entry", "entry", "end"]);
    assert_eq!(found[0].0, "", "without a token there is no id");
    assert_eq!(found[1].0, "1");
    assert_eq!(found[1].2["entry"]["message"], "line one of 1\nline two");
}

#[tokio::test]
async fn a_stream_goes_on_after_the_last_event() {
    let world = World::start().await;
    let path = "/api/v1/allocations/whole:watch";
    let by_query = open(&world, &format!("{path}?resume_token=2"), &[]).await;
    let found = lines(&by_query.text().await.expect("text"));
    assert_eq!(found[1]["entry"]["sequence"], "3");

    // a browser repeats the address it began with, and says what it saw last
    let again = [("accept", "text/event-stream"), ("last-event-id", "2")];
    let response = open(&world, &format!("{path}?resume_token=1"), &again).await;
    let found = events(&response.text().await.expect("text"));
    assert_eq!(found[1].0, "3");
    assert_eq!(found.len(), 3);
}

#[tokio::test]
async fn what_fails_before_the_start_is_an_answer_and_after_it_the_last_message() {
    let world = World::start().await;
    let (status, body) = world
        .call(Method::GET, "/api/v1/allocations/foreign:watch", "demo")
        .await;
    assert_eq!((status, reason(&body)), (404, "ALLOCATION_NOT_FOUND"));

    let response = open(&world, "/api/v1/allocations/broken:watch", &[]).await;
    assert_eq!(response.status(), 200);
    let id = response.headers()["x-request-id"].to_str().expect("text");
    let id = id.to_owned();
    let found = lines(&response.text().await.expect("text"));
    assert_eq!(found.len(), 2);
    assert_eq!(reason(&found[1]), "DEPENDENCY_UNAVAILABLE");
    assert_eq!(found[1]["error"]["code"], 503);
    assert_eq!(detail(&found[1], "RequestInfo")["request_id"], id);

    let accept = [("accept", "text/event-stream")];
    let response = open(&world, "/api/v1/allocations/broken:watch", &accept).await;
    let found = events(&response.text().await.expect("text"));
    assert_eq!(found[1].1, "error");
    assert_eq!(reason(&found[1].2), "DEPENDENCY_UNAVAILABLE");
}

#[tokio::test]
async fn a_head_request_opens_no_stream() {
    let world = World::start().await;
    let path = world.url("/api/v1/allocations/silent:watch");
    let request = world.http.head(path).bearer_auth(world.token("demo"));
    let response = request.send().await.expect("answer");
    assert_eq!(response.status(), 405);
    assert_eq!(response.headers()["allow"], "GET");
    assert_eq!(world.record.all().len(), 0);
}

#[tokio::test]
async fn a_client_that_goes_frees_the_services_stream_and_its_place() {
    let world = World::start_with(|config, _| config.max_streams = 1).await;
    let path = "/api/v1/allocations/silent:watch";
    let mut response = open(&world, path, &[]).await;
    let first = response.chunk().await.expect("open").expect("a message");
    assert!(String::from_utf8_lossy(&first).contains("heartbeat"));
    assert_eq!(world.record.open(), 1);
    let (status, body) = world.call(Method::GET, path, "demo").await;
    assert_eq!((status, reason(&body)), (503, "OVERLOADED"));
    drop(response);
    until("the service's stream is open still", || {
        world.record.open() == 0
    })
    .await;
    let started = Instant::now();
    while open(&world, path, &[]).await.status() != 200 {
        assert!(started.elapsed() < Duration::from_secs(20), "no place");
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_the_service_up() {
    let world = World::start().await;
    let response = open(&world, "/api/v1/allocations/flood:watch", &[]).await;
    // what lies on the way fills up, then nothing more is taken from the service
    until("the service was never held up", || world.record.held_up()).await;
    let sent = world.record.sent();
    assert!(
        (1..10_000).contains(&sent),
        "{sent} of 20000 messages were collected"
    );
    let found = lines(&response.text().await.expect("text"));
    assert_eq!(found.len(), 20_000);
    assert_eq!(found[19_999]["entry"]["sequence"], "20000");
}

#[tokio::test]
async fn a_stream_ends_with_the_token_it_was_opened_by() {
    let world = World::start().await;
    // clocks may differ by ten seconds
    let issued = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(60);
    let token = world.dev.sign("demo", issued, 56).expect("signed");
    let response = open_by(&world, "/api/v1/allocations/silent:watch", &[], token).await;
    assert_eq!(response.status(), 200);
    let found = lines(&response.text().await.expect("text"));
    let last = found.last().expect("a last message");
    assert_eq!(reason(last), "CREDENTIAL_EXPIRED");
    assert_eq!(last["error"]["code"], 401);
}

#[tokio::test]
async fn a_stream_ends_when_its_reader_loses_the_project() {
    let world = World::start_with(|config, _| config.stream_access_seconds = 0.1).await;
    let mut response = open(&world, "/api/v1/allocations/silent:watch", &[]).await;
    response.chunk().await.expect("open").expect("a message");
    sqlx::query("DELETE FROM edge.memberships")
        .execute(&world.db.owner_pool().await)
        .await
        .expect("deleted");
    let found = lines(&response.text().await.expect("text"));
    let last = found.last().expect("a last message");
    assert_eq!(reason(last), "PERMISSION_DENIED");
    until("the service's stream is open still", || {
        world.record.open() == 0
    })
    .await;
}

#[tokio::test]
async fn streams_end_at_shutdown_and_say_where_to_go_on() {
    let mut world = World::start().await;
    let mut response = open(&world, "/api/v1/allocations/silent:watch", &[]).await;
    response.chunk().await.expect("open").expect("a message");
    let metrics = reqwest::get(format!("{}/metrics", world.metrics)).await;
    let metrics = metrics.expect("metrics").text().await.expect("text");
    let shown = metrics
        .lines()
        .find(|line| line.starts_with("http_streams_open{"));
    assert!(shown.is_some_and(|line| line.ends_with(" 1")), "{metrics}");
    world.shutdown.cancel();
    let found = lines(&response.text().await.expect("text"));
    assert_eq!(
        reason(found.last().expect("a last message")),
        "DEPENDENCY_UNAVAILABLE"
    );
    while let Some(ended) = world.running.join_next().await {
        ended.expect("no panic").expect("a clean end");
    }
}

#[tokio::test]
async fn a_service_that_is_killed_ends_the_stream_as_one_that_may_be_resumed() {
    let mut world = World::start().await;
    let mut response = open(&world, "/api/v1/allocations/silent:watch", &[]).await;
    response.chunk().await.expect("open").expect("a message");
    world.service.kill();
    let found = lines(&response.text().await.expect("text"));
    let last = found.last().expect("a last message");
    assert_eq!(reason(last), "DEPENDENCY_UNAVAILABLE");
    assert_eq!(last["error"]["status"], "UNAVAILABLE");
}
