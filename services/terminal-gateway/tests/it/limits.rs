//! Limits of time and number.
use std::time::Duration;

use serde_json::json;

use crate::guest::Manner;
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_so_many_sessions_and_no_more() {
    let world = World::with(Manner::Well, |config, _| config.max_sessions_per_user = 2).await;
    let (mut first, ready) = world.session().await;
    let held = world.ticket().await;
    let (status, refused) = world.ask(None, "third").await;
    assert_eq!(status, 403, "{refused}");
    let mut second = world.program().await;
    second.attach(&held, &world.allocation_id()).await;
    second.text("session_ready").await;
    assert_eq!(world.ask(None, "fourth").await.0, 403);
    first.say(json!({"type": "close"})).await;
    first.ended().await;
    world.closed(&ready["session_id"]).await;
    let (mut third, _) = world.session().await;
    third.input("in\n").await;
    third.until("<in>").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_shrinks_meanwhile_holds_at_the_opening() {
    let world = World::with(Manner::Well, |config, _| config.max_sessions_per_user = 1).await;
    let ticket = world.ticket().await;
    sqlx::query(
        "INSERT INTO terminal.sessions (id, allocation_id, project_id, principal)
         VALUES (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'user:alice')",
    )
    .execute(&world.db.owner_pool().await)
    .await
    .expect("a session elsewhere");
    let mut client = world.program().await;
    client.attach(&ticket, &world.allocation_id()).await;
    assert_eq!(client.ended().await, (4409, "too_many_sessions".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_nobody_types_in_ends() {
    let world = World::with(Manner::Well, |config, _| config.idle_seconds = 1).await;
    let (mut client, ready) = world.session().await;
    assert_eq!(client.ended().await, (4408, "idle".to_owned()));
    assert_eq!(world.closed(&ready["session_id"]).await, "idle");
    world.no_shells().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_at_its_time_however_busy_it_is() {
    let world = World::with(Manner::Well, |config, _| config.max_seconds = 2).await;
    let (mut client, _) = world.session().await;
    client.input("flood 1000000000000\n").await;
    assert_eq!(client.ended().await, (4408, "time_limit".to_owned()));
    world.no_shells().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_nobody_comes_back_to_ends() {
    let world = World::with(Manner::Well, |config, _| config.resume_seconds = 1).await;
    let (client, ready) = world.session().await;
    drop(client);
    assert_eq!(world.closed(&ready["session_id"]).await, "not_resumed");
    world.no_shells().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_a_process_that_is_gone_are_closed_by_another() {
    let world = World::start().await;
    let pool = world.db.owner_pool().await;
    let id: uuid::Uuid = sqlx::query_scalar(
        "INSERT INTO terminal.sessions (id, allocation_id, project_id, principal, replica, open_time, seen_time)
         VALUES (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'user:alice', 'gone', now() - interval '5 minutes',
                 now() - interval '2 minutes') RETURNING id",
    )
    .fetch_one(&pool)
    .await
    .expect("inserted");
    assert_eq!(world.closed(&json!(id)).await, "process_lost");
    assert_eq!(
        world.audit().await,
        [("terminal.close".to_owned(), "process_lost".to_owned())]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_sessions_of_one_vm_answer() {
    let world = World::with(Manner::Well, |config, _| config.max_sessions_per_user = 100).await;
    let mut clients = Vec::new();
    for _ in 0..30 {
        clients.push(world.session().await.0);
    }
    for client in &mut clients {
        client.input("alive\n").await;
    }
    for client in &mut clients {
        tokio::time::timeout(Duration::from_secs(20), client.until("<alive>"))
            .await
            .expect("answers");
    }
}
