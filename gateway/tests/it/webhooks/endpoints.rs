//! Endpoints that lead elsewhere, to something private, or that never answer.
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::receiver::Receiver;
use super::{all_in, change, create, deliveries, event, target, world};
use crate::world::{World, field, reason};

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let world = world().await;
    let mut receiver = Receiver::start().await;
    let made = create(&world, json!({ "url": format!("{}away", receiver.url) })).await;
    let ping = format!("{}:ping", target(&made));
    change(&world, Method::POST, &ping, json!({})).await;
    let tried = |all: &[Value]| all.iter().any(|one| one["attempts"].as_u64() > Some(1));
    let listed = deliveries(&world, &made, tried).await;
    assert_eq!(listed[0]["response_status"], 307);
    assert!(
        receiver.arrived.try_recv().is_err(),
        "nobody was redirected"
    );
}

/// As it is in production: nothing but HTTPS to public addresses, when it is made and when it is called.
#[tokio::test]
async fn nothing_private_is_called() {
    let world = World::start_with(|config, _| config.webhooks.poll_seconds = 0.05).await;
    let mut receiver = Receiver::start().await;
    let collection = format!("/api/v1/projects/{}/webhooks", world.seeded.project_id);
    for url in [
        receiver.url.as_str(),
        "https://127.0.0.1/",
        "https://169.254.169.254/latest/meta-data/",
        "https://[::ffff:10.0.0.1]/",
        "https://localhost/",
        "https://me:secret@hooks.example.com/",
    ] {
        let (status, body) = change(&world, Method::POST, &collection, json!({ "url": url })).await;
        assert_eq!(
            (status, reason(&body), field(&body)),
            (400, "FIELD_INVALID", "url"),
            "{url}"
        );
        assert!(!body.to_string().contains("secret@"), "{body}");
    }
    let body = json!({ "url": "https://hooks.example.com/", "event_types": ["allocation.active", "slot.available"] });
    let (status, body) = change(&world, Method::POST, &collection, body).await;
    assert_eq!((status, field(&body)), (400, "event_types[1]"));
    // one that was made under another setting, and one whose name leads home
    let body = json!({ "url": "https://hooks.example.com/" });
    let made = create(&world, body).await;
    let pool = world.pool().await;
    let port = receiver.url.rsplit(':').next().expect("port");
    for (url, error) in [
        (
            receiver.url.clone(),
            "the URL does not lead to a public address by HTTPS",
        ),
        (
            format!("https://localhost.localdomain:{port}"),
            "the host has no public address",
        ),
    ] {
        sqlx::query("UPDATE webhooks SET url = $1")
            .bind(&url)
            .execute(&pool)
            .await
            .expect("moved");
        change(
            &world,
            Method::POST,
            &format!("{}:ping", target(&made)),
            json!({}),
        )
        .await;
        let tried = |all: &[Value]| all[0]["attempts"].as_u64() > Some(0) && all[0]["error"] != "";
        let listed = deliveries(&world, &made, tried).await;
        let got = listed[0]["error"].as_str().expect("text");
        // a machine whose resolver does not know the name calls nobody either
        assert!(
            got == error || url.contains("localdomain") && got.contains("connection"),
            "{url}: {got}"
        );
        sqlx::query("DELETE FROM webhook_deliveries")
            .execute(&pool)
            .await
            .expect("gone");
    }
    assert!(receiver.arrived.try_recv().is_err(), "nobody was called");
}

/// One that never answers, and is known for it, has one attempt under way; the others have places.
#[tokio::test]
async fn a_dead_endpoint_keeps_nobody_waiting() {
    let world = World::start_with(|config, _| {
        config.webhooks.allow_insecure = true;
        config.webhooks.poll_seconds = 0.05;
        // longer than the test
        config.webhooks.timeout_seconds = 600.0;
        config.webhooks.max_concurrent = 2;
    })
    .await;
    let mut dead = Receiver::start().await;
    let mut alive = Receiver::start().await;
    let silent = format!("{}silent", dead.url);
    create(&world, json!({ "url": silent })).await;
    sqlx::query("UPDATE webhooks SET failing_time = clock_timestamp()")
        .execute(&world.pool().await)
        .await
        .expect("known for it");
    for _ in 0..5 {
        world
            .log
            .append(event(&world, "allocation.active", Uuid::now_v7(), 1));
    }
    dead.next().await;
    let made = create(&world, json!({ "url": alive.url })).await;
    for _ in 0..5 {
        world
            .log
            .append(event(&world, "allocation.active", Uuid::now_v7(), 1));
    }
    for _ in 0..5 {
        alive.next().await;
    }
    deliveries(&world, &made, all_in("delivered", 5)).await;
    assert!(dead.arrived.try_recv().is_err(), "one at a time");
}
