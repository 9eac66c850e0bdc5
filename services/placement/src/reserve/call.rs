//! A call under its key, in transactions of its own.
use std::time::Instant;

use gpuaas_common::idempotency::{self, Lookup};
use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use super::{Key, Request};
use crate::{Error, Result};

/// What one transaction is to do.
pub(super) struct Call<'a> {
    pub(super) method: &'static str,
    pub(super) key: Key<'a>,
    pub(super) requests: &'a [Request],
}

impl<'a> Call<'a> {
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
#[derive(Clone, Copy, PartialEq, Eq)]
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
