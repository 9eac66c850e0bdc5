//! What reaches a tenant of the connections of who had its address before (P11).
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use gpuaas_dev::process;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use nix::sys::signal::Signal;
use tokio::net::UdpSocket;

use super::frames::{End, FORGED, honest};
use super::host::{LabHost, Tenant};
use super::network_ipv6::open;

/// A server that guests may reach: no address of a private network. The machine has it while the test runs.
const SERVER: Ipv4Addr = Ipv4Addr::new(25, 11, 0, 1);
/// Where `honest` sends.
const PORT: u16 = 5000;

/// A server outside, with a flow that a guest has opened to it.
struct Server {
    socket: Arc<UdpSocket>,
    /// The guest as it is seen from outside.
    peer: SocketAddr,
}

impl Server {
    async fn called_by(host: &LabHost, tenant: &Tenant, gateway: End) -> Self {
        let address = format!("{SERVER}/32");
        process::run("ip", &["addr", "replace", &address, "dev", "lo"]).expect("an address");
        let machine = host.lab.machine_address().to_string();
        let route = ["route", "replace", address.as_str(), "via", &machine];
        host.lab.exec("ip", &route).expect("a way to it");
        let socket = UdpSocket::bind((SERVER, PORT)).await.expect("a socket");
        let to = End {
            ip: SERVER,
            ..gateway
        };
        host.send(tenant, [&honest(host.end_of(tenant), to, "a flow")]);
        let mut got = [0; 64];
        let called = tokio::time::timeout(Duration::from_secs(30), socket.recv_from(&mut got));
        let (_, peer) = called.await.expect("the guest calls").expect("a datagram");
        Self {
            socket: Arc::new(socket),
            peer,
        }
    }

    async fn answers(&self, text: &str) {
        let sent = self.socket.send_to(text.as_bytes(), self.peer).await;
        sent.expect("the server sends");
    }

    /// Goes on answering, so that the host does not forget the flow.
    fn keeps_answering(&self) -> tokio::task::JoinHandle<()> {
        let (socket, peer) = (Arc::clone(&self.socket), self.peer);
        tokio::spawn(async move {
            let mut tick = tokio::time::interval(Duration::from_secs(2));
            loop {
                tick.tick().await;
                let _gone_guests_refuse = socket.send_to(b"still there?", peer).await;
            }
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let address = format!("{SERVER}/32");
        let _gone_is_fine = process::run("ip", &["addr", "del", &address, "dev", "lo"]);
    }
}

/// The first tenant of a slot has a flow to a server, which goes on when another one has the address: the next one gets nothing of it while
/// the rules are in force, and what it would get, without them. Returns the next tenant; the rules are gone then.
pub async fn nothing_of_the_former_tenant(
    host: &LabHost,
    former: Tenant,
    gateway: End,
    image: pb::ImageRef,
) -> Tenant {
    let server = Server::called_by(host, &former, gateway).await;
    host.hear_in_guest(&former, "an answer").await;
    server.answers("an answer").await;
    host.heard_in_guest(&former).await;

    let flow = server.keeps_answering();
    host.succeeded(host.release(&former).await).await;
    let index = usize::try_from(former.slot.slot_index).expect("small");
    let next = host.tenant(index, 2).await;
    host.succeeded(host.provision(&next, image).await).await;
    host.arm(&next);
    flow.abort();
    assert_eq!(host.end_of(&next).ip, host.end_of(&former).ip);

    host.hear_in_guest(&next, "of the host").await;
    server.answers(FORGED).await;
    host.send_from_host(&honest(gateway, host.end_of(&next), "of the host"));
    let heard = host.heard_in_guest(&next).await;
    assert!(!heard.contains(&hex::encode(FORGED)), "{heard}");

    // nobody puts the rules back meanwhile
    let agent = host.lab.agent_process().expect("an agent");
    agent.signal(Signal::SIGSTOP);
    open(host);
    host.hear_in_guest(&next, FORGED).await;
    server.answers(FORGED).await;
    host.heard_in_guest(&next).await;
    agent.signal(Signal::SIGCONT);
    next
}
