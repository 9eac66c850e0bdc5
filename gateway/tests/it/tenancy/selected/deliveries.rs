//! Deliveries of a webhook.
use serde_json::json;
use uuid::Uuid;

use super::listed;
use crate::world::{World, field};

#[tokio::test]
async fn deliveries_of_a_webhook_are_filtered_and_ordered() {
    let world = World::start_with(|config, _| config.webhooks.allow_insecure = true).await;
    world.users(&["olga"]).await;
    let acme = world.organisation("acme", "olga").await;
    let lab = world.project(&acme, "lab", "olga").await;
    let hooks = format!("/api/v1/projects/{lab}/webhooks");
    let body = json!({ "url": "http://127.0.0.1:1/" });
    let hook = world.made("olga", &hooks, body).await;
    let hook = hook["id"].as_str().expect("an id");
    let pool = world.pool().await;
    for (event, state, attempts, status) in [
        ("allocation.active", "failed", 5, 503),
        ("allocation.failed", "delivered", 1, 200),
        ("allocation.released", "failed", 3, 500),
        ("allocation.stopped", "failed", 2, 0),
        ("allocation.started", "pending", 1, 500),
    ] {
        let insert = "INSERT INTO webhook_deliveries (id, webhook_id, event_type, object_id, body, state, attempts, response_status,
                                             next_attempt_time)
             VALUES ($1, $2::uuid, $3, $1, '{}', $4, $5, $6, now() + interval '1 day')";
        sqlx::query(insert)
            .bind(Uuid::now_v7())
            .bind(hook)
            .bind(event)
            .bind(state)
            .bind(attempts)
            .bind(status)
            .execute(&pool)
            .await
            .expect("inserted");
    }
    let target = format!("/api/v1/webhooks/{hook}/deliveries");
    for (query, expected) in [
        (
            "",
            &["started", "stopped", "released", "failed", "active"][..],
        ),
        (
            "filter=state%20%3D%20failed&order_by=attempts%20desc",
            &["active", "released", "stopped"],
        ),
        (
            "filter=response_status%20%3E%3D%20500",
            &["started", "released", "active"],
        ),
        (
            "state=failed&filter=event_type%3ASTOPPED%20OR%20attempts%20%3E%204",
            &["stopped", "active"],
        ),
        ("filter=deliver_time%3A*", &[]),
    ] {
        let asked = format!("{target}?{query}");
        let found = listed(&world, "olga", &asked, "deliveries", "event_type").await;
        let expected: Vec<String> = expected
            .iter()
            .map(|one| format!("allocation.{one}"))
            .collect();
        assert_eq!(found, expected, "{query}");
    }
    for (query, expected) in [
        ("filter=body%3A*", "filter"),
        ("order_by=deliver_time", "order_by"),
    ] {
        let (status, body) = world.get("olga", &format!("{target}?{query}")).await;
        assert_eq!((status, field(&body)), (400, expected), "{query}: {body}");
    }
}
