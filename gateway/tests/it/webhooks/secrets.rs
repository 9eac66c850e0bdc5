//! Secrets of webhooks, and how one takes the place of another.
use reqwest::Method;
use serde_json::json;

use super::receiver::Receiver;
use super::{change, create, target, world};
use crate::world::field;

#[tokio::test]
async fn two_secrets_sign_while_one_takes_the_others_place() {
    let world = world().await;
    let mut receiver = Receiver::start().await;
    let made = create(&world, json!({ "url": receiver.url })).await;
    let old = made["secret"].as_str().expect("a secret");
    let rotate = format!("{}:rotateSecret", target(&made));
    let ping = format!("{}:ping", target(&made));
    let (status, rotated) = change(&world, Method::POST, &rotate, json!({})).await;
    assert_eq!(status, 200, "{rotated}");
    let new = rotated["secret"].as_str().expect("a secret");
    assert_ne!(old, new);
    assert!(rotated["previous_secret_expire_time"].is_string());
    let (status, queued) = change(&world, Method::POST, &ping, json!({})).await;
    assert_eq!(
        (status, &queued["event_type"]),
        (200, &json!("webhook.ping"))
    );
    let got = receiver.next().await;
    assert_eq!((got.made_by(new), got.made_by(old)), (1, 1));
    assert_eq!(got.json()["data"]["webhook_id"], made["id"]);
    // at once
    let (_, last) = change(&world, Method::POST, &rotate, json!({ "overlap": "0s" })).await;
    change(&world, Method::POST, &ping, json!({})).await;
    let got = receiver.next().await;
    let newest = last["secret"].as_str().expect("a secret");
    assert_eq!((got.made_by(newest), got.signatures.len()), (1, 1));
    let (status, body) = change(
        &world,
        Method::POST,
        &rotate,
        json!({ "overlap": "700000s" }),
    )
    .await;
    assert_eq!((status, field(&body)), (400, "overlap"));
}
