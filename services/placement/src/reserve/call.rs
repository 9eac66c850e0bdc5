//! A call under its key, in transactions of its own.
use std::time::Instant;

use gpuaas_common::idempotency::{self, Lookup};
use jiff::Timestamp;
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::model::Request;

/// Method name in the scope of idempotency keys: callers that answer replays themselves search with it.
pub const METHOD: &str = "Reserve";
/// The same for a batch.
pub const BATCH_METHOD: &str = "ReserveBatch";

/// One key with all that is reserved under it.
#[derive(Debug, Clone, Copy)]
pub struct Key<'a> {
    /// The requesting principal.
    pub principal: &'a str,
    /// The caller's key.
    pub idempotency_key: &'a str,
    /// SHA-256 of the canonical request.
    pub request_hash: &'a [u8],
}

/// One request, or a batch of which all or none is reserved, under one key.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub(super) method: &'static str,
    pub(super) key: Key<'a>,
    pub(super) requests: &'a [Request],
    pub(super) mode: Mode,
    pub(super) when_full: WhenFull,
}

/// What becomes of a request that does not fit now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// It is refused.
    Refuse,
    /// It joins its queue until a deadline.
    Queue(Timestamp),
}

impl<'a> Call<'a> {
    /// One request, under its own key.
    #[must_use]
    pub fn one(request: &'a Request) -> Self {
        let key = Key {
            principal: &request.principal,
            idempotency_key: &request.idempotency_key,
            request_hash: &request.request_hash,
        };
        let requests = std::slice::from_ref(request);
        Self::new(METHOD, key, requests)
    }

    /// Requests of one project. Principal, key and hash of the single requests are not used; those that may be queued are
    /// of one region and one slot class.
    #[must_use]
    pub const fn batch(key: Key<'a>, requests: &'a [Request]) -> Self {
        Self::new(BATCH_METHOD, key, requests)
    }

    const fn new(method: &'static str, key: Key<'a>, requests: &'a [Request]) -> Self {
        Self {
            method,
            key,
            requests,
            mode: Mode::Commit,
            when_full: WhenFull::Refuse,
        }
    }

    /// Instead of a refusal for lack of capacity or quota.
    #[must_use]
    pub const fn when_full(self, when_full: WhenFull) -> Self {
        Self { when_full, ..self }
    }

    /// Stores nothing, the key included, which is not read either.
    #[must_use]
    pub const fn dry_run(self) -> Self {
        Self {
            mode: Mode::DryRun,
            ..self
        }
    }

    /// An error about one of its requests.
    pub(super) fn about(&self, index: usize, error: Error) -> Error {
        match self.method {
            BATCH_METHOD => error.in_batch(index),
            _ => error,
        }
    }

    /// Where its key is stored.
    pub(super) fn scope(&self) -> idempotency::Scope<'a> {
        idempotency::Scope {
            principal: self.key.principal,
            method: self.method,
            key: self.key.idempotency_key,
        }
    }

    /// Takes its key for new allocations, or finds those that were made under it.
    pub(super) async fn take_key(
        &self,
        conn: &mut PgConnection,
        made: Vec<Uuid>,
    ) -> Result<Taking> {
        let names: Vec<String> = made.iter().map(Uuid::to_string).collect();
        let hash = self.key.request_hash;
        let taken = idempotency::take(conn, self.scope(), hash, &names.join(",")).await?;
        Ok(match taken {
            Lookup::Fresh => Taking::Fresh(made),
            Lookup::Replay { resource_id } => Taking::Replay(ids_of(&resource_id)?),
        })
    }
}

/// What a key leads to.
pub(super) enum Taking {
    /// Allocations that are to be made.
    Fresh(Vec<Uuid>),
    /// Allocations that were made before.
    Replay(Vec<Uuid>),
}

/// What becomes of a transaction that succeeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It is committed.
    Commit,
    /// It is rolled back: nothing of it is stored.
    DryRun,
}

/// Runs a body in a transaction of its own.
pub(crate) async fn in_transaction<T>(
    conn: &mut PgConnection,
    mode: Mode,
    body: impl AsyncFnOnce(&mut PgConnection) -> Result<T>,
) -> Result<T> {
    let mut tx = conn.begin().await?;
    let outcome = body(&mut tx).await;
    if mode == Mode::Commit && outcome.is_ok() {
        tx.commit().await?;
    } else {
        tx.rollback().await?;
    }
    outcome
}

/// What ended in contention is retried while there is time: the next try observes what the others committed.
pub(crate) fn retry(error: Error, until: Instant) -> Result<()> {
    if !error.is_contention() {
        return Err(error);
    }
    if Instant::now() >= until {
        return Err(Error::Busy { nodes: 0 });
    }
    Ok(())
}

/// The ids that were recorded with a key.
///
/// # Errors
/// The row is not a list of ids.
pub fn ids_of(resource_id: &str) -> Result<Vec<Uuid>> {
    resource_id
        .split(',')
        .map(|id| {
            Uuid::parse_str(id)
                .map_err(|error| Error::Common(gpuaas_common::Error::internal(error)))
        })
        .collect()
}
