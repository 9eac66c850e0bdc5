//! A private Redis that keeps nothing: wake-ups and caches only.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::{User, chown};

use crate::error::{Error, Result};
use crate::process::{self, PidFile, Process};
use crate::{paths, ports};

/// How long a start may take on a busy machine.
const START: Duration = Duration::from_secs(30);

/// A Redis server with a password, on 127.0.0.1.
#[derive(Debug, Clone)]
pub struct Redis {
    folder: PathBuf,
    port: u16,
    user: Option<User>,
    log: PathBuf,
    pid_file: PidFile,
}

impl Redis {
    /// A server with its settings in `wanted` (moved where its user can reach it). Nothing is started yet.
    ///
    /// # Errors
    /// A folder that cannot be made, or Redis is not installed.
    pub fn new(wanted: &Path, port: u16, log: &Path, pid_file: PidFile) -> Result<Self> {
        let user = paths::other_user("redis")?;
        let folder = paths::folder_for(wanted, user.as_ref())?;
        Ok(Self {
            folder,
            port,
            user,
            log: log.to_path_buf(),
            pid_file,
        })
    }

    /// File with the server's URL and password, mode 0600.
    pub fn url_file(&self) -> PathBuf {
        self.folder.join("url")
    }

    /// The server's URL with its password.
    ///
    /// # Errors
    /// The server was never started.
    pub fn url(&self) -> Result<String> {
        let file = self.url_file();
        std::fs::read_to_string(&file).map_err(Error::file("read", &file))
    }

    /// Where its settings lie.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Whether it answers.
    pub fn answers(&self) -> bool {
        self.command(&["PING"])
            .is_ok_and(|answer| answer.trim() == "PONG")
    }

    /// The running server process, if it is ours.
    pub fn running(&self) -> Option<Process> {
        self.pid_file.running()
    }

    /// Starts the server unless it runs, and returns once it answers.
    ///
    /// # Errors
    /// The server does not start.
    pub fn start(&self) -> Result<Process> {
        let process = match self.running() {
            Some(process) => process,
            None => {
                self.configure()?;
                let mut command = process::as_user(self.user.as_ref(), Path::new("redis-server"));
                command.arg(self.settings_file()).current_dir(&self.folder);
                process::spawn_detached(&command, &self.log, &self.pid_file)?
            }
        };
        let mut answer = String::new();
        let ready = process::wait_until(START, || {
            answer = self
                .command(&["PING"])
                .unwrap_or_else(|error| error.to_string());
            answer.trim() == "PONG" || !process.alive()
        });
        if ready && process.alive() {
            return Ok(process);
        }
        Err(process::not_ready("redis", answer, &self.log))
    }

    /// Ends the server; everything in it is gone.
    pub fn stop(&self) {
        self.pid_file.stop(Signal::SIGTERM, Duration::from_secs(10));
    }

    /// Removes every key, as a failover to an empty server would.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn flush(&self) -> Result<()> {
        self.command(&["FLUSHALL"]).map(drop)
    }

    fn settings_file(&self) -> PathBuf {
        self.folder.join("redis.conf")
    }

    fn configure(&self) -> Result<()> {
        // who has read the URL finds a server that was restarted
        let password = self
            .url()
            .ok()
            .and_then(|url| password_of(&url).map(str::to_owned))
            .unwrap_or_else(|| hex::encode(uuid::Uuid::new_v4().as_bytes()));
        let settings = format!(
            "bind 127.0.0.1\nport {}\nprotected-mode yes\nrequirepass {password}\nsave \"\"\nappendonly no\n\
             daemonize no\nmaxmemory 256mb\nmaxmemory-policy allkeys-lru\n",
            self.port
        );
        let file = self.settings_file();
        paths::write_secret(&file, settings.as_bytes())?;
        if let Some(user) = &self.user {
            chown(&file, Some(user.uid), Some(user.gid))
                .map_err(|errno| Error::file("own", &file)(errno.into()))?;
        }
        let url = format!("redis://:{password}@127.0.0.1:{}", self.port);
        paths::write_secret(&self.url_file(), url.as_bytes())
    }

    fn command(&self, arguments: &[&str]) -> Result<String> {
        let url = self.url()?;
        let password = password_of(&url).unwrap_or_default();
        process::output(
            Command::new("redis-cli")
                // by environment: arguments are readable by every user of the machine
                .env("REDISCLI_AUTH", password)
                .args(["-h", "127.0.0.1", "-p", &self.port.to_string()])
                .args(arguments),
        )
    }
}

fn password_of(url: &str) -> Option<&str> {
    let (password, _) = url.strip_prefix("redis://:")?.split_once('@')?;
    Some(password)
}

/// A Redis of its own for one test. Ended with the value.
#[derive(Debug)]
pub struct TestRedis {
    server: Redis,
    folder: PathBuf,
}

impl TestRedis {
    /// Starts an empty server.
    ///
    /// # Panics
    /// When it does not start: a test can do nothing about it.
    pub fn start() -> Self {
        Self::try_start().unwrap_or_else(|error| panic!("no test redis: {error}"))
    }

    fn try_start() -> Result<Self> {
        let folder =
            std::env::temp_dir().join(format!("gpuaas-redis-{}", uuid::Uuid::new_v4().simple()));
        paths::ensure_dir(&folder)?;
        let server = Redis::new(
            &folder.join("server"),
            ports::free()?,
            &folder.join("redis.log"),
            PidFile::new(folder.join("redis.pid")),
        )?;
        let test = Self { server, folder };
        test.server.start()?;
        Ok(test)
    }

    /// The server: its URL, and to stop, empty and start it.
    pub fn server(&self) -> &Redis {
        &self.server
    }

    /// The server's URL with its password.
    ///
    /// # Panics
    /// When the file with it was removed.
    pub fn url(&self) -> String {
        self.server.url().unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Drop for TestRedis {
    fn drop(&mut self) {
        self.server.stop();
        let _best_effort = std::fs::remove_dir_all(&self.server.folder);
        let _best_effort = std::fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_redis_starts_empties_restarts_and_ends() {
        let redis = TestRedis::start();
        redis.server().command(&["SET", "key", "value"]).unwrap();
        redis.server().flush().unwrap();
        assert_eq!(redis.server().command(&["DBSIZE"]).unwrap().trim(), "0");
        let first = redis.server().running().unwrap();
        let url = redis.url();
        redis.server().stop();
        assert!(!first.alive());
        let second = redis.server().start().unwrap();
        assert_ne!(first, second);
        assert_eq!(redis.url(), url);
        drop(redis);
        assert!(!second.alive());
    }
}
