//! A packet, sent as a guest would send it, and what became of it: that is what says whether guests get an address and
//! reach the world (A-86, INC-01).
//!
//! The host makes a network namespace, joins it to the guests' bridge at the port of the guest that is none (see
//! `network::probe`), asks dnsmasq for an address there, and sends a packet to an address outside. The packet passes the
//! switch, the host's rules and its masquerading like any other, and is counted and dropped before it would leave.
//!
//! The namespace is that of one thread: it ends with the thread, also when the agent is killed. What can stay behind is
//! the switch's record of the port, which the next packet removes first.
pub(crate) mod frames;
mod namespace;

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use self::namespace::{Namespace, ProbeReport, Sender};
use crate::dhcp::Dhcp;
use crate::error::{HostError, HostResult, io_error};
use crate::host::{blocking, exec};
use crate::network::{Counted, Guest, NetworkRules, PROBE_PORT, PROBE_PORT_NUMBER};
use crate::settings::{BridgeKind, HostService, Network};

/// Longest time for all of it, and for the wait until another check's is over.
const LIMIT: Duration = Duration::from_secs(15);
/// Longest time until a packet that was sent is counted, and between two looks.
const ARRIVES: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);

/// A host whose guests have every address is as good as it was before the last one came.
const NO_ADDRESS: &str = "every address of the guests' network is taken";

/// How a packet left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// With another address than its own: one of the host.
    Masqueraded,
    /// With its private address.
    AsSent,
}

/// What became of a request and of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What was offered to a DHCP request, or why nothing; `None` where guests may not ask this host.
    pub dhcp: Option<Result<Ipv4Addr, String>>,
    /// How the packet left, or why it did not.
    pub way: Result<Way, String>,
}

/// Sends packets, one at a time.
#[derive(Debug, Default)]
pub struct Packets {
    last: Mutex<Option<(Instant, Outcome)>>,
}

/// All that it takes: it goes on when its caller does not.
pub struct Job {
    network: Network,
    dhcp: Dhcp,
    guest: Guest,
    lock_file: PathBuf,
}

impl Packets {
    /// Sends one by `job`, unless one was begun since this call, or one that came through is not older than `age`.
    ///
    /// # Errors
    /// Why no packet can prove anything here, which is no fault of the host.
    pub async fn send(
        &self,
        job: impl FnOnce() -> HostResult<Option<Job>>,
        age: Duration,
    ) -> Result<Outcome, String> {
        let requested = Instant::now();
        let mut last = self.last.lock().await;
        if let Some((begun, outcome)) = &*last
            && (*begun >= requested || (outcome.is_good() && begun.elapsed() <= age))
        {
            return Ok(outcome.clone());
        }
        let begun = Instant::now();
        let outcome = match job() {
            Ok(Some(job)) => job.run().await,
            Ok(None) => return Err(NO_ADDRESS.to_owned()),
            Err(error) => Outcome::of_error(&error.message, true),
        };
        *last = Some((begun, outcome.clone()));
        Ok(outcome)
    }
}

impl Outcome {
    fn is_good(&self) -> bool {
        self.way.is_ok() && self.dhcp.as_ref().is_none_or(Result::is_ok)
    }

    fn of_error(why: &str, asks_dhcp: bool) -> Self {
        Self {
            dhcp: asks_dhcp.then(|| Err(format!("not sent: {why}"))),
            way: Err(format!("not sent: {why}")),
        }
    }
}

impl Job {
    /// None: there is no address to send from.
    ///
    /// # Errors
    /// The reservations cannot be read.
    pub fn of(
        rules: &NetworkRules,
        network: &Network,
        dhcp: &Dhcp,
        state_dir: &Path,
    ) -> HostResult<Option<Self>> {
        let guest = blocking::here(|| rules.probe())?;
        Ok(guest.map(|guest| Self {
            network: network.clone(),
            dhcp: dhcp.clone(),
            guest,
            lock_file: state_dir.join("probe.lock"),
        }))
    }

    fn asks_dhcp(&self) -> bool {
        self.network.host_services.contains(&HostService::Dhcp)
    }

    /// Runs to its end, whoever waits for it: what it made is removed again.
    async fn run(self) -> Outcome {
        let asks_dhcp = self.asks_dhcp();
        let task = tokio::spawn(async move {
            let lock = tokio::time::timeout(LIMIT, self.lock());
            let Ok(lock) = lock.await else {
                return Err(HostError::internal("another check's packet takes too long"));
            };
            let _until_detached = lock?;
            let ended = tokio::time::timeout(LIMIT, self.attached()).await;
            if let Err(error) = self.detach().await {
                tracing::debug!(%error, "the next packet removes the port of the checks");
            }
            ended.unwrap_or_else(|_| Err(HostError::internal("it took too long")))
        });
        match task.await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => Outcome::of_error(&error.message, asks_dhcp),
            Err(_) => Outcome::of_error("it was broken off", asks_dhcp),
        }
    }

    /// An operator's check beside the agent has the same port.
    async fn lock(&self) -> HostResult<File> {
        let path = self.lock_file.clone();
        blocking::run(move || {
            let failed = || io_error("cannot wait for another check's packet");
            let file = File::create(path).map_err(failed())?;
            file.lock().map_err(failed())?;
            Ok(file)
        })
        .await
    }

    async fn attached(&self) -> HostResult<Outcome> {
        // a switch that does not answer holds up a report once
        self.detach().await?;
        self.send().await
    }

    async fn send(&self) -> HostResult<Outcome> {
        if self.asks_dhcp() {
            let (dhcp, guest) = (self.dhcp.clone(), self.guest.clone());
            blocking::run(move || dhcp.reserve_probe(&guest.mac, guest.ip)).await?;
        }
        let mut namespace = Namespace::start(self.sender()).await?;
        self.attach(namespace.thread()).await?;
        let before = counted().await?;
        let ProbeReport { dhcp, sent } = namespace.send().await?;
        let way = match sent {
            Ok(()) => self.arrived(before, &mut namespace).await,
            Err(why) => Err(why),
        };
        drop(namespace);
        Ok(Outcome { dhcp, way })
    }

    fn sender(&self) -> Sender {
        let (gateway, length) = self.network.gateway.split_once('/').unwrap_or_default();
        Sender {
            mac: self.guest.mac.clone(),
            ip: self.guest.ip,
            length: length.to_owned(),
            gateway: gateway.to_owned(),
            outside: self.network.outside,
            asks_dhcp: self.asks_dhcp(),
        }
    }

    /// Waits for the packet at the end of its way. It is sent a second time: the switch may have been given new rules just
    /// then, because a guest came or went, and what it had in hand is lost.
    async fn arrived(&self, before: Counted, namespace: &mut Namespace) -> Result<Way, String> {
        if let Some(way) = came(before).await? {
            return Ok(way);
        }
        namespace
            .send()
            .await
            .map_err(|error| error.message)?
            .sent?;
        let way = came(before).await?;
        way.ok_or_else(|| "it never came to the end of the packet filter".to_owned())
    }

    /// Makes the pair of interfaces, one end in the thread's namespace, the other on the bridge.
    async fn attach(&self, thread: i32) -> HostResult<()> {
        let (mac, thread) = (self.guest.mac.to_string(), thread.to_string());
        let pair = [
            "link",
            "add",
            PROBE_PORT,
            "type",
            "veth",
            "peer",
            "name",
            namespace::INTERFACE,
            "address",
            &mac,
            "netns",
            &thread,
        ];
        run("ip", &pair).await?;
        let bridge = self.network.bridge.as_str();
        match self.network.bridge_kind {
            BridgeKind::Ovs => {
                let number = format!("ofport_request={PROBE_PORT_NUMBER}");
                let add = [
                    "--timeout=5",
                    "add-port",
                    bridge,
                    PROBE_PORT,
                    "--",
                    "set",
                    "Interface",
                    PROBE_PORT,
                    &number,
                ];
                run("ovs-vsctl", &add).await?;
            }
            BridgeKind::Linux => {
                run("ip", &["link", "set", PROBE_PORT, "master", bridge]).await?;
            }
        }
        run("ip", &["link", "set", PROBE_PORT, "up"]).await
    }

    /// Removes what is there of it, whoever made it.
    async fn detach(&self) -> HostResult<()> {
        if self.network.bridge_kind == BridgeKind::Ovs {
            let delete = ["--timeout=3", "--if-exists", "del-port", PROBE_PORT];
            run("ovs-vsctl", &delete).await?;
        }
        // absent is fine
        let _ = run("ip", &["link", "delete", PROBE_PORT]).await;
        Ok(())
    }
}

/// How a packet came to the end of its way, when it does so in time.
async fn came(before: Counted) -> Result<Option<Way>, String> {
    let deadline = Instant::now() + ARRIVES;
    loop {
        let now = counted().await;
        let news = now.as_ref().map(|now| now.since(before));
        match news {
            Ok(news) if news.as_sent > 0 => return Ok(Some(Way::AsSent)),
            Ok(news) if news.is_any() => return Ok(Some(Way::Masqueraded)),
            // the rules may be put again just now
            Ok(_) | Err(_) if Instant::now() < deadline => tokio::time::sleep(LOOK).await,
            Ok(_) => return Ok(None),
            Err(error) => return Err(error.message.clone()),
        }
    }
}

async fn run(program: &str, arguments: &[&str]) -> HostResult<()> {
    let output = exec::run(program, arguments, exec::PROBE_LIMIT).await?;
    output.success(program).map(|_| ())
}

async fn counted() -> HostResult<Counted> {
    let output = exec::run("nft", &Counted::LIST, exec::PROBE_LIMIT).await?;
    let listed = output.success("nft")?.stdout;
    let none = || HostError::internal("the rules that count packets are not in force");
    Counted::parse(&listed).ok_or_else(none)
}
