//! Who has an owner's grant for one allocation does there what was granted, and nothing else, anywhere.
use std::time::{Duration, Instant};

use gpuaas_dev::until::until_ok;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::terminals::{answers, ended, opened_into};
use crate::upstream::{FOREIGN, SILENT};
use crate::world::{World, field, reason};

const VM: Uuid = Uuid::from_u128(0x71);
const OTHER: Uuid = Uuid::from_u128(0x72);
const THIRD: Uuid = Uuid::from_u128(0x73);

/// A project whose owner is olga, with vera as a viewer and mia as a member.
async fn start() -> (World, String) {
    start_with(0.1).await
}

/// The same with so many seconds between two checks of who reads a stream.
async fn start_with(stream_access_seconds: f64) -> (World, String) {
    let world = World::start_with(|config, _| {
        config.terminal.access_seconds = 0.1;
        config.stream_access_seconds = stream_access_seconds;
    })
    .await;
    world.users(&["olga", "vera", "mia", "stranger"]).await;
    let project = world.seeded.project_id.to_string();
    for (who, role) in [("olga", "owner"), ("vera", "viewer"), ("mia", "member")] {
        world.member(&project, who, role).await;
    }
    let grants = format!("/api/v1/projects/{project}/allocation-grants");
    (world, grants)
}

fn at(text: &str) -> jiff::Timestamp {
    text.parse().expect("a time")
}

fn grant(allocation: Uuid, who: &str, permission: &str) -> Value {
    json!({ "allocation_id": allocation, "principal": format!("user:{who}"), "permission": permission })
}

/// Status of a try to open a terminal.
async fn terminal(world: &World, who: &str, allocation: Uuid) -> u16 {
    let target = format!("/api/v1/allocations/{allocation}/terminal-sessions");
    world.post_by(who, &target, json!({})).await.0
}

async fn serial_log(world: &World, who: &str, allocation: Uuid) -> u16 {
    let target = format!("/api/v1/allocations/{allocation}/serial-log");
    let url = world.url(&target);
    let request = world.http.get(url).bearer_auth(world.token(who));
    request.send().await.expect("answer").status().as_u16()
}

/// A watch of an allocation that stays open, and its serial log.
fn watched() -> [String; 2] {
    [
        format!("/api/v1/allocations/{SILENT}:watch"),
        format!("/api/v1/allocations/{SILENT}/serial-log?follow=true"),
    ]
}

/// Opens a stream as soon as its reader may.
pub(super) async fn opened(world: &World, who: &str, target: &str) -> Response {
    let started = Instant::now();
    loop {
        let request = world.http.get(world.url(target));
        let request = request.bearer_auth(world.token(who));
        let response = request.send().await.expect("answer");
        if response.status() == 200 {
            return response;
        }
        let status = response.status();
        assert!(started.elapsed() < Duration::from_secs(20), "{status}");
    }
}

/// The last message of a stream, which is to end.
pub(super) async fn last(stream: Response) -> Value {
    let all = tokio::time::timeout(Duration::from_secs(30), stream.text()).await;
    let all = all.expect("it ends").expect("text");
    let last = all.lines().last().expect("a last message");
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {last}"))
}

/// Repeats a try until it is answered so: a gateway forgets what it knows of a caller when it hears of a change.
async fn until(expected: u16, attempt: impl AsyncFn() -> u16) {
    until_ok(
        "the change to be heard of",
        Duration::from_secs(20),
        async || {
            let status = attempt().await;
            match status == expected {
                true => Ok(()),
                false => Err(status.to_string()),
            }
        },
    )
    .await;
}

#[tokio::test]
async fn p10_who_has_a_grant_for_an_allocation_opens_its_terminal_and_no_other() {
    let (world, grants) = start().await;
    assert_eq!(terminal(&world, "vera", VM).await, 403);
    let made = world
        .made("olga", &grants, grant(VM, "vera", "terminal"))
        .await;
    assert_eq!(made["permission"], "terminal", "{made}");
    assert_eq!(made["creator"], "user:olga", "{made}");
    assert_eq!(world.recorded("allocation_grant.create").await, 1);
    let recorded: String = sqlx::query_scalar(
        "SELECT detail->>'expire_time' FROM audit WHERE action = 'allocation_grant.create'",
    )
    .fetch_one(&world.pool().await)
    .await
    .expect("its end is on record");
    assert_eq!(
        at(&recorded),
        at(made["expire_time"].as_str().expect("a time"))
    );
    let (_, listed) = world.get("vera", &grants).await;
    assert_eq!(listed["grants"][0]["id"], made["id"], "{listed}");
    until(200, async || terminal(&world, "vera", VM).await).await;
    assert_eq!(terminal(&world, "vera", OTHER).await, 403);
    assert_eq!(
        serial_log(&world, "vera", VM).await,
        403,
        "another permission"
    );
    let release = format!("/api/v1/allocations/{VM}:release");
    assert_eq!(world.post_by("vera", &release, json!({})).await.0, 403);

    let token = world.token("vera");
    let (mut open, whose) = opened_into(&world, "user:vera", &token, VM).await;
    answers(&mut open, &whose).await;
    let one = format!("{grants}/{}", made["id"].as_str().expect("an id"));
    let (status, refused) = world.send("vera", Method::DELETE, &one, Value::Null).await;
    assert_eq!((status, reason(&refused)), (403, "PERMISSION_DENIED"));
    let (status, body) = world.send("olga", Method::DELETE, &one, Value::Null).await;
    assert_eq!(status, 200, "{body}");
    ended(&mut open).await;
    until(403, async || terminal(&world, "vera", VM).await).await;
    assert_eq!(world.recorded("allocation_grant.delete").await, 1);
    let (status, gone) = world.send("olga", Method::DELETE, &one, Value::Null).await;
    assert_eq!((status, field(&gone)), (404, "grant_id"), "{gone}");
}

#[tokio::test]
async fn a_grant_is_an_owners_for_members_and_ends() {
    let (world, grants) = start().await;
    for who in ["vera", "mia"] {
        let (status, refused) = world
            .post_by(who, &grants, grant(VM, "vera", "terminal"))
            .await;
        assert_eq!((status, reason(&refused)), (403, "PERMISSION_DENIED"));
    }
    let (status, absent) = world
        .post_by("stranger", &grants, grant(VM, "vera", "terminal"))
        .await;
    assert_eq!((status, field(&absent)), (404, "project_id"), "{absent}");

    for (body, wrong) in [
        (grant(VM, "stranger", "terminal"), "principal"),
        (grant(VM, "ghost", "terminal"), "principal"),
        (
            json!({ "allocation_id": VM, "principal": "user:vera" }),
            "permission",
        ),
        (
            json!({ "allocation_id": "x", "principal": "user:vera", "permission": "terminal" }),
            "allocation_id",
        ),
        (grant(FOREIGN, "vera", "terminal"), ""),
        (
            json!({ "allocation_id": VM, "principal": "user:vera", "permission": "terminal",
                    "expire_time": "2020-01-01T00:00:00Z" }),
            "expire_time",
        ),
    ] {
        let (status, refused) = world.post_by("olga", &grants, body.clone()).await;
        if wrong.is_empty() {
            let absent = (404, "ALLOCATION_NOT_FOUND");
            assert_eq!((status, reason(&refused)), absent, "{body}: {refused}");
        } else {
            assert_eq!((status, field(&refused)), (400, wrong), "{body}: {refused}");
        }
    }
    let good = grant(VM, "vera", "serial_log");
    world.made("olga", &grants, good.clone()).await;
    let (status, twice) = world.post_by("olga", &grants, good).await;
    assert_eq!((status, reason(&twice)), (409, "ALREADY_EXISTS"), "{twice}");
    until(200, async || serial_log(&world, "vera", VM).await).await;
    assert_eq!(terminal(&world, "vera", VM).await, 403);

    // one that has ended is none; the other of the same statement says when the gateway has heard of both
    let pool = world.pool().await;
    sqlx::query(
        "INSERT INTO allocation_grants (id, project_id, allocation_id, principal_id, permission, creator, expire_time)
         SELECT g.id, $3, g.allocation, p.id, 'terminal', 'user:olga', now() + g.lasts
           FROM principals p, (VALUES ($1, $4, interval '0'), ($2, $5, interval '1 day')) g (id, allocation, lasts)
          WHERE p.name = 'user:vera'",
    )
    .bind(Uuid::now_v7())
    .bind(Uuid::now_v7())
    .bind(world.seeded.project_id)
    .bind(OTHER)
    .bind(THIRD)
    .execute(&pool)
    .await
    .expect("rows");
    until(200, async || terminal(&world, "vera", THIRD).await).await;
    assert_eq!(terminal(&world, "vera", OTHER).await, 403);

    // who is not in the project any more has nothing of it
    let members = format!("/api/v1/projects/{}/members", world.seeded.project_id);
    let (_, listed) = world.get("olga", &members).await;
    let all = listed["members"].as_array().expect("members").iter();
    let mut of_vera = all.filter(|one| one["principal"] == "user:vera");
    let id = of_vera.next().expect("vera")["member_id"].clone();
    let target = format!("{members}/{}", id.as_str().expect("an id"));
    let (status, body) = world
        .send("olga", Method::DELETE, &target, Value::Null)
        .await;
    assert_eq!(status, 200, "{body}");
    until(404, async || serial_log(&world, "vera", VM).await).await;

    // nor when she is back: an owner decides anew
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM allocation_grants")
        .fetch_one(&pool)
        .await
        .expect("a count");
    assert_eq!(left, 0);
    world
        .member(&world.seeded.project_id.to_string(), "vera", "viewer")
        .await;
    until(403, async || serial_log(&world, "vera", VM).await).await;
}

/// A terminal that was opened by a grant ends with it, though nobody says so: not before, and not long after.
#[tokio::test]
async fn p10_a_terminal_ends_when_the_grant_that_opened_it_expires() {
    const LASTS: Duration = Duration::from_secs(15);
    let (world, grants) = start().await;
    let end = jiff::Timestamp::now() + LASTS;
    let begun = Instant::now();
    let mut body = grant(VM, "vera", "terminal");
    body["expire_time"] = json!(end.to_string());
    world.made("olga", &grants, body).await;
    until(200, async || terminal(&world, "vera", VM).await).await;
    let token = world.token("vera");
    let (mut open, whose) = opened_into(&world, "user:vera", &token, VM).await;
    answers(&mut open, &whose).await;
    ended(&mut open).await;
    let lasted = begun.elapsed();
    // a process may look at its clock a little before the test does
    assert!(lasted + Duration::from_millis(100) >= LASTS, "{lasted:?}");
    assert!(lasted < LASTS + Duration::from_secs(60), "{lasted:?}");
    until(403, async || terminal(&world, "vera", VM).await).await;
    let (_, listed) = world.get("olga", &grants).await;
    assert_eq!(listed["grants"], json!([]), "{listed}");
}

/// Who sees the costs alone sees, of what it has a grant for, what it is.
#[tokio::test]
async fn who_has_a_grant_for_an_allocation_reads_it() {
    let (world, grants) = start().await;
    world.users(&["bill"]).await;
    let project = world.seeded.project_id.to_string();
    world.member(&project, "bill", "billing").await;
    let read = async |of: Uuid| {
        world
            .get("bill", &format!("/api/v1/allocations/{of}"))
            .await
            .0
    };
    assert_eq!(read(VM).await, 403);
    world
        .made("olga", &grants, grant(VM, "bill", "serial_log"))
        .await;
    until(200, async || read(VM).await).await;
    assert_eq!(read(OTHER).await, 403);
    assert_eq!(serial_log(&world, "bill", VM).await, 200);
    assert_eq!(terminal(&world, "bill", VM).await, 403);

    // so that it can be found: who reads no allocations reads its own grants, and nobody else's
    world
        .made("olga", &grants, grant(OTHER, "vera", "terminal"))
        .await;
    let (status, own) = world.get("bill", &grants).await;
    assert_eq!(status, 200, "{own}");
    let listed = own["grants"].as_array().expect("grants");
    assert_eq!(listed.len(), 1, "{own}");
    assert_eq!(listed[0]["allocation_id"], VM.to_string(), "{own}");
    let (_, all) = world.get("vera", &grants).await;
    assert_eq!(all["grants"].as_array().expect("grants").len(), 2, "{all}");
    let of_other = format!("{grants}?allocation_id={OTHER}");
    assert_eq!(world.get("bill", &of_other).await.1["grants"], json!([]));
}

/// A stream that was opened by a grant ends when the grant is revoked, long before the next check of its reader, and says why.
/// Who reads the same by a role, or by a grant of its own, reads on.
#[tokio::test]
async fn p10_streams_end_when_the_grant_that_they_are_read_by_is_revoked() {
    let (world, grants) = start_with(3_600.0).await;
    world.users(&["bill", "bob"]).await;
    let project = world.seeded.project_id.to_string();
    for who in ["bill", "bob"] {
        world.member(&project, who, "billing").await;
    }
    // in another project bill reads everything, and another allocation here by another grant: neither is what this is read by
    let acme = world.organisation("acme", "olga").await;
    let elsewhere = world.project(&acme, "elsewhere", "olga").await;
    world.member(&elsewhere, "bill", "member").await;
    world
        .made("olga", &grants, grant(OTHER, "bill", "serial_log"))
        .await;
    let mut revoked = Vec::new();
    for (who, is_revoked) in [("bill", true), ("bob", false)] {
        let made = grant(SILENT, who, "serial_log");
        let made = world.made("olga", &grants, made).await;
        if is_revoked {
            revoked.push(format!("{grants}/{}", made["id"].as_str().expect("an id")));
        }
    }
    let [watch, log] = watched();
    let mut of_bill = Vec::new();
    for target in [&watch, &log] {
        of_bill.push(opened(&world, "bill", target).await);
    }
    let _of_others = [
        opened(&world, "bob", &watch).await,
        opened(&world, "mia", &log).await,
    ];
    world.record.until_open(4).await;

    let started = Instant::now();
    for one in &revoked {
        let (status, body) = world.send("olga", Method::DELETE, one, Value::Null).await;
        assert_eq!(status, 200, "{body}");
    }
    for stream in of_bill {
        let last = last(stream).await;
        assert_eq!(reason(&last), "PERMISSION_DENIED", "{last}");
        assert_eq!(last["error"]["code"], 403, "{last}");
    }
    let lasted = started.elapsed();
    assert!(lasted < Duration::from_secs(10), "{lasted:?}");
    world.record.until_open(2).await;
    let read = format!("/api/v1/allocations/{SILENT}");
    // the service looks for it in his other project alone
    world.record.clear();
    world.get("bill", &read).await;
    let seen = world.record.all().pop().expect("a call");
    assert!(!seen.caller.projects.contains(&world.seeded.project_id));
    assert_eq!(world.get("bob", &read).await.0, 200);
    assert_eq!(world.record.open(), 2, "the others read on");
}

/// The same when it expires, though nobody says so: not before, and not long after.
#[tokio::test]
async fn p10_streams_end_when_the_grant_that_they_are_read_by_expires() {
    const LASTS: Duration = Duration::from_secs(15);
    let (world, grants) = start_with(0.1).await;
    let project = world.seeded.project_id.to_string();
    world.users(&["bill"]).await;
    world.member(&project, "bill", "billing").await;
    let end = jiff::Timestamp::now() + LASTS;
    let begun = Instant::now();
    let mut body = grant(SILENT, "bill", "serial_log");
    body["expire_time"] = json!(end.to_string());
    world.made("olga", &grants, body).await;
    let mut streams = Vec::new();
    for target in watched() {
        streams.push(opened(&world, "bill", &target).await);
    }
    world.record.until_open(2).await;
    for stream in streams {
        let last = last(stream).await;
        let lasted = begun.elapsed();
        assert_eq!(reason(&last), "PERMISSION_DENIED", "{last}");
        // a process may look at its clock a little before the test does
        assert!(lasted + Duration::from_millis(100) >= LASTS, "{lasted:?}");
        assert!(lasted < LASTS + Duration::from_secs(60), "{lasted:?}");
    }
    world.record.until_open(0).await;
}

/// A grant that is made again under its key is the one that was made, for who may still make one.
#[tokio::test]
async fn p4_a_repeated_grant_is_the_one_whatever_became_of_its_allocation() {
    let (world, grants) = start().await;
    let send = async |permission: &str, end: Option<jiff::Timestamp>, key: &str| {
        let mut body = grant(VM, "vera", permission);
        if let Some(end) = end {
            body["expire_time"] = json!(end.to_string());
        }
        let sent = world.send_as("olga", Method::POST, &grants, body, key);
        sent.await
    };
    // an end that has passed when the gateway reads of it is refused: on a busy machine the next one is later
    let mut lasts = Duration::from_secs(2);
    let (end, first) = loop {
        let end = jiff::Timestamp::now() + lasts;
        let (status, answer) = send("terminal", Some(end), "k").await;
        if status == 200 {
            break (end, answer);
        }
        assert_eq!((status, field(&answer)), (400, "expire_time"), "{answer}");
        lasts *= 2;
        assert!(lasts < Duration::from_secs(300), "{answer}");
    };
    world.record.lose_allocations();
    let (status, absent) = send("terminal", None, "another").await;
    assert_eq!(
        (status, reason(&absent)),
        (404, "ALLOCATION_NOT_FOUND"),
        "{absent}"
    );
    let enough = lasts + Duration::from_secs(20);
    until_ok("its end", enough, async || {
        let now = jiff::Timestamp::now();
        match now > end {
            true => Ok(()),
            false => Err(now.to_string()),
        }
    })
    .await;
    let (status, again) = send("terminal", Some(end), "k").await;
    assert_eq!((status, &again), (200, &first));
    assert_eq!(world.recorded("allocation_grant.create").await, 1);
    let (status, reused) = send("serial_log", Some(end), "k").await;
    assert_eq!(
        (status, reason(&reused)),
        (409, "IDEMPOTENCY_KEY_REUSED"),
        "{reused}"
    );

    let weaker = sqlx::query(
        "UPDATE memberships m SET role = 'viewer' FROM principals p WHERE p.id = m.principal_id AND p.name = 'user:olga'",
    );
    let done = weaker.execute(&world.pool().await).await.expect("done");
    assert_eq!(done.rows_affected(), 1);
    until(403, async || send("terminal", Some(end), "k").await.0).await;
}
