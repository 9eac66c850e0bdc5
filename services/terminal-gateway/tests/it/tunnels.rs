//! Connections to the SSH server of a VM, through the whole chain.
use std::time::{Duration, Instant};

use gpuaas_terminal_gateway::{Config, Policy};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use uuid::Uuid;

use crate::client::{Client, ClientMessage};
use crate::guest::{Manner, pattern};
use crate::world::World;

/// More than all windows and sockets of the chain hold.
const MUCH: u64 = 24 << 20;
const PIECE: u64 = 16 << 10;

/// A world whose guest's SSH server is a port that the test answers.
async fn world(change: impl FnOnce(&mut Config, Uuid)) -> (World, TcpListener) {
    let world = World::with(Manner::Well, change).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
    let port = listener.local_addr().expect("address").port();
    world.ledger.0.lock().expect("lock").target_port = port.into();
    (world, listener)
}

async fn ask(world: &World) -> (u16, Value) {
    let key = Uuid::now_v7().to_string();
    let body = json!({"kind": "ssh_tunnel"});
    world.ask_for(None, &key, &body).await
}

/// A tunnel that is ready, and the guest's end of it.
async fn tunnel(world: &World, guest: &TcpListener) -> (Client, Value, TcpStream) {
    let (status, asked) = ask(world).await;
    assert_eq!(status, 200, "{asked}");
    assert_eq!(
        (&asked["kind"], &asked["recorded"]),
        (&json!("ssh_tunnel"), &json!(false))
    );
    let mut client = world.program().await;
    let ticket = asked["ticket"].as_str().expect("ticket");
    client.attach(ticket, &world.allocation_id()).await;
    let (ready, accepted) = tokio::join!(client.text("session_ready"), guest.accept());
    assert_eq!(ready["kind"], "ssh_tunnel");
    (client, ready, accepted.expect("connected").0)
}

/// Waits for the end of a guest's connection.
async fn guest_ends(guest: &mut TcpStream) {
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(20), guest.read_to_end(&mut rest)).await;
    // a connection that is cut with data on its way is reset
    drop(ended.expect("the guest's connection ends"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_speaks_with_the_ssh_server_and_logs_in_to_nothing() {
    let world = World::start().await;
    let (_, asked) = ask(&world).await;
    let mut client = world.program().await;
    let ticket = asked["ticket"].as_str().expect("ticket");
    client.attach(ticket, &world.allocation_id()).await;
    client.text("session_ready").await;
    client.until("SSH-2.0-").await;
    client.input("not ssh\r\n").await;
    client.text("exit").await;
    assert_eq!(client.ended().await, (1000, "exited".to_owned()));
    assert!(world.guest.seen.users.lock().expect("lock").is_empty());
}

/// Both directions at once, a reader that stops meanwhile, and every byte arrives once and in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_carries_every_byte_both_ways_to_a_slow_reader() {
    let (world, listener) = world(|_, _| {}).await;
    let (mut client, ready, guest) = tunnel(&world, &listener).await;
    let window = ready["input_window"].as_u64().expect("window");
    let (mut from_client, mut to_client) = guest.into_split();
    let output: Vec<u8> = (0..MUCH).map(pattern).collect();
    let writing = tokio::spawn(async move {
        let mut written = 0;
        for piece in output.chunks(64 << 10) {
            to_client.write_all(piece).await.expect("taken");
            written += piece.len() as u64;
        }
        (written, to_client)
    });
    let reading = tokio::spawn(async move {
        let mut received = Vec::new();
        let mut buffer = [0; 5000];
        while (received.len() as u64) < MUCH {
            let length = from_client.read(&mut buffer).await.expect("readable");
            assert_ne!(length, 0, "ended after {}", received.len());
            received.extend_from_slice(&buffer[..length]);
            // a reader that is slower than the writer
            tokio::task::yield_now().await;
        }
        received
    });

    // a client that acknowledges nothing gets one window, to a piece, and the guest is stopped
    let most = ready["output_window"].as_u64().expect("window");
    client.acking = false;
    while client.received + (32 << 10) <= most {
        assert!(matches!(client.next().await, ClientMessage::Output(_)));
    }
    client.say(json!({"type": "ping", "id": 1})).await;
    client.text("pong").await;
    assert!(client.received <= most, "{}", client.received);
    assert!(!writing.is_finished(), "the guest is stopped");
    client.acking = true;
    client
        .say(json!({"type": "ack", "received": client.received}))
        .await;

    let mut taken = 0;
    while client.received < MUCH || taken < MUCH {
        while client.sent < MUCH && client.sent + PIECE - taken <= window {
            let piece: Vec<u8> = (client.sent..client.sent + PIECE).map(pattern).collect();
            client.input_at(client.sent, &piece).await;
            client.sent += PIECE;
        }
        match client.next().await {
            ClientMessage::Output(_) => {}
            ClientMessage::Text(text) if text["type"] == "input_ack" => {
                taken = text["offset"].as_u64().expect("offset");
            }
            other => panic!("{other:?}"),
        }
    }
    let expected: Vec<u8> = (0..MUCH).map(pattern).collect();
    assert!(client.output == expected, "output is intact");
    assert!(reading.await.expect("read") == expected, "input is intact");
    let (written, to_client) = writing.await.expect("written");
    assert_eq!(written, MUCH);

    // what the guest closes is over
    drop(to_client);
    client.text("exit").await;
    assert_eq!(client.ended().await, (1000, "exited".to_owned()));
    assert_eq!(world.closed(&ready["session_id"]).await, "exited");
    let detail: Value =
        sqlx::query_scalar("SELECT detail FROM terminal.audit WHERE action = 'terminal.close'")
            .fetch_one(&world.db.owner_pool().await)
            .await
            .expect("an audit row");
    assert_eq!(
        (
            &detail["kind"],
            &detail["input_bytes"],
            &detail["output_bytes"]
        ),
        (&json!("ssh_tunnel"), &json!(MUCH), &json!(MUCH))
    );
    let path = format!("allocations/{}/terminal-sessions", world.allocation_id());
    let (_, listed) = world.get(&path, "alice").await;
    assert_eq!(listed["sessions"][0]["kind"], "ssh_tunnel");
}

/// What the guest sends last arrives, however long the client takes for it.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_bytes_before_the_guest_closes_are_not_lost() {
    let (world, listener) = world(|_, _| {}).await;
    let (mut client, ready, mut guest) = tunnel(&world, &listener).await;
    client.acking = false;
    let window = ready["output_window"].as_u64().expect("window");
    let (length, mut acked) = (3 * window, 0);
    let output: Vec<u8> = (0..length).map(pattern).collect();
    let sent = output.clone();
    tokio::spawn(async move { guest.write_all(&sent).await });
    while client.received < length {
        assert!(matches!(client.next().await, ClientMessage::Output(_)));
        if client.received - acked >= window / 2 || client.received == length {
            acked = client.received;
            client
                .say(json!({"type": "ack", "received": client.received}))
                .await;
        }
    }
    client.text("exit").await;
    assert!(client.output == output);
    assert_eq!(client.ended().await.0, 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_that_must_record_its_terminals_has_no_tunnels() {
    let (world, _listener) = world(|config, project| {
        config.recording.projects.insert(project, Policy::Required);
    })
    .await;
    let (status, refused) = ask(&world).await;
    assert_eq!(status, 400, "{refused}");
    let text = refused.to_string();
    assert!(text.contains("RECORDING_REQUIRED"), "{text}");
    assert!(
        text.contains("gpuaas terminal"),
        "says what there is instead: {text}"
    );
    // a ticket from before the policy opens nothing either
    let (status, shell) = world.ask(None, "shell").await;
    assert_eq!(status, 200, "{shell}");
    sqlx::query("UPDATE terminal.tickets SET kind = 'ssh_tunnel'")
        .execute(&world.db.owner_pool().await)
        .await
        .expect("changed");
    let mut client = world.program().await;
    let ticket = shell["ticket"].as_str().expect("ticket");
    client.attach(ticket, &world.allocation_id()).await;
    assert_eq!(
        client.ended().await,
        (4403, "recording_required".to_owned())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_that_is_only_wanted_leaves_tunnels_alone() {
    let (world, listener) = world(|config, project| {
        config
            .recording
            .projects
            .insert(project, Policy::BestEffort);
    })
    .await;
    let (mut client, ready, mut guest) = tunnel(&world, &listener).await;
    assert_eq!(ready["recorded"], false);
    guest.write_all(b"hello").await.expect("taken");
    client.until("hello").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_ends_with_its_allocation() {
    let (world, listener) = world(|_, _| {}).await;
    let (mut client, ready, mut guest) = tunnel(&world, &listener).await;
    world.release();
    assert_eq!(client.ended().await, (4410, "allocation_ended".to_owned()));
    guest_ends(&mut guest).await;
    assert_eq!(world.closed(&ready["session_id"]).await, "allocation_ended");
    assert_eq!(ask(&world).await.0, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_ends_with_the_access_of_its_user() {
    let (world, listener) = world(|_, _| {}).await;
    let (mut client, ready, mut guest) = tunnel(&world, &listener).await;
    sqlx::query("DELETE FROM edge.memberships WHERE principal_id = (SELECT id FROM edge.principals WHERE name = 'user:alice')")
        .execute(&world.db.owner_pool().await)
        .await
        .expect("removed");
    assert_eq!(client.ended().await, (4403, "access_lost".to_owned()));
    guest_ends(&mut guest).await;
    assert_eq!(world.closed(&ready["session_id"]).await, "access_lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_is_not_resumed() {
    let (world, listener) = world(|_, _| {}).await;
    let (client, ready, mut guest) = tunnel(&world, &listener).await;
    assert_eq!(
        (&ready["resume_token"], &ready["resume_seconds"]),
        (&json!(""), &json!(0))
    );
    // nobody takes it over while it runs
    let mut other = world.program().await;
    other.resume(&ready, 0).await;
    assert_eq!(other.ended().await, (4404, "session_gone".to_owned()));
    guest.write_all(b"x").await.expect("it still runs");

    drop(client);
    assert_eq!(world.closed(&ready["session_id"]).await, "connection_lost");
    guest_ends(&mut guest).await;
    let mut again = world.program().await;
    again.resume(&ready, 0).await;
    assert_eq!(again.ended().await, (4404, "session_gone".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_breaks_the_protocol_ends_its_tunnel() {
    let (world, listener) = world(|_, _| {}).await;
    let (mut client, ready, mut guest) = tunnel(&world, &listener).await;
    client.input_at(7, b"bytes before these are missing").await;
    assert_eq!(client.ended().await, (4400, "protocol_error".to_owned()));
    guest_ends(&mut guest).await;
    assert_eq!(world.closed(&ready["session_id"]).await, "protocol_error");
}

/// Output keeps a tunnel as input does; without either it ends at the limit, and not before it.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_tunnel_ends_at_the_limit_and_a_used_one_does_not() {
    let (world, listener) = world(|config, _| config.idle_seconds = 5).await;
    let (mut client, ready, mut guest) = tunnel(&world, &listener).await;
    let began = Instant::now();
    let mut quiet = began;
    while began.elapsed() < Duration::from_secs(8) {
        quiet = Instant::now();
        guest.write_all(b"x").await.expect("taken");
        assert!(matches!(client.next().await, ClientMessage::Output(_)));
        // output at some rate, far below the limit
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(client.ended().await, (4408, "idle".to_owned()));
    assert!(
        quiet.elapsed() > Duration::from_secs(4),
        "{:?}",
        quiet.elapsed()
    );
    assert_eq!(world.closed(&ready["session_id"]).await, "idle");
    guest_ends(&mut guest).await;
}
