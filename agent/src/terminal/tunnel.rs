//! A connection to a guest's SSH server. The user's own client logs in through it and encrypts; nothing here reads what
//! passes, and no byte is lost: what the caller does not take stays in the guest, and what the guest does not take stays with
//! the caller.
use std::net::SocketAddrV4;

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};

use super::guest::{self, GuestError};
use super::shell::{CHUNK, Ends, Shell, ShellMessage, Size};

/// A tunnel has no screen.
const NO_SIZE: Size = Size { cols: 0, rows: 0 };

/// Connects.
///
/// # Errors
/// [`GuestError::Connect`].
pub async fn open(to: SocketAddrV4) -> Result<Shell, GuestError> {
    let stream = guest::connect(*to.ip(), to.port()).await?;
    // a login is many small messages
    stream
        .set_nodelay(true)
        .map_err(|error| GuestError::Connect(error.to_string()))?;
    Ok(Shell::spawn(NO_SIZE, move |ends| run(stream, ends)))
}

async fn run(stream: TcpStream, ends: Ends) {
    let Ends {
        messages,
        input,
        taken,
        size: _,
    } = ends;
    let (from_guest, to_guest) = stream.into_split();
    tokio::select! {
        () = read(from_guest, &messages) => {}
        () = write(to_guest, input, taken) => {}
    }
}

/// Passes on what the guest sends until it closes the connection.
async fn read(mut from_guest: OwnedReadHalf, messages: &mpsc::Sender<ShellMessage>) {
    let mut buffer = vec![0_u8; CHUNK];
    loop {
        match from_guest.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(length) => {
                let data = Bytes::copy_from_slice(&buffer[..length]);
                if messages.send(ShellMessage::Output(data)).await.is_err() {
                    return;
                }
            }
        }
    }
    // nothing waits for it when the caller went first
    let _ = messages.send(ShellMessage::Exit(None)).await;
}

/// Writes what the caller sends, and counts what the guest took. Never returns: whether the connection is over is read.
async fn write(
    mut to_guest: OwnedWriteHalf,
    mut input: mpsc::Receiver<Bytes>,
    taken: watch::Sender<u64>,
) {
    while let Some(mut data) = input.recv().await {
        while data.has_remaining() {
            let Ok(length @ 1..) = to_guest.write(&data).await else {
                return std::future::pending().await;
            };
            data.advance(length);
            taken.send_modify(|taken| *taken += length as u64);
        }
    }
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpListener;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);
    /// More than the sockets between both ends can hold.
    const MUCH: usize = 32 << 20;

    fn pattern(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at % 251) as u8).collect()
    }

    /// A tunnel and the guest's end of its connection.
    async fn pair() -> (Shell, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
        let std::net::SocketAddr::V4(address) = listener.local_addr().expect("address") else {
            panic!("IPv4")
        };
        let (tunnel, accepted) = tokio::join!(open(address), listener.accept());
        (tunnel.expect("connected"), accepted.expect("accepted").0)
    }

    #[tokio::test]
    async fn every_byte_of_the_guest_arrives_and_then_its_end() {
        let (mut tunnel, mut guest) = pair().await;
        let sent = pattern(MUCH);
        let sending = async {
            guest.write_all(&sent).await.expect("taken");
            drop(guest);
        };
        let receiving = async {
            let mut received = Vec::new();
            loop {
                match tunnel.messages.recv().await.expect("an end is told") {
                    ShellMessage::Output(data) => {
                        assert!(data.len() <= CHUNK);
                        received.extend_from_slice(&data);
                    }
                    ShellMessage::Exit(status) => return (received, status),
                }
            }
        };
        let (_, (received, status)) =
            tokio::time::timeout(LIMIT, async { tokio::join!(sending, receiving) })
                .await
                .expect("in time");
        assert!(received == pattern(MUCH), "{} bytes", received.len());
        assert_eq!(status, None);
    }

    #[tokio::test]
    async fn a_guest_that_takes_nothing_stops_its_caller_and_loses_nothing() {
        let (mut tunnel, mut guest) = pair().await;
        let all = pattern(MUCH);
        let mut sent = 0;
        // as much as the sockets hold, and not one byte more is taken
        let stopped = async {
            for piece in all.chunks(CHUNK) {
                tunnel
                    .input
                    .send(Bytes::copy_from_slice(piece))
                    .await
                    .expect("takes input");
                sent += piece.len();
            }
        };
        tokio::time::timeout(Duration::from_secs(2), stopped)
            .await
            .expect_err("the caller is stopped");
        assert!(sent < MUCH);
        let before = *tunnel.taken.borrow_and_update();
        assert!(before <= sent as u64);

        let input = tunnel.input.clone();
        let rest = async {
            for piece in all[sent..].chunks(CHUNK) {
                input
                    .send(Bytes::copy_from_slice(piece))
                    .await
                    .expect("takes input");
            }
        };
        let reading = async {
            let mut received = vec![0; MUCH];
            guest.read_exact(&mut received).await.expect("all of it");
            received
        };
        let (_, received) = tokio::time::timeout(LIMIT, async { tokio::join!(rest, reading) })
            .await
            .expect("in time");
        assert!(received == all);
        let counted = tunnel.taken.wait_for(|taken| *taken == MUCH as u64);
        let counted = tokio::time::timeout(LIMIT, counted).await.expect("in time");
        assert_eq!(*counted.expect("counts"), MUCH as u64);
    }

    #[tokio::test]
    async fn a_connection_ends_with_its_tunnel() {
        let (tunnel, mut guest) = pair().await;
        drop(tunnel);
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(LIMIT, guest.read_to_end(&mut rest)).await;
        assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
    }

    #[tokio::test]
    async fn a_guest_that_does_not_listen_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
        let std::net::SocketAddr::V4(address) = listener.local_addr().expect("address") else {
            panic!("IPv4")
        };
        drop(listener);
        let error = open(address).await.err().expect("nobody listens");
        assert!(matches!(error, GuestError::Connect(_)), "{error}");
    }
}
