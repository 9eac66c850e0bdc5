//! One private PostgreSQL server in a folder of its own, run by Debian's binaries as an unprivileged user.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::User;
use sqlx::Connection as _;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};

use crate::error::{Error, Result};
use crate::paths;
use crate::process::{self, PidFile, Process};

/// Where Debian puts the binaries, one folder per major version.
const DEBIAN: &str = "/usr/lib/postgresql";
/// How long a start may take on a busy machine, crash recovery included.
const START: Duration = Duration::from_secs(90);

/// How a server is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Throw-away data of tests: nothing is flushed to disk.
    Test,
    /// Data that a crash must not lose, as in production.
    Durable,
}

/// A server's place and port.
#[derive(Debug, Clone)]
pub struct Server {
    folder: PathBuf,
    port: u16,
    access: Access,
    user: Option<User>,
    log: PathBuf,
    pid_file: PidFile,
}

impl Server {
    /// A server whose data is meant to lie in `wanted` (moved where its user can reach it), with its log and pid
    /// file at the given places. Nothing is started yet.
    pub fn new(
        wanted: &Path,
        port: u16,
        access: Access,
        log: &Path,
        pid_file: PidFile,
    ) -> Result<Self> {
        let user = paths::other_user("postgres")?;
        let folder = paths::folder_for(wanted, user.as_ref())?;
        Ok(Self {
            folder,
            port,
            access,
            user,
            log: log.to_path_buf(),
            pid_file,
        })
    }

    /// TCP port on 127.0.0.1; also part of the Unix socket's name.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where the data lies, and the Unix socket: usable as a host name in connection settings.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Connection settings over the Unix socket, which only root and the server's user can reach, so that it asks
    /// for no password. TCP always asks.
    pub fn options(&self, role: &str, database: &str) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .socket(&self.folder)
            .port(self.port)
            .username(role)
            .database(database)
            .ssl_mode(PgSslMode::Disable)
    }

    /// A superuser's connection to a database.
    pub async fn superuser(&self, database: &str) -> Result<PgConnection> {
        Ok(PgConnection::connect_with(&self.options("postgres", database)).await?)
    }

    /// The running server process, if it is ours.
    pub fn running(&self) -> Option<Process> {
        self.pid_file.running()
    }

    /// Starts the server unless it runs, and returns once it answers.
    pub async fn start(&self) -> Result<Process> {
        if let Some(process) = self.running() {
            self.wait_ready(&process).await?;
            return Ok(process);
        }
        self.initialise()?;
        let mut command = process::as_user(self.user.as_ref(), &binary("postgres")?);
        command.arg("-D").arg(self.data());
        command.args(["-p", &self.port.to_string()]);
        command.arg("-k").arg(&self.folder);
        for setting in self.settings() {
            command.args(["-c", setting]);
        }
        command.current_dir(&self.folder);
        let process = process::spawn_detached(&command, &self.log, &self.pid_file)?;
        self.wait_ready(&process).await?;
        Ok(process)
    }

    /// Ends the server, without waiting for its clients.
    pub fn stop(&self) {
        self.pid_file.stop(Signal::SIGINT, Duration::from_secs(20));
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn settings(&self) -> Vec<&'static str> {
        let mut settings = vec![
            "listen_addresses=127.0.0.1",
            "max_connections=200",
            "shared_buffers=64MB",
            "password_encryption=scram-sha-256",
            "timezone=UTC",
            "log_timezone=UTC",
        ];
        if self.access == Access::Test {
            settings.extend([
                "fsync=off",
                "synchronous_commit=off",
                "full_page_writes=off",
                "max_connections=400",
                // it may lie in memory
                "max_wal_size=1GB",
                "autovacuum_naptime=10min",
                // as on the services' own connections: compiling a statement takes longer than it runs
                "jit=off",
                // a killed test's half-open connection would hold up every CREATE and DROP DATABASE
                "authentication_timeout=10s",
            ]);
        }
        settings
    }

    fn initialise(&self) -> Result<()> {
        let data = self.data();
        if data.join("gpuaas-ready").exists() {
            return Ok(());
        }
        if data.exists() {
            // an initdb that was interrupted leaves a folder that no server can use
            std::fs::remove_dir_all(&data).map_err(Error::file("remove", &data))?;
        }
        let mut command = process::as_user(self.user.as_ref(), &binary("initdb")?);
        command
            .arg("-D")
            .arg(&data)
            .args([
                "-U",
                "postgres",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
                "--no-sync",
            ])
            .args(["--auth-local=trust", "--auth-host=scram-sha-256"])
            .current_dir(&self.folder);
        process::output(&mut command)?;
        let marker = data.join("gpuaas-ready");
        std::fs::write(&marker, b"").map_err(Error::file("write", &marker))
    }

    async fn wait_ready(&self, process: &Process) -> Result<()> {
        let deadline = tokio::time::Instant::now() + START;
        loop {
            let Err(reason) = self.superuser("postgres").await else {
                return Ok(());
            };
            if !process.alive() || tokio::time::Instant::now() >= deadline {
                return Err(process::not_ready(
                    "postgres",
                    reason.to_string(),
                    &self.log,
                ));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Whether the server has a database of this name.
pub async fn exists(conn: &mut PgConnection, name: &str) -> Result<bool> {
    let exists = sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)");
    Ok(exists.bind(name).fetch_one(conn).await?)
}

/// A binary of the newest installed version.
fn binary(name: &str) -> Result<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir(DEBIAN)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            let path = entry.path().join("bin").join(name);
            path.is_file().then_some((version, path))
        })
        .collect();
    versions.sort();
    versions
        .pop()
        .map(|(_, path)| path)
        .ok_or_else(|| Error::Missing {
            program: format!("PostgreSQL ({name})"),
        })
}
