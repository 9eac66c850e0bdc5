//! A streaming RPC as HTTP: server-sent events for who asks for them, otherwise one JSON object per line.
//!
//! Nothing is collected: the next message is taken from the service when the client's connection has room for it, and
//! the service's stream ends when the client goes. While it is open, the caller is checked again, also while the client
//! takes nothing: a stream ends with the token or the membership it was opened by. Whatever ends it after its start is its
//! last line or event; a client that does not take that either is disconnected.
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use gpuaas_common::CancellationToken;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use opentelemetry::KeyValue;
use opentelemetry::metrics::UpDownCounter;
use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};
use sqlx::PgPool;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::DropGuard;
use tonic::Code;

use super::admission::Place;
use super::answer::IsStream;
use super::piece::{Form, Pieces, RESUME_TOKEN};
use crate::auth::sessions::Session;
use crate::contract::access::{Access, Audience};
use crate::error::ApiError;
use crate::store::{self, Principal};
use crate::upstream::Messages;

/// Where the browser puts the id of the last event it got.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Tells proxies not to collect the answer.
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// What a browser waits before it opens a stream again, in milliseconds.
const RETRY: &str = "retry: 1000\n\n";

/// What the streams of this process share.
#[derive(Debug)]
pub struct Streams {
    access: Duration,
    shutdown: CancellationToken,
    open: UpDownCounter<i64>,
    pieces: Pieces,
}

impl Streams {
    /// Their callers are checked again every `access`, all are ended at `shutdown`.
    pub fn new(access: Duration, shutdown: CancellationToken, open: UpDownCounter<i64>) -> Self {
        Self {
            access: access.max(Duration::from_millis(50)),
            shutdown,
            open,
            pieces: Pieces::default(),
        }
    }
}

/// Who opened a stream, and by what.
#[derive(Debug)]
pub struct Subscriber {
    /// As it was when the stream was opened.
    pub session: Arc<Session>,
    /// What the method demands.
    pub access: Access,
}

impl Subscriber {
    /// Whether the stream may go on for who this principal is now.
    fn may_go_on(&self, now: Option<&Principal>) -> bool {
        let Some(now) = now else { return false };
        let still_member = |project| now.projects.contains(project);
        match self.access.audience {
            Audience::Admin => now.admin,
            _ => self.session.principal.projects.iter().all(still_member),
        }
    }
}

/// Puts the id of the last event that a browser got where the request says where to go on. It wins over the address:
/// a browser that opens a stream again repeats the address it began with.
pub fn resume(message: &mut DynamicMessage, headers: &HeaderMap) {
    let id = headers
        .get(LAST_EVENT_ID)
        .and_then(|value| value.to_str().ok())
        .filter(|id| !id.is_empty());
    if let Some(id) = id
        && message
            .descriptor()
            .get_field_by_name(RESUME_TOKEN)
            .is_some()
    {
        message.set_field_by_name(RESUME_TOKEN, Value::String(id.to_owned()));
    }
}

/// Counts one open stream while it lives.
struct Counted {
    open: UpDownCounter<i64>,
    labels: [KeyValue; 1],
    _place: Place,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.add(-1, &self.labels);
    }
}

/// A stream under way.
struct Running {
    messages: Messages,
    form: Form,
    pieces: Pieces,
    principal: String,
    ending: watch::Receiver<Option<Ending>>,
    shutdown: CancellationToken,
    request_id: String,
    is_over: bool,
    _gone: DropGuard,
    _counted: Counted,
}

/// What the caller has lost by which the stream was opened.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Expired,
    LostAccess,
}

/// Checks the caller of a stream, whether or not the client takes anything of it.
struct CallerCheck {
    subscriber: Subscriber,
    pool: PgPool,
    expires: Instant,
    every: Duration,
}

/// The answer that carries a stream.
pub fn respond(
    streams: &Streams,
    place: Place,
    messages: Messages,
    subscriber: Subscriber,
    (pool, headers, route, request_id): (PgPool, &HeaderMap, &str, &str),
) -> Response {
    let form = Form::requested(headers);
    let labels = [KeyValue::new("route", route.to_owned())];
    streams.open.add(1, &labels);
    let left = subscriber.session.identity.expires - jiff::Timestamp::now().as_second();
    let principal = subscriber.session.principal.name.clone();
    let check = CallerCheck {
        subscriber,
        pool,
        expires: Instant::now() + Duration::from_secs(u64::try_from(left).unwrap_or(0)),
        every: streams.access,
    };
    let gone = CancellationToken::new();
    let (ended, ending) = watch::channel(None);
    let over = CancellationToken::new();
    tokio::spawn({
        let (gone, over) = (gone.clone(), over.clone());
        async move {
            let ending = tokio::select! {
                () = gone.cancelled() => return,
                ending = check.ending() => ending,
            };
            ended.send_replace(Some(ending));
            over.cancel();
            // until then it says so
            gone.cancelled().await;
        }
    });
    let running = Running {
        messages,
        form,
        pieces: streams.pieces.clone(),
        principal,
        ending,
        shutdown: streams.shutdown.clone(),
        request_id: request_id.to_owned(),
        is_over: false,
        _gone: gone.clone().drop_guard(),
        _counted: Counted {
            open: streams.open.clone(),
            labels,
            _place: place,
        },
    };
    let parts = futures::stream::unfold(running, |mut running| async move {
        if running.is_over {
            return None;
        }
        let part = running.next().await?;
        Some((Ok::<_, std::convert::Infallible>(part), running))
    });
    let body = match form {
        Form::Lines => Body::from_stream(parts),
        Form::Events => {
            use futures::StreamExt as _;
            let first = futures::stream::iter([Ok(Bytes::from_static(RETRY.as_bytes()))]);
            Body::from_stream(first.chain(parts))
        }
    };
    let mut response = Response::new(body);
    response.extensions_mut().insert(IsStream { over, gone });
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, form.content_type());
    headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
    response
}

impl Running {
    /// The next piece of the body; nothing when the service has ended the stream.
    async fn next(&mut self) -> Option<Bytes> {
        let ending = tokio::select! {
            biased;
            () = self.shutdown.cancelled() => restarting(),
            ending = lost(&mut self.ending) => match ending {
                Ending::Expired => expired(),
                Ending::LostAccess => lost_access(),
            },
            message = self.messages.next() => {
                match message?.and_then(|message| self.pieces.of(self.form, message)) {
                    Ok(piece) => return Some(piece),
                    Err(error) => error,
                }
            }
        };
        Some(self.last(&ending))
    }

    fn last(&mut self, error: &ApiError) -> Bytes {
        self.is_over = true;
        tracing::info!(
            request_id = self.request_id,
            principal = self.principal,
            reason = error.reason(),
            "end stream"
        );
        self.form.error(&error.body(&self.request_id))
    }
}

/// What the caller has lost, as soon as that is known.
async fn lost(ending: &mut watch::Receiver<Option<Ending>>) -> Ending {
    let lost = ending.wait_for(Option::is_some).await;
    match lost.ok().and_then(|lost| *lost) {
        Some(lost) => lost,
        // nobody checks any more: the process ends
        None => std::future::pending().await,
    }
}

impl CallerCheck {
    /// Returns when the stream may not go on.
    async fn ending(self) -> Ending {
        let mut checks = tokio::time::interval_at(Instant::now() + self.every, self.every);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(self.expires) => return Ending::Expired,
                _ = checks.tick() => {
                    if self.has_lost_access().await {
                        return Ending::LostAccess;
                    }
                }
            }
        }
    }

    async fn has_lost_access(&self) -> bool {
        match store::find_principal(&self.pool, &self.subscriber.session.identity).await {
            Ok(now) => !self.subscriber.may_go_on(now.as_ref()),
            Err(error) => {
                // the database will answer again; until then what was true stays
                tracing::warn!("check the reader of a stream later: {error}");
                false
            }
        }
    }
}

fn restarting() -> ApiError {
    ApiError::new(
        Code::Unavailable,
        ErrorReason::DependencyUnavailable,
        "The gateway restarts. Open the stream again with the last resume token.",
    )
}

fn expired() -> ApiError {
    ApiError::new(
        Code::Unauthenticated,
        ErrorReason::CredentialExpired,
        "The token has expired. Get a new one and open the stream again with the last resume token.",
    )
}

fn lost_access() -> ApiError {
    ApiError::new(
        Code::PermissionDenied,
        ErrorReason::PermissionDenied,
        "Your access has changed. Open the stream again to see what you still may.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::verify::Identity;

    #[test]
    fn a_stream_goes_on_only_while_nothing_was_taken_from_its_reader() {
        let project = uuid::Uuid::from_u128;
        let principal = |admin, projects: &[u128]| Principal {
            name: "user:a".to_owned(),
            admin,
            projects: projects.iter().copied().map(project).collect(),
        };
        let subscriber = |audience, who| Subscriber {
            session: Arc::new(Session::new(
                Identity {
                    issuer: "i".to_owned(),
                    subject: "s".to_owned(),
                    expires: 0,
                },
                who,
            )),
            access: Access {
                action: "a.b".to_owned(),
                resource: "c".to_owned(),
                audience,
                callers: Vec::new(),
            },
        };
        let user = subscriber(Audience::User, principal(false, &[1, 2]));
        let admin = subscriber(Audience::Admin, principal(true, &[]));
        for (subscriber, now, goes_on) in [
            (&user, Some(principal(false, &[2, 1, 3])), true),
            (&user, Some(principal(false, &[1])), false),
            (&user, None, false),
            (&admin, Some(principal(true, &[])), true),
            (&admin, Some(principal(false, &[])), false),
        ] {
            assert_eq!(subscriber.may_go_on(now.as_ref()), goes_on, "{now:?}");
        }
    }
}
