//! The nodes of every region in the memory of a process: where a reservation looks first, and what refusals, availability
//! and explanations are told from.
//!
//! The database says what changed: every change of what placement sees of a node leaves the number
//! of its transaction. A copy keeps the snapshot it was read with, and brings itself up to date by reading the nodes
//! whose last change that snapshot could not see. So each answer is as new as one that reads everything, at the cost
//! of what changed; nothing runs in the background and nothing lags. What is sold is decided under the node's lock, on the
//! rows themselves or on a copy of the same version.
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::{PgConnection, PgPool};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;
use uuid::Uuid;

use crate::decision::Fleet;
use crate::{Error, Result, candidates};

pub use crate::decision::Regions;

/// How connections of a process that places are set up: statements are planned once per connection. Planning them for
/// each reservation anew takes as long as running them, and what they look for is always found by its keys.
pub const CONNECTION: [(&str, &str); 1] = [("plan_cache_mode", "force_generic_plan")];

/// How long the readings of others are waited for: as long as for a row that others have locked, so that a reading that
/// hangs does not keep all others with it.
const WAIT: Duration = Duration::from_secs(3);

/// The ledger as a process that places has it: connections, and one copy of the nodes for all of them.
#[derive(Debug, Clone)]
pub struct Ledger {
    pool: PgPool,
    /// The nodes in memory.
    pub capacity: Arc<Capacity>,
}

impl Ledger {
    /// One with an empty copy; [`Capacity::now`] fills it.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self {
            pool,
            capacity: Arc::default(),
        }
    }
}

/// For what needs no more than connections.
impl Deref for Ledger {
    type Target = PgPool;

    fn deref(&self) -> &PgPool {
        &self.pool
    }
}

/// A copy that brings itself up to date. It begins empty; the first use reads everything.
#[derive(Debug, Default)]
pub struct Capacity {
    known: Mutex<Known>,
    /// How many readings have begun.
    begun: AtomicU64,
    /// One transaction has it for itself: what that wrote may be known here.
    own: bool,
}

#[derive(Debug, Default, Clone)]
struct Known {
    /// Cell epoch and snapshot of the last reading.
    since: Option<(i64, String)>,
    /// Number of the last reading that came to its end.
    reading: u64,
    /// Slice nodes by region.
    regions: Regions,
}

/// What a look at the ledger finds.
#[derive(sqlx::FromRow)]
struct Look {
    epoch: i64,
    snapshot: String,
    /// The transaction has written: its snapshot shows to it what it shows to nobody else.
    writes: bool,
    changed: Vec<Uuid>,
}

impl Capacity {
    /// All slice nodes as they are now, for this connection: inside a transaction that has written, its own changes are
    /// among them, and stay out of the copy. Nobody else shares the reading: the connection may see an older state than
    /// those who ask now.
    ///
    /// # Errors
    /// [`Error::Reading`]; those of the database.
    pub async fn now(&self, conn: &mut PgConnection) -> Result<Regions> {
        let mut known = self.lock().await?;
        let look = known.look(conn).await?;
        if look.writes && !self.own {
            let mut own = known.clone();
            drop(known);
            own.read(conn, look).await?;
            return Ok(own.regions);
        }
        known.read(conn, look).await?;
        Ok(known.regions.clone())
    }

    /// A copy of it for one transaction that looks often between its writes: it keeps what the transaction has changed, so
    /// that the fleet is copied once and not for each look. What the transaction writes after its first look it must tell by
    /// [`Capacity::changed`]: its snapshots do not count its own number among those that run. Nothing that it has read may
    /// be taken back to a savepoint.
    pub(crate) async fn for_transaction(&self) -> Result<Self> {
        Ok(Self {
            known: Mutex::new(self.lock().await?.clone()),
            begun: AtomicU64::default(),
            own: true,
        })
    }

    /// Reads nodes anew that the transaction has changed, in a copy that it has for itself; all others see them once it has
    /// committed.
    pub(crate) async fn changed(&self, conn: &mut PgConnection, ids: &[Uuid]) -> Result<()> {
        if self.own {
            self.lock().await?.put(conn, ids.to_vec()).await?;
        }
        Ok(())
    }

    /// Looks at a region as it was when it was last read: for where to look, not for what is told.
    pub(crate) async fn known<T>(
        &self,
        region_code: &str,
        look: impl FnOnce(&Fleet) -> T,
    ) -> Result<T> {
        Ok(self.lock().await?.region(region_code, look))
    }

    /// Looks at the regions as they are now. Those who ask at the same time share one reading, which begins after all of them
    /// have asked. The connection's transaction must not have written.
    pub(crate) async fn look<T>(
        &self,
        conn: &mut PgConnection,
        look: impl FnOnce(&Regions) -> T,
    ) -> Result<T> {
        Ok(look(&self.current(conn).await?.regions))
    }

    /// Brings the copy up to date, so that transactions that write have little to read for themselves. The connection's
    /// transaction must not have written.
    pub(crate) async fn refresh(&self, conn: &mut PgConnection) -> Result<()> {
        self.current(conn).await.map(drop)
    }

    /// What is known, once the readings of others are over.
    async fn lock(&self) -> Result<MutexGuard<'_, Known>> {
        let locked = timeout(WAIT, self.known.lock()).await;
        locked.map_err(|_| Error::Reading)
    }

    async fn current(&self, conn: &mut PgConnection) -> Result<MutexGuard<'_, Known>> {
        let asked = self.begun.load(Ordering::Acquire);
        let mut known = self.lock().await?;
        if known.reading > asked {
            return Ok(known);
        }
        let reading = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let look = known.look(conn).await?;
        known.read(conn, look).await?;
        known.reading = reading;
        Ok(known)
    }
}

impl Known {
    /// What changed since the last reading. After a restore transactions are numbered anew: then it is everything.
    async fn look(&mut self, conn: &mut PgConnection) -> Result<Look> {
        if let Some((epoch, snapshot)) = &self.since {
            let look: Look = sqlx::query_as(
                "SELECT epoch, pg_current_snapshot()::text AS snapshot, pg_current_xact_id_if_assigned() IS NOT NULL AS writes,
                        nodes_changed_since($1::text::pg_snapshot) AS changed
                   FROM cell",
            )
            .bind(snapshot)
            .fetch_one(&mut *conn)
            .await?;
            if look.epoch == *epoch {
                return Ok(look);
            }
            *self = Self::default();
        }
        Ok(sqlx::query_as(
            "SELECT epoch, pg_current_snapshot()::text AS snapshot, pg_current_xact_id_if_assigned() IS NOT NULL AS writes,
                    ARRAY (SELECT id FROM nodes) AS changed FROM cell",
        )
        .fetch_one(conn)
        .await?)
    }

    /// Reads what changed; what is committed in between is read now and once more the next time. It may be interrupted
    /// and repeated.
    async fn read(&mut self, conn: &mut PgConnection, look: Look) -> Result<()> {
        if !look.changed.is_empty() {
            self.put(conn, look.changed).await?;
        }
        self.since = Some((look.epoch, look.snapshot));
        Ok(())
    }

    /// Reads nodes anew.
    async fn put(&mut self, conn: &mut PgConnection, ids: Vec<Uuid>) -> Result<()> {
        let nodes = candidates::of_all_regions(conn, &ids).await?;
        // nothing is awaited from here on
        self.regions.replace(ids, nodes);
        Ok(())
    }

    fn region<T>(&self, region_code: &str, look: impl FnOnce(&Fleet) -> T) -> T {
        match self.regions.get(region_code) {
            Some(fleet) => look(fleet),
            None => look(&Fleet::default()),
        }
    }
}

#[cfg(test)]
mod tests;
