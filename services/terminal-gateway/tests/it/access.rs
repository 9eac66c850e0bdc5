//! Whoever may not use an allocation any more loses its terminals, the open ones and those that could still be opened.
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use crate::attacks::end;
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_loses_access_loses_the_session() {
    let world = World::start().await;
    let pool = world.db.owner_pool().await;
    let (mut client, ready) = world.session().await;
    client.until("$ ").await;
    sqlx::query("DELETE FROM edge.memberships WHERE principal_id = (SELECT id FROM edge.principals WHERE name = 'user:alice')")
        .execute(&pool)
        .await
        .expect("removed");
    assert_eq!(client.ended().await, (4403, "access_lost".to_owned()));
    world.no_shells().await;
    assert_eq!(world.closed(&ready["session_id"]).await, "access_lost");
}

/// A ticket is good for half a minute and a resume token for a minute after they were given out, whatever happens meanwhile.
/// Before, a client that did not wait for an answer had its commands run until the first check of its access.
#[tokio::test(flavor = "multi_thread")]
async fn after_access_was_lost_no_ticket_and_no_resume_token_runs_a_command_or_shows_output() {
    let world = World::start().await;
    let pool = world.db.owner_pool().await;
    let (status, given) = world.ask(None, "before").await;
    assert_eq!(status, 200, "{given}");
    let (mut client, ready) = world.session().await;
    client.input("before\n").await;
    client.until("<before>").await;
    let sent = client.sent;
    // the gateway that answers a close looks after the connection no more
    client.say_raw(Message::Close(None)).await;
    end(&mut client).await;
    let removed = sqlx::query("DELETE FROM edge.memberships WHERE principal_id = (SELECT id FROM edge.principals WHERE name = 'user:alice')")
        .execute(&pool)
        .await
        .expect("removed");
    assert_eq!(removed.rows_affected(), 1);

    let mut by_token = world.program().await;
    // of what was shown before, all is asked for again
    by_token.resume(&ready, 0).await;
    by_token.input_at(sent, b"flood 1000\n").await;
    let mut by_ticket = world.program().await;
    let ticket = given["ticket"].as_str().expect("a ticket");
    by_ticket.attach(ticket, &world.allocation_id()).await;
    by_ticket.input_at(0, b"flood 1000\n").await;
    for (name, revoked, session_id) in [
        ("a resume token", &mut by_token, &ready["session_id"]),
        ("a ticket", &mut by_ticket, &given["session_id"]),
    ] {
        assert_eq!(
            revoked.ended().await,
            (4403, "access_lost".to_owned()),
            "{name}"
        );
        assert!(revoked.output.is_empty(), "{name}: {:?}", revoked.output);
        let heard: Vec<_> = revoked.texts.iter().map(|text| &text["type"]).collect();
        assert_eq!(heard, ["closed"], "{name}");
        assert_eq!(world.closed(session_id).await, "access_lost", "{name}");
    }
    world.no_shells().await;
    assert_eq!(world.guest.seen.produced.load(Ordering::SeqCst), 0);
}

/// What comes before the answer waits for it, and is not lost.
#[tokio::test(flavor = "multi_thread")]
async fn input_that_does_not_wait_for_the_session_reaches_it() {
    let world = World::start().await;
    let ticket = world.ticket().await;
    let mut client = world.program().await;
    client.attach(&ticket, &world.allocation_id()).await;
    client.input("early\n").await;
    client.input("later\n").await;
    client.text("session_ready").await;
    client.until("<early>").await;
    client.until("<later>").await;
}

/// The role of a viewer opens no terminal: what this one goes on by is the grant in its own allocation.
#[tokio::test(flavor = "multi_thread")]
async fn who_has_a_grant_for_the_allocation_keeps_the_session_as_long_as_the_grant() {
    let world = World::start().await;
    let pool = world.db.owner_pool().await;
    let run = async |sql: &'static str| {
        let done = sqlx::query(sql)
            .bind(Uuid::parse_str(&world.allocation_id()).expect("an id"))
            .execute(&pool)
            .await;
        assert_eq!(done.expect(sql).rows_affected(), 1, "{sql}");
    };
    run("WITH grants AS (
             INSERT INTO edge.allocation_grants (id, project_id, allocation_id, principal_id, permission, creator, expire_time)
             SELECT gen_random_uuid(), m.project_id, $1, m.principal_id, 'terminal', 'user:owner', now() + interval '1 day'
               FROM edge.memberships m JOIN edge.principals p ON p.id = m.principal_id WHERE p.name = 'user:alice')
         UPDATE edge.memberships SET role = 'viewer'
          WHERE principal_id = (SELECT id FROM edge.principals WHERE name = 'user:alice')")
    .await;
    let (mut client, ready) = world.session().await;
    client.until("$ ").await;
    // access is checked ten times meanwhile
    let started = Instant::now();
    for count in 0.. {
        // each waits for an answer of its own, or the input would run ahead of the window
        client.input(&format!("here{count}\n")).await;
        client.until(&format!("<here{count}>")).await;
        if started.elapsed() > Duration::from_secs(1) {
            break;
        }
    }
    run("DELETE FROM edge.allocation_grants WHERE allocation_id = $1").await;
    assert_eq!(client.ended().await, (4403, "access_lost".to_owned()));
    assert_eq!(world.closed(&ready["session_id"]).await, "access_lost");
    assert_eq!(world.ask(None, "after").await.0, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_user_loses_the_session() {
    let world = World::start().await;
    let (mut client, _) = world.session().await;
    sqlx::query("UPDATE edge.principals SET disable_time = now() WHERE name = 'user:alice'")
        .execute(&world.db.owner_pool().await)
        .await
        .expect("disabled");
    assert_eq!(client.ended().await, (4403, "access_lost".to_owned()));
}
