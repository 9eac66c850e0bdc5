//! Accepts connections of SSH clients: as many as configured, of one peer address no more than its share.
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use gpuaas_common::CancellationToken;
use gpuaas_common::server::connections::Connections;
use russh::server;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::connection::Served;
use super::settings::SerialSshSettings;
use crate::app::App;
use crate::http::listener::{Meters, accept};
use crate::limits::peer::{Peer, Proxies};

/// What shows serial logs by SSH.
pub struct SerialSsh {
    /// Where it listens.
    pub listen: Vec<SocketAddr>,
    config: Arc<server::Config>,
    connections: (usize, usize),
    sign_in_timeout: Duration,
}

impl SerialSsh {
    /// As the settings say.
    ///
    /// # Errors
    /// A host key that is not usable.
    pub fn open(settings: &SerialSshSettings) -> anyhow::Result<Self> {
        Ok(Self {
            listen: settings.listen.clone(),
            config: settings.server()?,
            connections: (settings.max_connections, settings.max_connections_per_peer),
            sign_in_timeout: Duration::from_secs(settings.sign_in_timeout_seconds),
        })
    }

    /// Listens there.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn bind(address: &SocketAddr) -> anyhow::Result<TcpListener> {
        let listener = TcpListener::bind(address).await;
        listener.with_context(|| {
            format!("setting gateway.serial_ssh.listen: cannot listen on {address}")
        })
    }
}

/// Serves until `shutdown`; returns when who reads was told.
pub async fn serve(
    listener: TcpListener,
    ssh: Arc<SerialSsh>,
    (app, proxies): (Arc<App>, Proxies),
    meters: Meters,
    shutdown: CancellationToken,
) {
    let (most, most_per_peer) = ssh.connections;
    let connections = Connections::new(most, most_per_peer);
    let tasks = TaskTracker::new();
    while let Some((stream, address)) = accept(&listener, &connections, &meters, &shutdown).await {
        // one in front speaks for many, and does not say for whom
        let peer = (!proxies.contains(address)).then(|| Peer::of(address));
        match connections.enter(peer) {
            Ok(place) => {
                let served = Served {
                    place,
                    address,
                    app: app.clone(),
                    config: ssh.config.clone(),
                    deadline: Instant::now() + ssh.sign_in_timeout,
                    meters: meters.clone(),
                    shutdown: shutdown.clone(),
                };
                tasks.spawn(served.run(stream));
            }
            Err(full) => {
                tracing::debug!(%address, "refuse connection: {full:?}");
                meters.refused(full);
            }
        }
    }
    tasks.close();
    tasks.wait().await;
}
