//! The running services forget what is kept no longer.
use std::time::Duration;

use gpuaas_common::CancellationToken;
use gpuaas_dev::until::until;

use crate::platform::port;
use crate::world::{World, answers};

#[tokio::test]
async fn p4_running_services_forget_old_keys_and_old_events() {
    let world = World::start().await;
    sqlx::raw_sql(
        "INSERT INTO placement.idempotency (principal, method, key, request_hash, resource_id, created_at)
         VALUES ('user:a', 'M', 'old', sha256('old'), 'r', clock_timestamp() - interval '8 days'),
                ('user:a', 'M', 'new', sha256('new'), 'r', clock_timestamp())",
    )
    .execute(&world.owner)
    .await
    .expect("keys");
    // an event so old cannot come about in a test, so its time is written past the guard
    sqlx::raw_sql(
        "ALTER TABLE placement.outbox DISABLE TRIGGER outbox_guard;
         UPDATE placement.outbox SET at = clock_timestamp() - interval '91 days', position = seq;
         UPDATE placement.outbox_head SET position = (SELECT max(position) FROM placement.outbox);
         ALTER TABLE placement.outbox ENABLE TRIGGER outbox_guard",
    )
    .execute(&world.owner)
    .await
    .expect("aged");
    let (events, keys) = kept(&world).await;
    assert!(events > 1 && keys == 2, "{events} events, {keys} keys");
    let address = port();
    let down = CancellationToken::new();
    let context = world.context("allocation", "allocation", address);
    tokio::spawn(gpuaas_allocation::run(
        context,
        World::config(),
        down.clone(),
    ));
    answers(address).await;
    // the last event stays: consumers compare with its position
    until("the sweep", Duration::from_secs(20), async || {
        (kept(&world).await == (1, 1)).then_some(())
    })
    .await;
    down.cancel();
}

/// Events and keys that are there.
async fn kept(world: &World) -> (i64, i64) {
    sqlx::query_as(
        "SELECT (SELECT count(*) FROM placement.outbox), (SELECT count(*) FROM placement.idempotency)",
    )
    .fetch_one(&world.owner)
    .await
    .expect("counts")
}
