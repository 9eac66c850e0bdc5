//! Webhooks against a real receiver: signed, in order, at least once, by several gateways, and to nowhere private.
mod deliveries;
mod disabled;
mod endpoints;
mod event_types;
mod gateways;
mod organisations;
mod receiver;
mod secrets;
mod tenancy;
mod turns;
pub mod usage;

use std::time::Duration;

use gpuaas_dev::until::until;
use gpuaas_proto::gpuaas::internal::events::v1::Event;
use prost_types::value::Kind;
use reqwest::Method;
use serde_json::Value;
use uuid::Uuid;

use crate::world::{World, answer};

/// Longer than anything here may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

async fn world() -> World {
    World::start_with(|config, _| {
        config.webhooks.allow_insecure = true;
        config.webhooks.poll_seconds = 0.05;
        config.webhooks.first_retry_seconds = 0.05;
        config.webhooks.timeout_seconds = 30.0;
    })
    .await
}

async fn change(world: &World, method: Method, target: &str, body: Value) -> (u16, Value) {
    let mut request = world
        .http
        .request(method, world.url(target))
        .bearer_auth(world.token("demo"))
        .header("x-idempotency-key", Uuid::new_v4().to_string());
    if !body.is_null() {
        request = request.json(&body);
    }
    answer(request.send().await.expect("answer")).await
}

async fn create(world: &World, body: Value) -> Value {
    let target = format!("/api/v1/projects/{}/webhooks", world.seeded.project_id);
    let (status, made) = change(world, Method::POST, &target, body).await;
    assert_eq!(status, 200, "{made}");
    made
}

fn target(webhook: &Value) -> String {
    format!("/api/v1/webhooks/{}", webhook["id"].as_str().expect("id"))
}

fn event(world: &World, kind: &str, object: Uuid, revision: i64) -> Event {
    let now = jiff::Timestamp::now();
    let state = prost_types::Value {
        kind: Some(Kind::StringValue("active".to_owned())),
    };
    Event {
        r#type: kind.to_owned(),
        aggregate_id: object.to_string(),
        revision,
        time: Some(prost_types::Timestamp {
            seconds: now.as_second(),
            nanos: now.subsec_nanosecond(),
        }),
        project_id: world.seeded.project_id.to_string(),
        data: Some(prost_types::Struct {
            fields: [("state".to_owned(), state)].into(),
        }),
        ..Event::default()
    }
}

/// The deliveries of a webhook once they are as wanted, newest first.
async fn deliveries(
    world: &World,
    webhook: &Value,
    wanted: impl Fn(&[Value]) -> bool,
) -> Vec<Value> {
    let target = format!("{}/deliveries", target(webhook));
    until("the deliveries", TIMEOUT, async || {
        let (status, body) = world.call(Method::GET, &target, "demo").await;
        assert_eq!(status, 200, "{body}");
        let all = body["deliveries"].as_array().expect("a list").clone();
        wanted(&all).then_some(all)
    })
    .await
}

fn all_in(state: &'static str, count: usize) -> impl Fn(&[Value]) -> bool {
    move |all| all.len() == count && all.iter().all(|one| one["state"] == state)
}

async fn until_position(pool: &sqlx::PgPool, position: i64) {
    until("the gateway to read on", TIMEOUT, async || {
        let now: i64 = sqlx::query_scalar("SELECT position FROM webhook_head")
            .fetch_one(pool)
            .await
            .expect("row");
        (now >= position).then_some(())
    })
    .await;
}
