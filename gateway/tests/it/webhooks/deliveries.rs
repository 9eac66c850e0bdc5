//! What is delivered: signed, repeated until it arrives, of one object in order.
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::json;
use uuid::Uuid;

use super::receiver::Receiver;
use super::{all_in, change, create, deliveries, event, target, world};

#[tokio::test]
async fn an_event_is_delivered_signed_and_the_secret_is_shown_once() {
    let world = world().await;
    let mut receiver = Receiver::start().await;
    let collection = format!("/api/v1/projects/{}/webhooks", world.seeded.project_id);
    let body =
        json!({ "url": receiver.url, "event_types": ["allocation.failed", "allocation.active"] });
    let (status, made) = world.post(&collection, &body, "k-1").await;
    assert_eq!(status, 200, "{made}");
    let secret = made["secret"].as_str().expect("a secret").to_owned();
    let (_, again) = world.post(&collection, &body, "k-1").await;
    assert_eq!((&again["id"], &again["secret"]), (&made["id"], &json!("")));
    assert_eq!(
        made["event_types"],
        json!(["allocation.active", "allocation.failed"])
    );

    let object = Uuid::now_v7();
    world.log.append(event(&world, "slot.available", object, 1));
    world
        .log
        .append(event(&world, "allocation.stopped", object, 2));
    world
        .log
        .append(event(&world, "allocation.active", object, 3));
    let got = receiver.next().await;
    assert_eq!((got.made_by(&secret), got.signatures.len()), (1, 1));
    let sent = got.json();
    assert_eq!(sent["type"], "allocation.active");
    assert_eq!(sent["data"]["allocation_id"], object.to_string());
    assert_eq!(sent["data"]["state"], "active");
    let listed = deliveries(&world, &made, all_in("delivered", 1)).await;
    assert_eq!(listed[0]["id"], got.id);
    assert_eq!(listed[0]["response_status"], 200);
    assert_eq!(listed[0]["attempts"], 1);

    // nobody reads the secret again: not by the API, not in the database, not in the audit trail
    for path in [collection.clone(), target(&made)] {
        let (_, body) = world.call(Method::GET, &path, "demo").await;
        assert!(!body.to_string().contains(&secret), "{body}");
    }
    let bytes = STANDARD.decode(&secret[6..]).expect("base64");
    let pool = world.pool().await;
    let sealed: Vec<u8> = sqlx::query_scalar("SELECT secret FROM webhooks")
        .fetch_one(&pool)
        .await
        .expect("row");
    assert!(!sealed.windows(bytes.len()).any(|part| part == bytes));
    let audited: Vec<String> =
        sqlx::query_scalar("SELECT detail::text FROM audit WHERE action = 'webhook.create'")
            .fetch_all(&pool)
            .await
            .expect("rows");
    assert_eq!(audited.len(), 1, "on record, once");
    assert!(!audited[0].contains("whsec_"), "{audited:?}");

    // the same event once more, by hand
    let path = format!("{}/deliveries/{}:redeliver", target(&made), got.id);
    let (status, body) = change(&world, Method::POST, &path, json!({})).await;
    assert_eq!(status, 200, "{body}");
    let second = receiver.next().await;
    assert_eq!((&second.id, &second.body), (&got.id, &got.body));
}

#[tokio::test]
async fn what_fails_is_repeated_and_later_events_of_the_object_wait_for_it() {
    let world = world().await;
    let mut receiver = Receiver::start().await;
    let made = create(&world, json!({ "url": receiver.url })).await;
    let (first, other) = (Uuid::now_v7(), Uuid::now_v7());
    receiver.will_answer(&[500, 500]);
    world
        .log
        .append(event(&world, "allocation.active", first, 1));
    world
        .log
        .append(event(&world, "allocation.stopped", first, 2));
    let mut seen = Vec::new();
    for _ in 0..4 {
        let got = receiver.next().await;
        seen.push((got.id.clone(), got.revision()));
    }
    let revisions: Vec<&str> = seen.iter().map(|(_, revision)| revision.as_str()).collect();
    assert_eq!(revisions, ["1", "1", "1", "2"]);
    assert!(
        seen[..3].iter().all(|(id, _)| *id == seen[0].0),
        "one delivery"
    );
    let listed = deliveries(&world, &made, all_in("delivered", 2)).await;
    assert_eq!(
        (&listed[1]["attempts"], &listed[0]["attempts"]),
        (&json!(3), &json!(1))
    );
    let (_, webhook) = world.call(Method::GET, &target(&made), "demo").await;
    assert!(webhook.get("failing_time").is_none(), "{webhook}");

    // a ledger that was restored has other events at the same positions
    world.log.keep(1);
    world
        .log
        .append(event(&world, "allocation.active", other, 1));
    world
        .log
        .append(event(&world, "allocation.failed", other, 2));
    let last = receiver.next().await;
    assert_eq!(last.json()["data"]["allocation_id"], other.to_string());
}
