//! The journal: what this host promised and did, in SQLite, so that a restart of the agent forgets nothing.
//!
//! One connection behind a mutex: statements take microseconds, a commit one `fsync`, and the rate is that of
//! VM lifecycles. None of that happens on a thread that serves calls ([`crate::host::blocking`]). Every change wakes the
//! watchers of [`Journal::changes`].
mod devices;
mod images;
mod ingress;
mod lease_rows;
mod leases;
mod measured;
mod operations;
mod partitions;
mod power;
mod rows;

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::watch;

pub use devices::DeviceRow;
pub use lease_rows::{HoldRow, LeaseRow};
pub use partitions::PartitionRow;
pub use power::PowerRow;
pub use rows::{Failure, Kind, NewOperation, OperationRow, State, StepRow, StepStatus};

use crate::error::{HostError, HostResult, io_error};
use crate::host::blocking;

/// Version of the schema. It grows with every change that an older agent must not read past: 2 knows rescues, which an agent
/// before it would take for VMs that run from their own disks.
const VERSION: i64 = 2;

/// An older agent does not know what a newer one wrote: it would act on half of what the host promised.
fn check_version(connection: &Connection) -> HostResult<()> {
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found <= VERSION {
        return Ok(());
    }
    Err(HostError::host(
        ErrorReason::HostNotReady,
        format!(
            "the journal has version {found}, and this agent ({}) knows version {VERSION}: it is older than the agent that \
             wrote the journal; install that one or a newer one",
            crate::build::LINE.as_str()
        ),
    ))
}

/// Written only where it is another: a command beside the agent changes nothing by looking.
fn set_version(connection: &Connection) -> HostResult<()> {
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found != VERSION {
        connection.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(())
}

/// Most pages that are copied at once.
const PAGES: i32 = 1024;

/// A file that nobody changes meanwhile, as SQLite calls it.
fn unchanging(path: &Path) -> HostResult<String> {
    let path = path
        .to_str()
        .ok_or_else(|| HostError::internal("the path of the journal is not UTF-8"))?;
    let escaped = path
        .replace('%', "%25")
        .replace('?', "%3f")
        .replace('#', "%23");
    Ok(format!("file:{escaped}?immutable=1"))
}

/// What a journal has now, in memory.
fn copy(source: &Connection) -> HostResult<Connection> {
    check_version(source)?;
    let mut copy = Connection::open_in_memory()?;
    Backup::new(source, &mut copy)?.run_to_completion(PAGES, Duration::ZERO, None)?;
    Ok(copy)
}

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

    /// The version of a journal that may be in use; 0 when there is none. Nothing is changed.
    ///
    /// # Errors
    /// A file that is no journal.
    pub fn version(path: &Path) -> HostResult<i64> {
        if !path.exists() {
            return Ok(0);
        }
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        Ok(connection.pragma_query_value(None, "user_version", |row| row.get(0))?)
    }

    /// What a journal that may be in use has now, as one in memory: nothing that is written to it is kept, and nothing of the
    /// file is changed.
    ///
    /// # Errors
    /// As of [`Journal::open`]; a file that is no journal.
    pub fn read(path: &Path) -> HostResult<Self> {
        let beside = |end: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        };
        Self::read_while(path, || beside("-wal").exists())
    }

    /// As [`Journal::read`]; `in_use` tells whether somebody has the journal open now.
    fn read_while(path: &Path, mut in_use: impl FnMut() -> bool) -> HostResult<Self> {
        // one that nobody has open is in one file, and SQLite would make two more beside it to read it
        if !in_use() {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            let copied = copy(&Connection::open_with_flags(unchanging(path)?, flags)?);
            // an agent that opened it meanwhile may have written what is not in that file, or half of it
            if !in_use() {
                return Self::from_connection(copied?);
            }
        }
        let source = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        Self::from_connection(copy(&source)?)
    }

    fn from_connection(connection: Connection) -> HostResult<Self> {
        connection.pragma_update(None, "foreign_keys", "ON")?;
        // what is emptied may have been a tenant's secret
        connection.pragma_update(None, "secure_delete", "ON")?;
        check_version(&connection)?;
        connection.execute_batch(include_str!("schema.sql"))?;
        // a journal of an agent before them lacks these columns
        for (missing, add) in [
            (
                "SELECT count(*) = 0 FROM pragma_table_info('gpu_partitions') WHERE name = 'modules'",
                "ALTER TABLE gpu_partitions ADD COLUMN modules TEXT NOT NULL DEFAULT '[]'",
            ),
            (
                "SELECT count(*) = 0 FROM pragma_table_info('images') WHERE name = 'used_ms'",
                "ALTER TABLE images ADD COLUMN used_ms INTEGER NOT NULL DEFAULT 0",
            ),
        ] {
            if connection.query_row(missing, [], |row| row.get::<_, bool>(0))? {
                connection.execute_batch(add)?;
            }
        }
        set_version(&connection)?;
        Ok(Self {
            connection: Mutex::new(connection),
            changed: watch::Sender::new(0),
        })
    }

    /// Wakes at every change of an operation.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Works with the connection, away from the threads that serve calls: a commit waits for its `fsync`, and all others
    /// for the one before them.
    fn with<T>(&self, work: impl FnOnce(&mut Connection) -> HostResult<T>) -> HostResult<T> {
        blocking::here(|| {
            // A panic while the lock was held left no half transaction: SQLite rolls back on drop.
            let mut connection = self
                .connection
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            work(&mut connection)
        })
    }

    fn wake(&self) {
        self.changed
            .send_modify(|count| *count = count.wrapping_add(1));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Digest;

    #[test]
    fn a_10_an_older_agent_refuses_the_journal_of_a_newer_one_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.sqlite");
        let digest: Digest = format!("sha256:{}", "a".repeat(64)).parse().unwrap();
        // one from before versions, and one of this agent, are read
        for _ in 0..2 {
            let journal = Journal::open(&path).unwrap();
            journal.record_image(&digest, "one").unwrap();
        }
        let connection = Connection::open(&path).unwrap();
        connection
            .pragma_update(None, "user_version", VERSION + 1)
            .unwrap();
        drop(connection);
        let before = std::fs::read(&path).unwrap();
        assert_eq!(Journal::version(&path).unwrap(), VERSION + 1);
        assert_eq!(Journal::version(&dir.path().join("none")).unwrap(), 0);
        let error = Journal::open(&path).err().expect("refused");
        assert!(error.message.contains("older than the agent"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
        let connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "user_version", 0).unwrap();
        drop(connection);
        let journal = Journal::open(&path).unwrap();
        assert_eq!(journal.images().unwrap().len(), 1);
    }

    /// An agent that knows version 1 at most has no word for a rescue: it cannot read the operation, and leaves the rescue disk.
    #[test]
    fn a_10_a_journal_of_version_1_is_taken_over_for_good() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.sqlite");
        let digest: Digest = format!("sha256:{}", "a".repeat(64)).parse().unwrap();
        let journal = Journal::open(&path).unwrap();
        journal.record_image(&digest, "one").unwrap();
        drop(journal);
        let connection = Connection::open(&path).unwrap();
        let before = "DROP INDEX operations_of_allocations;
             ALTER TABLE images DROP COLUMN used_ms;
             CREATE INDEX operations_launches ON operations (allocation_id) WHERE kind = 'provision';
             PRAGMA user_version = 1";
        connection.execute_batch(before).unwrap();
        drop(connection);
        let journal = Journal::open(&path).unwrap();
        assert_eq!(journal.images_by_use().unwrap().len(), 1);
        assert_eq!(Journal::version(&path).unwrap(), 2);
        let indexes = |connection: &mut Connection| {
            let sql = "SELECT group_concat(name) FROM pragma_index_list('operations') WHERE origin = 'c' AND NOT partial";
            let found: String = connection.query_row(sql, [], |row| row.get(0))?;
            Ok(found)
        };
        assert_eq!(journal.with(indexes).unwrap(), "operations_of_allocations");
    }

    #[test]
    fn a_10_a_journal_that_is_opened_while_it_is_read_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.sqlite");
        let digest: Digest = format!("sha256:{}", "a".repeat(64)).parse().unwrap();
        // what is committed is beside the file as long as the journal is open
        let journal = Journal::open(&path).unwrap();
        journal.record_image(&digest, "one").unwrap();
        let mut answers = [false, true].into_iter();
        let read = Journal::read_while(&path, || answers.next().unwrap()).unwrap();
        assert_eq!(read.images().unwrap(), [(digest, "one".to_owned())]);
        drop(journal);
        assert_eq!(Journal::read(&path).unwrap().images().unwrap().len(), 1);
    }

    /// The one thread that serves calls is free while a journal call waits: what the call waits for comes from there.
    #[test]
    fn a_journal_that_waits_holds_up_nobody_else() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let journal = std::sync::Arc::new(Journal::in_memory().unwrap());
        let (release, gate) = std::sync::mpsc::channel::<()>();
        let (taken, took) = std::sync::mpsc::channel::<()>();
        let slow = std::sync::Arc::clone(&journal);
        let disk = std::thread::spawn(move || {
            slow.with(|_| {
                taken.send(()).unwrap();
                gate.recv().unwrap();
                Ok(())
            })
        });
        took.recv().unwrap();
        let waiting = runtime.spawn(async move {
            // begun from here, so that the thread is this one
            tokio::spawn(async move { release.send(()).unwrap() });
            journal.images()
        });
        assert!(runtime.block_on(waiting).unwrap().unwrap().is_empty());
        disk.join().unwrap().unwrap();
    }
}
