//! Webhooks that are disabled: their endpoint is gone, or their project is closed.
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::receiver::Receiver;
use super::{all_in, change, create, deliveries, event, target, until_position, world};
use crate::world::{field, reason};

#[tokio::test]
async fn an_endpoint_that_is_gone_disables_its_webhook_which_can_be_enabled_again() {
    let world = world().await;
    let mut receiver = Receiver::start().await;
    let made = create(&world, json!({ "url": receiver.url })).await;
    let object = Uuid::now_v7();
    receiver.will_answer(&[410]);
    world
        .log
        .append(event(&world, "allocation.active", object, 1));
    world
        .log
        .append(event(&world, "allocation.stopped", object, 2));
    receiver.next().await;
    let listed = deliveries(&world, &made, all_in("failed", 2)).await;
    assert_eq!(listed[1]["response_status"], 410);
    let (_, webhook) = world.call(Method::GET, &target(&made), "demo").await;
    assert_eq!(webhook["state"], "disabled");
    assert_eq!(webhook["disable_reason"], "The endpoint answered 410 Gone.");
    let pool = world.pool().await;
    let audited: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM audit WHERE action = 'webhook.disable' AND principal = 'gateway'",
    )
    .fetch_one(&pool)
    .await
    .expect("count");
    assert_eq!(audited, 1);
    // its members read of it, too
    let feed = format!("/api/v1/projects/{}/activities", world.seeded.project_id);
    let (status, feed) = world.call(Method::GET, &feed, "demo").await;
    assert_eq!(status, 200, "{feed}");
    let all = feed["activities"].as_array().expect("a list");
    let of_it = all.iter().find(|one| one["action"] == "webhook.disable");
    let of_it = of_it.expect("in the feed");
    assert_eq!(
        (&of_it["summary"], &of_it["actor_kind"], &of_it["name"]),
        (
            &json!("Disabled the webhook"),
            &json!("platform"),
            &json!("127.0.0.1")
        )
    );
    let redeliver = format!(
        "{}/deliveries/{}:redeliver",
        target(&made),
        listed[0]["id"].as_str().expect("id")
    );
    let (status, body) = change(&world, Method::POST, &redeliver, json!({})).await;
    assert_eq!((status, reason(&body)), (400, "STATE_CONFLICT"));
    // what happens meanwhile is not for it
    world
        .log
        .append(event(&world, "allocation.starting", object, 3));
    let stale = json!({ "disabled": false, "etag": made["etag"] });
    let (status, body) = change(&world, Method::PATCH, &target(&made), stale).await;
    assert_eq!((status, reason(&body)), (409, "ETAG_STALE"));
    let rotate = format!("{}:rotateSecret", target(&made));
    let stale = json!({ "etag": made["etag"] });
    let (status, body) = change(&world, Method::POST, &rotate, stale).await;
    assert_eq!((status, reason(&body)), (409, "ETAG_STALE"));
    until_position(&pool, 3).await;
    let enable = json!({ "disabled": false, "etag": webhook["etag"] });
    let (status, body) = change(&world, Method::PATCH, &target(&made), enable).await;
    assert_eq!((status, &body["state"]), (200, &json!("enabled")), "{body}");
    let (status, _) = change(&world, Method::POST, &redeliver, json!({})).await;
    assert_eq!(status, 200);
    assert_eq!(receiver.next().await.revision(), "2");
    let (status, _) = change(&world, Method::DELETE, &target(&made), Value::Null).await;
    assert_eq!(status, 200);
    let (status, body) = world.call(Method::GET, &target(&made), "demo").await;
    assert_eq!((status, field(&body)), (404, "webhook_id"));
}

#[tokio::test]
async fn nothing_is_delivered_for_a_project_that_was_closed() {
    let world = world().await;
    let mut receiver = Receiver::start().await;
    receiver.will_answer(&[500; 500]);
    let made = create(&world, json!({ "url": receiver.url })).await;
    let object = Uuid::now_v7();
    world
        .log
        .append(event(&world, "allocation.releasing", object, 1));
    world
        .log
        .append(event(&world, "allocation.released", object, 2));
    receiver.next().await;
    let pool = world.pool().await;
    until_position(&pool, 2).await;
    let close = format!("/api/v1/projects/{}:close", world.seeded.project_id);
    let (status, body) = change(&world, Method::POST, &close, json!({})).await;
    assert_eq!(status, 200, "{body}");
    let left = async || -> (String, String, i64, i64) {
        sqlx::query_as(
            "SELECT w.state, w.disable_reason, count(d.id), count(d.id) FILTER (WHERE d.state = 'failed')
               FROM webhooks w LEFT JOIN webhook_deliveries d ON d.webhook_id = w.id GROUP BY w.id",
        )
        .fetch_one(&pool)
        .await
        .expect("row")
    };
    let ended = (
        "disabled".to_owned(),
        "The project was closed.".to_owned(),
        2,
        2,
    );
    assert_eq!(left().await, ended);
    world
        .log
        .append(event(&world, "allocation.failed", object, 3));
    until_position(&pool, 3).await;
    assert_eq!(left().await, ended);
    let enable = json!({ "disabled": false });
    let (status, body) = change(&world, Method::PATCH, &target(&made), enable).await;
    assert_ne!(status, 200, "{body}");
    assert_eq!(left().await, ended);
}
