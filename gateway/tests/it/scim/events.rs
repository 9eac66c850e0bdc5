//! What groups give and take is told to webhooks.
use reqwest::Method;
use serde_json::{Value, json};

use super::Provider;

#[tokio::test]
async fn what_groups_make_of_memberships_is_told_to_the_projects_webhooks() {
    let provider = Provider::start().await;
    let world = &provider.world;
    let target = format!("/api/v1/projects/{}/webhooks", world.seeded.project_id);
    let body = json!({ "url": "https://hooks.example.com/" });
    let (status, made) = provider.api("demo", Method::POST, &target, body).await;
    assert_eq!(status, 200, "{made}");

    let ann = provider.user("ann").await;
    let group = provider.group("ml", &[&ann]).await;
    provider.map(&group, "viewer").await;
    let strong = provider.group("leads", &[&ann]).await;
    provider.map(&strong, "owner").await;
    for path in [format!("/Groups/{strong}"), format!("/Users/{ann}")] {
        let gone = provider.scim(Method::DELETE, &path, Value::Null).await;
        assert_eq!(gone.status, 204, "{path}");
    }

    let bodies: Vec<String> = sqlx::query_scalar(
        "SELECT body FROM webhook_deliveries WHERE webhook_id = $1::uuid ORDER BY seq",
    )
    .bind(made["id"].as_str().expect("id"))
    .fetch_all(&world.pool().await)
    .await
    .expect("deliveries");
    let told: Vec<Value> = bodies
        .iter()
        .map(|body| {
            let event: Value = serde_json::from_str(body).expect("JSON");
            let data = &event["data"];
            assert_eq!(data["actor"], "scim", "{event}");
            assert_eq!(data["project_id"], world.seeded.project_id.to_string());
            json!([event["type"], data["previous_role"], data["role"]])
        })
        .collect();
    assert_eq!(
        told,
        [
            json!(["project_member.added", "unspecified", "viewer"]),
            json!(["project_member.updated", "viewer", "owner"]),
            json!(["project_member.updated", "owner", "viewer"]),
            json!(["project_member.removed", "viewer", "unspecified"]),
        ]
    );
}
