//! One WebSocket: its messages to the terminal gateway and back, pings, and whether its user still has access.
use std::time::{Duration, Instant};

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use gpuaas_common::client::{REQUEST_ID, RequestId};
use gpuaas_common::db;
use gpuaas_proto::gpuaas::internal::terminal::v1 as pb;
use gpuaas_proto::gpuaas::internal::terminal::v1::relay_request::Message as Request;
use gpuaas_proto::gpuaas::internal::terminal::v1::relay_response::Message as Answer;
use gpuaas_proto::gpuaas::internal::terminal::v1::terminal_relay_service_client::TerminalRelayServiceClient;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use uuid::Uuid;

use crate::app::App;
use crate::auth::verify::Identity;
use crate::limits::terminals::Terminals;
use crate::store::{self, Principal};

pub(super) use pb::Hello;

/// Messages of the client that wait; a client that sends faster waits in its own socket.
const WAITING: usize = 4;
/// Pings without any sign of life.
const PINGS: u32 = 3;
/// Longest wait for the client's own goodbye.
const GOODBYE: Duration = Duration::from_secs(2);
/// Code of a close that the protocol has no other for: the part behind does not answer.
const BAD_GATEWAY: u16 = 4502;

/// The action whose permission a terminal needs as long as it is open.
const OPEN: &str = "terminal.create";
/// Code of a close because its user has too many.
const TOO_MANY: u16 = 4409;
/// Code of a close because its user may not use the allocation any more.
const ACCESS_LOST: u16 = 4403;
/// Limit of one check of access; the next one asks again.
const CHECK: Duration = Duration::from_secs(5);
/// Code of a close because the client answers no ping.
const SILENT: u16 = 4408;
/// Longest wait for the terminal gateway's own goodbye.
const FAREWELL: Duration = Duration::from_secs(5);

type Requests = mpsc::Sender<pb::RelayRequest>;

/// Whether the user of a WebSocket may use the terminal. A ticket and a resume token are good for a while after they were given
/// out, and so prove nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Not checked yet: of what the client says, only its first message passes, and of the session nothing.
    Unknown,
    Allowed,
    /// Nothing passes any more but why the session ends.
    Lost,
}

/// Whose session a WebSocket is attached to.
#[derive(Clone, Debug)]
struct Attached {
    /// Of the terminal gateway; none when it names none.
    session: Option<Uuid>,
    principal: String,
    project: Uuid,
    /// Where it leads; none when a terminal gateway of the release before does not say.
    allocation: Option<Uuid>,
}

fn request(message: Request) -> pb::RelayRequest {
    pb::RelayRequest {
        message: Some(message),
    }
}

/// Relays a WebSocket until one side ends it.
pub(super) async fn run(app: &App, socket: WebSocket, hello: Hello) {
    let request_id = hello.request_id.clone();
    let (mut sink, mut source) = socket.split();
    let (requests, stream) = mpsc::channel(WAITING);
    let opened = REQUEST_ID
        .scope(
            RequestId(request_id.clone()),
            open(app, &requests, hello, stream),
        )
        .await;
    let ended = match opened {
        Ok(answers) => {
            let (attached, seen) = watch::channel(None);
            let (access, known) = watch::channel(Access::Unknown);
            let ping_timeout = app.terminals.ping() * PINGS;
            tokio::select! {
                close = from_client(&mut source, &requests, ping_timeout, known.clone()) => close,
                close = to_client(&app.terminals, &mut sink, answers, &attached, known) => close,
                close = keep_access(app, seen, &requests, &access) => Some(close),
            }
        }
        Err(status) => {
            tracing::warn!(request_id, "upstream failed: {}", status.message());
            Some(CloseFrame {
                code: BAD_GATEWAY,
                reason: Utf8Bytes::from_static("host_unreachable"),
            })
        }
    };
    let goodbye = async {
        if sink.send(Message::Close(ended)).await.is_ok() {
            while let Some(Ok(_)) = source.next().await {}
        }
    };
    // a client that is gone needs no goodbye
    let _ = tokio::time::timeout(GOODBYE, goodbye).await;
}

async fn open(
    app: &App,
    requests: &Requests,
    hello: Hello,
    stream: mpsc::Receiver<pb::RelayRequest>,
) -> Result<Streaming<pb::RelayResponse>, Status> {
    // the receiver is in hand
    let _ = requests.send(request(Request::Hello(hello))).await;
    let channel = app
        .peers
        .channel("terminal-gateway")
        .map_err(Status::from)?;
    let answers = TerminalRelayServiceClient::new(channel)
        .relay(ReceiverStream::new(stream))
        .await?;
    Ok(answers.into_inner())
}

/// Hands the client's messages on until it is gone, silent, or nobody takes them. The first one says whose session it is;
/// those after it wait until that user's access is known, and are dropped when there is none.
async fn from_client(
    source: &mut SplitStream<WebSocket>,
    requests: &Requests,
    ping_timeout: Duration,
    mut access: watch::Receiver<Access>,
) -> Option<CloseFrame> {
    let mut is_first = true;
    loop {
        let message = match tokio::time::timeout(ping_timeout, source.next()).await {
            Ok(Some(Ok(Message::Text(text)))) => Request::Text(text.as_str().to_owned()),
            Ok(Some(Ok(Message::Binary(data)))) => Request::Binary(data.into()),
            Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => continue,
            Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) => return None,
            Err(_) => {
                let silent = Request::Silent(pb::Silent {});
                return Some(end(requests, silent, (SILENT, "silent")).await);
            }
        };
        if !std::mem::take(&mut is_first) {
            let allowed = access.wait_for(|access| *access == Access::Allowed);
            if allowed.await.is_err() {
                return None;
            }
        }
        if requests.send(request(message)).await.is_err() {
            // what ended the call ends the connection, with its reason
            return std::future::pending().await;
        }
    }
}

/// Tells the terminal gateway why the connection ends; it says goodbye. Returns how to close where it is stuck, or where a
/// client that takes nothing keeps it from that.
async fn end(requests: &Requests, why: Request, (code, reason): (u16, &'static str)) -> CloseFrame {
    let told = async {
        // a call that has ended needs no order to end
        let _ = requests.send(request(why)).await;
        std::future::pending::<()>().await;
    };
    let _ = tokio::time::timeout(FAREWELL, told).await;
    CloseFrame {
        code,
        reason: Utf8Bytes::from_static(reason),
    }
}

/// Hands answers on until the last one, which says how to close, or until the client takes none for as long as it may be silent.
/// Those of a session wait until its user's access is known; when there is none, only the last words pass.
async fn to_client(
    terminals: &Terminals,
    sink: &mut SplitSink<WebSocket, Message>,
    mut answers: Streaming<pb::RelayResponse>,
    attached: &watch::Sender<Option<Attached>>,
    mut access: watch::Receiver<Access>,
) -> Option<CloseFrame> {
    let patience = terminals.ping() * PINGS;
    let mut pings = tokio::time::interval(terminals.ping());
    pings.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // of whoever it is attached for, who is not known before
    let mut of_principal = None;
    let mut is_attached = false;
    // the last text since access was lost
    let mut goodbye = None;
    loop {
        let is_held = is_attached && *access.borrow_and_update() == Access::Unknown;
        let message = tokio::select! {
            changed = access.changed(), if is_held => {
                changed.ok()?;
                continue;
            }
            answer = answers.message(), if !is_held => match answer.ok().flatten()?.message? {
                Answer::Text(text) => Message::Text(text.into()),
                Answer::Binary(data) => Message::Binary(data.into()),
                Answer::Attached(session) => {
                    // the former one is given back first
                    drop(of_principal.take());
                    of_principal = terminals.share(&session.principal);
                    if of_principal.is_none() {
                        tracing::info!(principal = session.principal, "refuse one more WebSocket");
                        let reason = Utf8Bytes::from_static("too_many_sessions");
                        return Some(CloseFrame { code: TOO_MANY, reason });
                    }
                    is_attached = true;
                    attached.send_replace(Some(Attached {
                        session: session.session_id.parse().ok(),
                        project: session.project_id.parse().ok()?,
                        allocation: session.allocation_id.parse().ok(),
                        principal: session.principal,
                    }));
                    continue;
                }
                Answer::Close(close) => {
                    if let Some(goodbye) = goodbye {
                        say(sink, goodbye, patience).await?;
                    }
                    let code = u16::try_from(close.code).unwrap_or(BAD_GATEWAY);
                    return Some(CloseFrame { code, reason: close.reason.into() });
                }
            },
            _ = pings.tick() => Message::Ping(Default::default()),
        };
        let is_lost = *access.borrow() == Access::Lost;
        match message {
            Message::Text(_) if is_lost => goodbye = Some(message),
            Message::Binary(_) if is_lost => {}
            _ => say(sink, message, patience).await?,
        }
    }
}

/// Sends a message; none when the client is gone or does not take it in time.
async fn say(
    sink: &mut SplitSink<WebSocket, Message>,
    message: Message,
    patience: Duration,
) -> Option<()> {
    let sent = tokio::time::timeout(patience, sink.send(message)).await;
    sent.ok()?.ok()
}

/// Checks at once and again and again that the user may use the project. Ends the session when not; returns how to close where
/// the terminal gateway does not say it.
async fn keep_access(
    app: &App,
    mut attached: watch::Receiver<Option<Attached>>,
    requests: &Requests,
    access: &watch::Sender<Access>,
) -> CloseFrame {
    let mut checks = tokio::time::interval(app.terminals.access());
    checks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // when it was first seen attached
    let mut since = None;
    loop {
        tokio::select! {
            changed = attached.changed() => {
                if changed.is_err() {
                    return std::future::pending().await;
                }
                since = None;
            }
            _ = checks.tick() => {}
        }
        let Some(now) = attached.borrow_and_update().clone() else {
            continue;
        };
        let since = *since.get_or_insert_with(Instant::now);
        match db::within(CHECK, may_go_on(app, &now, since.elapsed())).await {
            Ok(true) => {
                access.send_replace(Access::Allowed);
            }
            Ok(false) => {
                // before the session hears of it: whatever waits to be handed on stays here
                access.send_replace(Access::Lost);
                let lost = Request::AccessLost(pb::AccessLost {});
                return end(requests, lost, (ACCESS_LOST, "access_lost")).await;
            }
            // a database that is away for a moment takes nobody's access away, and gives none
            Err(error) => tracing::warn!("skip a check of access: {error}"),
        }
    }
}

/// Whether a terminal may go on that has been attached for so long.
async fn may_go_on(app: &App, attached: &Attached, attached_for: Duration) -> sqlx::Result<bool> {
    let opener = match attached.session {
        Some(session) => store::terminal_opener(&app.pool, session).await?,
        None => None,
    };
    let principal = match opener {
        Some(identity) => of_credential(app, &identity).await?,
        // a gateway of the release before gave out its ticket: by any sign-in or key of the principal
        None => of_name(app, &attached.principal, attached_for).await?,
    };
    let own = principal.filter(|principal| principal.name == attached.principal);
    let to = (attached.project, attached.allocation);
    Ok(own.is_some_and(|principal| app.policies.allows_in(&principal, OPEN, to)))
}

/// The principal by the very sign-in or key that a terminal was opened by, while that is good.
async fn of_credential(app: &App, identity: &Identity) -> sqlx::Result<Option<Principal>> {
    if store::has_signed_out(&app.pool, identity).await? {
        return Ok(None);
    }
    store::find_principal(&app.pool, identity).await
}

/// The principal of a name that has not signed out since.
async fn of_name(app: &App, name: &str, within: Duration) -> sqlx::Result<Option<Principal>> {
    if store::signed_out_within(&app.pool, name, within).await? {
        return Ok(None);
    }
    store::principal_of_name(&app.pool, name).await
}
