//! The call to the host that runs one shell or holds one tunnel.
use std::time::Duration;

use gpuaas_common::Error;
use gpuaas_common::client::Peers;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::agent::v1::open_request::Message as Outgoing;
use gpuaas_proto::gpuaas::agent::v1::open_response::Message as Incoming;
use gpuaas_proto::gpuaas::agent::v1::terminal_client::TerminalClient;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use uuid::Uuid;

use super::target::Target;
use crate::domain::end::End;
use crate::domain::kind::Kind;
use crate::domain::message::Size;

/// From the call to the shell: connection, login, terminal.
const START: Duration = Duration::from_secs(50);
/// A host that takes no message for this long does not answer.
const SEND: Duration = Duration::from_secs(10);

/// What a host is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionRequest<'a> {
    pub(crate) kind: Kind,
    pub(crate) size: Size,
    pub(crate) term: &'a str,
}

/// A shell or tunnel on a host. Dropping it ends it.
pub(crate) struct Host {
    requests: mpsc::Sender<pb::OpenRequest>,
    answers: Streaming<pb::OpenResponse>,
}

/// What a host says.
#[derive(Debug)]
pub(crate) enum HostMessage {
    Output(Vec<u8>),
    InputAck(u64),
    Exit(Option<u32>),
}

fn size(size: Size) -> pb::TerminalSize {
    pb::TerminalSize {
        cols: size.cols,
        rows: size.rows,
    }
}

impl Host {
    /// Starts the shell or tunnel.
    ///
    /// # Errors
    /// Why it does not start.
    pub(crate) async fn open(
        peers: &Peers,
        target: &Target,
        session_id: Uuid,
        asked: SessionRequest<'_>,
    ) -> Result<Self, End> {
        let wire = &target.wire;
        let start = start(target, session_id, asked);
        let unusable = |error: Error| {
            tracing::warn!(%session_id, address = wire.agent_address, "skip unusable host: {}", error.chain());
            End::HostUnreachable
        };
        let channel = peers
            .host_channel(&wire.agent_address, &target.node_id, &target.instance_id)
            .map_err(unusable)?;
        let (requests, stream) = mpsc::channel(4);
        let starting = async {
            let message = Some(Outgoing::Start(start));
            // the receiver is here
            let _ = requests.send(pb::OpenRequest { message }).await;
            let mut answers = TerminalClient::new(channel)
                .open(ReceiverStream::new(stream))
                .await?
                .into_inner();
            let first = answers.message().await?.and_then(|answer| answer.message);
            Ok::<_, Status>((answers, first))
        };
        match tokio::time::timeout(START, starting).await {
            Ok(Ok((answers, Some(Incoming::Started(started))))) => {
                confirmed(asked.kind, &started)?;
                Ok(Self { requests, answers })
            }
            Ok(Ok(_)) => Err(End::HostUnreachable),
            Ok(Err(status)) => Err(refused_by(session_id, asked.kind, status)),
            Err(_) => Err(End::HostUnreachable),
        }
    }

    /// The next message; an error ends the session.
    pub(crate) async fn said(&mut self, session_id: Uuid) -> Result<HostMessage, End> {
        loop {
            let answer = self
                .answers
                .message()
                .await
                .map_err(|status| ended_by(session_id, status))?;
            match answer.ok_or(End::HostUnreachable)?.message {
                Some(Incoming::Output(data)) => return Ok(HostMessage::Output(data)),
                Some(Incoming::InputAck(offset)) => return Ok(HostMessage::InputAck(offset)),
                Some(Incoming::Exit(exit)) => return Ok(HostMessage::Exit(exit.status)),
                // it started once
                Some(Incoming::Started(_)) | None => {}
            }
        }
    }

    async fn send(&self, message: Outgoing) -> Result<(), End> {
        let message = pb::OpenRequest {
            message: Some(message),
        };
        match tokio::time::timeout(SEND, self.requests.send(message)).await {
            // when the call has ended, its answer says why
            Ok(_) => Ok(()),
            Err(_) => Err(End::HostUnreachable),
        }
    }

    pub(crate) async fn input(&self, data: &[u8]) -> Result<(), End> {
        self.send(Outgoing::Input(data.to_vec())).await
    }

    pub(crate) async fn ack(&self, offset: u64) -> Result<(), End> {
        self.send(Outgoing::OutputAck(offset)).await
    }

    pub(crate) async fn resize(&self, to: Size) -> Result<(), End> {
        self.send(Outgoing::Resize(size(to))).await
    }
}

/// The first message. What a shell needs is missing for a tunnel, so that an agent that knows none refuses it.
fn start(target: &Target, session_id: Uuid, asked: SessionRequest<'_>) -> pb::TerminalStart {
    let wire = &target.wire;
    let start = pb::TerminalStart {
        session_id: session_id.to_string(),
        allocation_id: wire.allocation_id.clone(),
        capacity_shape: wire.capacity_shape,
        target_host: wire.target_host.clone(),
        target_port: wire.target_port,
        output_window: asked.kind.output_window() as u32,
        ssh_tunnel: asked.kind == Kind::SshTunnel,
        ..pb::TerminalStart::default()
    };
    match asked.kind {
        Kind::SshTunnel => start,
        Kind::Shell => pb::TerminalStart {
            user: wire.user.clone(),
            ssh_host_keys: wire.ssh_host_keys.clone(),
            size: Some(size(asked.size)),
            term: asked.term.to_owned(),
            ..start
        },
    }
}

/// Whether a host started what it was asked for: a shell in place of a tunnel would be one that nobody asked for.
fn confirmed(kind: Kind, started: &pb::TerminalStarted) -> Result<(), End> {
    match (kind, started.ssh_tunnel) {
        (Kind::Shell, false) | (Kind::SshTunnel, true) => Ok(()),
        (Kind::SshTunnel, false) => Err(End::TunnelUnsupported),
        (Kind::Shell, true) => Err(End::HostUnreachable),
    }
}

/// Why a host starts nothing. Of a tunnel an older agent says that the user of a shell is missing.
fn refused_by(session_id: Uuid, kind: Kind, status: Status) -> End {
    let names_user = || {
        let error = Error::from(status.clone());
        error.fields().iter().any(|(field, _)| field == "user")
    };
    if kind == Kind::SshTunnel && status.code() == Code::InvalidArgument && names_user() {
        tracing::warn!(%session_id, "the agent knows no tunnels: {}", status.message());
        return End::TunnelUnsupported;
    }
    ended_by(session_id, status)
}

fn ended_by(session_id: Uuid, status: Status) -> End {
    let error = Error::from(status);
    tracing::warn!(%session_id, "end session by its host: {}", error.chain());
    match (error.code(), error.reason()) {
        (Code::FailedPrecondition, ErrorReason::GuestNoLogin) => {
            End::GuestRefused(error.message().to_owned())
        }
        (Code::FailedPrecondition | Code::InvalidArgument, _) => End::GuestRefused(String::new()),
        _ => End::HostUnreachable,
    }
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::internal::allocation::v1::ResolveTerminalTargetResponse;

    use super::*;

    #[test]
    fn an_agent_that_knows_no_tunnels_gives_no_shell_in_place_of_one() {
        let target = Target {
            project_id: Uuid::nil(),
            node_id: Uuid::nil(),
            instance_id: Uuid::nil(),
            wire: ResolveTerminalTargetResponse {
                target_host: "10.100.0.10".to_owned(),
                target_port: 22,
                user: "u_adda9308def04a2f".to_owned(),
                ssh_host_keys: vec!["ssh-ed25519 AAAA".to_owned()],
                ..ResolveTerminalTargetResponse::default()
            },
        };
        let asked = |kind| SessionRequest {
            kind,
            size: Size { cols: 80, rows: 24 },
            term: "vt100",
        };
        let tunnel = start(&target, Uuid::nil(), asked(Kind::SshTunnel));
        assert!(tunnel.ssh_tunnel && tunnel.user.is_empty() && tunnel.size.is_none());
        assert!(tunnel.ssh_host_keys.is_empty() && tunnel.target_port == 22);
        let shell = start(&target, Uuid::nil(), asked(Kind::Shell));
        assert!(!shell.ssh_tunnel && shell.user == target.wire.user && shell.size.is_some());

        let started = |ssh_tunnel| pb::TerminalStarted {
            input_window: 0,
            ssh_tunnel,
        };
        assert_eq!(confirmed(Kind::SshTunnel, &started(true)), Ok(()));
        assert_eq!(confirmed(Kind::Shell, &started(false)), Ok(()));
        assert_eq!(
            confirmed(Kind::SshTunnel, &started(false)),
            Err(End::TunnelUnsupported)
        );
        assert!(confirmed(Kind::Shell, &started(true)).is_err());
        let older = || {
            Status::from(Error::invalid(
                "user",
                "must be u_ and 16 hexadecimal digits",
            ))
        };
        assert_eq!(
            refused_by(Uuid::nil(), Kind::SshTunnel, older()),
            End::TunnelUnsupported
        );
        assert_eq!(
            refused_by(Uuid::nil(), Kind::Shell, older()),
            End::GuestRefused(String::new())
        );
    }
}
