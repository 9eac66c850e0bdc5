//! WebSockets of terminals: a principal has a share of them, whatever addresses it comes from.
use std::time::Duration;

use gpuaas_dev::until::until;
use gpuaas_proto::gpuaas::internal::terminal::v1 as pb;
use gpuaas_proto::gpuaas::internal::terminal::v1::relay_response::Message;
use gpuaas_proto::gpuaas::internal::terminal::v1::terminal_relay_service_server::TerminalRelayService;
use gpuaas_proto::gpuaas::terminal::v1 as sessions;
use gpuaas_proto::gpuaas::terminal::v1::terminal_session_service_server::TerminalSessionService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_stream::StreamExt as _;
use tonic::{Request, Response, Status, Streaming};

use crate::silence::silent;
use crate::world::World;

/// A terminal gateway that takes each connection for a session of the principal that its first text names, and answers with
/// that text. One that names a project besides, and perhaps a session, is closed when its user has lost access. It closes no
/// silent one.
pub struct Relay;

/// The text that is answered with far more than a connection holds.
const FLOOD: &str = "flood";

type Answers = std::pin::Pin<
    Box<dyn futures::Stream<Item = Result<pb::RelayResponse, Status>> + Send + 'static>,
>;

#[tonic::async_trait]
impl TerminalRelayService for Relay {
    type RelayStream = Answers;

    async fn relay(
        &self,
        request: Request<Streaming<pb::RelayRequest>>,
    ) -> Result<Response<Answers>, Status> {
        let mut is_of_project = false;
        let answers = request.into_inner().filter_map(move |request| {
            let message = request.ok()?.message?;
            let text = match message {
                pb::relay_request::Message::Text(text) => text,
                pb::relay_request::Message::AccessLost(_) if is_of_project => return Some(closed()),
                _ => return None,
            };
            if text == FLOOD {
                let piece = Message::Binary(vec![0; 16 << 10]);
                return Some(said(std::iter::repeat_n(piece, 2048)));
            }
            let nil = uuid::Uuid::nil().to_string();
            let mut words = text.split(' ');
            let principal = words.next().unwrap_or_default();
            let project = words.next().unwrap_or(&nil);
            is_of_project = *project != nil;
            let session = words.next().unwrap_or_default();
            let attached = pb::Attached {
                session_id: session.to_owned(),
                principal: principal.to_owned(),
                project_id: project.to_owned(),
                allocation_id: session.to_owned(),
            };
            Some(said([Message::Attached(attached), Message::Text(text)]))
        });
        Ok(Response::new(Box::pin(futures::StreamExt::flatten(
            answers,
        ))))
    }
}

/// Gives out a ticket for every allocation; the session has its id.
#[derive(Clone, Copy, Debug)]
pub struct Tickets;

#[tonic::async_trait]
impl TerminalSessionService for Tickets {
    async fn create_terminal_session(
        &self,
        request: Request<sessions::CreateTerminalSessionRequest>,
    ) -> Result<Response<sessions::CreateTerminalSessionResponse>, Status> {
        Ok(Response::new(sessions::CreateTerminalSessionResponse {
            session_id: request.into_inner().allocation_id,
            ticket: "once".to_owned(),
            ..Default::default()
        }))
    }

    async fn list_allocation_terminal_sessions(
        &self,
        _: Request<sessions::ListAllocationTerminalSessionsRequest>,
    ) -> Result<Response<sessions::ListAllocationTerminalSessionsResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn end_terminal_session(
        &self,
        _: Request<sessions::EndTerminalSessionRequest>,
    ) -> Result<Response<sessions::TerminalSession>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn get_terminal_recording(
        &self,
        _: Request<sessions::GetTerminalRecordingRequest>,
    ) -> Result<Response<sessions::GetTerminalRecordingResponse>, Status> {
        Ok(Response::new(Default::default()))
    }
}

/// Opens a terminal of a principal with a credential, up to its WebSocket. Returns that, and the text that says whose it is.
pub async fn opened_by(world: &World, principal: &str, credential: &str) -> (TcpStream, String) {
    opened_into(world, principal, credential, uuid::Uuid::now_v7()).await
}

/// The same into an allocation, whose id the session has, too.
pub async fn opened_into(
    world: &World,
    principal: &str,
    credential: &str,
    session: uuid::Uuid,
) -> (TcpStream, String) {
    let target = format!("/api/v1/allocations/{session}/terminal-sessions");
    let request = world.http.post(world.url(&target)).bearer_auth(credential);
    let request = request
        .header("x-idempotency-key", session.to_string())
        .json(&serde_json::json!({}));
    let (status, made) = crate::world::answer(request.send().await.expect("answer")).await;
    assert_eq!(status, 200, "{made}");
    assert_eq!(made["session_id"], session.to_string());
    let whose = format!("{principal} {} {session}", world.seeded.project_id);
    let (stream, kind, _) = opened(world, [127, 0, 0, 1], &whose).await;
    assert_eq!(kind, TEXT);
    (stream, whose)
}

/// Returns when the terminal has been ended for want of access.
pub async fn ended(terminal: &mut TcpStream) {
    let mut said = Vec::new();
    let all = terminal.read_to_end(&mut said);
    let all = tokio::time::timeout(Duration::from_secs(20), all).await;
    all.expect("it ends").expect("read");
    assert!(said.ends_with(b"access_lost"), "{said:?}");
}

/// The terminal takes a text and answers it.
pub async fn answers(terminal: &mut TcpStream, text: &str) {
    say(terminal, text).await;
    let (kind, payload) = heard(terminal).await;
    assert_eq!((kind, payload.as_slice()), (TEXT, text.as_bytes()));
}

type RelayMessages = tokio_stream::Iter<std::vec::IntoIter<Result<pb::RelayResponse, Status>>>;

fn said(messages: impl IntoIterator<Item = Message>) -> RelayMessages {
    let answer = |message| {
        Ok(pb::RelayResponse {
            message: Some(message),
        })
    };
    tokio_stream::iter(messages.into_iter().map(answer).collect::<Vec<_>>())
}

/// What the terminal gateway says when its user has lost access.
fn closed() -> RelayMessages {
    said([Message::Close(pb::Close {
        code: 4403,
        reason: "access_lost".to_owned(),
    })])
}

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;

/// The head of a request for a WebSocket, with more headers.
fn upgrade(more: &str) -> String {
    format!(
        "GET /api/v1/terminal HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
         Sec-WebSocket-Protocol: gpuaas.terminal.v1\r\n{more}\r\n"
    )
}

/// Opens a WebSocket from an address and says whose it is. Returns it with the first frame that is no ping.
pub async fn opened(world: &World, from: [u8; 4], principal: &str) -> (TcpStream, u8, Vec<u8>) {
    let (mut stream, head) = upgraded(world, from).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    say(&mut stream, principal).await;
    let (kind, payload) = heard(&mut stream).await;
    (stream, kind, payload)
}

/// A request for a WebSocket from an address, and the head of its answer.
async fn upgraded(world: &World, from: [u8; 4]) -> (TcpStream, String) {
    let mut stream = silent(world, from, upgrade("").as_bytes()).await;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a head"));
    }
    (stream, String::from_utf8(head).expect("text"))
}

async fn say(stream: &mut TcpStream, text: &str) {
    stream.write_all(&frame(text)).await.expect("sent");
}

/// A text as a client sends it.
fn frame(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).expect("short");
    assert!(length <= 125, "a length of one byte");
    // a client masks, here with zeros
    let mut frame = vec![0x80 | TEXT, 0x80 | length, 0, 0, 0, 0];
    frame.extend(text.as_bytes());
    frame
}

/// The next frame that is no ping.
async fn heard(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    loop {
        let kind = stream.read_u8().await.expect("a frame") & 0x0f;
        let length = stream.read_u8().await.expect("a length");
        let mut payload = vec![0; usize::from(length)];
        stream.read_exact(&mut payload).await.expect("a payload");
        if kind != PING {
            return (kind, payload);
        }
    }
}

#[tokio::test]
async fn one_principal_cannot_hold_all_terminals() {
    let world = World::start_with(|config, _| {
        config.terminal.max_connections_per_principal = 2;
    })
    .await;
    let whose = |name: &str| format!("{name} {}", world.seeded.project_id);
    let (demo, admin) = (whose("user:demo"), whose("user:admin"));
    let mut held = Vec::new();
    for last in 1..=2 {
        let (stream, kind, payload) = opened(&world, [127, 0, 0, last], &demo).await;
        assert_eq!((kind, payload.as_slice()), (TEXT, demo.as_bytes()));
        held.push(stream);
    }
    // from whichever address
    let (_, kind, payload) = opened(&world, [127, 0, 0, 3], &demo).await;
    assert_eq!(kind, CLOSE);
    assert_eq!(payload[..2], 4409_u16.to_be_bytes());
    assert_eq!(&payload[2..], b"too_many_sessions");
    let (_other, kind, _) = opened(&world, [127, 0, 0, 1], &admin).await;
    assert_eq!(kind, TEXT, "another principal has its own share");
    // one that is closed is free again
    drop(held.pop());
    loop {
        let (_, kind, _) = opened(&world, [127, 0, 0, 2], &demo).await;
        if kind == TEXT {
            return;
        }
    }
}

/// Before, who asked for one terminal too many was looked up in the database first.
#[tokio::test]
async fn the_share_of_an_address_is_asked_before_who_calls() {
    let world = World::start_with(|config, _| {
        config.terminal.max_connections_per_peer = 1;
    })
    .await;
    let whose = format!("user:demo {}", world.seeded.project_id);
    let (_held, kind, _) = opened(&world, [127, 0, 0, 1], &whose).await;
    assert_eq!(kind, TEXT);
    let stranger = upgrade("Authorization: Bearer nothing\r\n");
    for (last, expected) in [(1, b"HTTP/1.1 429"), (2, b"HTTP/1.1 401")] {
        let mut stream = silent(&world, [127, 0, 0, last], stranger.as_bytes()).await;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.expect("an answer");
        assert_eq!(&head, expected, "127.0.0.{last}");
    }
}

/// Before, such a client held its places for as long as it liked.
#[tokio::test]
async fn a_client_that_takes_nothing_is_let_go_whatever_it_says() {
    for is_silent in [true, false] {
        let world = World::start_with(|config, _| {
            config.terminal.max_connections = 1;
            config.terminal.ping_seconds = 1;
        })
        .await;
        let whose = format!("user:demo {}", world.seeded.project_id);
        let (mut stuck, kind, _) = opened(&world, [127, 0, 0, 1], &whose).await;
        assert_eq!(kind, TEXT);
        let (_, head) = upgraded(&world, [127, 0, 0, 2]).await;
        assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
        say(&mut stuck, FLOOD).await;
        until("its place", Duration::from_secs(30), async || {
            if !is_silent {
                // one that is let go is heard no more
                let _ = stuck.write_all(&frame("here")).await;
            }
            let (_, head) = upgraded(&world, [127, 0, 0, 2]).await;
            head.starts_with("HTTP/1.1 101 ").then_some(())
        })
        .await;
    }
}

/// The gateway waits for the terminal gateway's goodbye, and not for ever.
#[tokio::test]
async fn a_connection_ends_with_its_reason_also_where_the_terminal_gateway_says_none() {
    let world = World::start_with(|config, _| config.terminal.ping_seconds = 1).await;
    // nothing of a session passes whose user has no access
    let (_, kind, payload) = opened(&world, [127, 0, 0, 1], "user:nobody").await;
    assert_eq!(kind, CLOSE);
    assert_eq!(payload[..2], 4403_u16.to_be_bytes());
    assert_eq!(&payload[2..], b"access_lost");

    let whose = format!("user:demo {}", world.seeded.project_id);
    let (mut mute, kind, _) = opened(&world, [127, 0, 0, 1], &whose).await;
    assert_eq!(kind, TEXT);
    let (kind, payload) = heard(&mut mute).await;
    assert_eq!(kind, CLOSE);
    assert_eq!(payload[..2], 4408_u16.to_be_bytes());
    assert_eq!(&payload[2..], b"silent");
}
