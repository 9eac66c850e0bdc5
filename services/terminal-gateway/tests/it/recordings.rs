//! Recordings: what is stored, who may see it, and that the policy holds when storing fails.
use gpuaas_terminal_gateway::Policy;
use serde_json::{Value, json};
use sqlx::Executor as _;

use crate::guest::Manner;
use crate::world::{World, until};

async fn recorded(policy: Policy) -> World {
    World::with(Manner::Well, |config, project| {
        config.recording.projects.insert(project, policy);
    })
    .await
}

/// The whole file, page by page.
async fn file(world: &World, session_id: &Value) -> String {
    let path = format!(
        "terminal-sessions/{}/recording",
        session_id.as_str().expect("id")
    );
    let mut text = String::new();
    let mut token = String::new();
    loop {
        let (status, page) = world
            .get(&format!("{path}?page_token={token}"), "alice")
            .await;
        assert_eq!(status, 200, "{page}");
        text.push_str(page["asciicast"].as_str().expect("text"));
        token = page["next_page_token"].as_str().expect("token").to_owned();
        if token.is_empty() {
            return text;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f_09_a_recording_is_asciicast_v3_of_output_only() {
    let world = recorded(Policy::BestEffort).await;
    let (_, requested) = world.ask(None, "told").await;
    assert_eq!(requested["recorded"], true);
    let (mut client, ready) = world.session().await;
    assert_eq!(ready["recorded"], true);
    client.input("typed\n").await;
    client.until("<typed>").await;
    client
        .say(json!({"type": "resize", "cols": 120, "rows": 40}))
        .await;
    let sizes = &world.guest.seen.sizes;
    until("the size", async || {
        (sizes.lock().expect("lock").last() == Some(&(120, 40))).then_some(())
    })
    .await;
    client.input("flood 3000000\nexit 4\n").await;
    client.text("exit").await;
    client.ended().await;
    world.closed(&ready["session_id"]).await;

    let text = file(&world, &ready["session_id"]).await;
    let mut lines = text.lines();
    let header: Value = serde_json::from_str(lines.next().expect("a header")).expect("json");
    assert_eq!(
        (&header["version"], &header["term"]["cols"]),
        (&json!(3), &json!(80))
    );
    let events: Vec<(f64, String, String)> = lines
        .map(|line| serde_json::from_str(line).expect("an event"))
        .collect();
    assert!(
        events
            .iter()
            .all(|(after, kind, _)| *after >= 0.0 && ["o", "r", "x"].contains(&kind.as_str()))
    );
    let shown: String = events
        .iter()
        .filter(|(_, kind, _)| kind == "o")
        .map(|(_, _, data)| data.as_str())
        .collect();
    assert!(shown.starts_with("$ <typed>\r\n$ "), "{:?}", &shown[..30]);
    // everything that was shown is there, as text
    assert_eq!(shown, String::from_utf8_lossy(&client.output));
    assert!(
        events
            .iter()
            .any(|(_, kind, data)| kind == "r" && data == "120x40")
    );
    assert_eq!(
        events
            .last()
            .map(|(_, kind, data)| (kind.as_str(), data.as_str())),
        Some(("x", "4"))
    );

    let (_, listed) = world
        .get(
            &format!("allocations/{}/terminal-sessions", world.allocation_id()),
            "alice",
        )
        .await;
    assert_eq!(listed["sessions"][0]["recorded"], true);
    assert_eq!(
        listed["sessions"][0]["recording_bytes"],
        text.len().to_string()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sessions_of_a_foreign_allocation_do_not_exist() {
    let world = World::start().await;
    let path = |id: &str| format!("allocations/{id}/terminal-sessions");
    let own = world.allocation_id();
    let (status, none) = world.get(&path(&own), "alice").await;
    assert_eq!((status, &none["sessions"]), (200, &json!([])), "{none}");
    // it is over: its list is still its own
    world.release();
    assert_eq!(world.get(&path(&own), "alice").await.0, 200);
    for foreign in [uuid::Uuid::now_v7().to_string(), own] {
        let who = if foreign == world.allocation_id() {
            sqlx::query("DELETE FROM edge.memberships WHERE principal_id = (SELECT id FROM edge.principals WHERE name = 'user:bob')")
                .execute(&world.db.owner_pool().await)
                .await
                .expect("removed");
            "bob"
        } else {
            "alice"
        };
        let (status, refused) = world.get(&path(&foreign), who).await;
        assert_eq!(status, 404, "{who}: {refused}");
        assert!(
            refused.to_string().contains("ALLOCATION_NOT_FOUND"),
            "{refused}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_sees_a_recording() {
    let world = recorded(Policy::BestEffort).await;
    let (mut client, ready) = world.session().await;
    client.say(json!({"type": "close"})).await;
    client.ended().await;
    world.closed(&ready["session_id"]).await;
    let id = ready["session_id"].as_str().expect("id");
    let path = format!("terminal-sessions/{id}/recording");
    assert_eq!(world.get(&path, "alice").await.0, 200);
    sqlx::query("DELETE FROM edge.memberships WHERE principal_id = (SELECT id FROM edge.principals WHERE name = 'user:bob')")
        .execute(&world.db.owner_pool().await)
        .await
        .expect("removed");
    assert_eq!(world.get(&path, "bob").await.0, 404);
    // and after its time, nobody
    sqlx::query("UPDATE terminal.sessions SET open_time = open_time - interval '40 days', close_time = close_time - interval '40 days'")
        .execute(&world.db.owner_pool().await)
        .await
        .expect("older");
    let left = until("the sweep", async || {
        let gone = world.get(&path, "alice").await.0 == 404;
        let pool = world.db.owner_pool().await;
        let left: i64 = sqlx::query_scalar("SELECT count(*) FROM terminal.recording_chunks")
            .fetch_one(&pool)
            .await
            .expect("count");
        gone.then_some(left)
    })
    .await;
    assert_eq!(left, 0);
}

/// Output that is not stored is not shown, and the session ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_demanded_recording_that_cannot_be_stored_ends_the_session() {
    let world = recorded(Policy::Required).await;
    let pool = world.db.owner_pool().await;
    let (mut client, ready) = world.session().await;
    client.input("stored\n").await;
    client.until("<stored>").await;
    pool.execute("REVOKE INSERT ON terminal.recording_chunks FROM gpuaas_terminal")
        .await
        .expect("revoked");
    client.input("secret\n").await;
    assert_eq!(client.ended().await, (4503, "recording_failed".to_owned()));
    assert!(!String::from_utf8_lossy(&client.output).contains("<secret>"));
    world.closed(&ready["session_id"]).await;
    // nor does one begin
    let ticket = world.ticket().await;
    let mut client = world.program().await;
    client.attach(&ticket, &world.allocation_id()).await;
    assert_eq!(client.ended().await, (4503, "recording_failed".to_owned()));
    assert_eq!(
        world.guest.seen.users.lock().expect("lock").len(),
        1,
        "no shell without its recording"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_that_is_only_wanted_never_ends_the_session() {
    let world = recorded(Policy::BestEffort).await;
    world
        .db
        .owner_pool()
        .await
        .execute("REVOKE INSERT ON terminal.recording_chunks FROM gpuaas_terminal")
        .await
        .expect("revoked");
    let (mut client, _) = world.session().await;
    client.input("on we go\n").await;
    client.until("<on we go>").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demanded_recording_that_is_full_ends_the_session() {
    let world = World::with(Manner::Well, |config, project| {
        config.recording.projects.insert(project, Policy::Required);
        config.recording.max_bytes = 100_000;
    })
    .await;
    let (mut client, _) = world.session().await;
    client.input("flood 1000000\n").await;
    assert_eq!(client.ended().await, (4503, "recording_failed".to_owned()));
    assert!(client.received <= 100_000);
}

/// Before, it said of every session that it is not recorded.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_call_says_again_whether_the_session_is_recorded() {
    for (policy, is_recorded) in [(Policy::BestEffort, true), (Policy::Off, false)] {
        let world = recorded(policy).await;
        let (_, first) = world.ask(None, "the-key").await;
        assert_eq!(first["recorded"], is_recorded);
        let again = async || {
            let (status, again) = world.ask(None, "the-key").await;
            assert_eq!(status, 200, "{again}");
            assert_eq!(again["session_id"], first["session_id"]);
            again["recorded"].clone()
        };
        assert_eq!(again().await, is_recorded);
        // and when the ticket is long gone
        let mut client = world.program().await;
        let ticket = first["ticket"].as_str().expect("a ticket");
        client.attach(ticket, &world.allocation_id()).await;
        client.text("session_ready").await;
        let swept = sqlx::query("DELETE FROM terminal.tickets")
            .execute(&world.db.owner_pool().await)
            .await;
        assert_eq!(swept.expect("swept").rows_affected(), 1);
        assert_eq!(again().await, is_recorded);
    }
}
