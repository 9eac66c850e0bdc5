//! A thread in a network namespace of its own, which sends as a guest would. The namespace ends with the thread.
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, setsockopt, socket, sockopt,
};
use tokio::sync::{mpsc as reported, oneshot};

use super::frames;
use crate::error::{HostError, HostResult};
use crate::host::exec;
use crate::ids::Mac;

/// Its interface.
pub const INTERFACE: &str = "eth0";
/// Requests until dnsmasq is given up, and the wait after each.
const REQUESTS: u32 = 3;
const ANSWER: Duration = Duration::from_secs(1);
/// Packets at once: one that is lost to a table that is full says nothing.
const PACKETS: u32 = 3;
/// Discard.
const OUTSIDE_PORT: u16 = 9;
const OWN_PORT: u16 = 40_009;
const SERVER_PORT: u16 = 67;
const CLIENT_PORT: u16 = 68;

/// Who sends what.
#[derive(Debug, Clone)]
pub struct Sender {
    pub mac: Mac,
    pub ip: Ipv4Addr,
    /// Length of the network's prefix.
    pub length: String,
    pub gateway: String,
    /// An address that is not of this host.
    pub outside: Ipv4Addr,
    pub asks_dhcp: bool,
}

/// What the thread says.
#[derive(Debug)]
pub struct ProbeReport {
    /// The address that was offered; `None` when it did not ask.
    pub dhcp: Option<Result<Ipv4Addr, String>>,
    /// Whether the packet was handed to the kernel.
    pub sent: Result<(), String>,
}

/// The running thread. Its end of the wire is there until this is dropped.
pub struct Namespace {
    thread: i32,
    go: mpsc::Sender<()>,
    said: reported::UnboundedReceiver<ProbeReport>,
}

impl Namespace {
    /// Starts the thread and waits until it has its namespace.
    ///
    /// # Errors
    /// The kernel gives no thread or no namespace.
    pub async fn start(sender: Sender) -> HostResult<Self> {
        let (ready, is_ready) = oneshot::channel();
        let (go, goes) = mpsc::channel();
        let (say, said) = reported::unbounded_channel();
        let broken = |error: &dyn std::fmt::Display| {
            HostError::internal(format!("no network namespace: {error}"))
        };
        std::thread::Builder::new()
            .name("packet".to_owned())
            .spawn(move || {
                let made = unshare(CloneFlags::CLONE_NEWNET);
                let has_it = made.is_ok();
                let thread = nix::unistd::gettid().as_raw();
                let reported = ready.send(made.map(|()| thread)).is_ok();
                if !has_it || !reported || goes.recv().is_err() {
                    return;
                }
                // until nobody waits for a packet any more
                act(&sender, &mut || goes.recv().is_ok(), &|what| {
                    say.send(what).is_ok()
                });
            })
            .map_err(|error| broken(&error))?;
        let thread = is_ready.await.map_err(|error| broken(&error))?;
        Ok(Self {
            thread: thread.map_err(|error| broken(&error))?,
            go,
            said,
        })
    }

    /// Id of the thread, by which others find its namespace.
    pub fn thread(&self) -> i32 {
        self.thread
    }

    /// Sends, once its interface is there. The first time an address is asked for as well.
    ///
    /// # Errors
    /// The thread is gone.
    pub async fn send(&mut self) -> HostResult<ProbeReport> {
        let gone = || HostError::internal("the thread that sends is gone");
        self.go.send(()).map_err(|_| gone())?;
        self.said.recv().await.ok_or_else(gone)
    }
}

/// In the namespace: puts the interface up, asks for an address, sends the packet; and the packet again for as long as
/// somebody says so.
fn act(sender: &Sender, goes: &mut dyn FnMut() -> bool, say: &dyn Fn(ProbeReport) -> bool) {
    let raw = put_up(sender)
        .map_err(|why| format!("the interface cannot be put up: {why}"))
        .and_then(|()| raw_socket().map_err(|error| format!("nothing can be sent: {error}")));
    let requested = sender.asks_dhcp.then(|| match &raw {
        Ok(raw) => ask(raw, sender),
        Err(why) => Err(why.clone()),
    });
    loop {
        let sent = raw.as_ref().map_err(Clone::clone).and_then(|raw| {
            let packet = frames::udp(OWN_PORT, OUTSIDE_PORT, b"gpuaas");
            let outside = SocketAddrV4::new(sender.outside, 0);
            let mut each = 0..PACKETS;
            each.try_for_each(|_| raw.send_to(&packet, outside).map(|_| ()))
                .map_err(|error| format!("it cannot be sent: {error}"))
        });
        let dhcp = requested.clone();
        if !say(ProbeReport { dhcp, sent }) || !goes() {
            return;
        }
    }
}

/// What this thread starts is in its namespace too.
fn put_up(sender: &Sender) -> Result<(), String> {
    let address = format!("{}/{}", sender.ip, sender.length);
    let commands: [&[&str]; 4] = [
        &["link", "set", "lo", "up"],
        &["address", "add", &address, "dev", INTERFACE],
        &["link", "set", INTERFACE, "up"],
        &["route", "add", "default", "via", &sender.gateway],
    ];
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        for command in commands {
            let output = exec::run("ip", command, exec::PROBE_LIMIT).await;
            output
                .and_then(|output| output.success("ip"))
                .map_err(|error| error.message)?;
        }
        Ok(())
    })
}

/// Its UDP header is ours: a bridge that passes packets on in user space computes no checksum, and one of zero is none.
fn raw_socket() -> io::Result<UdpSocket> {
    let fd: OwnedFd = socket(
        AddressFamily::Inet,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::Udp,
    )?;
    setsockopt(&fd, sockopt::Broadcast, &true)?;
    setsockopt(&fd, sockopt::BindToDevice, &INTERFACE.into())?;
    Ok(UdpSocket::from(fd))
}

/// Asks until an answer to this very request comes.
fn ask(raw: &UdpSocket, sender: &Sender) -> Result<Ipv4Addr, String> {
    let failed = |error: io::Error| format!("it cannot be asked: {error}");
    let client = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, CLIENT_PORT)).map_err(failed)?;
    let mut id = [0; 4];
    getrandom::fill(&mut id).map_err(|_| "no random number".to_owned())?;
    let discover = frames::discover(id, &sender.mac);
    let packet = frames::udp(CLIENT_PORT, SERVER_PORT, &discover);
    let everybody = SocketAddrV4::new(Ipv4Addr::BROADCAST, 0);
    for _ in 0..REQUESTS {
        raw.send_to(&packet, everybody).map_err(failed)?;
        let deadline = Instant::now() + ANSWER;
        while let Some(left) = deadline
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
        {
            client.set_read_timeout(Some(left)).map_err(failed)?;
            let mut buffer = [0; 1500];
            let Ok((length, _)) = client.recv_from(&mut buffer) else {
                continue;
            };
            let offered = buffer
                .get(..length)
                .and_then(|answer| frames::offer(answer, id));
            match offered {
                Some(ip) if ip == sender.ip => return Ok(ip),
                Some(ip) => return Err(format!("{ip} was offered instead of {}", sender.ip)),
                None => {}
            }
        }
    }
    Err("no answer".to_owned())
}
