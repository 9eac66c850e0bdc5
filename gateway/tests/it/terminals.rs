//! WebSockets of terminals: a principal has a share of them, whatever addresses it comes from.
use gpuaas_proto::gpuaas::internal::terminal::v1 as pb;
use gpuaas_proto::gpuaas::internal::terminal::v1::relay_response::Message;
use gpuaas_proto::gpuaas::internal::terminal::v1::terminal_relay_service_server::TerminalRelayService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_stream::StreamExt as _;
use tonic::{Request, Response, Status, Streaming};

use crate::silence::silent;
use crate::world::World;

/// A terminal gateway that takes each connection for a session of the principal that its first text names, and answers with
/// that text. One that names a project besides is closed when its user has lost access.
pub struct Relay;

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
            let nil = uuid::Uuid::nil().to_string();
            let (principal, project) = text.split_once(' ').unwrap_or((&text, &nil));
            is_of_project = *project != nil;
            let attached = pb::Attached {
                session_id: String::new(),
                principal: principal.to_owned(),
                project_id: project.to_owned(),
            };
            Some(said([Message::Attached(attached), Message::Text(text)]))
        });
        Ok(Response::new(Box::pin(futures::StreamExt::flatten(
            answers,
        ))))
    }
}

type Said = tokio_stream::Iter<std::vec::IntoIter<Result<pb::RelayResponse, Status>>>;

fn said(messages: impl IntoIterator<Item = Message>) -> Said {
    let answer = |message| {
        Ok(pb::RelayResponse {
            message: Some(message),
        })
    };
    tokio_stream::iter(messages.into_iter().map(answer).collect::<Vec<_>>())
}

/// What the terminal gateway says when its user has lost access.
fn closed() -> Said {
    said([Message::Close(pb::Close {
        code: 4403,
        reason: "access_lost".to_owned(),
    })])
}

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;

/// Opens a WebSocket from an address and says whose it is. Returns it with the first frame that is no ping.
pub async fn opened(world: &World, from: [u8; 4], principal: &str) -> (TcpStream, u8, Vec<u8>) {
    let upgrade = "GET /api/v1/terminal HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
                   Sec-WebSocket-Protocol: gpuaas.terminal.v1\r\n\r\n";
    let mut stream = silent(world, from, upgrade.as_bytes()).await;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a head"));
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{head:?}");
    let length = u8::try_from(principal.len()).expect("short");
    // a client masks, here with zeros
    let mut frame = vec![0x80 | TEXT, 0x80 | length, 0, 0, 0, 0];
    frame.extend(principal.as_bytes());
    stream.write_all(&frame).await.expect("sent");
    loop {
        let kind = stream.read_u8().await.expect("a frame") & 0x0f;
        let length = stream.read_u8().await.expect("a length");
        let mut payload = vec![0; usize::from(length)];
        stream.read_exact(&mut payload).await.expect("a payload");
        if kind != PING {
            return (stream, kind, payload);
        }
    }
}

#[tokio::test]
async fn one_principal_cannot_hold_all_terminals() {
    let world = World::start_with(|config, _| {
        config.terminal.max_connections_per_principal = 2;
    })
    .await;
    let mut held = Vec::new();
    for last in 1..=2 {
        let (stream, kind, payload) = opened(&world, [127, 0, 0, last], "user:a").await;
        assert_eq!((kind, payload.as_slice()), (TEXT, &b"user:a"[..]));
        held.push(stream);
    }
    // from whichever address
    let (_, kind, payload) = opened(&world, [127, 0, 0, 3], "user:a").await;
    assert_eq!(kind, CLOSE);
    assert_eq!(payload[..2], 4409_u16.to_be_bytes());
    assert_eq!(&payload[2..], b"too_many_sessions");
    let (_other, kind, _) = opened(&world, [127, 0, 0, 1], "user:b").await;
    assert_eq!(kind, TEXT, "another principal has its own share");
    // one that is closed is free again
    drop(held.pop());
    loop {
        let (_, kind, _) = opened(&world, [127, 0, 0, 2], "user:a").await;
        if kind == TEXT {
            return;
        }
    }
}
