//! A service's stream that somebody reads, in whichever way it is shown.
//!
//! Nothing is collected: the next message is taken from the service when the reader's connection has room for it, and
//! the service's stream ends when the reader goes. While it is open, the reader is checked again, also while it
//! takes nothing: a stream ends with the token, key or membership it was opened by.
pub(crate) mod piece;

use std::sync::Arc;
use std::time::Duration;

use gpuaas_common::CancellationToken;
use opentelemetry::KeyValue;
use opentelemetry::metrics::UpDownCounter;
use sqlx::PgPool;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::DropGuard;

use crate::auth::sessions::{Changes, Session};
use crate::contract::route::Route;
use crate::error::ApiError;
use crate::limits::admission::Place;
use crate::policy::{Grant, Policies};
use crate::store::{self, Principal};
use crate::upstream::{Encoded, Messages};
use piece::Pieces;

/// Longest time after which a stream ends by itself, with a credential that does not expire.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// What the streams of this process share.
#[derive(Debug)]
pub struct Streams {
    access: Duration,
    shutdown: CancellationToken,
    open: UpDownCounter<i64>,
    /// What was written a moment ago of messages that several read.
    pub(crate) pieces: Pieces,
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

/// A stream that is open and has a place. Dropped, it ends.
pub struct Subscription {
    messages: Messages,
    principal: String,
    request_id: String,
    ending: watch::Receiver<Option<Ending>>,
    shutdown: CancellationToken,
    over: CancellationToken,
    gone: DropGuard,
    _counted: Counted,
}

/// Why a stream ends that its service has not ended.
#[derive(Debug)]
pub enum Ended {
    /// The gateway restarts.
    Restarting,
    /// The token is as old as it may be.
    Expired,
    /// Its reader may not read it any more.
    LostAccess,
    /// The service, or the way to it, has failed.
    Failed(ApiError),
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

impl Subscription {
    /// Reads on in what a service has begun to send, as long as its reader may.
    pub fn begin(
        streams: &Streams,
        pool: PgPool,
        (place, messages, subscriber): (Place, Messages, Subscriber),
        request_id: &str,
    ) -> Self {
        let labels = [KeyValue::new("route", subscriber.route.pattern.clone())];
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
        Self {
            messages,
            principal,
            request_id: request_id.to_owned(),
            ending,
            shutdown: streams.shutdown.clone(),
            over,
            gone: gone.drop_guard(),
            _counted: Counted {
                open: streams.open.clone(),
                labels,
                _place: place,
            },
        }
    }

    /// Who reads it.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// The request that it was opened by.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// Cancelled when its reader has lost what it was opened by, whether or not that is taken.
    pub(crate) fn over(&self) -> CancellationToken {
        self.over.clone()
    }

    /// Cancelled when it has ended.
    pub(crate) fn gone(&self) -> CancellationToken {
        self.gone.token().clone()
    }

    /// The next message; nothing when the service has ended the stream.
    pub async fn next(&mut self) -> Option<Result<Encoded, Ended>> {
        tokio::select! {
            biased;
            ended = interrupted(&self.shutdown, &mut self.ending) => Some(Err(ended)),
            message = self.messages.next() => Some(message?.map_err(Ended::Failed)),
        }
    }

    /// Returns when its reader may not go on, whatever there is to read.
    pub async fn interrupted(&mut self) -> Ended {
        interrupted(&self.shutdown, &mut self.ending).await
    }

    /// Says for the log why it ends.
    pub fn note_end(&self, reason: &str) {
        tracing::info!(
            request_id = self.request_id,
            principal = self.principal,
            reason,
            "end stream"
        );
    }
}

async fn interrupted(
    shutdown: &CancellationToken,
    ending: &mut watch::Receiver<Option<Ending>>,
) -> Ended {
    tokio::select! {
        biased;
        () = shutdown.cancelled() => Ended::Restarting,
        ending = lost(ending) => match ending {
            Ending::Expired => Ended::Expired,
            Ending::LostAccess => Ended::LostAccess,
        },
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

#[cfg(test)]
mod tests {
    use http::Method;
    use uuid::Uuid;

    use super::*;
    use crate::auth::sessions::Sessions;
    use crate::auth::verify::Identity;
    use crate::contract::route::Lookup;
    use crate::store::{AllocationPermission, GrantedAllocation, PlatformRole, Role};
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
        let with_grants = |allocations: &[u128], role| Principal {
            granted: allocations
                .iter()
                .map(|allocation| GrantedAllocation {
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
        let reader = with_grants(&[7, 8], Role::Viewer);
        let grant = policies.grant(&reader, route).expect("allowed");
        assert_eq!(grant.check(&message), Ok(()));
        let subscriber = Subscriber {
            changes: Sessions::default().changes(),
            grant: grant.for_request(&message),
            session: Arc::new(Session::new(Identity::default(), reader)),
            route: route.clone(),
            policies: policies.clone(),
        };
        for (now, goes_on) in [
            (with_grants(&[7], Role::Viewer), true),
            (with_grants(&[], Role::Member), true),
            (with_grants(&[8], Role::Viewer), false),
            (with_grants(&[], Role::Viewer), false),
            // a grant is worth nothing without the membership
            (
                Principal {
                    roles: Vec::new(),
                    owners: Vec::new(),
                    ..with_grants(&[7], Role::Viewer)
                },
                false,
            ),
        ] {
            assert_eq!(subscriber.may_go_on(Some(&now)), goes_on, "{now:?}");
        }
    }
}
