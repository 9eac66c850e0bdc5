//! A TLS connection with a place among a limited number: it ends when its place is needed for another, which it never is
//! while it is being answered.
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::transport::server::{Connected, TcpConnectInfo, TlsConnectInfo};

use super::connections::{Connection, Running};

/// A connection after its handshake.
pub struct Limited {
    stream: TlsStream<TcpStream>,
    place: Option<Place>,
}

struct Place {
    connection: Connection,
    let_go: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Limited {
    /// A connection, with its place where places are limited.
    pub fn new(stream: TlsStream<TcpStream>, connection: Option<Connection>) -> Self {
        let place = connection.map(|connection| Place {
            let_go: Box::pin(connection.let_go.clone().cancelled_owned()),
            connection,
        });
        Self { stream, place }
    }

    /// Whether its place has gone to another; the task is woken when that happens.
    fn is_let_go(&mut self, cx: &mut Context<'_>) -> bool {
        let place = self.place.as_mut();
        place.is_some_and(|place| place.let_go.as_mut().poll(cx).is_ready())
    }
}

/// What requests know of their connection.
#[derive(Clone)]
pub struct ConnectionInfo {
    /// Address and certificate of the peer.
    pub tls: TlsConnectInfo<TcpConnectInfo>,
    begin: Option<Arc<dyn Fn() -> Running + Send + Sync>>,
}

impl ConnectionInfo {
    /// Keeps the connection's place until the request is answered.
    pub fn begin(&self) -> Option<Running> {
        self.begin.as_ref().map(|begin| begin())
    }
}

impl Connected for Limited {
    type ConnectInfo = ConnectionInfo;

    fn connect_info(&self) -> ConnectionInfo {
        let begin = self.place.as_ref().map(|place| {
            let begin: Arc<dyn Fn() -> Running + Send + Sync> =
                Arc::new(place.connection.starter());
            begin
        });
        ConnectionInfo {
            tls: self.stream.connect_info(),
            begin,
        }
    }
}

impl AsyncRead for Limited {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_let_go(cx) {
            let gone = io::Error::new(io::ErrorKind::ConnectionAborted, "its place is needed");
            return Poll::Ready(Err(gone));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Limited {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
