//! A tenant controls the SSH server that the host talks to.
use std::sync::atomic::Ordering;

use crate::guest::Manner;
use crate::world::World;

async fn refusal(manner: Manner) -> (u16, String, String) {
    let world = World::with(manner, |_, _| {}).await;
    let ticket = world.ticket().await;
    let mut client = world.program().await;
    client.attach(&ticket, &world.allocation_id()).await;
    let (code, reason) = client.ended().await;
    assert!(
        client
            .texts
            .iter()
            .all(|text| text["type"] != "session_ready")
    );
    let session_id = world
        .get(
            &format!("allocations/{}/terminal-sessions", world.allocation_id()),
            "alice",
        )
        .await
        .1["sessions"][0]["id"]
        .clone();
    assert_eq!(
        world.closed(&session_id).await,
        reason,
        "the attempt is on record"
    );
    let message = client.texts.last().expect("closed")["message"]
        .as_str()
        .expect("message")
        .to_owned();
    (code, reason, message)
}

#[tokio::test(flavor = "multi_thread")]
async fn guests_that_give_no_shell_are_named() {
    for (manner, part) in [
        (
            Manner::OtherHostKey,
            "another host key than the recorded one",
        ),
        (Manner::RefusesKey, "refuses the relay key"),
        (Manner::RefusesTerminal, "gives no terminal"),
        (Manner::RefusesShell, "gives no shell"),
        (Manner::ClosesChannel, "gives no terminal"),
        (Manner::Garbage, "SSH session"),
        (Manner::Closes, "SSH session"),
    ] {
        let (code, reason, message) = refusal(manner).await;
        assert_eq!(
            (code, reason.as_str()),
            (4502, "guest_refused"),
            "{manner:?}"
        );
        assert!(message.contains(part), "{manner:?}: {message}");
    }
}

/// Takes as long as a login may take.
#[tokio::test(flavor = "multi_thread")]
async fn guests_that_never_answer_are_given_up() {
    let (silent, endless) = tokio::join!(refusal(Manner::Silent), refusal(Manner::EndlessBanner));
    for (code, reason, message) in [silent, endless] {
        assert_eq!(
            (code, reason.as_str()),
            (4502, "guest_refused"),
            "{message}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_opens_nothing_in_its_host() {
    let world = World::with(Manner::OpensChannels, |_, _| {}).await;
    let (mut client, _) = world.session().await;
    client.input("still a terminal\n").await;
    client.until("<still a terminal>").await;
    client.input("and again\n").await;
    client.until("<and again>").await;
    assert_eq!(world.guest.seen.channels.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_but_harmless_guests_work() {
    for manner in [
        Manner::TalksEarly,
        Manner::TalksOnStderr,
        Manner::NeverCloses,
    ] {
        let world = World::with(manner, |_, _| {}).await;
        let (mut client, _) = world.session().await;
        if manner == Manner::TalksEarly {
            client.until("early ").await;
        }
        client.input("hello\n").await;
        client.until("<hello>").await;
        client.input("exit 0\n").await;
        assert_eq!(client.text("exit").await["status"], 0, "{manner:?}");
        assert_eq!(client.ended().await.0, 1000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_drops_the_connection_ends_the_session() {
    let world = World::with(Manner::Drops, |_, _| {}).await;
    let (mut client, ready) = world.session().await;
    client.input("flood 100000000\n").await;
    let (code, _) = client.ended().await;
    assert_eq!(code, 1000, "the shell is over, as far as the host can see");
    world.closed(&ready["session_id"]).await;
}
