//! Several gateways deliver, and one that is killed loses nothing.
use std::collections::BTreeMap;

use gpuaas_dev::until::until;
use serde_json::json;
use uuid::Uuid;

use super::receiver::Receiver;
use super::{TIMEOUT, create, deliveries, event, world};
use crate::world::World;

#[tokio::test]
async fn two_gateways_share_the_work_and_do_none_of_it_twice() {
    const EVENTS: usize = 60;
    let world = world().await;
    let mut receiver = Receiver::start().await;
    let made = create(&world, json!({ "url": receiver.url })).await;
    let (_second, base) = world.another_gateway();
    world.until_answers(&base).await;
    let objects: Vec<Uuid> = (0..6).map(|_| Uuid::now_v7()).collect();
    for index in 0..EVENTS {
        let object = objects[index % objects.len()];
        let revision = (index / objects.len()) as i64 + 1;
        world
            .log
            .append(event(&world, "allocation.updated", object, revision));
    }
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    for _ in 0..EVENTS {
        let sent = receiver.next().await.json();
        let object = sent["data"]["allocation_id"]
            .as_str()
            .expect("id")
            .to_owned();
        let revision: i64 = sent["data"]["revision"]
            .as_str()
            .and_then(|one| one.parse().ok())
            .expect("revision");
        let before = last.insert(object, revision).unwrap_or_default();
        assert_eq!(revision, before + 1, "in order, each once");
    }
    let listed = deliveries(&world, &made, |all| {
        all.len() == 50 && all.iter().all(|one| one["state"] == "delivered")
    })
    .await;
    assert!(listed.iter().all(|one| one["attempts"] == 1));
    assert!(receiver.arrived.try_recv().is_err(), "nothing twice");
}

/// Of the only gateway that delivers, an attempt is under way when it is killed.
#[tokio::test]
async fn a_gateway_that_is_killed_loses_nothing() {
    let world = World::start_with(|config, _| {
        config.webhooks.allow_insecure = true;
        config.webhooks.timeout_seconds = 2.0;
        config.webhooks.poll_seconds = 0.05;
    })
    .await;
    let mut receiver = Receiver::start().await;
    let silent = format!("{}silent", receiver.url);
    let made = create(&world, json!({ "url": silent })).await;
    world
        .log
        .append(event(&world, "allocation.active", Uuid::now_v7(), 1));
    let first = receiver.next().await;
    // this one is gone, as killed: nothing was noted of the attempt
    let (second, base) = world.another_gateway();
    world.until_answers(&base).await;
    let mut world = world;
    world.running.abort_all();
    while world.running.join_next().await.is_some() {}
    let pool = world.pool().await;
    sqlx::query("UPDATE webhooks SET url = $1")
        .bind(&receiver.url)
        .execute(&pool)
        .await
        .expect("moved");
    let again = receiver.next().await;
    assert_eq!((&again.id, &again.body), (&first.id, &first.body));
    until("delivered", TIMEOUT, async || {
        let state: String = sqlx::query_scalar("SELECT state FROM webhook_deliveries")
            .fetch_one(&pool)
            .await
            .expect("row");
        (state == "delivered").then_some(())
    })
    .await;
    assert!(made["id"].is_string());
    drop(second);
}
