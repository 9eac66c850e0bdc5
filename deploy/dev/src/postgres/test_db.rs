//! A fresh, fully migrated database per test, copied from a template.
//!
//! One server per checkout is started by the first test that needs it and stays for the next run. Its template
//! database is named after the digest of all migrations, so a changed script makes a new one. nextest runs every
//! test in a process of its own: file locks make them start the server and build the template once.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gpuaas_migrations::OWNER_ROLE;
use nix::sys::statvfs::statvfs;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, PgPool};

use crate::error::{Error, Result, chain};
use crate::postgres::server::{Access, Server, exists};
use crate::process::PidFile;
use crate::{paths, ports};

/// Password of every role of the test server, for clients that come by TCP.
const PASSWORD: &str = "test";
/// A file system in memory.
const MEMORY: &str = "/dev/shm";
/// Room that it must have, in bytes: the log of changes and the databases of some tests.
const ROOM: u64 = 3 << 30;
/// Databases of tests that ended without cleaning up are dropped after this long.
const LEFT_OVER: Duration = Duration::from_secs(1800);

/// A database of its own for one test. Dropped with the value.
#[derive(Debug)]
pub struct TestDb {
    server: Server,
    name: String,
    password_file: PathBuf,
}

impl TestDb {
    /// Creates a database with every migration applied and no rows but those of the migrations.
    ///
    /// # Panics
    /// When the server cannot be started or refuses: a test can do nothing about it.
    pub async fn create() -> Self {
        let made = async {
            let (server, mut conn) = test_server().await?;
            let template = template(&server, &mut conn).await?;
            let name = format!("t_{}_{}", seconds(), uuid::Uuid::new_v4().simple());
            copy(&mut conn, &template, &name).await?;
            Ok::<_, Error>(Self {
                server,
                name,
                password_file: folder().join("password"),
            })
        };
        match made.await {
            Ok(database) => database,
            Err(error) => panic!("no test database: {}", chain(&error)),
        }
    }

    /// A pool that connects as the given role, as the service would: with its grants and its `search_path`.
    ///
    /// # Panics
    /// When the role cannot connect.
    pub async fn pool(&self, role: &str) -> PgPool {
        let pool = PgPoolOptions::new()
            .max_connections(16)
            .acquire_timeout(Duration::from_secs(30))
            .connect_with(self.options(role))
            .await;
        match pool {
            Ok(pool) => pool,
            Err(error) => panic!("{role} cannot connect to {}: {}", self.name, chain(&error)),
        }
    }

    /// A pool of the role that owns all schemas, to arrange and inspect what a service role may not touch.
    /// Its `search_path` is empty of service schemas: qualify tables.
    ///
    /// # Panics
    /// When the role cannot connect.
    pub async fn owner_pool(&self) -> PgPool {
        self.pool(OWNER_ROLE).await
    }

    /// Connection settings of a role over the server's Unix socket.
    pub fn options(&self, role: &str) -> PgConnectOptions {
        self.server.options(role, &self.name)
    }

    /// Name of the database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// TCP port of the server on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// File with the password of every role, for a `[database]` section with `password_file`.
    pub fn password_file(&self) -> &std::path::Path {
        &self.password_file
    }

    /// The server this database lives in.
    pub fn server(&self) -> &Server {
        &self.server
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        let options = self.server.options("postgres", "postgres");
        let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // a runtime of its own: the test's may be the very thread that is dropping us. That thread may also be the one
        // that has to answer a connection of the test which is just being made and which the server waits for: so
        // the wait is short
        let (done, ended) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || {
            let _done = done;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            if let Ok(runtime) = runtime {
                let _left_overs_are_dropped_later: Result<(), sqlx::Error> =
                    runtime.block_on(async {
                        let mut conn = PgConnection::connect_with(&options).await?;
                        conn.execute(AssertSqlSafe(statement)).await?;
                        Ok(())
                    });
            }
        });
        let _left_over_is_dropped_later = ended.recv_timeout(std::time::Duration::from_secs(3));
    }
}

/// The server of this checkout's tests, started if it does not run, with a superuser's connection.
async fn test_server() -> Result<(Server, PgConnection)> {
    let folder = folder();
    paths::ensure_dir(&folder)?;
    if let Some(server) = known_server()?
        && server.running().is_some()
        && let Ok(conn) = server.superuser("postgres").await
    {
        return Ok((server, conn));
    }
    let _one_starter = lock("start.lock").await?;
    let server = match known_server()? {
        Some(server) if server.running().is_some() => server,
        _ => {
            let port = ports::free()?;
            let file = folder.join("port");
            paths::write_with_mode(&file, port.to_string().as_bytes(), 0o644)?;
            server_at(port)?
        }
    };
    server.start().await?;
    paths::write_secret(&folder.join("password"), PASSWORD.as_bytes())?;
    let mut conn = server.superuser("postgres").await?;
    drop_left_overs(&mut conn).await?;
    Ok((server, conn))
}

/// Ends the server of this checkout's tests, if it runs.
///
/// # Errors
/// When its pid file cannot be read.
pub fn stop_test_server() -> Result<()> {
    if let Some(server) = known_server()? {
        server.stop();
        if server.folder() == in_memory() {
            std::fs::remove_dir_all(server.folder())
                .map_err(Error::file("remove", server.folder()))?;
        }
    }
    Ok(())
}

fn folder() -> PathBuf {
    paths::run_dir().join("test/postgres")
}

fn known_server() -> Result<Option<Server>> {
    let port = std::fs::read_to_string(folder().join("port")).ok();
    port.and_then(|port| port.trim().parse().ok())
        .map(server_at)
        .transpose()
}

/// Where the data lies when there is a file system in memory: a database is hundreds of small files that are made and
/// removed for each test, and ext4 takes long to make a file where many were just removed.
fn in_memory() -> PathBuf {
    Path::new(MEMORY).join(format!("gpuaas-tests-{}", paths::short_hash(&folder())))
}

/// The place of the data: in memory where there is room, or where it is already.
fn data() -> PathBuf {
    let room = || {
        let memory = statvfs(MEMORY).ok()?;
        Some(memory.blocks_available() * memory.fragment_size())
    };
    if in_memory().is_dir() || room().is_some_and(|room| room >= ROOM) {
        in_memory()
    } else {
        folder().join("server")
    }
}

fn server_at(port: u16) -> Result<Server> {
    let folder = folder();
    Server::new(
        &data(),
        port,
        Access::Test,
        &folder.join("postgres.log"),
        PidFile::new(folder.join("postgres.pid")),
    )
}

/// Holds a lock file of the test server; taken off the runtime's threads because it may wait long.
async fn lock(name: &'static str) -> Result<File> {
    let path = folder().join(name);
    let waiting = tokio::task::spawn_blocking(move || {
        let file = File::create(&path).map_err(Error::file("create", &path))?;
        file.lock().map_err(Error::file("lock", &path))?;
        Ok(file)
    });
    waiting
        .await
        .map_err(|error| Error::other(error.to_string()))?
}

/// The template of the migrations that this program embeds.
async fn template(server: &Server, conn: &mut PgConnection) -> Result<String> {
    let name = format!("template_{}", gpuaas_migrations::fingerprint());
    if exists(conn, &name).await? {
        return Ok(name);
    }
    let _one_builder = lock("template.lock").await?;
    if exists(conn, &name).await? {
        return Ok(name);
    }
    let passwords: BTreeMap<String, String> = gpuaas_migrations::roles::all()
        .map(|role| (role.to_owned(), PASSWORD.to_owned()))
        .collect();
    let refused = |error: gpuaas_migrations::Error| Error::other(chain(&error));
    gpuaas_migrations::bootstrap_roles(conn, &passwords)
        .await
        .map_err(refused)?;
    // built under another name, so that an interrupted build is never taken for a template
    let building = format!("building_{}", gpuaas_migrations::fingerprint());
    conn.execute(AssertSqlSafe(format!(
        "DROP DATABASE IF EXISTS {building} WITH (FORCE)"
    )))
    .await?;
    gpuaas_migrations::create_database(conn, &building)
        .await
        .map_err(refused)?;
    let mut owner = PgConnection::connect_with(&server.options(OWNER_ROLE, &building)).await?;
    gpuaas_migrations::apply_all(&mut owner)
        .await
        .map_err(refused)?;
    owner.close().await?;
    conn.execute(AssertSqlSafe(format!(
        "ALTER DATABASE {building} RENAME TO {name}"
    )))
    .await?;
    Ok(name)
}

async fn copy(conn: &mut PgConnection, template: &str, name: &str) -> Result<()> {
    // by files: through the log it takes half as much again of processor time
    conn.execute(AssertSqlSafe(format!(
        "CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy OWNER {OWNER_ROLE}"
    )))
    .await?;
    // who may connect is not part of a template
    let roles: Vec<&str> = gpuaas_migrations::roles::all().collect();
    conn.execute(AssertSqlSafe(format!(
        "REVOKE ALL ON DATABASE {name} FROM PUBLIC; GRANT CONNECT ON DATABASE {name} TO {}",
        roles.join(", ")
    )))
    .await?;
    Ok(())
}

/// Drops the databases of tests that were killed.
async fn drop_left_overs(conn: &mut PgConnection) -> Result<()> {
    let names: Vec<String> = sqlx::query_scalar(
        "SELECT datname FROM pg_database d
         WHERE datname ~ '^t_[0-9]+_' AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.datname = d.datname)",
    )
    .fetch_all(&mut *conn)
    .await?;
    let oldest_kept = seconds().saturating_sub(LEFT_OVER.as_secs());
    for name in names {
        let made: Option<u64> = name.split('_').nth(1).and_then(|made| made.parse().ok());
        if made.is_some_and(|made| made < oldest_kept) {
            conn.execute(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name}")))
                .await?;
        }
    }
    Ok(())
}

fn seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_role_gets_its_own_schema_and_databases_are_apart() {
        let (first, second) = (TestDb::create().await, TestDb::create().await);
        for schema in gpuaas_migrations::SCHEMAS {
            for role in schema.roles {
                let pool = first.pool(role).await;
                let current: String = sqlx::query_scalar("SELECT current_schema()::text")
                    .fetch_one(&pool)
                    .await
                    .unwrap();
                assert_eq!(current, schema.name);
            }
        }
        let owner = first.owner_pool().await;
        owner
            .execute("CREATE TABLE public.only_here ()")
            .await
            .unwrap_err();
        owner
            .execute("CREATE TABLE billing.only_here ()")
            .await
            .unwrap();
        let other = second.owner_pool().await;
        other
            .execute("SELECT FROM billing.only_here")
            .await
            .unwrap_err();
    }

    #[tokio::test]
    async fn a_dropped_database_is_gone() {
        let database = TestDb::create().await;
        let (name, server) = (database.name().to_owned(), database.server().clone());
        let _open_pool = database.owner_pool().await;
        drop(database);
        let mut conn = server.superuser("postgres").await.unwrap();
        // a drop waits three seconds for the server, and leaves the rest to it
        let gone = async { while exists(&mut conn, &name).await.unwrap() {} };
        tokio::time::timeout(Duration::from_secs(60), gone)
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn tcp_asks_for_the_password() {
        let database = TestDb::create().await;
        let tcp = PgConnectOptions::new_without_pgpass()
            .host("127.0.0.1")
            .port(database.port())
            .username("gpuaas_billing")
            .database(database.name());
        let password = std::fs::read_to_string(database.password_file()).unwrap();
        PgConnection::connect_with(&tcp.clone().password("wrong"))
            .await
            .unwrap_err();
        PgConnection::connect_with(&tcp.password(&password))
            .await
            .unwrap();
    }
}
