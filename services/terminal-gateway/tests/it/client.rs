//! A client of the protocol, as a browser or a program would be.
use std::collections::VecDeque;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

const TIMEOUT: Duration = Duration::from_secs(30);

/// What the platform said.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientMessage {
    Text(Value),
    Output(Vec<u8>),
    Closed(u16),
    /// The connection ended without a close.
    Broken,
}

/// Headers of the upgrade.
#[derive(Debug, Clone, Default)]
pub struct Upgrade {
    pub origin: Option<&'static str>,
    pub token: Option<String>,
    pub no_subprotocol: bool,
}

/// A connection.
pub struct Client {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// Offset of the next output byte.
    pub received: u64,
    /// Offset of the next input byte.
    pub sent: u64,
    /// Whether output is acknowledged as it comes.
    pub acking: bool,
    /// All output.
    pub output: Vec<u8>,
    /// All text messages.
    pub texts: Vec<Value>,
    /// Those that nobody has waited for yet.
    unread: VecDeque<Value>,
}

impl Client {
    /// Connects; an error is the HTTP status.
    pub async fn connect(url: &str, upgrade: &Upgrade) -> Result<Self, u16> {
        let mut request = url.into_client_request().expect("url");
        let headers = request.headers_mut();
        if !upgrade.no_subprotocol {
            headers.insert(
                "sec-websocket-protocol",
                HeaderValue::from_static("gpuaas.terminal.v1"),
            );
        }
        if let Some(origin) = upgrade.origin {
            headers.insert("origin", HeaderValue::from_static(origin));
        }
        if let Some(token) = &upgrade.token {
            headers.insert(
                "authorization",
                HeaderValue::from_str(&format!("Bearer {token}")).expect("header"),
            );
        }
        match tokio_tungstenite::connect_async(request).await {
            Ok((socket, _)) => Ok(Self {
                socket,
                received: 0,
                sent: 0,
                acking: true,
                output: Vec::new(),
                texts: Vec::new(),
                unread: VecDeque::new(),
            }),
            Err(tokio_tungstenite::tungstenite::Error::Http(response)) => {
                Err(response.status().as_u16())
            }
            Err(error) => panic!("{error}"),
        }
    }

    pub async fn say(&mut self, message: Value) {
        self.say_raw(Message::text(message.to_string())).await;
    }

    /// Says anything; a connection that is gone hears nothing.
    pub async fn say_raw(&mut self, message: Message) {
        let _ = self.socket.send(message).await;
    }

    pub async fn attach(&mut self, ticket: &str, allocation_id: &str) {
        self.say(json!({"type": "attach", "ticket": ticket, "allocation_id": allocation_id, "cols": 80, "rows": 24})).await;
    }

    pub async fn resume(&mut self, ready: &Value, received: u64) {
        self.received = received;
        self.say(json!({"type": "resume", "session_id": ready["session_id"], "resume_token": ready["resume_token"],
            "received": received, "cols": 80, "rows": 24})).await;
    }

    pub async fn input_at(&mut self, offset: u64, data: &[u8]) {
        let mut message = offset.to_be_bytes().to_vec();
        message.extend_from_slice(data);
        self.say_raw(Message::binary(message)).await;
    }

    pub async fn input(&mut self, data: &str) {
        self.input_at(self.sent, data.as_bytes()).await;
        self.sent += data.len() as u64;
    }

    /// The next message; output is checked for its offset, and acknowledged.
    pub async fn next(&mut self) -> ClientMessage {
        let deadline = tokio::time::Instant::now() + TIMEOUT;
        loop {
            let message = tokio::time::timeout_at(deadline, self.socket.next()).await;
            let message = message.unwrap_or_else(|_| panic!("nothing said after {:?}", self.texts));
            return match message {
                Some(Ok(Message::Text(text))) => {
                    let value: Value = serde_json::from_str(&text).expect("json");
                    self.texts.push(value.clone());
                    self.unread.push_back(value.clone());
                    if value["type"] == "gap" {
                        self.received = value["to"].as_u64().expect("offset");
                    }
                    ClientMessage::Text(value)
                }
                Some(Ok(Message::Binary(data))) => {
                    let (offset, data) = data.split_first_chunk::<8>().expect("an offset");
                    assert_eq!(
                        u64::from_be_bytes(*offset),
                        self.received,
                        "output is in order"
                    );
                    assert!((1..=32_768).contains(&data.len()));
                    self.received += data.len() as u64;
                    self.output.extend_from_slice(data);
                    if self.acking {
                        self.say(json!({"type": "ack", "received": self.received}))
                            .await;
                    }
                    ClientMessage::Output(data.to_vec())
                }
                Some(Ok(Message::Close(frame))) => {
                    ClientMessage::Closed(frame.map_or(0, |frame| frame.code.into()))
                }
                Some(Ok(_)) => continue,
                Some(Err(_)) | None => ClientMessage::Broken,
            };
        }
    }

    /// The next text message of a type, also one that came while something else was waited for.
    pub async fn text(&mut self, kind: &str) -> Value {
        loop {
            while let Some(value) = self.unread.pop_front() {
                if value["type"] == kind {
                    return value;
                }
            }
            match self.next().await {
                ClientMessage::Text(_) | ClientMessage::Output(_) => {}
                ended => panic!("{ended:?} before {kind}; heard {:?}", self.texts),
            }
        }
    }

    /// Waits until the output holds this.
    pub async fn until(&mut self, needle: &str) {
        while !self
            .output
            .windows(needle.len())
            .any(|window| window == needle.as_bytes())
        {
            match self.next().await {
                ClientMessage::Text(_) | ClientMessage::Output(_) => {}
                ended => panic!(
                    "{ended:?} before {needle}; heard {:?} {:?}",
                    self.texts,
                    String::from_utf8_lossy(&self.output)
                ),
            }
        }
    }

    /// Waits for the end: code and reason.
    pub async fn ended(&mut self) -> (u16, String) {
        loop {
            match self.next().await {
                ClientMessage::Closed(code) => {
                    let closed = self
                        .texts
                        .iter()
                        .rev()
                        .find(|text| text["type"] == "closed");
                    let reason =
                        closed.map(|closed| closed["reason"].as_str().expect("reason").to_owned());
                    return (code, reason.unwrap_or_default());
                }
                ClientMessage::Broken => panic!("broken after {:?}", self.texts),
                ClientMessage::Text(_) | ClientMessage::Output(_) => {}
            }
        }
    }
}
