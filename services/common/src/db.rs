//! The database pool, connected as the service's own role.
//!
//! A host of the database that loses its power, or is cut off, closes no connection: whoever waits for an answer from it
//! would wait for ever. So the pool asks no connection for longer than [`ANSWER`], and background tasks do their work
//! [`within`] a limit.
use std::io;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgPool};

use crate::config::{ConfigError, DatabaseSettings, read_secret};

/// A pool for these settings. It connects when first used, so that a service can start before its database.
///
/// # Errors
/// An unreadable or exposed password file.
pub fn pool(service: &str, settings: &DatabaseSettings) -> Result<PgPool, ConfigError> {
    pool_with(service, settings, &[])
}

/// The same whose connections are set up with options of the server.
///
/// # Errors
/// As [`pool`].
pub fn pool_with(
    service: &str,
    settings: &DatabaseSettings,
    options: &[(&str, &str)],
) -> Result<PgPool, ConfigError> {
    let mut options = PgConnectOptions::new_without_pgpass()
        .host(&settings.host)
        .port(settings.port)
        .database(&settings.name)
        .username(&settings.user)
        .application_name(service)
        // compiling a statement takes longer than any of these runs
        .options([
            ("jit", "off"),
            // a statement that was given up ends on the server, too, with its locks
            ("client_connection_check_interval", "2s"),
        ])
        .options(options.iter().copied());
    if let Some(file) = &settings.password_file {
        options = options.password(&read_secret("database.password_file", file)?);
    }
    Ok(sized(settings.max_connections)
        .acquire_timeout(Duration::from_secs(5))
        .connect_lazy_with(options))
}

/// Settings of a pool of at most so many connections. One that nobody has used for a while may be dead, and is asked
/// before it is given out; one that was just used is not, for that is a round trip for every request.
#[must_use]
pub fn sized(max_connections: u32) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(max_connections)
        .test_before_acquire(false)
        .before_acquire(|conn, meta| {
            Box::pin(async move {
                if meta.idle_for > ASK_AFTER {
                    within(ANSWER, conn.ping()).await?;
                }
                Ok(true)
            })
        })
        // The pool asks it then, too, and holds its place meanwhile, but without a limit.
        .after_release(|conn, _| {
            Box::pin(async move {
                within(ANSWER, conn.ping()).await?;
                Ok(true)
            })
        })
}

/// Does work with the database, and gives it up when it takes longer than `limit`.
///
/// # Errors
/// Those of the work; the database did not answer in time.
pub fn within<T, E: From<sqlx::Error>>(
    limit: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> impl Future<Output = Result<T, E>> {
    // who waits for it need not hold all that it holds
    let work = Box::pin(work);
    async move {
        let done = tokio::time::timeout(limit, work).await;
        done.unwrap_or_else(|_| {
            let said = format!("the database gave no answer within {limit:?}");
            let error = io::Error::new(io::ErrorKind::TimedOut, said);
            Err(sqlx::Error::Io(error).into())
        })
    }
}

/// Limit of one pass of a background task.
pub const PASS: Duration = Duration::from_secs(60);
/// Limit of a pass that removes what is past its retention.
pub const SWEEP: Duration = Duration::from_secs(600);
/// Longest wait for the answer to "do you live?".
const ANSWER: Duration = Duration::from_secs(2);

/// Rest of a connection after which it is asked whether it lives.
const ASK_AFTER: Duration = Duration::from_secs(1);
