//! Callers that ask and take nothing of the answer: others are served meanwhile.
use std::time::Duration;

use futures::FutureExt as _;
use gpuaas_dev::until::{until, until_ok};
use gpuaas_gateway::auth::logout;
use gpuaas_gateway::store::Role;
use gpuaas_gateway::store::Scope;
use reqwest::Method;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::access::key;
use crate::silence::{LIST, NEVER, REQUESTS, client, metrics, served, silent, watch};
use crate::world::{World, answer, reason};

/// Frames of HTTP/2.
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags, 0, 0, 0, stream]);
    frame.extend(payload);
    frame
}

/// A text in HPACK, without Huffman coding.
fn text(text: &str) -> Vec<u8> {
    let mut left = text.len();
    let mut coded = Vec::new();
    if left < 127 {
        coded.push(u8::try_from(left).expect("short"));
    } else {
        coded.push(127);
        left -= 127;
        while left >= 128 {
            coded.push(u8::try_from(left % 128).expect("short") | 128);
            left /= 128;
        }
        coded.push(u8::try_from(left).expect("short"));
    }
    coded.extend(text.as_bytes());
    coded
}

/// A client of HTTP/2 whose windows are closed: it answers pings, and takes the head of its answer and nothing more.
/// Returns when the head is there.
async fn reads_no_body(
    world: &World,
    readers: &mut JoinSet<()>,
    path: &str,
    credential: Option<&str>,
) {
    // GET, http, an authority, the path
    let mut head = vec![0x82, 0x86, 0x01];
    head.extend(text("gateway"));
    head.push(0x04);
    head.extend(text(path));
    if let Some(credential) = credential {
        head.extend([0x0f, 0x08]);
        head.extend(text(&format!("Bearer {credential}")));
    }
    let mut opening = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    opening.extend(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
    opening.extend(frame(HEADERS, 0b101, 1, &head));
    let mut stream = silent(world, [127, 0, 0, 1], &opening).await;
    let (answered, head_is_there) = oneshot::channel();
    readers.spawn(async move {
        let mut answered = Some(answered);
        let mut head = [0; 9];
        while stream.read_exact(&mut head).await.is_ok() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            if stream.read_exact(&mut payload).await.is_err() {
                return;
            }
            match head[3] {
                HEADERS => drop(answered.take().map(|answered| answered.send(()))),
                kind @ (PING | SETTINGS) if head[4] & ACK == 0 => {
                    let payload = if kind == PING { payload } else { Vec::new() };
                    drop(stream.write_all(&frame(kind, ACK, 0, &payload)).await);
                }
                _ => {}
            }
        }
    });
    head_is_there.await.expect("the head of an answer");
}

async fn until_let_go(world: &World, cause: &str, count: usize) {
    let cause = format!("cause=\"{cause}\"");
    until_ok(
        "connections that are let go",
        Duration::from_secs(20),
        async || {
            let metrics = metrics(world).await;
            let counts = metrics
                .lines()
                .filter(|line| line.starts_with("edge_connections"));
            let counts: Vec<_> = counts.collect();
            let counted = counts.iter().any(|line| {
                line.starts_with("edge_connections_closed_total{")
                    && line.contains(&cause)
                    && line.ends_with(&format!(" {count}"))
            });
            counted
                .then_some(())
                .ok_or_else(|| format!("not {count}: {counts:?}"))
        },
    )
    .await;
}

/// Before, their connections were busy for ever, and a busy connection makes place for nobody.
#[tokio::test]
async fn who_takes_no_answer_keeps_nobody_from_being_served() {
    const OTHERS: usize = 2;
    let world = World::start_with(|config, _| {
        config.max_connections = 5;
        config.max_connections_per_peer = 0;
        config.first_request_timeout_seconds = NEVER;
        config.header_timeout_seconds = NEVER;
        config.write_timeout_seconds = 1;
    })
    .await;
    let other = client([127, 0, 0, 2]);
    // nothing is taken of it meanwhile
    let mut stream = watch(&world, &other, "demo").await;
    let mut readers = JoinSet::new();
    for _ in 0..OTHERS {
        reads_no_body(&world, &mut readers, "/api/openapi.json", None).await;
        // a refusal
        reads_no_body(&world, &mut readers, LIST, None).await;
    }
    until_let_go(&world, "stalled", 2 * OTHERS).await;
    readers.join_all().await;
    assert_eq!(served(&world, &other, "admin").await, REQUESTS);
    while let Some(piece) = stream.chunk().now_or_never() {
        let piece = piece.expect("the stream is still open");
        assert!(piece.is_some(), "the stream has not ended");
    }
}

/// Before, a place was given back when the answer was there, and it lay in memory for as long as its reader liked.
#[tokio::test]
async fn an_answer_that_nobody_takes_keeps_its_place() {
    let world = World::start_with(|config, _| {
        config.max_in_flight = 1;
        config.write_timeout_seconds = NEVER;
    })
    .await;
    let mut readers = JoinSet::new();
    reads_no_body(&world, &mut readers, LIST, Some(&world.token("demo"))).await;
    let (status, body) = world.call(Method::GET, LIST, "admin").await;
    assert_eq!((status, reason(&body)), (503, "OVERLOADED"), "{body}");
    readers.shutdown().await;
    until_served(&world).await;
}

/// The share of its address too, of a refusal as of any other answer.
#[tokio::test]
async fn a_refusal_that_nobody_takes_keeps_its_part_of_the_peers_share() {
    let world = World::start_with(|config, _| {
        config.max_in_flight_per_peer = 1;
        config.write_timeout_seconds = NEVER;
    })
    .await;
    let mut readers = JoinSet::new();
    reads_no_body(&world, &mut readers, LIST, None).await;
    let (status, body) = world.call(Method::GET, LIST, "admin").await;
    assert_eq!((status, reason(&body)), (429, "RATE_LIMITED"), "{body}");
    let other = client([127, 0, 0, 2]);
    assert_eq!(served(&world, &other, "admin").await, REQUESTS);
    readers.shutdown().await;
    until_served(&world).await;
}

/// Before, what anybody may read was not counted: of one address, so many answers lay in memory as its connections had streams.
#[tokio::test]
async fn a_document_that_nobody_takes_keeps_its_part_of_the_peers_share() {
    let world = World::start_with(|config, _| {
        config.max_in_flight_per_peer = 1;
        config.write_timeout_seconds = NEVER;
    })
    .await;
    let (same, other) = (client([127, 0, 0, 1]), client([127, 0, 0, 2]));
    let get = async |client: &reqwest::Client, path: &str| {
        let request = client.get(world.url(path));
        request.send().await.expect("an answer")
    };
    for path in [
        "/api/openapi.json",
        "/api/asyncapi.json",
        "/.well-known/gpuaas-configuration",
        "/.well-known/jwks.json",
        "/reference",
        // the console, which need not be built
        "/",
    ] {
        let mut readers = JoinSet::new();
        reads_no_body(&world, &mut readers, path, None).await;
        let (status, body) = answer(get(&same, path).await).await;
        assert_eq!((status, reason(&body)), (429, "RATE_LIMITED"), "{path}");
        let of_other = get(&other, path).await;
        assert_ne!(of_other.status(), 429, "{path}");
        of_other.bytes().await.expect("a body");
        // what load balancers ask behind the same address
        for probe in ["/healthz", "/readyz"] {
            assert_eq!(get(&same, probe).await.status(), 200, "{path} {probe}");
        }
        readers.shutdown().await;
        until_served(&world).await;
    }
}

/// Before, an answer of SCIM gave back its place, and its part of its address's share, as soon as it was there.
#[tokio::test]
async fn an_answer_of_scim_that_nobody_takes_counts_as_any_other() {
    let world = World::start_with(|config, _| {
        config.max_in_flight = 1;
        config.write_timeout_seconds = NEVER;
    })
    .await;
    let pool = world.pool().await;
    let project = world.seeded.project_id;
    let key = key(&pool, project, Role::Billing, &[Scope::Scim]).await;
    let mut readers = JoinSet::new();
    let path = "/scim/v2/Schemas";
    reads_no_body(&world, &mut readers, path, Some(key.reveal())).await;
    let (status, body) = world.call(Method::GET, LIST, "admin").await;
    assert_eq!((status, reason(&body)), (503, "OVERLOADED"), "{body}");
    readers.shutdown().await;
    until_served(&world).await;
}

/// Of a refusal too.
#[tokio::test]
async fn a_refusal_of_scim_that_nobody_takes_keeps_its_part_of_the_peers_share() {
    let world = World::start_with(|config, _| {
        config.max_in_flight_per_peer = 1;
        config.write_timeout_seconds = NEVER;
    })
    .await;
    let mut readers = JoinSet::new();
    let users = "/scim/v2/Users";
    reads_no_body(&world, &mut readers, users, None).await;
    let (status, body) = world.call(Method::GET, LIST, "admin").await;
    assert_eq!((status, reason(&body)), (429, "RATE_LIMITED"), "{body}");
    let refused = world.http.get(world.url(users)).send().await;
    let refused = refused.expect("an answer");
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["content-type"], "application/scim+json");
    assert_eq!(refused.headers()["retry-after"], "1");
    readers.shutdown().await;
    until_served(&world).await;
}

/// Before, programs that sign in read the API's form, and no metric of requests had such refusals.
#[tokio::test]
async fn a_refusal_at_the_peers_share_is_in_the_form_of_its_path_and_counted() {
    let world = World::start_with(|config, _| {
        config.max_in_flight_per_peer = 1;
        config.write_timeout_seconds = NEVER;
    })
    .await;
    let mut readers = JoinSet::new();
    reads_no_body(&world, &mut readers, "/api/openapi.json", None).await;
    let send = async |method: Method, path: &str| {
        let request = world.http.request(method, world.url(path));
        request.send().await.expect("an answer")
    };
    for path in [
        "/dev/token",
        "/dev/device/authorize",
        "/dev/revoke",
        logout::PATH,
    ] {
        let refused = send(Method::POST, path).await;
        assert_eq!(refused.headers()["retry-after"], "1", "{path}");
        assert_eq!(refused.status(), 429, "{path}");
        let body: Value = refused.json().await.expect("JSON");
        assert_eq!(body["error"], "temporarily_unavailable", "{path}");
        assert!(body["error_description"].is_string(), "{path}: {body}");
    }
    // people read pages
    for (method, path) in [
        (Method::GET, "/dev/authorize?client_id=x"),
        (Method::POST, "/dev/authorize"),
        (Method::GET, "/dev/device"),
        (Method::POST, "/dev/device"),
        (Method::GET, "/dev/end-session"),
    ] {
        let refused = send(method, path).await;
        assert_eq!(refused.status(), 429, "{path}");
        assert_eq!(refused.headers()["retry-after"], "1", "{path}");
        let kind = refused.headers()["content-type"].to_str().expect("text");
        assert!(kind.starts_with("text/html"), "{path}: {kind}");
        let page = refused.text().await.expect("a page");
        for text in [
            "Too many requests",
            "Wait a second, then load this page again.",
        ] {
            assert!(page.contains(text), "{path}: {page}");
        }
    }
    let made_up = Method::from_bytes(b"MADEUP").expect("a method");
    let (status, body) = answer(send(made_up, "/made/up").await).await;
    assert_eq!((status, reason(&body)), (429, "RATE_LIMITED"), "{body}");
    let shown = metrics(&world).await;
    for (method, count) in [("POST", 6), ("_OTHER", 1)] {
        let method = format!("method=\"{method}\"");
        let is_counted = shown.lines().any(|line| {
            line.starts_with("http_server_duration_seconds_count{")
                && line.contains(&method)
                && line.contains("route=\"*\"")
                && line.contains("status=\"429\"")
                && line.ends_with(&format!(" {count}"))
        });
        assert!(is_counted, "{method}: {shown}");
    }
    // nothing of what a stranger makes up is a label
    for made_up in ["MADEUP", "/made/up"] {
        assert!(!shown.contains(made_up), "{shown}");
    }
    readers.shutdown().await;
    until_served(&world).await;
}

/// Returns when the gateway has seen that a reader is gone.
async fn until_served(world: &World) {
    until(
        "a place that is free again",
        Duration::from_secs(60),
        async || {
            let (status, _) = world.call(Method::GET, LIST, "admin").await;
            (status == 200).then_some(())
        },
    )
    .await;
}

/// Before, a stream was checked only while its client took something of it.
#[tokio::test]
async fn a_stream_that_nobody_takes_ends_with_its_readers_access() {
    let world = World::start_with(|config, _| {
        config.write_timeout_seconds = 1;
        config.stream_access_seconds = 0.1;
        config.max_streams_per_principal = 1;
    })
    .await;
    let mut readers = JoinSet::new();
    let path = "/api/v1/allocations/silent:watch";
    reads_no_body(&world, &mut readers, path, Some(&world.token("demo"))).await;
    assert_eq!(world.record.open(), 1);
    sqlx::query("DELETE FROM edge.memberships")
        .execute(&world.db.owner_pool().await)
        .await
        .expect("deleted");
    until_let_go(&world, "stalled", 1).await;
    readers.join_all().await;
    until(
        "the end of the stream",
        Duration::from_secs(20),
        async || (world.record.open() == 0).then_some(()),
    )
    .await;
}
