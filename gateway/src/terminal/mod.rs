//! Takes the WebSockets of terminals and hands their messages on to the terminal gateway, which speaks the protocol.
//!
//! What is decided here: the origin is on the list, exactly; the connection answers pings; the user may still use
//! the project. Nothing secret is in the address, so nothing secret is in an access log.
mod relay;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::{WebSocketUpgrade, rejection::WebSocketUpgradeRejection};
use axum::response::Response;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use tokio::sync::Semaphore;
use tonic::Code;

use crate::contract::access::{Access, Audience};
use crate::error::{ApiError, overloaded};
use crate::http::app::{App, Id};
use crate::http::authorize::authorize;

/// Where WebSockets are taken.
pub const PATH: &str = "/api/v1/terminal";
/// What they must speak.
const SUBPROTOCOL: &str = "gpuaas.terminal.v1";
/// Largest message of a client; the protocol allows less.
const MAX_MESSAGE: usize = 32 << 10;

/// What a connection reads at once. It is held as long as the connection, and what comes is typed by hand; the
/// library's own 128 KiB would be most of what an idle terminal costs.
const READ_BUFFER: usize = 8 << 10;

/// Section `[gateway.terminal]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TerminalSettings {
    /// Origins of pages that may open terminals, exactly as browsers send them, for example
    /// `["https://console.example.com"]`. Empty: the addresses the gateway listens on, where it serves the console.
    pub origins: Vec<String>,
    /// WebSockets that may be open at once; more are answered with 503.
    pub max_connections: usize,
    /// Seconds between two pings; a client that answers none of three is let go.
    pub ping_seconds: u64,
    /// Seconds between two checks that the user may still use the project.
    pub access_seconds: f64,
}

impl Default for TerminalSettings {
    fn default() -> Self {
        Self {
            origins: Vec::new(),
            max_connections: 4096,
            ping_seconds: 15,
            access_seconds: 2.0,
        }
    }
}

/// What the WebSockets of this process share.
pub struct Terminals {
    origins: BTreeSet<String>,
    places: Arc<Semaphore>,
    ping: Duration,
    access: Duration,
}

impl Terminals {
    /// From the settings; `listen` is where the gateway serves the console.
    pub fn new(settings: &TerminalSettings, listen: &[SocketAddr]) -> Self {
        let own = listen.iter().flat_map(|address| {
            [
                format!("http://{address}"),
                format!("http://localhost:{}", address.port()),
            ]
        });
        let origins = if settings.origins.is_empty() {
            own.collect()
        } else {
            settings.origins.iter().cloned().collect()
        };
        Self {
            origins,
            places: Arc::new(Semaphore::new(settings.max_connections)),
            ping: Duration::from_secs(settings.ping_seconds.max(1)),
            access: Duration::from_secs_f64(settings.access_seconds.max(0.05)),
        }
    }

    /// The origin of a request: on the list, or none at all, since browsers always send one.
    fn origin(&self, headers: &HeaderMap) -> Result<String, ApiError> {
        let mut given = headers.get_all(header::ORIGIN).iter();
        let Some(origin) = given.next() else {
            return Ok(String::new());
        };
        let listed = origin
            .to_str()
            .ok()
            .filter(|origin| self.origins.contains(*origin));
        match (listed, given.next()) {
            (Some(origin), None) => Ok(origin.to_owned()),
            _ => Err(ApiError::new(
                Code::PermissionDenied,
                ErrorReason::PermissionDenied,
                "Pages of this origin may not open terminals.",
            )),
        }
    }
}

/// Takes a WebSocket.
pub(crate) async fn upgrade(
    State(app): State<Arc<App>>,
    Extension(Id(id)): Extension<Id>,
    headers: HeaderMap,
    socket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    match accept(&app, &headers, socket, &id).await {
        Ok(response) => response,
        Err(error) => {
            tracing::info!(reason = error.reason(), request_id = id, "refuse WebSocket");
            error.into_response(&id)
        }
    }
}

async fn accept(
    app: &Arc<App>,
    headers: &HeaderMap,
    socket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    request_id: &str,
) -> Result<Response, ApiError> {
    let malformed = |message: &str| {
        ApiError::new(Code::InvalidArgument, ErrorReason::BodyMalformed, message)
            .http(StatusCode::BAD_REQUEST)
    };
    let origin = app.terminals.origin(headers)?;
    let socket = socket
        .map_err(|_| malformed("This path takes WebSockets only."))?
        .protocols([SUBPROTOCOL]);
    if socket.selected_protocol().is_none() {
        return Err(malformed(
            "The WebSocket must offer the subprotocol gpuaas.terminal.v1.",
        ));
    }
    // a browser cannot send a token with a WebSocket; who does is held to it
    let principal = if headers.contains_key(header::AUTHORIZATION) {
        let access = Access {
            action: "terminal.connect".to_owned(),
            resource: "session".to_owned(),
            audience: Audience::User,
            callers: Vec::new(),
        };
        let session = authorize(app, headers, &access, request_id).await?;
        session.principal.name.clone()
    } else {
        String::new()
    };
    let place = app
        .terminals
        .places
        .clone()
        .try_acquire_owned()
        .map_err(|_| overloaded())?;
    let hello = relay::Hello {
        origin,
        principal,
        request_id: request_id.to_owned(),
    };
    let app = app.clone();
    Ok(socket
        .read_buffer_size(READ_BUFFER)
        .max_message_size(MAX_MESSAGE)
        .max_frame_size(MAX_MESSAGE)
        .on_upgrade(move |socket| async move {
            relay::run(&app, socket, hello).await;
            drop(place);
        }))
}

impl Terminals {
    /// Time between two pings.
    fn ping(&self) -> Duration {
        self.ping
    }

    /// Time between two checks of access.
    fn access(&self) -> Duration {
        self.access
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn with(origins: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for origin in origins {
            headers.append(header::ORIGIN, HeaderValue::from_static(origin));
        }
        headers
    }

    #[test]
    fn f_09_only_listed_origins_open_terminals() {
        let listen = ["127.0.0.1:7080".parse().expect("address")];
        let own = Terminals::new(&TerminalSettings::default(), &listen);
        let listed = TerminalSettings {
            origins: vec!["https://console.example.com".to_owned()],
            ..TerminalSettings::default()
        };
        let listed = Terminals::new(&listed, &listen);
        let cases: [(&[&'static str], bool, bool); 12] = [
            (&[], true, true),
            (&["http://127.0.0.1:7080"], true, false),
            (&["http://localhost:7080"], true, false),
            (&["https://console.example.com"], false, true),
            (&["https://console.example.com/"], false, false),
            (&["HTTPS://console.example.com"], false, false),
            (&["https://console.example.com.evil.example"], false, false),
            (&["https://console.example.com:443"], false, false),
            (&["http://console.example.com"], false, false),
            (&["null"], false, false),
            (&[""], false, false),
            (
                &["https://console.example.com", "http://127.0.0.1:7080"],
                false,
                false,
            ),
        ];
        for (origins, by_own, by_list) in cases {
            assert_eq!(own.origin(&with(origins)).is_ok(), by_own, "{origins:?}");
            assert_eq!(
                listed.origin(&with(origins)).is_ok(),
                by_list,
                "{origins:?}"
            );
        }
    }
}
