//! The WebSocket of a terminal or tunnel: its ticket, its opening, its first message.
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use gpuaas_proto::gpuaas::terminal::v1::{
    CreateTerminalSessionRequest, CreateTerminalSessionResponse, TerminalKind,
};
use serde_json::Value;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::api::IdempotencyKey;
use crate::failure::Failure;
use crate::session::Session;

/// The connection is lost when nothing came for so long, not even a ping.
pub const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(50);

/// A connection.
pub type Socket = WebSocketStream<reqwest::Upgraded>;

/// Gets a ticket for an allocation. One whose answer got lost is replaced by another one.
///
/// # Errors
/// See [`Failure`].
pub async fn ticket(
    session: &Session,
    id: String,
    kind: TerminalKind,
) -> Result<CreateTerminalSessionResponse, Failure> {
    let request = CreateTerminalSessionRequest {
        allocation_id: id,
        kind: kind.into(),
    };
    let answer = session.api.apply(&request, &session.key).await?.message;
    if !answer.ticket.is_empty() {
        return Ok(answer);
    }
    let key = IdempotencyKey::new(None);
    Ok(session.api.apply(&request, &key).await?.message)
}

/// What the platform said when it closed a session.
pub fn refused(session: &Session, closed: &Value) -> Failure {
    let message = closed["message"]
        .as_str()
        .unwrap_or("the platform closed the session")
        .to_owned();
    match closed["reason"].as_str() {
        Some("host_unreachable" | "shutting_down" | "process_lost") => Failure::Unreachable {
            url: session.api.base().to_string(),
            cause: message,
        },
        _ => Failure::Local(message),
    }
}

/// A text message.
pub fn text(message: &Value) -> Message {
    Message::text(message.to_string())
}

/// Opens the WebSocket of a ticket.
///
/// # Errors
/// The platform refuses, or does not answer.
pub async fn connect(session: &Session, path: &str, subprotocol: &str) -> Result<Socket, Failure> {
    let connection = session.api.upgrade(path, subprotocol).await?;
    Ok(WebSocketStream::from_raw_socket(connection, Role::Client, None).await)
}

/// Says the first message; answers `session_ready`, or why there is none.
pub async fn begin(socket: &mut Socket, first: &Value) -> (Option<Value>, Option<Value>) {
    if socket.send(text(first)).await.is_err() {
        return (None, None);
    }
    loop {
        match tokio::time::timeout(Duration::from_secs(70), socket.next()).await {
            Ok(Some(Ok(Message::Text(said)))) => {
                let said: Value = serde_json::from_str(&said).unwrap_or_default();
                match said["type"].as_str() {
                    Some("session_ready") => return (Some(said), None),
                    Some("closed") => return (None, Some(said)),
                    _ => {}
                }
            }
            Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
            _ => return (None, None),
        }
    }
}
