//! The way to a guest's ports.
use std::io;
use std::net::SocketAddr;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A connection to a guest.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Connects to guests.
#[async_trait]
pub trait GuestNetwork: Send + Sync {
    /// A connection to a port of a guest.
    ///
    /// # Errors
    /// Nobody listens there.
    async fn connect(&self, server: SocketAddr) -> io::Result<Box<dyn Connection>>;
}

/// The bridge that the guests are on.
pub struct Bridge;

#[async_trait]
impl GuestNetwork for Bridge {
    async fn connect(&self, server: SocketAddr) -> io::Result<Box<dyn Connection>> {
        Ok(Box::new(TcpStream::connect(server).await?))
    }
}
