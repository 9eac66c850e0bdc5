//! The table of attacks on tickets, origins, windows and messages.
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use crate::client::{ClientMessage, Upgrade};
use crate::world::{CONSOLE, OTHER, World, until};

fn with_origin(origin: &'static str) -> Upgrade {
    Upgrade {
        origin: Some(origin),
        ..Upgrade::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f_09_a_ticket_is_good_for_nothing_but_what_it_was_given_for() {
    let world = World::start().await;
    let good = world.allocation_id();
    let program = Upgrade::default;
    let as_bob = Upgrade {
        token: Some(world.token("bob")),
        ..program()
    };
    let foreign = Uuid::now_v7().to_string();
    let swapped = |ticket: String| ticket.chars().rev().collect::<String>();
    let expired = world.ticket().await;
    sqlx::query("UPDATE terminal.tickets SET create_time = create_time - interval '1 minute', expire_time = expire_time - interval '31 seconds'")
        .execute(&world.db.owner_pool().await)
        .await
        .expect("older");
    let used = world.ticket().await;
    let mut first = world.program().await;
    first.attach(&used, &good).await;
    first.text("session_ready").await;

    let attacks = [
        ("replayed", used, &good, program()),
        ("expired", expired, &good, program()),
        (
            "into a foreign allocation",
            world.ticket().await,
            &foreign,
            program(),
        ),
        ("by a foreign user", world.ticket().await, &good, as_bob),
        (
            "from a page, given to a program",
            world.ticket().await,
            &good,
            with_origin(CONSOLE),
        ),
        (
            "by a program, given to a page",
            world.ticket_for(Some(CONSOLE)).await,
            &good,
            program(),
        ),
        (
            "from another page",
            world.ticket_for(Some(CONSOLE)).await,
            &good,
            with_origin(OTHER),
        ),
        ("unknown", "0".repeat(64), &good, program()),
        ("altered", swapped(world.ticket().await), &good, program()),
        (
            "cut",
            world.ticket().await[..63].to_owned(),
            &good,
            program(),
        ),
        ("empty", String::new(), &good, program()),
        (
            "the hash instead",
            hex_of_a_hash(&world).await,
            &good,
            program(),
        ),
    ];
    for (name, ticket, allocation_id, upgrade) in attacks {
        let mut client = world.connect(&upgrade).await.expect("connected");
        client.attach(&ticket, allocation_id).await;
        assert_eq!(
            client.ended().await,
            (4401, "ticket_refused".to_owned()),
            "{name}"
        );
    }
    let opened = world
        .audit()
        .await
        .into_iter()
        .filter(|(action, _)| action == "terminal.open")
        .count();
    assert_eq!(opened, 1, "only the first one opened anything");
    // the page it was given to may use it
    let mut page = world
        .connect(&with_origin(CONSOLE))
        .await
        .expect("connected");
    page.attach(&world.ticket_for(Some(CONSOLE)).await, &good)
        .await;
    page.text("session_ready").await;
}

async fn hex_of_a_hash(world: &World) -> String {
    world.ticket().await;
    sqlx::query_scalar(
        "SELECT encode(hash, 'hex') FROM terminal.tickets WHERE consume_time IS NULL LIMIT 1",
    )
    .fetch_one(&world.db.owner_pool().await)
    .await
    .expect("a ticket")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_that_was_shown_wrongly_is_burnt() {
    let world = World::start().await;
    let ticket = world.ticket().await;
    let mut wrong = world.connect(&with_origin(OTHER)).await.expect("connected");
    wrong.attach(&ticket, &world.allocation_id()).await;
    wrong.ended().await;
    let mut right = world.program().await;
    right.attach(&ticket, &world.allocation_id()).await;
    assert_eq!(right.ended().await.1, "ticket_refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_show_a_ticket_at_once_one_gets_in() {
    let world = World::start().await;
    let ticket = world.ticket().await;
    let mut clients = Vec::new();
    for _ in 0..12 {
        clients.push(world.program().await);
    }
    let allocation_id = world.allocation_id();
    let answers = futures::future::join_all(clients.into_iter().map(|mut client| {
        let (ticket, allocation_id) = (ticket.clone(), allocation_id.clone());
        async move {
            client.attach(&ticket, &allocation_id).await;
            let said = client.next().await;
            (client, said)
        }
    }))
    .await;
    let ready = answers.iter().filter(
        |(_, said)| matches!(said, ClientMessage::Text(text) if text["type"] == "session_ready"),
    );
    assert_eq!(ready.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrades_from_elsewhere_are_refused_before_anything_is_said() {
    let world = World::start().await;
    let none = Upgrade {
        no_subprotocol: true,
        ..Upgrade::default()
    };
    let forged = Upgrade {
        token: Some("x.y.z".to_owned()),
        ..Upgrade::default()
    };
    for (upgrade, status) in [
        (with_origin("https://evil.example"), 403),
        (with_origin("https://console.test.evil.example"), 403),
        (with_origin("http://console.test"), 403),
        (with_origin("null"), 403),
        (none, 400),
        (forged, 401),
    ] {
        assert_eq!(
            world.connect(&upgrade).await.err(),
            Some(status),
            "{upgrade:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_ends_the_session_at_once_and_no_ticket_works_after_it() {
    let world = World::start().await;
    let late = world.ticket().await;
    let (mut client, ready) = world.session().await;
    client.until("$ ").await;
    world.release();
    assert_eq!(client.ended().await, (4410, "allocation_ended".to_owned()));
    world.no_shells().await;
    assert_eq!(world.closed(&ready["session_id"]).await, "allocation_ended");
    let mut client = world.program().await;
    client.attach(&late, &world.allocation_id()).await;
    assert_eq!(client.ended().await, (4410, "allocation_ended".to_owned()));
    let mut client = world.program().await;
    client.resume(&ready, 0).await;
    assert_eq!(client.ended().await, (4404, "session_gone".to_owned()));
    assert_eq!(world.ask(None, "after").await.0, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_resizes_reach_the_guest_as_a_few_and_the_last() {
    let world = World::start().await;
    let (mut client, _) = world.session().await;
    let began = Instant::now();
    for n in 1..=10_000_u32 {
        client
            .say(json!({"type": "resize", "cols": 1 + n % 999, "rows": 1 + n % 499}))
            .await;
    }
    client
        .say(json!({"type": "resize", "cols": 132, "rows": 43}))
        .await;
    let sizes = &world.guest.seen.sizes;
    until("the last size", async || {
        (sizes.lock().expect("lock").last() == Some(&(132, 43))).then_some(())
    })
    .await;
    let seen = sizes.lock().expect("lock").len();
    // one at most each 50 ms, however long the client took
    let most = usize::try_from(began.elapsed().as_millis() / 50 + 3).expect("a number");
    assert!(
        seen <= most,
        "{seen} sizes reached the guest, at most {most} are allowed"
    );
    client.input("alive\n").await;
    client.until("<alive>").await;
}

/// A gigabyte for a client that reads and acknowledges nothing: what left the shell is what fits into the windows of
/// the chain, whatever the rest of it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_gigabyte_for_a_paused_client_stays_in_the_guest() {
    const GIGABYTE: u64 = 1 << 30;
    /// Output window, SSH window, and the pieces in between.
    const MOST: u64 = (256 + 64 + 512) << 10;
    let world = World::start().await;
    let (mut client, _) = world.session().await;
    client.until("$ ").await;
    client.acking = false;
    client.input(&format!("flood {GIGABYTE}\n")).await;
    let produced = || world.guest.seen.produced.load(Ordering::SeqCst);
    // it has stopped when it stays where it is
    let mut before = (0, 0);
    until("the shell to be stopped", async || {
        let now = produced();
        before = if now > 0 && now == before.0 {
            (now, before.1 + 1)
        } else {
            (now, 0)
        };
        tokio::time::sleep(Duration::from_millis(20)).await;
        (before.1 == 25).then_some(())
    })
    .await;
    let stopped = produced();
    assert!(
        stopped <= MOST,
        "{stopped} bytes left the shell, {MOST} may"
    );
    println!("paused: {stopped} of {GIGABYTE} bytes left the shell");

    // reading without acknowledging gives one window at most: the host keeps to whole pieces within it
    while client.received < 200_000 {
        client.next().await;
    }
    assert!(produced() <= MOST);
    let mut other = world.session().await.0;
    other.input("not held up\n").await;
    other.until("<not held up>").await;

    // and it goes on where it stopped, at the pace of the client
    client.acking = true;
    client
        .say(json!({"type": "ack", "received": client.received}))
        .await;
    while client.received < 4 << 20 {
        client.next().await;
        client.output.clear();
        let ahead = produced().saturating_sub(client.received);
        assert!(ahead <= MOST, "{ahead} bytes on their way");
    }
    drop(client);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_of_what_was_not_sent_ends_the_connection() {
    let world = World::start().await;
    let (mut client, ready) = world.session().await;
    client
        .say(json!({"type": "ack", "received": 1_000_000_000_000_u64}))
        .await;
    assert_eq!(client.ended().await, (4400, "protocol_error".to_owned()));
    // the session is not its connection
    let mut client = world.program().await;
    client.resume(&ready, 0).await;
    client.text("session_ready").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_ends_the_connection_and_nothing_else() {
    let world = World::start().await;
    let (mut bystander, _) = world.session().await;
    let too_much = [&0_u64.to_be_bytes()[..], &[b'x'; 16_385]].concat();
    let ahead = [&9_u64.to_be_bytes()[..], b"x"].concat();
    let garbage = [
        Message::binary(vec![]),
        Message::binary(vec![0xff; 7]),
        Message::binary(vec![0xff; 8]),
        Message::binary(vec![0xff; 4096]),
        Message::binary(too_much),
        Message::binary(ahead),
        Message::text("\u{0}\u{1}\u{fffd}"),
        Message::text("{\"type\":\"attach\""),
        Message::text("[".repeat(4000)),
        Message::text(r#"{"type":"resize","cols":1e9,"rows":1}"#),
        Message::text(r#"{"type":"shell","command":"rm -rf /"}"#),
        Message::text(format!(r#"{{"type":"ping","id":{}}}"#, "1".repeat(5000))),
    ];
    for message in garbage {
        let (mut client, _) = world.session().await;
        client.say_raw(message.clone()).await;
        assert_eq!(
            client.ended().await,
            (4400, "protocol_error".to_owned()),
            "{message:?}"
        );
        // before the first message likewise
        let mut client = world.program().await;
        client.say_raw(message.clone()).await;
        assert_eq!(
            client.ended().await,
            (4400, "protocol_error".to_owned()),
            "{message:?}"
        );
    }
    // more than the gateway takes in one piece breaks the connection
    let (mut client, _) = world.session().await;
    client.say_raw(Message::binary(vec![0; 200_000])).await;
    assert!(matches!(
        end(&mut client).await,
        ClientMessage::Closed(_) | ClientMessage::Broken
    ));
    bystander.input("still here\n").await;
    bystander.until("<still here>").await;
}

/// The end of a connection, however it ends.
pub async fn end(client: &mut crate::client::Client) -> ClientMessage {
    loop {
        match client.next().await {
            ClientMessage::Text(_) | ClientMessage::Output(_) => {}
            ended => return ended,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn input_beyond_the_window_ends_the_connection() {
    // a guest that reads no input: the shell is busy with output that nobody takes
    let world = World::start().await;
    let (mut client, _) = world.session().await;
    client.until("$ ").await;
    client.acking = false;
    for n in 0..5_u64 {
        client.input_at(n * 16_384, &[b'x'; 16_384]).await;
    }
    // the fifth is beyond the window unless the shell took some of the others first
    client.sent = 5 * 16_384;
    for _ in 0..200 {
        let offset = client.sent;
        client.input_at(offset, &[b'x'; 16_384]).await;
        client.sent += 16_384;
    }
    assert_eq!(client.ended().await, (4400, "protocol_error".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_says_nothing_is_closed() {
    let world = World::start().await;
    let mut client = world.program().await;
    assert_eq!(client.ended().await, (4408, "silent".to_owned()));
}
