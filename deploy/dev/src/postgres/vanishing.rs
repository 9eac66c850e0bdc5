//! The way to a database whose host loses its power: nobody closes the connections to it, and nobody answers on them.
use std::io::Result;
use std::path::Path;

use sqlx::postgres::PgConnectOptions;
use tokio::io::copy_bidirectional;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

/// Such a way, until the runtime of the test ends.
pub struct Vanishing {
    vanished: watch::Sender<bool>,
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
        let (vanished, of_host) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = UnixStream::connect(&server).await else {
                    return;
                };
                // who comes later reaches another host, which took over
                let took_over = *of_host.borrow();
                let host = (!took_over).then(|| of_host.clone());
                tokio::spawn(pass_on(client, server, host));
            }
        });
        Ok((Self { vanished }, options.socket(folder)))
    }

    /// The host vanishes, with all connections that there are now. Their transactions end with it; nobody tells the clients.
    pub fn vanish(&self) {
        self.vanished.send_replace(true);
    }
}

/// Passes on what comes from both sides, until the host has vanished: then the client hears nothing more, not even an end.
async fn pass_on(
    mut client: UnixStream,
    mut server: UnixStream,
    host: Option<watch::Receiver<bool>>,
) {
    tokio::select! {
        // nothing passes once it has vanished
        biased;
        () = gone(host) => {}
        _ = copy_bidirectional(&mut client, &mut server) => return,
    }
    drop(server);
    // the client's side stays open
    std::future::pending::<()>().await;
}

/// Returns when the host has vanished; never for one that does not.
async fn gone(host: Option<watch::Receiver<bool>>) {
    if let Some(mut host) = host {
        let vanished = host.wait_for(|vanished| *vanished).await.is_ok();
        if vanished {
            return;
        }
    }
    std::future::pending::<()>().await;
}
