//! From a ticket to a session, and from a session to its closed row. Both ends are one transaction with their audit
//! rows (P10).
use std::time::Duration;

use gpuaas_common::{Error, audit, origin};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::terminal::v1::TerminalSession;
use jiff::{SignedDuration, Timestamp};
use opentelemetry::KeyValue;
use serde_json::json;
use tokio::sync::mpsc;
use tonic::Code;
use uuid::Uuid;

use super::Deps;
use super::admitted::Admitted;
use super::host::{Host, SessionRequest};
use super::kill::{self, Killed};
use super::link::{Command, Link};
use super::recorder::Recorder;
use super::registry::Handle;
use super::session_loop::Session;
use super::target::{self, Target};
use crate::config::Policy;
use crate::domain::end::End;
use crate::domain::kind::Kind;
use crate::domain::message::{SecretHash, Size};
use crate::store::sessions::{self, NewSession};
use crate::store::tickets::{self, Ticket};

/// Messages of a client that wait for their session.
const COMMANDS: usize = 32;
/// How often the end of a session is tried to be written; the sweep of another process does it otherwise.
const CLOSE_TRIES: u32 = 10;

/// Who connects and what is asked for.
pub(crate) struct OpenSpec {
    pub(crate) origin: String,
    /// Empty when the connection sent no token.
    pub(crate) principal: String,
    pub(crate) request_id: String,
    pub(crate) ticket: SecretHash,
    pub(crate) allocation_id: Uuid,
    pub(crate) size: Size,
    pub(crate) term: String,
}

/// Burns the ticket and starts the session's task.
///
/// # Errors
/// [`End::TicketRefused`], or the database does not answer.
pub(crate) async fn open(deps: &Deps, spec: OpenSpec, link: Link) -> Result<Handle, End> {
    let burnt = async { tickets::burn(&mut *deps.pool.acquire().await?, spec.ticket).await };
    let ticket = burnt.await.map_err(|error| {
        tracing::error!("burn terminal ticket: {error}");
        End::HostUnreachable
    })?;
    let ticket = ticket.filter(|ticket| fits(ticket, &spec)).ok_or_else(|| {
        tracing::warn!(request_id = spec.request_id, allocation_id = %spec.allocation_id, "refuse terminal ticket");
        End::TicketRefused
    })?;
    let (commands, received) = mpsc::channel(COMMANDS);
    let (kill, killed) = kill::pair();
    let handle = Handle {
        allocation_id: ticket.allocation_id,
        project_id: ticket.project_id,
        principal: ticket.principal.clone(),
        origin: ticket.origin.clone(),
        commands,
        kill,
    };
    // before the target is resolved: a release from now on finds the session
    deps.registry.insert(ticket.session_id, handle.clone());
    let live = live(deps.clone(), ticket, spec, link, received, killed);
    deps.tasks.spawn(origin::carry(live));
    Ok(handle)
}

fn fits(ticket: &Ticket, spec: &OpenSpec) -> bool {
    !ticket.expired
        && ticket.allocation_id == spec.allocation_id
        && ticket.origin == spec.origin
        && (spec.principal.is_empty() || ticket.principal == spec.principal)
}

async fn live(
    deps: Deps,
    ticket: Ticket,
    spec: OpenSpec,
    link: Link,
    mut commands: mpsc::Receiver<Command>,
    mut killed: Killed,
) {
    let session_id = ticket.session_id;
    match admit(&deps, &ticket, &spec).await {
        Err(end) => {
            deps.registry.remove(session_id);
            tracing::info!(%session_id, allocation_id = %ticket.allocation_id, reason = end.reason(), "refuse terminal");
            link.finish(&end).await;
        }
        Ok((admitted, target)) => {
            deps.metrics.open.add(1, &[]);
            tracing::info!(%session_id, allocation_id = %ticket.allocation_id, principal = ticket.principal, "open terminal");
            let (end, carried) =
                match start(admitted, &target, &spec, link.clone(), &mut killed).await {
                    Ok(mut session) => {
                        let end = session.run(&mut commands, &mut killed).await;
                        deps.registry.remove(session_id);
                        session.finish(&end).await;
                        (end, session.carried())
                    }
                    Err(end) => {
                        deps.registry.remove(session_id);
                        link.finish(&end).await;
                        (end, (0, 0))
                    }
                };
            // whoever waits for this session is let go before the row is written
            drop(commands);
            deps.metrics.open.add(-1, &[]);
            deps.metrics
                .ended
                .add(1, &[KeyValue::new("reason", end.reason())]);
            tracing::info!(%session_id, allocation_id = %ticket.allocation_id, reason = end.reason(), "close terminal");
            let closing = Closing {
                principal: &ticket.principal,
                allocation_id: ticket.allocation_id,
                request_id: &spec.request_id,
                reason: end.reason(),
                carried: Some(carried),
            };
            close(&deps, session_id, closing).await;
        }
    }
}

/// Resolves the target and writes the open session with its audit row.
async fn admit(deps: &Deps, ticket: &Ticket, spec: &OpenSpec) -> Result<(Admitted, Target), End> {
    let target = target::resolve(&deps.peers, ticket.allocation_id, &[ticket.project_id])
        .await
        .map_err(|error| match error.reason() {
            ErrorReason::AllocationNotFound | ErrorReason::StateConflict => {
                End::AllocationEnded(error.message().to_owned())
            }
            _ => {
                tracing::error!(session_id = %ticket.session_id, "resolve terminal target: {}", error.chain());
                End::HostUnreachable
            }
        })?;
    // a ticket of a release that knows more kinds
    let kind = Kind::named(&ticket.kind).ok_or(End::TicketRefused)?;
    // it was looked at when the ticket was given out, and may have been changed since
    let recording = deps.recording(kind, ticket.project_id);
    let recording = recording.ok_or(End::RecordingRequired)?;
    let most = deps.config.max_sessions_per_user;
    let written = async {
        let mut tx = deps.pool.begin().await?;
        if sessions::count_open(&mut tx, &ticket.principal).await? >= i64::from(most) {
            return Err(Error::new(
                Code::ResourceExhausted,
                ErrorReason::Quota,
                "too many sessions",
            ));
        }
        let session = NewSession {
            id: ticket.session_id,
            allocation_id: ticket.allocation_id,
            project_id: ticket.project_id,
            principal: &ticket.principal,
            origin: &ticket.origin,
            replica: &deps.replica,
            recorded: recording != Policy::Off,
            kind,
        };
        let open_time = sessions::insert(&mut tx, &session).await?;
        let made = sessions::get(&mut tx, ticket.session_id).await?;
        let detail = json!({
            "allocation_id": ticket.allocation_id,
            "node_id": target.node_id,
            "origin": ticket.origin,
            "recorded": session.recorded,
            "kind": kind.name(),
        });
        let detail = audit::with_digests(detail, None, made.map(TerminalSession::from).as_ref());
        let entry = audit::Entry {
            principal: &ticket.principal,
            action: "terminal.open",
            resource: "session",
            resource_id: &ticket.session_id.to_string(),
            request_id: &spec.request_id,
            detail: audit::in_project(detail, ticket.project_id),
        };
        audit::record(&mut tx, entry).await?;
        tx.commit().await?;
        Ok(open_time.to_jiff())
    };
    let open_time = written.await.map_err(|error: Error| {
        if error.reason() == ErrorReason::Quota {
            return End::TooManySessions(most);
        }
        tracing::error!(session_id = %ticket.session_id, "write terminal session: {}", error.chain());
        End::HostUnreachable
    })?;
    let longest =
        SignedDuration::from_secs(i64::try_from(deps.config.max_seconds).unwrap_or(i64::MAX));
    let admitted = Admitted {
        deps: deps.clone(),
        session_id: ticket.session_id,
        allocation_id: ticket.allocation_id,
        project_id: ticket.project_id,
        principal: ticket.principal.clone(),
        kind,
        recording,
        end_time: open_time.checked_add(longest).unwrap_or(Timestamp::MAX),
    };
    Ok((admitted, target))
}

/// Begins the recording and starts the shell.
async fn start(
    admitted: Admitted,
    target: &Target,
    spec: &OpenSpec,
    link: Link,
    killed: &mut Killed,
) -> Result<Session, End> {
    let deps = admitted.deps.clone();
    let session_id = admitted.session_id;
    let (kind, policy) = (admitted.kind, admitted.recording);
    let starting = async {
        let recorder = Recorder::begin(
            &deps.pool,
            session_id,
            (policy, &deps.config.recording),
            spec.size,
            &spec.term,
        )
        .await?;
        let shell = SessionRequest {
            kind,
            size: spec.size,
            term: &spec.term,
        };
        let host = Host::open(&deps.peers, target, session_id, shell).await?;
        Ok((recorder, host))
    };
    let (recorder, host) = tokio::select! {
        started = starting => started?,
        end = killed.wait() => return Err(end),
    };
    Ok(Session::new(admitted, host, recorder, link))
}

/// The end of a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Closing<'a> {
    pub(crate) principal: &'a str,
    pub(crate) allocation_id: Uuid,
    pub(crate) request_id: &'a str,
    pub(crate) reason: &'a str,
    /// Bytes of input and output; none when the process that counted them is gone.
    pub(crate) carried: Option<(u64, u64)>,
}

/// Writes the end with its audit row.
async fn close(deps: &Deps, session_id: Uuid, closing: Closing<'_>) {
    for attempt in 1..=CLOSE_TRIES {
        let Err(error) = write_close(deps, session_id, closing).await else {
            return;
        };
        tracing::warn!(%session_id, attempt, "retry to write the end: {}", error.chain());
        tokio::time::sleep(Duration::from_millis(200) * attempt).await;
    }
    tracing::error!(%session_id, reason = closing.reason, "leave the end of the session to the sweep");
}

async fn write_close(deps: &Deps, session_id: Uuid, closing: Closing<'_>) -> Result<(), Error> {
    let mut tx = deps.pool.begin().await?;
    record_close(&mut tx, session_id, closing).await?;
    tx.commit().await?;
    Ok(())
}

/// Closes the row and audits it; does nothing when it is closed.
///
/// # Errors
/// Those of the database.
pub(crate) async fn record_close(
    conn: &mut sqlx::PgConnection,
    session_id: Uuid,
    closing: Closing<'_>,
) -> Result<(), Error> {
    let Some(closed) = sessions::close(conn, session_id, closing.reason).await? else {
        return Ok(());
    };
    let project_id = closed.project_id;
    let mut detail = json!({
        "allocation_id": closing.allocation_id,
        "reason": closing.reason,
        "kind": closed.kind,
    });
    if let Some((input, output)) = closing.carried {
        detail["input_bytes"] = input.into();
        detail["output_bytes"] = output.into();
    }
    let after = TerminalSession::from(closed);
    // open, it had neither time nor reason of its end
    let before = TerminalSession {
        close_time: None,
        close_reason: String::new(),
        ..after.clone()
    };
    let detail = audit::with_digests(detail, Some(&before), Some(&after));
    let entry = audit::Entry {
        principal: closing.principal,
        action: "terminal.close",
        resource: "session",
        resource_id: &session_id.to_string(),
        request_id: closing.request_id,
        detail: audit::in_project(detail, project_id),
    };
    audit::record(conn, entry).await
}
