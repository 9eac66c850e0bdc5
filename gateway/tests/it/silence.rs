//! Callers that say nothing, or say it slowly, or want everything: others are served meanwhile. What is counted is
//! requests that are answered, never time.
use std::net::SocketAddr;
use std::time::Duration;

use reqwest::{Client, Method, Response};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::world::{World, answer, detail, reason};

pub const LIST: &str = "/api/v1/allocations";
const WATCH: &str = "/api/v1/allocations/silent:watch";
/// Far longer than a test: what a test sees happen, no deadline has done.
pub const NEVER: u64 = 3600;
/// Requests of the second client.
pub const REQUESTS: usize = 50;

/// What a client may say before it falls silent.
const OPENINGS: [&[u8]; 4] = [
    b"",
    // half an HTTP/2 preface
    b"PRI * HTTP/2.0\r\n",
    b"GET /healthz HTTP/1.1\r\nx-slow: ",
    // the beginning of a TLS handshake
    b"\x16\x03\x01\x02\x00",
];

pub async fn silent(world: &World, from: [u8; 4], opening: &[u8]) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("socket");
    socket.bind(SocketAddr::from((from, 0))).expect("bound");
    let address = world.base.trim_start_matches("http://");
    let mut stream = socket
        .connect(address.parse().expect("address"))
        .await
        .expect("connected");
    stream.write_all(opening).await.expect("sent");
    stream
}

/// A client of its own address that opens a connection for every request.
pub fn client(from: [u8; 4]) -> Client {
    Client::builder()
        .local_address(std::net::IpAddr::from(from))
        .pool_max_idle_per_host(0)
        .build()
        .expect("client")
}

pub async fn served(world: &World, client: &Client, subject: &str) -> usize {
    let mut served = 0;
    for _ in 0..REQUESTS {
        let request = client
            .get(world.url(LIST))
            .bearer_auth(world.token(subject));
        let answered = request.send().await.expect("an answer");
        served += usize::from(answer(answered).await.0 == 200);
    }
    served
}

async fn attack(world: &World, from: [u8; 4], connections: usize) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for turn in 0..connections {
        open.push(silent(world, from, OPENINGS[turn % OPENINGS.len()]).await);
    }
    open
}

/// Before, silent connections took all places until they were let go, and every other request waited for one.
#[tokio::test]
async fn connections_that_say_nothing_keep_nobody_from_being_served() {
    for per_peer in [0, 32] {
        let world = World::start_with(|config, _| {
            config.max_connections = 64;
            config.max_connections_per_peer = per_peer;
            config.first_request_timeout_seconds = NEVER;
            config.header_timeout_seconds = NEVER;
        })
        .await;
        let _silent = attack(&world, [127, 0, 0, 1], 200).await;
        let other = client([127, 0, 0, 2]);
        assert_eq!(
            served(&world, &other, "admin").await,
            REQUESTS,
            "{per_peer}"
        );
        // nor somebody behind the same address
        let same = client([127, 0, 0, 1]);
        assert_eq!(served(&world, &same, "admin").await, REQUESTS, "{per_peer}");
    }
}

/// Connections that are being answered are not let go for others: of these a peer has its share.
#[tokio::test]
async fn a_peer_whose_connections_are_busy_keeps_nobody_else_from_being_served() {
    let world = World::start_with(|config, _| {
        config.max_connections = 16;
        config.max_connections_per_peer = 8;
    })
    .await;
    let busy = client([127, 0, 0, 3]);
    let mut streams = Vec::new();
    for _ in 0..8 {
        streams.push(watch(&world, &busy, "demo").await);
    }
    let ninth = busy.get(world.url(LIST)).bearer_auth(world.token("demo"));
    ninth.send().await.expect_err("the peer has its share");
    let other = client([127, 0, 0, 2]);
    assert_eq!(served(&world, &other, "admin").await, REQUESTS);
    let metrics = metrics(&world).await;
    let counted = metrics.lines().any(|line| {
        line.starts_with("edge_limited_total{")
            && line.contains("limit=\"peer\"")
            && line.contains("what=\"connections\"")
    });
    assert!(counted, "{metrics}");
    drop(streams);
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_let_go_whatever_it_began() {
    let world = World::start_with(|config, _| {
        config.first_request_timeout_seconds = 3;
        config.header_timeout_seconds = NEVER;
    })
    .await;
    for opening in OPENINGS {
        let mut silent = silent(&world, [127, 0, 0, 1], opening).await;
        let mut rest = Vec::new();
        let closed = silent.read_to_end(&mut rest);
        let closed = tokio::time::timeout(Duration::from_secs(20), closed).await;
        assert!(closed.is_ok(), "{opening:?} is let go by the gateway");
    }
    assert_eq!(
        served(&world, &client([127, 0, 0, 1]), "demo").await,
        REQUESTS
    );
}

async fn slow_body(world: &World, subject: &str) -> TcpStream {
    let head = format!(
        "POST {LIST} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\nx-idempotency-key: k\r\ncontent-length: 100\r\n\r\n{{",
        world.token(subject)
    );
    silent(world, [127, 0, 0, 1], head.as_bytes()).await
}

/// Before, each of them held one of the places for requests until its time was over.
#[tokio::test]
async fn bodies_that_do_not_arrive_hold_no_place_of_others() {
    let world = World::start_with(|config, _| {
        config.max_in_flight = 8;
        config.max_in_flight_per_principal = 4;
        config.body_timeout_seconds = NEVER;
    })
    .await;
    let mut answers = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let mut slow = slow_body(&world, "demo").await;
        answers.spawn(async move {
            let mut head = [0; 12];
            slow.read_exact(&mut head).await.expect("an answer");
            (head, slow)
        });
    }
    // twelve of them have been answered, whichever: the user has its share of bodies
    let mut refused = Vec::new();
    for _ in 0..12 {
        let (head, open) = answers.join_next().await.expect("sixteen").expect("read");
        assert_eq!(&head, b"HTTP/1.1 429");
        refused.push(open);
    }
    let other = client([127, 0, 0, 1]);
    assert_eq!(served(&world, &other, "admin").await, REQUESTS);
    // who has no body waits for none, of the same user too
    assert_eq!(served(&world, &other, "demo").await, REQUESTS);
}

#[tokio::test]
async fn a_body_that_does_not_arrive_ends_with_an_answer() {
    let world = World::start_with(|config, _| config.body_timeout_seconds = 1).await;
    let mut slow = slow_body(&world, "demo").await;
    let mut head = [0; 12];
    slow.read_exact(&mut head).await.expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 408");
}

pub async fn watch(world: &World, client: &Client, subject: &str) -> Response {
    let request = client.get(world.url(WATCH));
    let request = request.bearer_auth(world.token(subject)).send();
    request.await.expect("an answer")
}

/// Before, one token could hold all of them.
#[tokio::test]
async fn one_user_cannot_hold_all_streams() {
    let world = World::start_with(|config, _| {
        config.max_streams = 8;
        config.max_streams_per_principal = 4;
    })
    .await;
    let mut open = Vec::new();
    for _ in 0..4 {
        open.push(watch(&world, &world.http, "demo").await);
    }
    for _ in 0..4 {
        let refused = watch(&world, &world.http, "demo").await;
        assert_eq!(refused.headers()["retry-after"], "1");
        let (status, body) = answer(refused).await;
        assert_eq!((status, reason(&body)), (429, "RATE_LIMITED"));
        let limit = &detail(&body, "ErrorInfo")["metadata"]["limit"];
        assert_eq!(limit, "streams_per_principal");
    }
    for _ in 0..4 {
        open.push(watch(&world, &world.http, "admin").await);
    }
    assert!(open.iter().all(|stream| stream.status() == 200));
    let (status, body) = answer(watch(&world, &world.http, "admin").await).await;
    assert_eq!((status, reason(&body)), (429, "RATE_LIMITED"), "{body}");
    let (status, _) = world.call(Method::GET, LIST, "demo").await;
    assert_eq!(status, 200, "requests are no streams");
    // all the while somebody else is served, whatever one user asks for
    let other = client([127, 0, 0, 2]);
    let mut refused = 0;
    let attack = async {
        loop {
            let again = (0..8).map(|_| watch(&world, &world.http, "demo"));
            let answers = futures::future::join_all(again).await;
            assert!(answers.iter().all(|one| one.status() == 429));
            refused += answers.len();
        }
    };
    tokio::select! {
        kept = served(&world, &other, "admin") => assert_eq!(kept, REQUESTS),
        () = attack => {}
    }
    assert!(refused > 0, "nothing was tried meanwhile");
}

#[tokio::test]
async fn streams_and_requests_of_one_address_are_limited_too() {
    let world = World::start_with(|config, _| {
        config.max_streams_per_peer = 1;
        config.max_in_flight_per_peer = 1;
    })
    .await;
    let _open = watch(&world, &world.http, "demo").await;
    let (status, body) = answer(watch(&world, &world.http, "admin").await).await;
    assert_eq!((status, reason(&body)), (429, "RATE_LIMITED"));
    let other = client([127, 0, 0, 2]);
    assert_eq!(watch(&world, &other, "admin").await.status(), 200);

    let mut slow = slow_body(&world, "demo").await;
    // another connection may be served before that one
    let refused = loop {
        let request = world.http.get(world.url(LIST));
        let request = request.bearer_auth(world.token("admin")).send();
        let (status, body) = answer(request.await.expect("an answer")).await;
        if status != 200 {
            break (status, reason(&body).to_owned());
        }
    };
    assert_eq!(refused, (429, "RATE_LIMITED".to_owned()));
    assert_eq!(served(&world, &other, "admin").await, REQUESTS);
    slow.shutdown().await.expect("closed");
}

/// What a proxy says of its clients counts, and nothing of what others say.
#[tokio::test]
async fn behind_a_proxy_each_client_has_its_own_share() {
    let world = World::start_with(|config, _| {
        config.max_streams_per_peer = 1;
        config.proxies = vec!["127.0.0.9".parse().expect("network")];
    })
    .await;
    let open = async |from: [u8; 4], client_address: &str| {
        let request = client(from).get(world.url(WATCH));
        let request = request.header("x-forwarded-for", client_address);
        let request = request.bearer_auth(world.token("demo")).send();
        request.await.expect("an answer")
    };
    let proxy = [127, 0, 0, 9];
    let mut streams = Vec::new();
    for address in ["192.0.2.1", "192.0.2.2", "192.0.2.1, 192.0.2.3"] {
        let stream = open(proxy, address).await;
        assert_eq!(stream.status(), 200, "{address}");
        streams.push(stream);
    }
    assert_eq!(open(proxy, "192.0.2.9, 192.0.2.1").await.status(), 429);
    streams.push(open([127, 0, 0, 1], "192.0.2.4").await);
    let made_up = open([127, 0, 0, 1], "192.0.2.5").await;
    assert_eq!(made_up.status(), 429, "it is no proxy");
}

/// Before, what listens for changes of access held one of the connections that answer requests.
#[tokio::test]
async fn requests_have_all_connections_to_the_database() {
    let world = World::start_on(1, |_, _| {}).await;
    let (status, body) = world.call(Method::GET, LIST, "admin").await;
    assert_eq!(status, 200, "{body}");
}

pub async fn metrics(world: &World) -> String {
    let answer = reqwest::get(format!("{}/metrics", world.metrics)).await;
    answer.expect("metrics").text().await.expect("text")
}
