//! `Terminal`: one interactive shell per call, in a guest or on the host itself, or one connection to a guest's SSH server.
//!
//! [`target`] (pure) decides by capacity shape where a shell runs: a slice's in its guest by SSH with the relay
//! key ([`guest`]), bare metal's as a local PTY ([`local`]). A [`tunnel`] is the connection alone, in which the user logs in.
//! All become a [`shell::Shell`], which [`session_loop`] joins with the call under the windows of both directions. Nothing here buffers more than those windows.
mod guest;
mod local;
mod session_loop;
mod shell;
mod target;
mod tunnel;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::agent::v1::open_request::Message as Incoming;
use gpuaas_proto::gpuaas::agent::v1::open_response::Message as Outgoing;
use gpuaas_proto::gpuaas::agent::v1::terminal_server::Terminal;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::error::HostResult;
use crate::guest::RelayKey;
use crate::ids::AllocationId;
use crate::node::Node;
use crate::operation::SSH_PORT;
use shell::Shell;
use target::{Place, Start};

/// Most bytes of input queued for the shell.
pub const INPUT_WINDOW: u32 = 64 << 10;
/// The same of a tunnel, which carries files and not keys that are typed.
pub const TUNNEL_INPUT_WINDOW: u32 = 1 << 20;
/// Answers queued for the connection; each is at most [`shell::CHUNK`] long.
const ANSWERS: usize = 2;

/// This host's own records of its guests, independent of a caller's claims.
pub trait Guests: Send + Sync + 'static {
    /// The address that is reserved for an allocation's VM; `None` when it has none here.
    ///
    /// # Errors
    /// The host's files cannot be read.
    fn address(&self, allocation: AllocationId) -> HostResult<Option<Ipv4Addr>>;
    /// Whether the allocation holds something of this host.
    ///
    /// # Errors
    /// The journal cannot be read.
    fn holds(&self, allocation: AllocationId) -> HostResult<bool>;
    /// The port of every guest's SSH server: the only one that a shell or tunnel leads to.
    fn ssh_port(&self) -> u16 {
        SSH_PORT
    }
}

impl Guests for Node {
    fn address(&self, allocation: AllocationId) -> HostResult<Option<Ipv4Addr>> {
        let vm = allocation.vm_name();
        let reservations = self.dhcp.reservations()?;
        Ok(reservations
            .into_iter()
            .find(|one| one.vm == vm)
            .map(|one| one.ip))
    }

    fn holds(&self, allocation: AllocationId) -> HostResult<bool> {
        Ok(self
            .journal
            .holds()?
            .iter()
            .any(|hold| hold.allocation == allocation))
    }
}

/// Longest time from the connection to a guest's shell; under software emulation a handshake alone takes seconds.
const LOGIN: Duration = Duration::from_secs(40);

/// The service.
pub struct TerminalApi {
    host: Host,
}

/// What every call needs.
#[derive(Clone)]
struct Host {
    guests: Arc<dyn Guests>,
    relay: RelayKey,
    login_limit: Duration,
}

impl TerminalApi {
    /// Shells of these guests, entered with this key.
    pub fn new(guests: Arc<dyn Guests>, relay: RelayKey) -> Self {
        let host = Host {
            guests,
            relay,
            login_limit: LOGIN,
        };
        Self { host }
    }

    /// The same, with another limit of the time a guest's login may take.
    #[must_use]
    pub fn with_login_limit(mut self, limit: Duration) -> Self {
        self.host.login_limit = limit;
        self
    }

    /// The service of a host.
    pub fn of_node(node: &Arc<Node>) -> Self {
        let guests: Arc<dyn Guests> = node.clone();
        Self::new(guests, node.relay.clone())
    }
}

/// A guest or host that gives no shell.
fn refused(message: impl Into<String>) -> Status {
    Error::new(Code::FailedPrecondition, ErrorReason::GuestNoLogin, message).into()
}

/// Refuses what is not the SSH server of the allocation's VM by the host's own records: another port of it is reached through
/// that server alone, by whoever may log in there.
fn check_target(host: &Host, start: &Start, target: (Ipv4Addr, u16)) -> Result<(), Status> {
    let ((address, port), ssh_port) = (target, host.guests.ssh_port());
    if port != ssh_port {
        return Err(Error::invalid("target_port", format!("must be {ssh_port}")).into());
    }
    let reserved = host
        .guests
        .address(start.allocation)
        .map_err(Error::internal)?;
    if reserved == Some(address) {
        return Ok(());
    }
    Err(stale(
        "that address is not reserved for the allocation's VM on this host",
    ))
}

/// What the host's own records contradict.
fn stale(message: &str) -> Status {
    Error::new(Code::FailedPrecondition, ErrorReason::HostNotReady, message).into()
}

/// Starts the requested shell or tunnel, if the host's own records agree.
async fn open(host: &Host, start: &Start) -> Result<Shell, Status> {
    match &start.place {
        Place::Guest(guest, screen) => {
            check_target(host, start, (guest.address, guest.port))?;
            guest::log_in(
                guest,
                &host.relay,
                (&screen.term, screen.size),
                host.login_limit,
            )
            .await
            .map_err(|error| refused(error.to_string()))
        }
        Place::Tunnel(to) => {
            check_target(host, start, (*to.ip(), to.port()))?;
            tunnel::open(*to)
                .await
                .map_err(|error| refused(error.to_string()))
        }
        Place::Local(user, screen) => {
            if !host
                .guests
                .holds(start.allocation)
                .map_err(Error::internal)?
            {
                return Err(stale("the allocation holds nothing of this host"));
            }
            local::log_in(user, &screen.term, screen.size)
                .map_err(|error| refused(error.to_string()))
        }
    }
}

async fn serve(
    host: Host,
    mut requests: Streaming<pb::OpenRequest>,
    answers: mpsc::Sender<Result<pb::OpenResponse, Status>>,
) -> Result<(), Status> {
    let first = requests
        .message()
        .await?
        .and_then(|request| request.message);
    let Some(Incoming::Start(start)) = first else {
        return Err(Error::required("start").into());
    };
    let start = target::parse(&start)?;
    let opened = tokio::select! {
        opened = open(&host, &start) => opened,
        // the caller disconnected while the guest was busy
        () = answers.closed() => return Ok(()),
    };
    let shell = opened.inspect_err(|status| {
        tracing::warn!(session_id = %start.session, allocation_id = %start.allocation, "refuse terminal: {}", status.message());
    })?;
    let ssh_tunnel = matches!(start.place, Place::Tunnel(_));
    tracing::info!(session_id = %start.session, allocation_id = %start.allocation, shape = start.place.shape(), ssh_tunnel, "open terminal");
    let input_window = if ssh_tunnel {
        TUNNEL_INPUT_WINDOW
    } else {
        INPUT_WINDOW
    };
    let started = pb::TerminalStarted {
        input_window,
        ssh_tunnel,
    };
    let started = pb::OpenResponse {
        message: Some(Outgoing::Started(started)),
    };
    if answers.send(Ok(started)).await.is_err() {
        return Ok(());
    }
    let windows = (start.output_window, input_window);
    let outcome = session_loop::run(shell, requests, &answers, windows).await;
    tracing::info!(session_id = %start.session, allocation_id = %start.allocation, "close terminal");
    outcome
}

#[tonic::async_trait]
impl Terminal for TerminalApi {
    type OpenStream =
        std::pin::Pin<Box<dyn Stream<Item = Result<pb::OpenResponse, Status>> + Send>>;

    async fn open(
        &self,
        request: Request<Streaming<pb::OpenRequest>>,
    ) -> Result<Response<Self::OpenStream>, Status> {
        let (answers, stream) = mpsc::channel(ANSWERS);
        let host = self.host.clone();
        tokio::spawn(async move {
            let to_caller = answers.clone();
            if let Err(status) = serve(host, request.into_inner(), answers).await {
                // a caller that is gone needs no answer
                let _ = to_caller.send(Err(status)).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}
