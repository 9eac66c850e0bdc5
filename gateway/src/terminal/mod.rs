//! Takes the WebSockets of terminals and hands their messages on to the terminal gateway, which speaks the protocol.
//!
//! What is decided here: the origin is on the list, exactly; the connection answers pings; the user may still use
//! the project, before anything of the session passes and from then on. Nothing secret is in the address, so nothing secret is in an access log.
mod relay;

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::{WebSocketUpgrade, rejection::WebSocketUpgradeRejection};
use axum::response::Response;
use gpuaas_common::origin;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::{HeaderMap, StatusCode, header};
use tonic::Code;

use crate::app::{App, Id};
use crate::error::{ApiError, overloaded};
use crate::http::authorize::authenticate;
use crate::limits::peer::Peer;

/// Where WebSockets are taken.
pub const PATH: &str = "/api/v1/terminal";
/// What they must speak.
const SUBPROTOCOL: &str = "gpuaas.terminal.v1";
/// Largest message of a client; the protocol allows less.
const MAX_MESSAGE: usize = 32 << 10;

/// What a connection reads at once. It is held as long as the connection, and what comes is typed by hand; the
/// library's own 128 KiB would be most of what an idle terminal costs.
const READ_BUFFER: usize = 8 << 10;

/// Takes a WebSocket.
pub(crate) async fn upgrade(
    State(app): State<Arc<App>>,
    Extension(Id(id)): Extension<Id>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    socket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    match accept(&app, &peer, &headers, socket, &id).await {
        Ok(response) => response,
        Err(error) => {
            tracing::info!(reason = error.reason(), request_id = id, "refuse WebSocket");
            error.into_response(&id)
        }
    }
}

async fn accept(
    app: &Arc<App>,
    peer: &Peer,
    headers: &HeaderMap,
    socket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    request_id: &str,
) -> Result<Response, ApiError> {
    let malformed = |message: &str| {
        ApiError::new(Code::InvalidArgument, ErrorReason::BodyMalformed, message)
            .http(StatusCode::BAD_REQUEST)
    };
    let page = app.terminals.origin(headers)?;
    let socket = socket
        .map_err(|_| malformed("This path takes WebSockets only."))?
        .protocols([SUBPROTOCOL]);
    if socket.selected_protocol().is_none() {
        return Err(malformed(
            "The WebSocket must offer the subprotocol gpuaas.terminal.v1.",
        ));
    }
    let of_peer = app.admission.terminal(peer)?;
    // a browser cannot send a token with a WebSocket; who does is held to it
    let principal = if headers.contains_key(header::AUTHORIZATION) {
        let session = authenticate(app, headers, request_id).await?;
        session.principal.name.clone()
    } else {
        String::new()
    };
    let place = app.terminals.place().ok_or_else(overloaded)?;
    let hello = relay::Hello {
        origin: page,
        principal,
        request_id: request_id.to_owned(),
    };
    let app = app.clone();
    let origin = (*origin::current()).clone();
    Ok(socket
        .read_buffer_size(READ_BUFFER)
        .max_message_size(MAX_MESSAGE)
        .max_frame_size(MAX_MESSAGE)
        .on_upgrade(move |socket| {
            origin::scope(origin, async move {
                relay::run(&app, socket, hello).await;
                drop((place, of_peer));
            })
        }))
}
