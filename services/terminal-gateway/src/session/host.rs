//! The call to the host that runs one shell.
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
use crate::domain::flow::OUTPUT_WINDOW;
use crate::domain::message::Size;

/// From the call to the shell: connection, login, terminal.
const START: Duration = Duration::from_secs(50);
/// A host that takes no message for this long does not answer.
const SEND: Duration = Duration::from_secs(10);

/// A shell on a host. Dropping it ends it.
pub(crate) struct Host {
    requests: mpsc::Sender<pb::OpenRequest>,
    answers: Streaming<pb::OpenResponse>,
}

/// What a host says.
#[derive(Debug)]
pub(crate) enum Said {
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
    /// Starts the shell.
    ///
    /// # Errors
    /// Why it does not start.
    pub(crate) async fn open(
        peers: &Peers,
        target: &Target,
        session_id: Uuid,
        window: Size,
        term: &str,
    ) -> Result<Self, End> {
        let wire = &target.wire;
        let start = pb::TerminalStart {
            session_id: session_id.to_string(),
            allocation_id: wire.allocation_id.clone(),
            capacity_shape: wire.capacity_shape,
            target_host: wire.target_host.clone(),
            target_port: wire.target_port,
            user: wire.user.clone(),
            ssh_host_keys: wire.ssh_host_keys.clone(),
            size: Some(size(window)),
            term: term.to_owned(),
            output_window: OUTPUT_WINDOW as u32,
        };
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
            Ok(Ok((answers, Some(Incoming::Started(_))))) => Ok(Self { requests, answers }),
            Ok(Ok(_)) => Err(End::HostUnreachable),
            Ok(Err(status)) => Err(ended_by(session_id, status)),
            Err(_) => Err(End::HostUnreachable),
        }
    }

    /// The next message; an error ends the session.
    pub(crate) async fn said(&mut self, session_id: Uuid) -> Result<Said, End> {
        loop {
            let answer = self
                .answers
                .message()
                .await
                .map_err(|status| ended_by(session_id, status))?;
            match answer.ok_or(End::HostUnreachable)?.message {
                Some(Incoming::Output(data)) => return Ok(Said::Output(data)),
                Some(Incoming::InputAck(offset)) => return Ok(Said::InputAck(offset)),
                Some(Incoming::Exit(exit)) => return Ok(Said::Exit(exit.status)),
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
