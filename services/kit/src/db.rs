//! The database pool, connected as the service's own role.
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

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
        .options([("jit", "off")])
        .options(options.iter().copied());
    if let Some(file) = &settings.password_file {
        options = options.password(&read_secret("database.password_file", file)?);
    }
    Ok(PgPoolOptions::new()
        .max_connections(settings.max_connections)
        .acquire_timeout(Duration::from_secs(5))
        .connect_lazy_with(options))
}
