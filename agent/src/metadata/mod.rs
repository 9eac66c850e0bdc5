//! The metadata service: what a VM may know of itself, at `http://169.254.169.254` (issue 15).
//!
//! It listens where the profile's host services name `metadata`. The caller is who its address says: a VM's port can
//! send as its own address alone, and receive what is sent to it alone ([`crate::network`]), so whoever completes a TCP
//! connection from a reserved address is the VM with that reservation. Any other source is answered 404 and nothing
//! else.
//!
//! A VM's programs are not all its owner's: one that fetches addresses for others (a proxy, a page's preview) must not
//! fetch this. So every read needs a session token that only a PUT gets, a request that was forwarded is refused, and
//! answers do not pass a router (IP TTL 1).
//!
//! Paths and headers are those of the instance metadata service that tools of the field know.
mod connection;
mod identity;
mod instance;
mod requests;
mod sessions;
#[cfg(test)]
mod tests;
mod tree;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use gpuaas_common::client::Peers;
use gpuaas_common::{CancellationToken, Context};
use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::{TcpListener, TcpSocket};

pub use identity::{Identity, OfInventory, Refused};

use self::connection::Connections;
use self::identity::Limiter;
use self::sessions::Sessions;
use crate::dhcp::Dhcp;
use crate::journal::Journal;
use crate::node::Node;
use crate::settings::{HostService, Network};

/// Where a VM asks.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
/// The same as the bridge has it.
pub const BRIDGE_ADDRESS: &str = "169.254.169.254/32";
const PORT: u16 = 80;
/// Answers do not pass a router in the VM, nor what is behind it.
const HOPS: u8 = 1;
/// Between two tries to listen, and after an accept that failed.
const RETRY: Duration = Duration::from_secs(3);

/// Whether this host has the service.
#[must_use]
pub fn is_named(network: &Network) -> bool {
    network.host_services.contains(&HostService::Metadata)
}

/// What answers.
pub struct Metadata {
    dhcp: Dhcp,
    journal: Arc<Journal>,
    identity: Box<dyn Identity>,
    sessions: Sessions,
    limiter: Limiter,
}

impl Metadata {
    /// Over the reservations and the journal of a host; `identity` issues identity tokens.
    pub fn new(dhcp: Dhcp, journal: Arc<Journal>, identity: Box<dyn Identity>) -> Self {
        Self {
            dhcp,
            journal,
            identity,
            sessions: Sessions::default(),
            limiter: Limiter::default(),
        }
    }

    /// Answers until `shutdown`.
    pub async fn serve(self, listener: TcpListener, limits: Limits, shutdown: CancellationToken) {
        let (all, connections) = (Arc::new(self), Connections::new(limits));
        loop {
            let accepted = tokio::select! {
                () = shutdown.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => connections.take(stream, peer, &all),
                Err(error) => {
                    tracing::warn!(%error, "cannot take a connection of the metadata service");
                    tokio::select! {
                        () = shutdown.cancelled() => return,
                        () = tokio::time::sleep(RETRY) => {}
                    }
                }
            }
        }
    }
}

/// What one VM may take of the service.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections of one address at a time; one more is closed at once.
    pub connections: usize,
    /// Longest wait for a request's line and headers.
    pub headers: Duration,
    /// Lifetime of a connection.
    pub connection: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16,
            headers: Duration::from_secs(5),
            connection: Duration::from_secs(15),
        }
    }
}

/// Serves where the profile names the service and the agent makes the rules of the VMs' network, until `shutdown`.
pub async fn run(node: &Node, context: &Context, shutdown: CancellationToken) {
    if !is_named(&node.settings.network) || !node.network_rules.is_active() {
        return;
    }
    let peers: Peers = context.peers.clone();
    let metadata = Metadata::new(
        node.dhcp.clone(),
        Arc::clone(&node.journal),
        Box::new(OfInventory::new(peers)),
    );
    let mut reported = false;
    loop {
        match listen(SocketAddrV4::new(ADDRESS, PORT)) {
            Ok(listener) => {
                tracing::info!("serve metadata");
                metadata.serve(listener, Limits::default(), shutdown).await;
                return;
            }
            Err(error) if !reported => {
                tracing::error!(%error, "cannot listen for the metadata service");
                reported = true;
            }
            Err(_) => {}
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(RETRY) => {}
        }
    }
}

/// Listens at an address that the bridge may get later.
///
/// # Errors
/// Those of the system: another program has the port.
pub fn listen(at: SocketAddrV4) -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    setsockopt(&socket, sockopt::IpFreebind, &true)?;
    setsockopt(&socket, sockopt::Ipv4Ttl, &i32::from(HOPS))?;
    socket.bind(at.into())?;
    socket.listen(256)
}
