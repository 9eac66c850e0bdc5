//! Forwards loopback ports to the lab host, so that a printed `ssh` command works as printed.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};

/// Listens on `listen` and joins every connection to `target`. Returns only when it cannot listen.
///
/// # Errors
/// The address cannot be listened on.
pub async fn serve(listen: SocketAddr, target: SocketAddr) -> std::io::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // a connection that was gone before it was taken
            continue;
        };
        tokio::spawn(async move {
            let _ended_either_way = join(client, target).await;
        });
    }
}

async fn join(mut client: TcpStream, target: SocketAddr) -> std::io::Result<()> {
    let mut server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn bytes_pass_both_ways() {
        let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = echo.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut peer, _) = echo.accept().await.unwrap();
            let (mut read, mut write) = peer.split();
            tokio::io::copy(&mut read, &mut write).await.unwrap();
        });
        let listen = SocketAddr::from(([127, 0, 0, 1], crate::ports::free().unwrap()));
        let serving = tokio::spawn(serve(listen, target));
        let mut client = loop {
            match TcpStream::connect(listen).await {
                Ok(client) => break client,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        client.write_all(b"hello").await.unwrap();
        let mut answer = [0; 5];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"hello");
        serving.abort();
    }
}
