//! Remembers for seconds who a token's bearer is, so that not every call verifies a signature and reads the database.
//!
//! A session is what [`Verifier`](super::verify::Verifier) and the tables of schema `edge` said of one token. It is
//! kept for [`TTL`] at most, and only while this process hears of changes: triggers on principals, memberships, keys,
//! grants, projects and organisations notify [`CHANNEL`], and a notification drops the sessions that it concerns. Without a connection that listens nothing is kept, and
//! each call asks the database. So a principal that is disabled is refused as soon as the notification arrives, and
//! after [`TTL`] even if the network loses it.
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use gpuaas_common::identity::{Bearer, TokenMinter};
use gpuaas_common::{CancellationToken, db};
use moka::sync::Cache;
use sqlx::PgPool;
use sqlx::postgres::PgListener;
use tokio::sync::broadcast;
use uuid::Uuid;

pub use super::changes::{Change, Changes};
use super::verify::Identity;
use crate::contract::route::Route;
use crate::error::ApiError;
use crate::policy::{Grant, Policies, Refusal};
use crate::store::Principal;
use crate::upstream::{Authorization, authorization};

/// Longest lifetime of a session. Well below that of an internal token, which a session keeps one of for each service.
const TTL: Duration = Duration::from_secs(5);
/// Sessions that are kept; the least used go first. One takes about a kilobyte.
const MAX_SESSIONS: u64 = 10_000;
/// The channel on which the database tells of changes to who may call.
const CHANNEL: &str = "edge_access";
/// Projects that an internal token names at most: with more it would not fit into the 16 KiB of headers that a service takes.
pub const MAX_PROJECTS: usize = 200;
/// Changes that are looked up one by one in what is kept; at more than these within [`BURST`] all is dropped each time,
/// which costs less.
const MAX_CHANGES: usize = 64;
/// See [`MAX_CHANGES`].
const BURST: Duration = Duration::from_secs(1);
/// Time between two attempts to listen.
const RETRY: Duration = Duration::from_secs(1);
/// Time without a change after which the connection that listens is asked whether it lives.
const SILENCE: Duration = Duration::from_secs(10);

/// Who a token's bearer is.
#[derive(Debug)]
pub struct Session {
    /// As the token says.
    pub identity: Identity,
    /// As registered.
    pub principal: Principal,
    /// What policies have said of it, by action.
    grants: Mutex<HashMap<String, Arc<Grant>>>,
    /// Internal tokens that were made for it.
    internal: Mutex<HashMap<TokenOf, Authorization>>,
}

/// What an internal token is for: service and action, and its projects by their first and their number.
type TokenOf = (&'static str, String, Option<Uuid>, usize);

impl Session {
    /// A session that was just proven.
    pub fn new(identity: Identity, principal: Principal) -> Self {
        Self {
            identity,
            principal,
            grants: Mutex::default(),
            internal: Mutex::default(),
        }
    }

    /// The session of an identity that is not registered: of no use but to say who it is and to accept an invitation. Its
    /// name is no principal's, and is for records and limits.
    pub fn unregistered(identity: Identity) -> Self {
        let name = format!("{} {}", identity.issuer, identity.subject);
        let principal = Principal {
            name,
            ..Principal::default()
        };
        Self::new(identity, principal)
    }

    /// Whether its identity is a registered principal.
    pub fn is_registered(&self) -> bool {
        !self.principal.id.is_nil()
    }

    /// What policies say of an action of the route, decided at the first call. A refusal is not kept: each is on record.
    ///
    /// # Errors
    /// The refusal.
    pub fn grant(&self, policies: &Policies, route: &Route) -> Result<Arc<Grant>, Refusal> {
        let made = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(grant) = made.get(&route.action) {
            return Ok(grant.clone());
        }
        drop(made);
        let grant = Arc::new(policies.grant(&self.principal, route)?);
        let mut made = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
        made.insert(route.action.clone(), grant.clone());
        Ok(grant)
    }

    /// An internal token for the route's service and action, good in these projects (one, or a part of those in which the action
    /// is allowed), made at the first call; `now` is in seconds since 1970.
    ///
    /// # Errors
    /// Signing failed.
    pub fn internal_token(
        &self,
        minter: &TokenMinter,
        route: &Route,
        projects: &[Uuid],
        now: i64,
    ) -> Result<Authorization, ApiError> {
        let mut made = self.internal.lock().unwrap_or_else(PoisonError::into_inner);
        let first = projects.first().copied();
        let of = (route.service, route.action.clone(), first, projects.len());
        if let Some(token) = made.get(&of) {
            return Ok(token.clone());
        }
        let bearer = self.bearer(route, projects);
        let token = minter.mint_for(route.service, &bearer, now);
        let token = token.map_err(|error| {
            tracing::error!("mint internal token: {error}");
            ApiError::internal()
        })?;
        let token = authorization(&token)?;
        made.insert(of, token.clone());
        Ok(token)
    }

    /// What an internal token for the route says.
    pub fn bearer<'a>(&'a self, route: &'a Route, projects: &'a [Uuid]) -> Bearer<'a> {
        Bearer {
            principal: &self.principal.name,
            projects,
            platform_role: self.principal.platform_role,
            action: Some(&route.access.action),
        }
    }
}

/// A place in the order of changes: what was read before a change is not kept after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(u64);

/// The sessions of this process.
#[derive(Debug)]
pub struct Sessions {
    cache: Cache<[u8; 32], Arc<Session>>,
    /// Odd while a connection listens; raised at every change and whenever the connection comes or goes.
    epoch: AtomicU64,
    /// What has changed.
    changes: broadcast::Sender<Change>,
}

/// Changes that a reader may be behind before it takes all to have changed.
const CHANGES: usize = 256;

impl Default for Sessions {
    fn default() -> Self {
        Self {
            cache: Cache::builder()
                .max_capacity(MAX_SESSIONS)
                .time_to_live(TTL)
                .build(),
            epoch: AtomicU64::new(0),
            changes: broadcast::Sender::new(CHANGES),
        }
    }
}

impl Sessions {
    /// The session of a token whose life is not over, when one is kept; `now` is in seconds since 1970.
    pub fn get(&self, token: &str, now: i64) -> Option<Arc<Session>> {
        let session = self.cache.get(&key(token))?;
        (session.identity.expires > now).then_some(session)
    }

    /// To be taken before the database is asked who somebody is.
    pub fn mark(&self) -> Mark {
        Mark(self.epoch.load(Ordering::SeqCst))
    }

    /// Keeps a session that was read after `mark`, unless something has changed since.
    pub fn keep(&self, token: &str, mark: Mark, session: &Arc<Session>) {
        if !is_listening(mark.0) || self.epoch.load(Ordering::SeqCst) != mark.0 {
            return;
        }
        let key = key(token);
        self.cache.insert(key, session.clone());
        // a change that came in between has emptied the cache before this was in it
        if self.epoch.load(Ordering::SeqCst) != mark.0 {
            self.cache.invalidate(&key);
        }
    }

    /// Forgets all of them at once, after a change of this process's own; other processes hear of it.
    pub fn forget_all(&self) {
        // by two: whether a connection listens has not changed
        self.epoch.fetch_add(2, Ordering::SeqCst);
        self.cache.invalidate_all();
    }

    /// Listens for changes until `shutdown`.
    pub async fn listen(&self, pool: PgPool, shutdown: CancellationToken) {
        loop {
            let heard = shutdown.run_until_cancelled(self.hear(&pool)).await;
            self.forget(false, &[Change::Everybody]);
            let Some(heard) = heard else { return };
            if let Err(error) = heard {
                tracing::warn!("listen for changes of access again: {error}");
            }
            let retry = tokio::time::sleep(RETRY);
            if shutdown.run_until_cancelled(retry).await.is_none() {
                return;
            }
        }
    }

    /// Ends when the connection is lost.
    async fn hear(&self, pool: &PgPool) -> sqlx::Result<()> {
        // by a pool of its own: a connection to a host that vanished keeps its place for as long as it takes the kernel to notice
        let pool = db::sized(1).connect_lazy_with((*pool.connect_options()).clone());
        let mut listener = db::within(SILENCE, PgListener::connect_with(&pool)).await?;
        db::within(SILENCE, listener.listen(CHANNEL)).await?;
        self.forget(true, &[Change::Everybody]);
        // what happened while nobody listened
        self.tell(Change::Everybody);
        let (mut since, mut count) = (Instant::now(), 0);
        loop {
            let heard = match tokio::time::timeout(SILENCE, listener.try_recv()).await {
                Ok(heard) => heard?,
                // a database that is gone without a word is as silent as one with nothing to say
                Err(_) => {
                    db::within(RETRY, sqlx::query("SELECT 1").execute(&mut listener)).await?;
                    continue;
                }
            };
            let Some(heard) = heard else { return Ok(()) };
            let change = Change::read(heard.payload());
            if since.elapsed() > BURST {
                (since, count) = (Instant::now(), 0);
            }
            count += 1;
            if count > MAX_CHANGES {
                self.forget(true, &[Change::Everybody]);
            } else {
                self.forget(true, std::slice::from_ref(&change));
            }
            self.tell(change);
        }
    }

    /// Changes from now on.
    pub fn changes(&self) -> Changes {
        Changes::new(self.changes.subscribe())
    }

    fn tell(&self, change: Change) {
        // nobody may be waiting
        let _ = self.changes.send(change);
    }

    /// Drops the sessions that changes concern. What is being read meanwhile is not kept, whomever it is of.
    fn forget(&self, listening: bool, changes: &[Change]) {
        let next = |epoch: u64| {
            let next = epoch + 1;
            Some(next + u64::from(is_listening(next) != listening))
        };
        let _always_some = self
            .epoch
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        if changes.contains(&Change::Everybody) {
            self.cache.invalidate_all();
            return;
        }
        for (key, session) in &self.cache {
            if changes.iter().any(|one| one.concerns(&session.principal)) {
                self.cache.invalidate(&*key);
            }
        }
    }
}

fn is_listening(epoch: u64) -> bool {
    epoch % 2 == 1
}

/// Tokens are credentials: the cache holds digests of them.
fn key(token: &str) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, token.as_bytes());
    let mut key = [0; 32];
    key.copy_from_slice(digest.as_ref());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(expires: i64) -> Arc<Session> {
        let identity = Identity {
            issuer: "i".to_owned(),
            subject: "s".to_owned(),
            expires,
            ..Identity::default()
        };
        let principal = Principal {
            name: "user:a".to_owned(),
            ..Principal::default()
        };
        Arc::new(Session::new(identity, principal))
    }

    #[test]
    fn a_session_is_kept_only_while_changes_are_heard_of() {
        let sessions = Sessions::default();
        sessions.keep("t", sessions.mark(), &session(100));
        assert!(sessions.get("t", 0).is_none(), "nobody listens");
        sessions.forget(true, &[Change::Everybody]);
        sessions.keep("t", sessions.mark(), &session(100));
        assert!(sessions.get("t", 0).is_some());
        assert!(sessions.get("other", 0).is_none());
        sessions.forget(false, &[Change::Everybody]);
        assert!(sessions.get("t", 0).is_none(), "the connection is lost");
    }

    #[test]
    fn what_was_read_before_a_change_is_not_kept_after_it() {
        let sessions = Sessions::default();
        sessions.forget(true, &[Change::Everybody]);
        let somebody: fn(&Sessions) =
            |sessions| sessions.forget(true, &[Change::Principal(Uuid::from_u128(9))]);
        let everybody: fn(&Sessions) = |sessions| sessions.forget(true, &[Change::Everybody]);
        for change in [Sessions::forget_all, somebody, everybody] {
            let before = sessions.mark();
            change(&sessions);
            sessions.keep("t", before, &session(100));
            assert!(sessions.get("t", 0).is_none());
        }
        sessions.keep("t", sessions.mark(), &session(100));
        assert!(sessions.get("t", 0).is_some());
        sessions.forget_all();
        assert!(sessions.get("t", 0).is_none());
    }

    #[test]
    fn a_change_drops_the_sessions_that_it_concerns_and_no_others() {
        use crate::store::Role;
        let id = Uuid::from_u128;
        let sessions = Sessions::default();
        sessions.forget(true, &[Change::Everybody]);
        let of = |principal: Principal| {
            let identity = Identity {
                expires: 100,
                ..Identity::default()
            };
            Arc::new(Session::new(identity, principal))
        };
        let alice = Principal {
            id: id(1),
            roles: vec![(id(11), Role::Member)],
            owners: vec![id(21)],
            ..Principal::default()
        };
        let olga = Principal {
            id: id(2),
            organisations: vec![(id(22), Role::Owner)],
            ..Principal::default()
        };
        for (payload, alice_goes, olga_goes) in [
            (id(1).to_string(), true, false),
            (id(2).to_string(), false, true),
            (id(3).to_string(), false, false),
            (format!("organisation:{}", id(21)), true, false),
            (format!("organisation:{}", id(22)), false, true),
            (format!("organisation:{}", id(23)), false, false),
            (String::new(), true, true),
            ("planet:earth".to_owned(), true, true),
        ] {
            sessions.keep("alice", sessions.mark(), &of(alice.clone()));
            sessions.keep("olga", sessions.mark(), &of(olga.clone()));
            sessions.forget(true, &[Change::read(&payload)]);
            let gone = |token| sessions.get(token, 0).is_none();
            assert_eq!(
                (gone("alice"), gone("olga")),
                (alice_goes, olga_goes),
                "{payload:?}"
            );
        }
    }

    #[test]
    fn a_session_ends_with_its_token() {
        let sessions = Sessions::default();
        sessions.forget(true, &[Change::Everybody]);
        sessions.keep("t", sessions.mark(), &session(100));
        assert!(sessions.get("t", 99).is_some());
        assert!(sessions.get("t", 100).is_none());
    }

    #[test]
    fn an_action_gets_one_internal_token_for_the_life_of_a_session() {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("key");
        let minter = TokenMinter::from_pem(&pair.serialize_pem()).expect("minter");
        let routes = crate::routes().expect("served");
        let policies = Policies::open(None, &routes).expect("policies");
        let session = session(100);
        let token = |path: &str, now| {
            let found = routes.lookup(&http::Method::GET, path);
            let crate::contract::route::Lookup::Found(route, _) = found else {
                panic!("{path} is a route");
            };
            let grant = session.grant(&policies, route).expect("allowed");
            let token = session.internal_token(&minter, route, &grant.projects, now);
            token.expect("made")
        };
        assert_eq!(token("/api/v1/usage", 1), token("/api/v1/usage", 2));
        assert_ne!(token("/api/v1/usage", 1), token("/api/v1/skus", 1));
        assert_ne!(
            token("/api/v1/allocations", 1),
            token("/api/v1/allocations/a", 1)
        );
    }
}
