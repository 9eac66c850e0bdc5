//! The nodes of every region, cached in the memory of a process: the source of shortlists, and of refusals, availability
//! and explanations.
//!
//! The database reports changes: every change of what placement observes of a node stores the number
//! of its transaction. A copy keeps the snapshot it was read with, and brings itself up to date by reading the nodes
//! whose last change that snapshot could not see. So each answer is as new as one that reads everything, at the cost
//! of what changed; nothing runs in the background and nothing lags. Placement is decided under the node's lock, on the
//! rows themselves or on a copy of the same version.
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gpuaas_placement_decision::Fleet;
use sqlx::{PgConnection, PgPool};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;
use uuid::Uuid;

use crate::candidates;
use crate::error::{Error, Result};

pub use gpuaas_placement_decision::Regions;

/// How connections of a process that places are set up: statements are planned once per connection. Planning them for
/// each reservation again takes as long as running them, and they always read by key.
pub const CONNECTION: [(&str, &str); 1] = [("plan_cache_mode", "force_generic_plan")];

/// How long to wait for concurrent reads: as long as for a locked row, so that a read that hangs
/// does not block all others.
const WAIT: Duration = Duration::from_secs(3);

/// The ledger as a placing process uses it: connections, and one copy of the nodes for all of them.
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
    cached: Mutex<CachedRegions>,
    /// How many readings have begun.
    begun: AtomicU64,
    /// One transaction owns it, so it may contain what that transaction wrote.
    own: bool,
}

#[derive(Debug, Default, Clone)]
struct CachedRegions {
    /// Cell epoch and snapshot of the last reading.
    since: Option<(i64, String)>,
    /// Number of the last reading that came to its end.
    reading: u64,
    /// Slice nodes by region.
    regions: Regions,
}

/// The snapshot read from the ledger.
#[derive(sqlx::FromRow)]
struct LedgerSnapshot {
    epoch: i64,
    snapshot: String,
    /// The transaction has written: its snapshot contains its own changes.
    writes: bool,
    changed: Vec<Uuid>,
}

impl Capacity {
    /// All slice nodes as they are now, for this connection. Inside a transaction that has written, this includes its own
    /// changes, which stay out of the copy. The read is not shared: the connection may observe an older state than
    /// concurrent requests.
    ///
    /// # Errors
    /// [`Error::Reading`]; those of the database.
    pub async fn now(&self, conn: &mut PgConnection) -> Result<Regions> {
        let mut cached = self.lock().await?;
        let snapshot = cached.snapshot(conn).await?;
        if snapshot.writes && !self.own {
            let mut own = cached.clone();
            drop(cached);
            own.read(conn, snapshot).await?;
            return Ok(own.regions);
        }
        cached.read(conn, snapshot).await?;
        Ok(cached.regions.clone())
    }

    /// A copy for one transaction that reads often between its writes: it keeps what the transaction changed, so
    /// that the fleet is copied once and not for each read. It must report what it writes after its first read with
    /// [`Capacity::changed`]: its snapshots do not count its own number as running. Nothing that it has read may
    /// be rolled back to a savepoint.
    pub(crate) async fn for_transaction(&self) -> Result<Self> {
        Ok(Self {
            cached: Mutex::new(self.lock().await?.clone()),
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

    /// A region as it was when it was last read: for choosing nodes to try, not for answers.
    pub(crate) async fn with_cached<T>(
        &self,
        region_code: &str,
        read: impl FnOnce(&Fleet) -> T,
    ) -> Result<T> {
        Ok(self.lock().await?.region(region_code, read))
    }

    /// The regions as they are now. Concurrent requests share one read, which begins after all of them
    /// have started. The connection's transaction must not have written.
    pub(crate) async fn with_current<T>(
        &self,
        conn: &mut PgConnection,
        read: impl FnOnce(&Regions) -> T,
    ) -> Result<T> {
        Ok(read(&self.current(conn).await?.regions))
    }

    /// Brings the copy up to date, so that transactions that write have little to read for themselves. The connection's
    /// transaction must not have written.
    pub(crate) async fn refresh(&self, conn: &mut PgConnection) -> Result<()> {
        self.current(conn).await.map(drop)
    }

    /// The cached state, once concurrent reads are over.
    async fn lock(&self) -> Result<MutexGuard<'_, CachedRegions>> {
        let locked = timeout(WAIT, self.cached.lock()).await;
        locked.map_err(|_| Error::Reading)
    }

    async fn current(&self, conn: &mut PgConnection) -> Result<MutexGuard<'_, CachedRegions>> {
        let requested = self.begun.load(Ordering::Acquire);
        let mut cached = self.lock().await?;
        if cached.reading > requested {
            return Ok(cached);
        }
        let reading = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let snapshot = cached.snapshot(conn).await?;
        cached.read(conn, snapshot).await?;
        cached.reading = reading;
        Ok(cached)
    }
}

impl CachedRegions {
    /// What changed since the last reading. After a restore transactions are numbered anew: then it is everything.
    async fn snapshot(&mut self, conn: &mut PgConnection) -> Result<LedgerSnapshot> {
        if let Some((epoch, snapshot)) = &self.since {
            let snapshot: LedgerSnapshot = sqlx::query_as(
                "SELECT epoch, pg_current_snapshot()::text AS snapshot, pg_current_xact_id_if_assigned() IS NOT NULL AS writes,
                        nodes_changed_since($1::text::pg_snapshot) AS changed
                   FROM cell",
            )
            .bind(snapshot)
            .fetch_one(&mut *conn)
            .await?;
            if snapshot.epoch == *epoch {
                return Ok(snapshot);
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
    async fn read(&mut self, conn: &mut PgConnection, snapshot: LedgerSnapshot) -> Result<()> {
        if !snapshot.changed.is_empty() {
            self.put(conn, snapshot.changed).await?;
        }
        self.since = Some((snapshot.epoch, snapshot.snapshot));
        Ok(())
    }

    /// Reads nodes anew.
    async fn put(&mut self, conn: &mut PgConnection, ids: Vec<Uuid>) -> Result<()> {
        let nodes = candidates::of_all_regions(conn, &ids).await?;
        // nothing is awaited from here on
        self.regions.replace(ids, nodes);
        Ok(())
    }

    fn region<T>(&self, region_code: &str, read: impl FnOnce(&Fleet) -> T) -> T {
        match self.regions.get(region_code) {
            Some(fleet) => read(fleet),
            None => read(&Fleet::default()),
        }
    }
}

#[cfg(test)]
mod tests;
