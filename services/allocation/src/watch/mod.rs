//! Watching allocations: one reader of the log per process notifies subscriptions, and every stream that is notified reads on
//! from where it is.
//!
//! A stream is a position and nothing else. It subscribes, then takes the position, then reads what is; so
//! whatever happens in between is found after the position. Notifications are hints: the reader finds what it missed by
//! polling, and works without Redis (P8). The streams of a project read together: thousands of consoles cost the
//! database what one costs.
mod one;
mod pages;
mod project;
mod reader;
mod serial_log;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use gpuaas_common::watch::{Notifier, Stop, Streams, Subscription};
use gpuaas_common::{Error, watch};
use gpuaas_placement::model::{Allocation, AllocationState};
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::ChangeKind;
use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, Postgres};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use crate::convert;
use crate::store::read::Now;
use crate::workflow::Deps;

/// Streams that read at once; fewer than the pool has connections.
const MAX_CONCURRENT_READS: usize = 4;

/// What a subscription is to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    /// Any allocation of a project.
    Project(Uuid),
    /// One allocation and its timeline.
    Allocation(Uuid),
}

/// Opens watch streams. Clones share the reader.
#[derive(Clone)]
pub struct Watching {
    deps: Arc<Deps>,
    streams: Streams,
    notifier: Notifier<Key>,
    /// Every event up to here has been notified.
    notified_to: Arc<AtomicI64>,
    /// A permit for each stream that reads now.
    reads: Arc<Semaphore>,
    /// What the streams of a project have in common.
    lanes: pages::Lanes,
}

/// A connection that a stream reads with, while it holds its permit.
struct StreamConnection {
    conn: PoolConnection<Postgres>,
    _permit: OwnedSemaphorePermit,
}

impl Deref for StreamConnection {
    type Target = PgConnection;
    fn deref(&self) -> &PgConnection {
        &self.conn
    }
}

impl DerefMut for StreamConnection {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.conn
    }
}

/// What a stream waited for.
enum Woken {
    Notified,
    Timeout,
}

impl Watching {
    /// Streams on these parts; [`Watching::read_on`] must run concurrently.
    #[must_use]
    pub fn new(deps: Arc<Deps>, streams: Streams) -> Self {
        Self {
            deps,
            streams,
            notifier: Notifier::default(),
            notified_to: Arc::default(),
            reads: Arc::new(Semaphore::new(MAX_CONCURRENT_READS)),
            lanes: pages::Lanes::default(),
        }
    }

    /// A connection to read with, once a permit is free. A change wakes thousands of streams at once: they
    /// wait here, however long, and not for the connections that everything else of the service needs.
    async fn connection(&self) -> Result<StreamConnection, Error> {
        let permit = self.reads.clone().acquire_owned().await;
        let permit = permit.map_err(Error::internal)?;
        Ok(StreamConnection {
            conn: self.deps.pool.acquire().await?,
            _permit: permit,
        })
    }

    fn heartbeat(&self) -> Duration {
        Duration::from_secs_f64(self.deps.config.watch_heartbeat_seconds.max(0.05))
    }

    fn poll(&self) -> Duration {
        Duration::from_secs_f64(self.deps.config.watch_poll_seconds.max(0.01))
    }
}

/// Waits for a notification, at most `timeout`.
async fn wait(subscription: &mut Subscription<Key>, timeout: Duration) -> Woken {
    match tokio::time::timeout(timeout, subscription.notified()).await {
        Ok(()) => Woken::Notified,
        Err(_) => Woken::Timeout,
    }
}

/// What a stream does about an error: one that passes is waited out, any other is sent to the reader.
async fn endure(error: Stop, poll: Duration) -> Result<(), Stop> {
    match error {
        Stop::Because(error) if error.is_transient() => {
            tracing::warn!("wait to read on for a watch: {}", error.chain());
            tokio::time::sleep(poll).await;
            Ok(())
        }
        stop => Err(stop),
    }
}

fn has_ended(state: AllocationState) -> bool {
    matches!(state, AllocationState::Released | AllocationState::Failed)
}

/// The allocation as a change.
fn change(row: Allocation, now: Now, is_new: bool) -> pb::AllocationChange {
    let kind = if has_ended(row.state) {
        ChangeKind::Ended
    } else if is_new {
        ChangeKind::Added
    } else {
        ChangeKind::Modified
    };
    pb::AllocationChange {
        kind: kind.into(),
        allocation: Some(convert::allocation(row, now)),
    }
}

fn expired() -> Error {
    watch::token::expired()
}
