//! Why a session or a connection ends, as the client and the list of sessions see it.

/// Why there are no tunnels where terminals must be recorded, and what there is instead.
pub(crate) const NO_UNRECORDED_TUNNEL: &str = "The project's terminals must be recorded, and what an SSH tunnel carries cannot be. Use a terminal (gpuaas terminal), or SSH over the network (--via network).";

/// A reason. The page docs/reference/terminal-protocol.md lists them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Exited,
    ClosedByClient,
    ProtocolError(String),
    TicketRefused,
    SessionGone,
    Idle,
    TimeLimit,
    NotResumed,
    /// The connection of a tunnel broke.
    ConnectionLost,
    Silent,
    TooManySessions(u32),
    TakenOver,
    AllocationEnded(String),
    /// The machine is being stopped or rebooted: a sentence that says which.
    PoweredOff(&'static str),
    AccessLost,
    /// Its user asked for it, elsewhere than in the session.
    EndedByUser,
    /// An operator ended it, for this reason.
    EndedByOperator(String),
    HostUnreachable,
    GuestRefused(String),
    RecordingFailed,
    /// A tunnel, where terminals must be recorded.
    RecordingRequired,
    /// The host's agent knows no tunnels.
    TunnelUnsupported,
    ShuttingDown,
    /// Another process took this one for gone and closed the session's row.
    ProcessLost,
}

impl End {
    /// WebSocket close code: the class of the reason.
    pub(crate) fn code(&self) -> u32 {
        match self {
            Self::Exited | Self::ClosedByClient | Self::EndedByUser => 1000,
            Self::ProtocolError(_) => 4400,
            Self::TicketRefused => 4401,
            Self::AccessLost | Self::EndedByOperator(_) | Self::RecordingRequired => 4403,
            Self::SessionGone => 4404,
            Self::Idle
            | Self::TimeLimit
            | Self::NotResumed
            | Self::ConnectionLost
            | Self::Silent => 4408,
            Self::TooManySessions(_) | Self::TakenOver => 4409,
            Self::AllocationEnded(_) | Self::PoweredOff(_) => 4410,
            Self::HostUnreachable | Self::GuestRefused(_) | Self::TunnelUnsupported => 4502,
            Self::RecordingFailed | Self::ShuttingDown | Self::ProcessLost => 4503,
        }
    }

    /// The reason's name.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Exited => "exited",
            Self::ClosedByClient => "closed_by_client",
            Self::ProtocolError(_) => "protocol_error",
            Self::TicketRefused => "ticket_refused",
            Self::SessionGone => "session_gone",
            Self::Idle => "idle",
            Self::TimeLimit => "time_limit",
            Self::NotResumed => "not_resumed",
            Self::ConnectionLost => "connection_lost",
            Self::Silent => "silent",
            Self::TooManySessions(_) => "too_many_sessions",
            Self::TakenOver => "taken_over",
            Self::AllocationEnded(_) => "allocation_ended",
            Self::PoweredOff(_) => "powered_off",
            Self::AccessLost => "access_lost",
            Self::EndedByUser => "ended_by_user",
            Self::EndedByOperator(_) => "ended_by_operator",
            Self::HostUnreachable => "host_unreachable",
            Self::GuestRefused(_) => "guest_refused",
            Self::RecordingFailed => "recording_failed",
            Self::RecordingRequired => "recording_required",
            Self::TunnelUnsupported => "tunnel_unsupported",
            Self::ShuttingDown => "shutting_down",
            Self::ProcessLost => "process_lost",
        }
    }

    /// A sentence for the user.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Exited => "The shell or connection has ended.".to_owned(),
            Self::ClosedByClient => "The session was closed.".to_owned(),
            Self::ProtocolError(rule) => format!("The client broke the protocol: {rule}."),
            Self::TicketRefused => "The ticket is not accepted. Get a new one.".to_owned(),
            Self::SessionGone => "The session cannot be resumed. Open a new one.".to_owned(),
            Self::Idle => "The session ended because nothing was typed or sent for too long.".to_owned(),
            Self::TimeLimit => "The session reached its time limit. Open a new one.".to_owned(),
            Self::NotResumed => "The session ended because nobody came back to it.".to_owned(),
            Self::ConnectionLost => {
                "The connection was lost, and a tunnel cannot go on after that. Open a new one."
                    .to_owned()
            }
            Self::Silent => "The connection did not answer.".to_owned(),
            Self::TooManySessions(most) => {
                format!("You have {most} terminals open, the most allowed. Close one.")
            }
            Self::TakenOver => "The session goes on in another window.".to_owned(),
            Self::AllocationEnded(why) if !why.is_empty() => why.clone(),
            Self::AllocationEnded(_) => "The allocation is not active any more.".to_owned(),
            Self::PoweredOff(why) => (*why).to_owned(),
            Self::AccessLost => {
                "You may not use this allocation any more. Ask an administrator.".to_owned()
            }
            Self::EndedByUser => "The session was ended by its user.".to_owned(),
            Self::EndedByOperator(reason) => format!("An operator ended the session: {reason}"),
            Self::HostUnreachable => {
                "The allocation's host does not answer. Try again in a moment.".to_owned()
            }
            Self::GuestRefused(why) if !why.is_empty() => {
                format!("The machine gives no terminal: {why}.")
            }
            Self::GuestRefused(_) => "The machine gives no terminal.".to_owned(),
            Self::RecordingFailed => {
                "The project demands recordings, and this one cannot be stored. Try again later."
                    .to_owned()
            }
            Self::RecordingRequired => NO_UNRECORDED_TUNNEL.to_owned(),
            Self::TunnelUnsupported => {
                "The agent of the allocation's host does not support tunnels yet. Use a terminal, or SSH over the network."
                    .to_owned()
            }
            Self::ShuttingDown => {
                "The platform restarts the service that runs this session. Open a new one."
                    .to_owned()
            }
            Self::ProcessLost => {
                "The platform lost sight of this session and closed it. Open a new one.".to_owned()
            }
        }
    }
}
