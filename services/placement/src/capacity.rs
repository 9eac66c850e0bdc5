//! The nodes of every region in the memory of a process: what availability and explanations are told from.
//!
//! The database says what changed (migration `0008`): every change of what placement sees of a node leaves the number
//! of its transaction. A copy keeps the snapshot it was read with, and brings itself up to date by reading the nodes
//! whose last change that snapshot could not see. So each answer is as new as one that reads everything, at the cost
//! of what changed; nothing runs in the background and nothing lags. What is sold is decided on the rows themselves,
//! under the node's lock; this is never asked.
use std::collections::HashMap;
use std::sync::Arc;

use sqlx::PgConnection;
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::decision::Fleet;
use crate::{Result, candidates};

/// Slice nodes by region.
pub type Regions = HashMap<String, Arc<Fleet>>;

/// A copy that brings itself up to date. It begins empty; the first use reads everything.
#[derive(Debug, Default)]
pub struct Capacity {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Cell epoch and snapshot of the last reading.
    since: Option<(i64, String)>,
    regions: Regions,
    region_of: HashMap<Uuid, String>,
}

impl Capacity {
    /// All slice nodes as they are now. Inside a transaction that has written already, the copy is neither used nor
    /// changed: everything is read, the transaction's own changes included.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn now(&self, conn: &mut PgConnection) -> Result<Regions> {
        let mut known = self.known.lock().await;
        // Before the changes are read: what is committed in between is read now and once more the next time.
        let (epoch, snapshot, writes): (i64, String, bool) = sqlx::query_as(
            "SELECT epoch, pg_current_snapshot()::text, pg_current_xact_id_if_assigned() IS NOT NULL FROM cell",
        )
        .fetch_one(&mut *conn)
        .await?;
        if writes {
            drop(known);
            let mut own = Known::default();
            own.read(conn).await?;
            return Ok(own.regions);
        }
        // after a restore transactions are numbered anew
        if known.since.as_ref().is_some_and(|(of, _)| *of != epoch) {
            *known = Known::default();
        }
        known.read(conn).await?;
        known.since = Some((epoch, snapshot));
        Ok(known.regions.clone())
    }
}

impl Known {
    /// Reads what changed. It may be interrupted and repeated.
    async fn read(&mut self, conn: &mut PgConnection) -> Result<()> {
        let changed: Vec<Uuid> = match &self.since {
            None => {
                sqlx::query_scalar("SELECT id FROM nodes")
                    .fetch_all(&mut *conn)
                    .await?
            }
            Some((_, snapshot)) => {
                sqlx::query_scalar(
                    "SELECT id FROM nodes WHERE changed_by >= pg_snapshot_xmin($1::text::pg_snapshot)
                        AND NOT pg_visible_in_snapshot(changed_by, $1::text::pg_snapshot)
                     UNION
                     SELECT node_id FROM node_room WHERE changed_by >= pg_snapshot_xmin($1::text::pg_snapshot)
                        AND NOT pg_visible_in_snapshot(changed_by, $1::text::pg_snapshot)",
                )
                .bind(snapshot)
                .fetch_all(&mut *conn)
                .await?
            }
        };
        if changed.is_empty() {
            return Ok(());
        }
        let nodes = candidates::of_all_regions(conn, &changed).await?;
        // nothing is awaited from here on
        let mut before: HashMap<Uuid, String> = changed
            .iter()
            .filter_map(|id| Some((*id, self.region_of.remove(id)?)))
            .collect();
        for (region_code, node) in nodes {
            match before.remove(&node.id) {
                Some(other) if other != region_code => self.remove(&other, node.id),
                _ => {}
            }
            self.region_of.insert(node.id, region_code.clone());
            Arc::make_mut(self.regions.entry(region_code).or_default()).put(&node);
        }
        // no slice nodes any more
        for (id, region_code) in before {
            self.remove(&region_code, id);
        }
        Ok(())
    }

    fn remove(&mut self, region_code: &str, id: Uuid) {
        if let Some(fleet) = self.regions.get_mut(region_code) {
            Arc::make_mut(fleet).remove(id);
        }
    }
}
