//! The journal: what this host promised and did, in SQLite, so that a restart of the agent forgets nothing.
//!
//! One connection behind a mutex: statements take microseconds, a commit one `fsync`, and the rate is that of
//! VM lifecycles. Every change wakes the watchers of [`Journal::changes`].
mod leases;
mod operations;
mod power;
mod rows;

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::watch;

pub use leases::{HoldRow, LeaseRow};
pub use power::PowerRow;
pub use rows::{Failure, Kind, NewOperation, OperationRow, State, StepRow, StepStatus};

use crate::error::{HostError, HostResult, io_error};
use crate::ids::Digest;

/// The journal of one host.
pub struct Journal {
    connection: Mutex<Connection>,
    changed: watch::Sender<u64>,
}

impl Journal {
    /// Opens the journal file, making it when it does not exist.
    pub fn open(path: &Path) -> HostResult<Self> {
        // SQLite gives its side files the mode of this one.
        OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)
            .map_err(io_error("cannot open the journal"))?;
        let connection = Connection::open(path)?;
        // A journal row must be on disk before the effect it speaks of.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        Self::from_connection(connection)
    }

    /// A journal in memory, for tests of the rules.
    pub fn in_memory() -> HostResult<Self> {
        Self::from_connection(Connection::open_in_memory()?)
    }

    fn from_connection(connection: Connection) -> HostResult<Self> {
        connection.pragma_update(None, "foreign_keys", "ON")?;
        connection.execute_batch(include_str!("schema.sql"))?;
        Ok(Self {
            connection: Mutex::new(connection),
            changed: watch::Sender::new(0),
        })
    }

    /// Wakes at every change of an operation.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // A panic while the lock was held left no half transaction: SQLite rolls back on drop.
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        self.changed
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    /// The fingerprint of the file whose digest was computed, if it was.
    pub fn image_fingerprint(&self, digest: &Digest) -> HostResult<Option<String>> {
        let found = self
            .lock()
            .query_row(
                "SELECT fingerprint FROM images WHERE digest = ?1",
                params![digest.as_str()],
                |row| row.get(0),
            )
            .optional()?;
        Ok(found)
    }

    /// The digests that were computed, in order, each with the fingerprint of its file.
    pub fn images(&self) -> HostResult<Vec<(Digest, String)>> {
        let connection = self.lock();
        let mut statement =
            connection.prepare("SELECT digest, fingerprint FROM images ORDER BY digest")?;
        let rows = statement.query_map([], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })?;
        let mut found = Vec::new();
        for row in rows {
            let (digest, fingerprint) = row?;
            let digest = digest.parse().map_err(|_| corrupt("digest"))?;
            found.push((digest, fingerprint));
        }
        Ok(found)
    }

    /// Records that a file with this fingerprint has this digest.
    pub fn record_image(&self, digest: &Digest, fingerprint: &str) -> HostResult<()> {
        self.lock().execute(
            "INSERT INTO images (digest, fingerprint) VALUES (?1, ?2)
             ON CONFLICT (digest) DO UPDATE SET fingerprint = excluded.fingerprint",
            params![digest.as_str(), fingerprint],
        )?;
        Ok(())
    }
}

/// SQLite integers are signed; what we store never comes near their end.
fn to_sql(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A stored unsigned value.
fn from_sql(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// A stored value that does not parse: the journal file was changed by another hand.
fn corrupt(what: &str) -> HostError {
    HostError::internal(format!("journal holds a malformed {what}"))
}
