//! A change that is repeated under its idempotency key by somebody who has lost access since.
use reqwest::Method;
use serde_json::{Value, json};

use super::id;
use crate::world::World;

/// A repeated change answers with what it led to as it is now, as a read does: to who may read it, and to nobody else.
#[tokio::test]
async fn p10_a_repeated_key_shows_nothing_to_who_has_lost_access() {
    let world = World::start().await;
    world.users(&["olga"]).await;
    let lab = world.seeded.project_id.to_string();
    let project = format!("/api/v1/projects/{lab}");
    let olga = world.member(&lab, "olga", "owner").await;
    let (webhooks, invitations) = (
        format!("{project}/webhooks"),
        format!("{project}/invitations"),
    );
    let accounts = format!("{project}/service-accounts");
    let hook = json!({ "url": "https://hooks.example.com/" });
    let invitation = json!({ "email": "ann@example.com", "role": "viewer" });
    let account = json!({ "slug": "ci", "role": "viewer" });
    let made =
        async |target: &str, body: &Value| id(&world.made("olga", target, body.clone()).await);
    let webhook = format!("/api/v1/webhooks/{}", made(&webhooks, &hook).await);
    let unwanted = format!("/api/v1/webhooks/{}", made(&webhooks, &hook).await);
    let revoked = made(&invitations, &invitation).await;
    let program = format!("{accounts}/{}", made(&accounts, &account).await);
    let changes = [
        (Method::POST, webhooks, hook),
        (
            Method::PATCH,
            webhook.clone(),
            json!({ "description": "Ours" }),
        ),
        (
            Method::POST,
            format!("{webhook}:rotateSecret"),
            json!({ "overlap": "60s" }),
        ),
        (Method::POST, invitations, invitation),
        (
            Method::POST,
            format!("/api/v1/invitations/{revoked}:revoke"),
            json!({}),
        ),
        (
            Method::POST,
            accounts,
            json!({ "slug": "cd", "role": "viewer" }),
        ),
        (
            Method::POST,
            format!("{program}/api-keys"),
            json!({ "display_name": "ci", "scopes": ["read"] }),
        ),
        (Method::POST, format!("{program}:disable"), json!({})),
        (
            Method::PATCH,
            project.clone(),
            json!({ "display_name": "Ours" }),
        ),
    ];
    let send = async |index: usize| {
        let (method, target, body) = &changes[index];
        let key = format!("k-{index}");
        world
            .send_as("olga", method.clone(), target, body.clone(), &key)
            .await
    };
    let delete = async || {
        world
            .send_as("olga", Method::DELETE, &unwanted, Value::Null, "k-delete")
            .await
    };
    for (index, (_, target, _)) in changes.iter().enumerate() {
        let (status, first) = send(index).await;
        assert_eq!(status, 200, "{target}: {first}");
        let (status, again) = send(index).await;
        assert_eq!((status, &again["id"]), (200, &first["id"]), "{target}");
    }
    assert_eq!((delete().await.0, delete().await.0), (200, 200));

    let member = format!("{project}/members/{olga}");
    let (status, body) = world
        .send("admin", Method::DELETE, &member, Value::Null)
        .await;
    assert_eq!(status, 200, "{body}");
    world.becomes("olga", &project, 404).await;
    assert_eq!(world.get("olga", &webhook).await.0, 404);
    for (index, (_, target, _)) in changes.iter().enumerate() {
        let (status, body) = send(index).await;
        assert_eq!(status, 404, "{target}: {body}");
    }
    // what is gone shows nothing
    assert_eq!(delete().await.0, 200);
}
