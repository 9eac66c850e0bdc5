//! What a terminal does for its user.
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::ClientMessage;
use crate::guest::pattern;
use crate::world::{World, until};

#[tokio::test(flavor = "multi_thread")]
async fn f_05_session_ready_comes_first_then_a_marker_of_a_command() {
    let world = World::start().await;
    let ticket = world.ticket().await;
    let mut client = world.program().await;
    client.attach(&ticket, &world.allocation_id()).await;
    let ClientMessage::Text(ready) = client.next().await else {
        panic!("a text first")
    };
    assert_eq!(ready["type"], "session_ready");
    assert_eq!(ready["allocation_id"], world.allocation_id());
    assert_eq!(
        (
            &ready["resumed"],
            &ready["output_offset"],
            &ready["input_offset"]
        ),
        (&json!(false), &json!(0), &json!(0))
    );
    assert_eq!(
        (&ready["output_window"], &ready["input_window"]),
        (&json!(262_144), &json!(65_536))
    );
    client.input("slice-terminal-ok\n").await;
    client.until("<slice-terminal-ok>").await;
    assert_eq!(client.text("input_ack").await["offset"], 18);
    client.say(json!({"type": "ping", "id": 41})).await;
    assert_eq!(client.text("pong").await["id"], 41);

    // d_84, inc_25: the guest saw the guest's user, who is no user of this host, with the relay key
    assert_eq!(
        *world.guest.seen.users.lock().expect("lock"),
        ["u_adda9308def04a2f"]
    );
    assert_eq!(
        *world.guest.seen.term.lock().expect("lock"),
        "xterm-256color"
    );
    assert_eq!(*world.guest.seen.sizes.lock().expect("lock"), [(80, 24)]);

    client.input("exit 3\n").await;
    assert_eq!(client.text("exit").await["status"], 3);
    assert_eq!(client.ended().await, (1000, "exited".to_owned()));
    assert_eq!(world.closed(&ready["session_id"]).await, "exited");
}

#[tokio::test(flavor = "multi_thread")]
async fn inc_25_f_07_a_slice_terminal_needs_no_unix_user_of_its_host() {
    let passwd = std::fs::read_to_string("/etc/passwd").expect("readable");
    assert!(
        !passwd.contains("u_adda9308def04a2f"),
        "the test's user must not exist here"
    );
    let world = World::start().await;
    let (mut client, _) = world.session().await;
    client.input("hostname\n").await;
    client.until("<hostname>").await;
}

/// C-25: `terminal.open`.
#[tokio::test(flavor = "multi_thread")]
async fn f_09_opening_and_closing_are_on_record() {
    let world = World::start().await;
    let (mut client, ready) = world.session().await;
    client.say(json!({"type": "close"})).await;
    assert_eq!(client.ended().await, (1000, "closed_by_client".to_owned()));
    assert_eq!(world.closed(&ready["session_id"]).await, "closed_by_client");
    let record = |action: &str, reason: &str| (action.to_owned(), reason.to_owned());
    assert_eq!(
        world.audit().await,
        [
            record("terminal.create", ""),
            record("terminal.open", ""),
            record("terminal.close", "closed_by_client")
        ]
    );
    let chained: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM terminal.audit o JOIN terminal.audit c USING (resource_id)
          WHERE o.action = 'terminal.open' AND c.action = 'terminal.close'
            AND o.detail->>'after_digest' = c.detail->>'before_digest'
            AND c.detail->>'before_digest' <> c.detail->>'after_digest'",
    )
    .fetch_one(&world.db.owner_pool().await)
    .await
    .expect("a count");
    assert_eq!(chained, 1, "the end begins with what the opening left");
    let of_projects: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM terminal.audit a JOIN terminal.sessions s ON s.id::text = a.resource_id
          WHERE a.detail->>'project_id' = s.project_id::text",
    )
    .fetch_one(&world.db.owner_pool().await)
    .await
    .expect("audit rows");
    assert_eq!(
        of_projects, 3,
        "the members of the project find all of them"
    );
    world.no_shells().await;

    let path = format!("allocations/{}/terminal-sessions", world.allocation_id());
    let (status, listed) = world.get(&path, "alice").await;
    assert_eq!(status, 200);
    assert_eq!(listed["sessions"][0]["id"], ready["session_id"]);
    assert_eq!(listed["sessions"][0]["principal"], "user:alice");
    assert_eq!(listed["sessions"][0]["close_reason"], "closed_by_client");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_call_names_the_session_and_shows_no_ticket() {
    let world = World::start().await;
    let (_, first) = world.ask(None, "the-key").await;
    let (status, again) = world.ask(None, "the-key").await;
    assert_eq!(status, 200);
    assert_eq!(again["session_id"], first["session_id"]);
    assert_eq!(again["expire_time"], first["expire_time"]);
    assert_eq!(again["ticket"], "");
    let ticket = first["ticket"].as_str().expect("ticket");
    assert!(
        ticket.len() == 64 && ticket.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "256 bits"
    );
    // the secret is nowhere in the database
    let kept: Vec<String> = sqlx::query_scalar(
        "SELECT t::text FROM terminal.tickets t UNION ALL SELECT a::text FROM terminal.audit a UNION ALL SELECT i::text FROM terminal.idempotency i",
    )
    .fetch_all(&world.db.owner_pool().await)
    .await
    .expect("rows");
    assert!(kept.iter().all(|row| !row.contains(ticket)));
}

#[tokio::test(flavor = "multi_thread")]
async fn f_11_only_an_active_allocation_of_the_caller_gets_a_ticket() {
    let world = World::start().await;
    world.ledger.0.lock().expect("lock").state = "provisioning".to_owned();
    let (status, refused) = world.ask(None, "a").await;
    assert_eq!((status, reason(&refused)), (400, "STATE_CONFLICT"));
    let own = std::mem::replace(
        &mut world.ledger.0.lock().expect("lock").project_id,
        Uuid::now_v7(),
    );
    let (status, refused) = world.ask(None, "b").await;
    assert_eq!((status, reason(&refused)), (404, "ALLOCATION_NOT_FOUND"));
    world.ledger.0.lock().expect("lock").project_id = own;
}

fn reason(answer: &Value) -> &str {
    let details = answer["error"]["details"].as_array().expect("details");
    details
        .iter()
        .find_map(|detail| detail["reason"].as_str())
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn f_10_a_host_enters_only_the_address_it_reserved_for_the_allocation() {
    let world = World::start().await;
    world.ledger.0.lock().expect("lock").reserved = Some("10.100.0.11".parse().expect("address"));
    let ticket = world.ticket().await;
    let mut client = world.program().await;
    client.attach(&ticket, &world.allocation_id()).await;
    assert_eq!(client.ended().await, (4502, "guest_refused".to_owned()));
    assert!(
        world.guest.seen.users.lock().expect("lock").is_empty(),
        "nobody connected"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_when_its_machine_loses_power_and_says_so() {
    let world = World::start().await;
    for event in ["stopping", "stopped", "rebooting"] {
        let (mut client, ready) = world.session().await;
        world.tell(&format!("allocation.{event}"));
        assert_eq!(client.ended().await, (4410, "powered_off".to_owned()));
        let closed = client.texts.last().expect("a last message");
        let message = closed["message"].as_str().expect("a sentence");
        let word = if event == "rebooting" {
            "rebooted"
        } else {
            "stopped"
        };
        assert!(message.contains(word), "{event}: {message}");
        assert_eq!(world.closed(&ready["session_id"]).await, "powered_off");
        world.no_shells().await;
    }
    // what gives power back ends nothing
    let (mut client, _) = world.session().await;
    for event in ["starting", "running", "active"] {
        world.tell(&format!("allocation.{event}"));
    }
    client.input("still here\n").await;
    client.until("<still here>").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_connection_goes_on_without_a_byte_lost_or_typed_twice() {
    let world = World::start().await;
    let (mut client, ready) = world.session().await;
    client.input("one\n").await;
    client.until("<one>").await;
    // the connection breaks with input on its way, of which the client does not know whether it arrived
    client.input("two\n").await;
    let (sent, received) = (client.sent, client.received);
    drop(client);

    let mut client = world.program().await;
    client.resume(&ready, received).await;
    let again = client.text("session_ready").await;
    assert_eq!(
        (&again["resumed"], again["output_offset"].as_u64()),
        (&json!(true), Some(received))
    );
    assert_ne!(again["resume_token"], ready["resume_token"]);
    client.input_at(4, b"two\n").await;
    client.sent = sent;
    client.input("three\n").await;
    client.until("<three>").await;
    let output = String::from_utf8(client.output.clone()).expect("text");
    assert_eq!(output.matches("<two>").count(), 1, "{output}");
    assert!(client.texts.iter().all(|text| text["type"] != "gap"));

    // the old token is void, another one never was any
    for token in [&ready["resume_token"], &json!("0".repeat(64))] {
        let mut thief = world.program().await;
        thief.say(json!({"type": "resume", "session_id": ready["session_id"], "resume_token": token, "received": 0, "cols": 80, "rows": 24})).await;
        assert_eq!(thief.ended().await, (4404, "session_gone".to_owned()));
    }
    // whoever has the latest one takes the session over
    let mut other = world.program().await;
    other.resume(&again, client.received).await;
    other.text("session_ready").await;
    assert_eq!(client.ended().await, (4409, "taken_over".to_owned()));
    other.sent = client.sent;
    other.input("four\n").await;
    other.until("<four>").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_goes_on_alone_and_what_is_lost_is_told() {
    let world = World::start().await;
    let (mut client, ready) = world.session().await;
    client.until("$ ").await;
    client.input("flood 3000000\n").await;
    client.text("input_ack").await;
    let received = client.received;
    drop(client);
    until("the shell to end its output", async || {
        (world
            .guest
            .seen
            .produced
            .load(std::sync::atomic::Ordering::SeqCst)
            == 3_000_000)
            .then_some(())
    })
    .await;
    let mut client = world.program().await;
    client.sent = 14;
    client.resume(&ready, received).await;
    client.text("session_ready").await;
    let gap = client.text("gap").await;
    assert_eq!(gap["from"].as_u64(), Some(received));
    client.input("done\n").await;
    client.until("<done>").await;
    // "$ " came before the flood, so its bytes are at their offset less two
    let from = gap["to"].as_u64().expect("offset") - 2;
    let flood = &client.output[..usize::try_from(3_000_000 - from).expect("size")];
    assert!(
        flood.len() >= 200_000,
        "the ring keeps the newest output: {}",
        flood.len()
    );
    assert!(
        flood
            .iter()
            .zip(from..)
            .all(|(byte, at)| *byte == pattern(at))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn all_bytes_arrive_as_they_are() {
    let world = World::start().await;
    let (mut client, _) = world.session().await;
    client.input("raw\nend\n").await;
    client.until("<end>").await;
    let all: Vec<u8> = (0..=255).collect();
    assert!(client.output.windows(256).any(|window| window == all));
}

/// D-91
#[tokio::test(flavor = "multi_thread")]
async fn f_12_inc_42_there_is_no_way_to_a_port_of_a_guest() {
    let world = World::start().await;
    let id = world.allocation_id();
    for path in ["netdata", "proxy", "vnc", "console", "dashboard"] {
        let (status, answer) = world
            .get(&format!("allocations/{id}/{path}"), "alice")
            .await;
        assert_eq!((status, reason(&answer)), (404, "ROUTE_UNKNOWN"));
    }
}
