//! Remembers for seconds who a token's bearer is, so that not every call verifies a signature and reads the database.
//!
//! A session is what [`Verifier`](super::verify::Verifier) and the tables of schema `edge` said of one token. It is
//! kept for [`LIFE`] at most, and only while this process hears of changes: triggers on principals and memberships
//! notify [`CHANNEL`], and a notification empties the cache. Without a connection that listens nothing is kept, and
//! each call asks the database. So a principal that is disabled is refused as soon as the notification arrives, and
//! after [`LIFE`] even if the network loses it.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest;
use gpuaas_common::CancellationToken;
use gpuaas_common::identity::TokenMinter;
use moka::sync::Cache;
use sqlx::PgPool;
use sqlx::postgres::PgListener;

use super::verify::Identity;
use crate::store::Principal;

/// Longest life of a session. Well below that of an internal token, which a session keeps one of for each service.
const LIFE: Duration = Duration::from_secs(5);
/// Sessions that are kept; the least used go first. One takes about a kilobyte.
const MAX_SESSIONS: u64 = 10_000;
/// The channel on which the database tells of changes to who may call.
const CHANNEL: &str = "edge_access";
/// Time between two attempts to listen.
const RETRY: Duration = Duration::from_secs(1);

/// Who a token's bearer is.
#[derive(Debug)]
pub struct Session {
    /// As the token says.
    pub identity: Identity,
    /// As registered.
    pub principal: Principal,
    /// Internal tokens that were made for it, by service.
    internal: Mutex<Vec<(&'static str, String)>>,
}

impl Session {
    /// A session that was just proven.
    pub fn new(identity: Identity, principal: Principal) -> Self {
        Self {
            identity,
            principal,
            internal: Mutex::default(),
        }
    }

    /// An internal token for a service, made at the first call; `now` is in seconds since 1970.
    ///
    /// # Errors
    /// Signing failed.
    pub fn internal_token(
        &self,
        minter: &TokenMinter,
        service: &'static str,
        now: i64,
    ) -> Result<String, jsonwebtoken::errors::Error> {
        let mut made = self.internal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, token)) = made.iter().find(|(name, _)| *name == service) {
            return Ok(token.clone());
        }
        let Principal {
            name,
            projects,
            admin,
        } = &self.principal;
        let token = minter.mint(service, name, projects, *admin, now)?;
        made.push((service, token.clone()));
        Ok(token)
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
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            cache: Cache::builder()
                .max_capacity(MAX_SESSIONS)
                .time_to_live(LIFE)
                .build(),
            epoch: AtomicU64::new(0),
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

    /// Listens for changes until `shutdown`.
    pub async fn listen(&self, pool: PgPool, shutdown: CancellationToken) {
        loop {
            let heard = shutdown.run_until_cancelled(self.hear(&pool)).await;
            self.forget(false);
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
        let mut listener = PgListener::connect_with(pool).await?;
        listener.listen(CHANNEL).await?;
        self.forget(true);
        while listener.try_recv().await?.is_some() {
            self.forget(true);
        }
        Ok(())
    }

    fn forget(&self, listening: bool) {
        let next = |epoch: u64| {
            let next = epoch + 1;
            Some(next + u64::from(is_listening(next) != listening))
        };
        let _always_some = self
            .epoch
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        self.cache.invalidate_all();
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
        };
        let principal = Principal {
            name: "user:a".to_owned(),
            admin: false,
            projects: Vec::new(),
        };
        Arc::new(Session::new(identity, principal))
    }

    #[test]
    fn a_session_is_kept_only_while_changes_are_heard_of() {
        let sessions = Sessions::default();
        sessions.keep("t", sessions.mark(), &session(100));
        assert!(sessions.get("t", 0).is_none(), "nobody listens");
        sessions.forget(true);
        sessions.keep("t", sessions.mark(), &session(100));
        assert!(sessions.get("t", 0).is_some());
        assert!(sessions.get("other", 0).is_none());
        sessions.forget(false);
        assert!(sessions.get("t", 0).is_none(), "the connection is lost");
    }

    #[test]
    fn what_was_read_before_a_change_is_not_kept_after_it() {
        let sessions = Sessions::default();
        sessions.forget(true);
        let before = sessions.mark();
        sessions.forget(true);
        sessions.keep("t", before, &session(100));
        assert!(sessions.get("t", 0).is_none());
    }

    #[test]
    fn a_session_ends_with_its_token() {
        let sessions = Sessions::default();
        sessions.forget(true);
        sessions.keep("t", sessions.mark(), &session(100));
        assert!(sessions.get("t", 99).is_some());
        assert!(sessions.get("t", 100).is_none());
    }

    #[test]
    fn a_service_gets_one_internal_token_for_the_life_of_a_session() {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("key");
        let minter = TokenMinter::from_pem(&pair.serialize_pem()).expect("minter");
        let session = session(100);
        let token = |service, now| session.internal_token(&minter, service, now).expect("made");
        assert_eq!(token("billing", 1), token("billing", 2));
        assert_ne!(token("billing", 1), token("scheduler", 1));
    }
}
