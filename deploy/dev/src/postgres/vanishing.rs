//! The way to a database whose host loses its power: nobody closes the connections to it, and nobody answers on them.
use std::io::Result;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::postgres::PgConnectOptions;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

/// Such a way, until the runtime of the test ends.
pub struct Vanishing {
    vanished: Arc<AtomicBool>,
}

impl Vanishing {
    /// A way by a socket in this folder, and the options with which it leads to what `options` lead to.
    ///
    /// # Errors
    /// The options have no socket, or there can be none in the folder.
    pub fn to(options: PgConnectOptions, folder: &Path) -> Result<(Self, PgConnectOptions)> {
        let name = format!(".s.PGSQL.{}", options.get_port());
        let socket = options.get_socket().ok_or(std::io::ErrorKind::NotFound)?;
        let server = socket.join(&name);
        let listener = UnixListener::bind(folder.join(&name))?;
        let vanished = Arc::new(AtomicBool::new(false));
        let of_host = vanished.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = UnixStream::connect(&server).await else {
                    return;
                };
                // who comes later reaches another host, which took over
                let vanished = match of_host.load(Ordering::SeqCst) {
                    false => of_host.clone(),
                    true => Arc::default(),
                };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(pass_on(from_client, to_server, vanished.clone()));
                tokio::spawn(pass_on(from_server, to_client, vanished));
            }
        });
        Ok((Self { vanished }, options.socket(folder)))
    }

    /// The host vanishes, with all connections that there are now.
    pub fn vanish(&self) {
        self.vanished.store(true, Ordering::SeqCst);
    }
}

/// Passes on what comes from one side, until the host has vanished: then it takes no more, and closes nothing.
async fn pass_on(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    vanished: Arc<AtomicBool>,
) {
    let mut buffer = [0; 16_384];
    loop {
        let count = from.read(&mut buffer).await.unwrap_or_default();
        if vanished.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if count == 0 || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
