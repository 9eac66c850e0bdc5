//! Database roles. They belong to the cluster, so they are made by a bootstrap, not by migrations.
use std::collections::BTreeMap;

use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use crate::{Error, OWNER_ROLE, SCHEMAS};

/// Key of the advisory lock that serialises bootstraps of one cluster.
const LOCK: i64 = 0x6770_7561_6173;

/// All roles: the owner first, then one per service.
pub fn all() -> impl Iterator<Item = &'static str> {
    std::iter::once(OWNER_ROLE).chain(
        SCHEMAS
            .into_iter()
            .flat_map(|schema| schema.roles.iter().copied()),
    )
}

/// Makes every role with its password, `search_path` and time limits. Run as superuser, connected to the
/// database `postgres` (the lock against concurrent bootstraps is per database). Safe to repeat.
///
/// A service role gives up a row lock after 3 s and loses a transaction it leaves idle for 10 s, so that a
/// stuck replica cannot hold the ledger.
///
/// # Errors
/// [`Error::PasswordMissing`] before anything is changed; [`Error::Database`].
pub async fn bootstrap_roles(
    conn: &mut PgConnection,
    passwords: &BTreeMap<String, String>,
) -> Result<(), Error> {
    if let Some(role) = all().find(|role| !passwords.contains_key(*role)) {
        return Err(Error::PasswordMissing(role));
    }
    let mut tx = conn.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)")
        .bind(LOCK)
        .execute(&mut *tx)
        .await?;
    for role in all() {
        // The password travels as a bind parameter, so that no statement log can show it.
        sqlx::query(
            "SELECT set_config('gpuaas.role', $1, true), set_config('gpuaas.password', $2, true)",
        )
        .bind(role)
        .bind(&passwords[role])
        .execute(&mut *tx)
        .await?;
        tx.execute(
            "DO $$
             DECLARE role text := current_setting('gpuaas.role');
             BEGIN
                 IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
                     EXECUTE format('CREATE ROLE %I', role);
                 END IF;
                 EXECUTE format('ALTER ROLE %I WITH LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT PASSWORD %L',
                                role, current_setting('gpuaas.password'));
             END $$",
        )
        .await?;
    }
    sqlx::query("SELECT set_config('gpuaas.password', '', true)")
        .execute(&mut *tx)
        .await?;
    for schema in SCHEMAS {
        for role in schema.roles {
            tx.execute(AssertSqlSafe(format!(
                "ALTER ROLE {role} SET search_path = {};
                 ALTER ROLE {role} SET lock_timeout = '3s';
                 ALTER ROLE {role} SET idle_in_transaction_session_timeout = '10s'",
                schema.name
            )))
            .await?;
        }
    }
    tx.commit().await?;
    Ok(())
}

/// Creates a database that the owner role owns and only our roles may connect to; keeps one that exists. Run as
/// superuser, outside a transaction, after [`bootstrap_roles`]. Returns whether it was created.
///
/// # Errors
/// [`Error::BadIdentifier`] when the name is not `[a-z_][a-z0-9_]*`; [`Error::Database`].
pub async fn create_database(conn: &mut PgConnection, name: &str) -> Result<bool, Error> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.is_empty()
        || name.len() > 63
        || name.starts_with(|c: char| c.is_ascii_digit())
        || !name.chars().all(plain)
    {
        return Err(Error::BadIdentifier(name.to_owned()));
    }
    let exists: bool =
        sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)")
            .bind(name)
            .fetch_one(&mut *conn)
            .await?;
    if !exists {
        conn.execute(AssertSqlSafe(format!(
            "CREATE DATABASE {name} OWNER {OWNER_ROLE}"
        )))
        .await?;
    }
    let roles = all().collect::<Vec<_>>().join(", ");
    conn.execute(AssertSqlSafe(format!(
        "REVOKE ALL ON DATABASE {name} FROM PUBLIC"
    )))
    .await?;
    conn.execute(AssertSqlSafe(format!(
        "GRANT CONNECT ON DATABASE {name} TO {roles}"
    )))
    .await?;
    Ok(!exists)
}
