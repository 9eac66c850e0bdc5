//! Sessions that their user or an operator ends, always by the replica that does not serve them.
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::Client;
use crate::guest::Manner;
use crate::world::{World, until};

/// Where an operator ends a session.
fn end_by_operator(ready: &Value) -> String {
    let session = ready["session_id"].as_str().expect("id");
    format!("admin/terminal-sessions/{session}:end")
}

impl World {
    /// Where a user ends a session.
    fn end_of(&self, ready: &Value) -> String {
        let session = ready["session_id"].as_str().expect("id");
        let allocation = self.allocation_id();
        format!("allocations/{allocation}/terminal-sessions/{session}:end")
    }

    /// Makes bob an operator of the platform.
    async fn bob_is_an_operator(&self) {
        sqlx::query(
            "UPDATE edge.principals SET platform_role = 'operator' WHERE name = 'user:bob'",
        )
        .execute(&self.db.owner_pool().await)
        .await
        .expect("changed");
        until("bob to be an operator", async || {
            // each gateway remembers roles for a moment
            let (here, _) = self.get("admin/terminal-sessions", "bob").await;
            let (beside, _) = self.get_beside("admin/terminal-sessions", "bob").await;
            ((here, beside) == (200, 200)).then_some(())
        })
        .await;
    }
}

async fn audited(world: &World, action: &str) -> Vec<Value> {
    let pool = world.db.owner_pool().await;
    sqlx::query_scalar(
        "SELECT detail || jsonb_build_object('by', principal) FROM terminal.audit WHERE action = $1",
    )
    .bind(action)
    .fetch_all(&pool)
    .await
    .expect("audit rows")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_ends_their_own_session_whichever_replica_serves_it() {
    let world = World::start().await;
    let (mut client, ready) = world.session().await;
    let (_, other) = world.session().await;
    let path = world.end_of(&ready);

    // a member of the same project reads that it is there, and does not end it
    let (status, refused) = world.post_beside(&path, "bob", &json!({})).await;
    assert_eq!(
        (status, &refused["error"]["details"][0]["reason"]),
        (403, &json!("PERMISSION_DENIED")),
        "{refused}"
    );
    for unknown in [
        path.replace(
            ready["session_id"].as_str().expect("id"),
            &Uuid::now_v7().to_string(),
        ),
        path.replace(&world.allocation_id(), &Uuid::now_v7().to_string()),
    ] {
        let (status, refused) = world.post_beside(&unknown, "alice", &json!({})).await;
        assert_eq!(status, 404, "{unknown}: {refused}");
    }

    let (status, ending) = world.post_beside(&path, "alice", &json!({})).await;
    assert_eq!(status, 200, "{ending}");
    assert!(ending["end_request_time"].is_string(), "{ending}");
    assert_eq!(client.ended().await, (1000, "ended_by_user".to_owned()));
    assert_eq!(world.closed(&ready["session_id"]).await, "ended_by_user");

    // again it changes nothing, and nothing else has ended
    let (status, again) = world.post_beside(&path, "alice", &json!({})).await;
    assert_eq!(
        (status, &again["close_reason"]),
        (200, &json!("ended_by_user")),
        "{again}"
    );
    let records = audited(&world, "terminal.end").await;
    assert_eq!(records.len(), 1, "{records:?}");
    assert_ne!(records[0]["before_digest"], records[0]["after_digest"]);
    let (_, listed) = world
        .get(
            &format!("allocations/{}/terminal-sessions", world.allocation_id()),
            "alice",
        )
        .await;
    let open: Vec<_> = listed["sessions"]
        .as_array()
        .expect("sessions")
        .iter()
        .collect();
    let is_open = |one: &&&Value| one["close_time"].is_null();
    let open: Vec<_> = open.iter().filter(is_open).map(|one| &one["id"]).collect();
    assert_eq!(open, [&other["session_id"]], "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_a_connection_ends_too_and_cannot_be_resumed() {
    let world = World::start().await;
    let (client, ready) = world.session().await;
    drop(client);
    let (status, ending) = world
        .post_beside(&world.end_of(&ready), "alice", &json!({}))
        .await;
    assert_eq!(status, 200, "{ending}");
    assert_eq!(world.closed(&ready["session_id"]).await, "ended_by_user");
    world.no_shells().await;
    let mut again: Client = world.program().await;
    again.resume(&ready, 0).await;
    assert_eq!(again.ended().await, (4404, "session_gone".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_ends_a_session_of_anybody_with_a_reason_that_its_user_reads() {
    let world = World::start().await;
    let (mut client, ready) = world.session().await;
    let path = end_by_operator(&ready);
    let reason = json!({ "reason": "a stolen laptop" });
    let (status, refused) = world.post_beside(&path, "bob", &reason).await;
    assert_eq!(status, 403, "{refused}");
    world.bob_is_an_operator().await;
    for body in [
        json!({}),
        json!({ "reason": " " }),
        json!({ "reason": "two\nlines" }),
    ] {
        let (status, refused) = world.post_beside(&path, "bob", &body).await;
        assert_eq!(status, 400, "{body}: {refused}");
    }
    let (status, ending) = world.post_beside(&path, "bob", &reason).await;
    assert_eq!(
        (status, &ending["end_reason"]),
        (200, &json!("a stolen laptop")),
        "{ending}"
    );
    let closed = client.text("closed").await;
    assert_eq!(
        closed["message"],
        "An operator ended the session: a stolen laptop"
    );
    assert_eq!(client.ended().await, (4403, "ended_by_operator".to_owned()));
    assert_eq!(
        world.closed(&ready["session_id"]).await,
        "ended_by_operator"
    );
    let records = audited(&world, "terminal.operator_end").await;
    assert_eq!(
        (
            records.len(),
            &records[0]["by"],
            &records[0]["reason"],
            &records[0]["principal"]
        ),
        (
            1,
            &json!("user:bob"),
            &json!("a stolen laptop"),
            &json!("user:alice")
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_key_ends_one_session_once_and_no_other() {
    let world = World::start().await;
    world.bob_is_an_operator().await;
    for (who, action, body) in [
        ("alice", "terminal.end", json!({})),
        (
            "bob",
            "terminal.operator_end",
            json!({ "reason": "a stolen laptop" }),
        ),
    ] {
        let (_client, ready) = world.session().await;
        let (_other_client, other) = world.session().await;
        let path = |ready: &Value| match who {
            "alice" => world.end_of(ready),
            _ => end_by_operator(ready),
        };
        for _ in 0..2 {
            let (status, ended) = world.post_with_key(&path(&ready), who, &body, "k").await;
            assert_eq!(
                (status, &ended["id"]),
                (200, &ready["session_id"]),
                "{who}: {ended}"
            );
        }
        let records = audited(&world, action).await;
        assert_eq!(records.len(), 1, "{records:?}");

        let (_, refused) = world.post_with_key(&path(&other), who, &body, "k").await;
        assert_eq!(
            refused["error"]["details"][0]["reason"], "IDEMPOTENCY_KEY_REUSED",
            "{who}: {refused}"
        );
        let still = sqlx::query_scalar::<_, bool>(
            "SELECT end_request_time IS NULL AND close_time IS NULL FROM terminal.sessions WHERE id = $1",
        )
        .bind(id_of(&other))
        .fetch_one(&world.db.owner_pool().await)
        .await
        .expect("the session");
        assert!(still, "{who}: the other session ends");
    }
}

fn id_of(ready: &Value) -> Uuid {
    let id = ready["session_id"].as_str().expect("id");
    id.parse().expect("uuid")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reason_of_an_operator_is_on_record_also_where_the_user_was_quicker() {
    let world = World::start().await;
    world.bob_is_an_operator().await;
    let (_client, ready) = world.session().await;
    // one like it whose user has requested the end, and that no process serves, so that it stays open for a while
    let open = Uuid::now_v7();
    let copied = sqlx::query(
        "INSERT INTO terminal.sessions (id, allocation_id, project_id, principal, kind, end_request_time)
         SELECT $1, allocation_id, project_id, principal, kind, clock_timestamp() FROM terminal.sessions WHERE id = $2",
    )
    .bind(open)
    .bind(id_of(&ready))
    .execute(&world.db.owner_pool().await)
    .await
    .expect("copied");
    assert_eq!(copied.rows_affected(), 1);
    let path = end_by_operator(&json!({ "session_id": open.to_string() }));
    let reason = json!({ "reason": "a stolen laptop" });
    let (status, ending) = world.post_beside(&path, "bob", &reason).await;
    assert_eq!(status, 200, "{ending}");
    let records = audited(&world, "terminal.operator_end").await;
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(records[0]["reason"], "a stolen laptop");
    let (before, after) = (&records[0]["before_digest"], &records[0]["after_digest"]);
    assert!(before.is_string() && before == after, "{records:?}");

    // of one that has ended there is nothing to say
    let (status, ended) = world
        .post_beside(&world.end_of(&ready), "alice", &json!({}))
        .await;
    assert_eq!(status, 200, "{ended}");
    world.closed(&ready["session_id"]).await;
    let (status, ended) = world
        .post_beside(&end_by_operator(&ready), "bob", &reason)
        .await;
    assert_eq!(status, 200, "{ended}");
    let records = audited(&world, "terminal.operator_end").await;
    assert_eq!(records.len(), 1, "{records:?}");
}

/// Before, nobody could end such a shell, and it counted for no limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_live_session_that_another_replica_took_for_lost_ends_and_frees_its_place() {
    let world = World::with(Manner::Well, |config, _| config.max_sessions_per_user = 2).await;
    let (mut client, ready) = world.session().await;
    client.until("$ ").await;
    let (mut other, _) = world.session().await;
    // as the sweep of a replica that has not seen it for a minute
    let closed = sqlx::query(
        "UPDATE terminal.sessions SET close_time = clock_timestamp(), close_reason = 'process_lost' WHERE id = $1",
    )
    .bind(id_of(&ready))
    .execute(&world.db.owner_pool().await)
    .await
    .expect("closed");
    assert_eq!(closed.rows_affected(), 1);
    assert_eq!(client.ended().await, (4503, "process_lost".to_owned()));
    until("its shell to end", async || {
        (world.guest.seen.shells.load(Ordering::SeqCst) == 1).then_some(())
    })
    .await;
    let mut again = world.program().await;
    again.resume(&ready, 0).await;
    assert_eq!(again.ended().await, (4404, "session_gone".to_owned()));

    // the other one goes on; as many run as are counted
    other.input("alive\n").await;
    other.until("<alive>").await;
    let (_next, _) = world.session().await;
    assert_eq!(world.ask(None, "one-too-many").await.0, 403);
}
