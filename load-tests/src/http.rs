//! One HTTP connection and nothing around it, so that the client costs little beside what it measures.
use std::net::SocketAddr;

use anyhow::bail;
use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// An open connection, used by one call after the other.
#[derive(Debug)]
pub struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    host: String,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens.
    pub async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // it ends with the sender; what breaks it is told to the call
        tokio::spawn(connection);
        Ok(Self {
            sender,
            host: address.to_string(),
        })
    }

    /// Begins to read a resource.
    ///
    /// # Errors
    /// The connection broke; another answer than 200.
    pub async fn get(
        &mut self,
        path: &str,
        token: &str,
        accept: &str,
    ) -> anyhow::Result<Response<Incoming>> {
        let request = Request::get(path)
            .header(header::HOST, &self.host)
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .header(header::ACCEPT, accept)
            .body(Empty::new())?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        bail!(
            "GET {path}: HTTP {status} {}",
            String::from_utf8_lossy(&body)
        )
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// The connection broke; another answer than 200.
    pub async fn read(&mut self, path: &str, token: &str) -> anyhow::Result<Bytes> {
        let response = self.get(path, token, "application/json").await?;
        Ok(response.into_body().collect().await?.to_bytes())
    }
}
