//! A terminal's client for measurements: the protocol of docs/reference/terminal-protocol.md, acknowledging at once.
use anyhow::{Context as _, bail};
use futures::{SinkExt as _, StreamExt as _};
use gpuaas_dev::seed::{Api, string};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// A client acknowledges after this much output, or when output pauses.
const ACK_STEP: u64 = 16 << 10;

/// A session that is ready.
pub struct Terminal {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    sent: u64,
    received: u64,
    acked: u64,
}

impl Terminal {
    /// Opens a session into an allocation.
    ///
    /// # Errors
    /// What was refused.
    pub async fn open(user: &Api, api: &str, allocation: &str) -> anyhow::Result<Self> {
        let path = format!("/api/v1/allocations/{allocation}/terminal-sessions");
        let key = uuid::Uuid::now_v7().to_string();
        let ticket = user.post(&path, &key, &json!({})).await?;
        let url = format!("{}/api/v1/terminal", api.replacen("http", "ws", 1));
        let mut request = url.into_client_request()?;
        let protocol = "gpuaas.terminal.v1".parse()?;
        request
            .headers_mut()
            .insert("sec-websocket-protocol", protocol);
        let (socket, _) = tokio_tungstenite::connect_async(request).await?;
        let mut terminal = Self {
            socket,
            sent: 0,
            received: 0,
            acked: 0,
        };
        let attach = json!({"type": "attach", "ticket": ticket["ticket"], "allocation_id": allocation,
            "cols": 80, "rows": 24});
        terminal.say(&attach).await?;
        loop {
            match terminal.socket.next().await.context("an answer")?? {
                Message::Text(text) => {
                    let said: Value = serde_json::from_str(&text)?;
                    match string(&said["type"]) {
                        "session_ready" => return Ok(terminal),
                        _ => bail!("the terminal did not open: {said}"),
                    }
                }
                // pings
                _ => continue,
            }
        }
    }

    async fn say(&mut self, message: &Value) -> anyhow::Result<()> {
        Ok(self.socket.send(Message::text(message.to_string())).await?)
    }

    /// Types something.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn type_in(&mut self, typed: &[u8]) -> anyhow::Result<()> {
        let mut message = self.sent.to_be_bytes().to_vec();
        message.extend_from_slice(typed);
        self.sent += typed.len() as u64;
        Ok(self.socket.send(Message::binary(message)).await?)
    }

    /// The next output; acknowledges what came before it.
    ///
    /// # Errors
    /// The session ended.
    pub async fn output(&mut self) -> anyhow::Result<Vec<u8>> {
        loop {
            match self.socket.next().await.context("the session goes on")?? {
                Message::Binary(data) => {
                    let (_, data) = data.split_first_chunk::<8>().context("an offset")?;
                    self.received += data.len() as u64;
                    if self.received - self.acked >= ACK_STEP {
                        self.ack().await?;
                    }
                    return Ok(data.to_vec());
                }
                Message::Text(text) if text.contains(r#""type":"closed""#) => {
                    bail!("the session was closed: {text}")
                }
                _ => {}
            }
        }
    }

    /// Acknowledges all output so far.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn ack(&mut self) -> anyhow::Result<()> {
        self.acked = self.received;
        self.say(&json!({"type": "ack", "received": self.acked}))
            .await
    }

    /// Reads until the output holds this.
    ///
    /// # Errors
    /// The session ended before.
    pub async fn until(&mut self, needle: &str) -> anyhow::Result<()> {
        let mut seen = Vec::new();
        while !seen
            .windows(needle.len())
            .any(|window| window == needle.as_bytes())
        {
            seen.extend(self.output().await?);
        }
        self.ack().await
    }

    /// Ends the session.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn close(mut self) -> anyhow::Result<()> {
        self.say(&json!({"type": "close"})).await?;
        // the platform says goodbye and closes
        while let Some(Ok(_)) = self.socket.next().await {}
        Ok(())
    }
}
