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
use crate::auth::sessions::{Changes, Session};
use crate::contract::route::Route;
use crate::error::ApiError;
use crate::policy::{Grant, Policies};
use crate::store::{self, Principal};
use crate::upstream::Messages;

/// Where the browser puts the id of the last event it got.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Tells proxies not to collect the answer.
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// Longest time after which a stream ends by itself, with a credential that does not expire.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);
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
pub struct Subscriber {
    /// As it was when the stream was opened.
    pub session: Arc<Session>,
    /// What happens to it since.
    pub changes: Changes,
    /// What it may read by it.
    pub grant: Grant,
    /// What it reads.
    pub route: Route,
    /// Who may do what.
    pub policies: Arc<Policies>,
}

impl Subscriber {
    /// Whether the stream may go on for who this principal is now.
    fn may_go_on(&self, now: Option<&Principal>) -> bool {
        now.is_some_and(|now| {
            let grant = self.policies.grant(now, &self.route);
            grant.is_ok_and(|grant| grant.covers(&self.grant))
        })
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
        expires: Instant::now()
            + Duration::from_secs(u64::try_from(left).unwrap_or(0)).min(LONGEST),
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
    async fn ending(mut self) -> Ending {
        let session = self.subscriber.session.clone();
        let mut checks = tokio::time::interval_at(Instant::now() + self.every, self.every);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(self.expires) => return Ending::Expired,
                () = self.subscriber.changes.of(&session.principal) => {}
                _ = checks.tick() => {}
            }
            if self.has_lost_access().await {
                return Ending::LostAccess;
            }
        }
    }

    async fn has_lost_access(&self) -> bool {
        let identity = &self.subscriber.session.identity;
        let now = async {
            if store::has_signed_out(&self.pool, identity).await? {
                return Ok(None);
            }
            store::find_principal(&self.pool, identity).await
        };
        match now.await {
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
    use http::Method;
    use uuid::Uuid;

    use super::*;
    use crate::auth::sessions::Sessions;
    use crate::auth::verify::Identity;
    use crate::contract::route::Lookup;
    use crate::store::{AllocationPermission, LetIn, PlatformRole, Role};
    use crate::transcode::request::bind;

    fn principal(platform_role: Option<PlatformRole>, roles: &[(u128, Role)]) -> Principal {
        let of = |(project, role): &(u128, Role)| (Uuid::from_u128(*project), *role);
        Principal {
            name: "user:a".to_owned(),
            platform_role,
            roles: roles.iter().map(of).collect(),
            owners: vec![Uuid::nil(); roles.len()],
            ..Principal::default()
        }
    }

    #[test]
    fn a_stream_goes_on_only_while_nothing_was_taken_from_its_reader() {
        use Role::{Billing, Member, Viewer};
        let routes = crate::routes().expect("served");
        let policies = Arc::new(Policies::open(None, &routes).expect("policies"));
        let sessions = Sessions::default();
        let subscriber = |path: &str, who: Principal| {
            let Lookup::Found(route, _) = routes.lookup(&Method::GET, path) else {
                panic!("{path} is a route");
            };
            Subscriber {
                changes: sessions.changes(),
                grant: policies.grant(&who, route).expect("allowed"),
                session: Arc::new(Session::new(Identity::default(), who)),
                route: route.clone(),
                policies: policies.clone(),
            }
        };
        let user = subscriber(
            "/api/v1/allocations:watch",
            principal(None, &[(1, Member), (2, Member)]),
        );
        let admin = subscriber(
            "/api/v1/admin/nodes:watch",
            principal(Some(PlatformRole::Operator), &[]),
        );
        for (subscriber, now, goes_on) in [
            (
                &user,
                Some(principal(None, &[(2, Member), (1, Member), (3, Member)])),
                true,
            ),
            (
                &user,
                Some(principal(None, &[(2, Viewer), (1, Member)])),
                true,
            ),
            (
                &user,
                Some(principal(None, &[(2, Billing), (1, Member)])),
                false,
            ),
            (&user, Some(principal(None, &[(1, Member)])), false),
            (&user, None, false),
            (
                &admin,
                Some(principal(Some(PlatformRole::Admin), &[])),
                true,
            ),
            (
                &admin,
                Some(principal(Some(PlatformRole::Auditor), &[])),
                true,
            ),
            (&admin, Some(principal(None, &[])), false),
        ] {
            assert_eq!(subscriber.may_go_on(now.as_ref()), goes_on, "{now:?}");
        }
    }

    #[test]
    fn a_serial_log_ends_with_the_grant_that_it_is_read_by_and_with_no_other() {
        let routes = crate::routes().expect("served");
        let policies = Arc::new(Policies::open(None, &routes).expect("policies"));
        let let_into = |allocations: &[u128], role| Principal {
            let_in: allocations
                .iter()
                .map(|allocation| LetIn {
                    allocation: Uuid::from_u128(*allocation),
                    project: Uuid::from_u128(1),
                    permission: AllocationPermission::SerialLog,
                })
                .collect(),
            ..principal(None, &[(1, role)])
        };
        let path = format!("/api/v1/allocations/{}/serial-log", Uuid::from_u128(7));
        let Lookup::Found(route, variables) = routes.lookup(&Method::GET, &path) else {
            panic!("{path} is a route");
        };
        let message = bind(route, &variables, None, &[]).expect("a request");
        let reader = let_into(&[7, 8], Role::Viewer);
        let grant = policies.grant(&reader, route).expect("let in");
        assert_eq!(grant.check(&message), Ok(()));
        let subscriber = Subscriber {
            changes: Sessions::default().changes(),
            grant: grant.for_request(&message),
            session: Arc::new(Session::new(Identity::default(), reader)),
            route: route.clone(),
            policies: policies.clone(),
        };
        for (now, goes_on) in [
            (let_into(&[7], Role::Viewer), true),
            (let_into(&[], Role::Member), true),
            (let_into(&[8], Role::Viewer), false),
            (let_into(&[], Role::Viewer), false),
            // a grant is worth nothing without the membership
            (
                Principal {
                    roles: Vec::new(),
                    owners: Vec::new(),
                    ..let_into(&[7], Role::Viewer)
                },
                false,
            ),
        ] {
            assert_eq!(subscriber.may_go_on(Some(&now)), goes_on, "{now:?}");
        }
    }
}
