//! One supervised process of a stack: started once, restarted when its program or settings changed.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::error::{Error, Result};
use crate::health::{Health, Probe};
use crate::process::{self, PidFile, Process};

/// How long a part may take to become ready on a busy machine.
const READY: Duration = Duration::from_secs(90);
/// How long a part may take to end by itself.
const STOP: Duration = Duration::from_secs(15);

/// What [`Part::ensure`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It ran already, from the same program with the same settings.
    Unchanged,
    /// It did not run.
    Started,
    /// It ran from another program or with other settings.
    Restarted,
}

/// A program with its arguments and settings files, and how to see that it is ready.
#[derive(Debug)]
pub struct Part {
    /// Name in logs and tables.
    pub name: String,
    /// Where it answers, for tables.
    pub address: String,
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    /// Files whose content decides how it runs.
    settings: Vec<PathBuf>,
    probe: Probe,
    log: PathBuf,
    pid_file: PidFile,
    stamp: PathBuf,
}

impl Part {
    /// A part whose files lie below `root`.
    pub fn new(root: &Path, name: &str, program: PathBuf, probe: Probe) -> Self {
        Self {
            name: name.to_owned(),
            address: probe.address(),
            program,
            arguments: Vec::new(),
            environment: Vec::new(),
            settings: Vec::new(),
            probe,
            log: root.join("logs").join(format!("{name}.log")),
            pid_file: PidFile::new(root.join("pids").join(format!("{name}.pid"))),
            stamp: root.join("pids").join(format!("{name}.stamp")),
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<std::ffi::OsStr>) -> Self {
        self.arguments
            .push(argument.as_ref().to_string_lossy().into_owned());
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Names a file whose change needs a restart.
    #[must_use]
    pub fn reads(mut self, file: &Path) -> Self {
        self.settings.push(file.to_path_buf());
        self
    }

    /// Its log file.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Its running process, if any.
    pub fn running(&self) -> Option<Process> {
        self.pid_file.running()
    }

    /// Starts the part unless it runs as desired. Returns before it is ready: see [`Self::wait_ready`].
    ///
    /// # Errors
    /// The program is missing or ends at once.
    pub fn ensure(&self) -> Result<Change> {
        let desired = self.fingerprint()?;
        let recorded = std::fs::read_to_string(&self.stamp).unwrap_or_default();
        let change = match self.running() {
            Some(_) if recorded == desired => return Ok(Change::Unchanged),
            Some(_) => {
                self.stop();
                Change::Restarted
            }
            None => Change::Started,
        };
        self.start()?;
        Ok(change)
    }

    /// Starts the part, which must not run.
    ///
    /// # Errors
    /// The program is missing or ends at once.
    pub fn start(&self) -> Result<Process> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        let process = process::spawn_detached(&command, &self.log, &self.pid_file)?;
        crate::paths::write_with_mode(&self.stamp, self.fingerprint()?.as_bytes(), 0o644)?;
        Ok(process)
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// It ended or does not get ready in time; the error shows the end of its log.
    pub async fn wait_ready(&self, health: &Health) -> Result<()> {
        let deadline = tokio::time::Instant::now() + READY;
        loop {
            let observed = health.check(&self.probe).await;
            let reason = match observed {
                Ok(()) if self.running().is_some() => return Ok(()),
                // somebody else answers at our address
                Ok(()) => "its process ended".to_owned(),
                Err(reason) => reason,
            };
            if self.running().is_none() || tokio::time::Instant::now() >= deadline {
                return Err(process::not_ready(&self.name, reason, &self.log));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Whether it is ready now; an error says what is wrong.
    ///
    /// # Errors
    /// A sentence for a table.
    pub async fn health(&self, health: &Health) -> Result<(), String> {
        health.check(&self.probe).await
    }

    /// Asks it to end and makes sure it did.
    pub fn stop(&self) {
        self.pid_file.stop(Signal::SIGTERM, STOP);
    }

    /// Ends it as a crash would.
    pub fn kill(&self) {
        self.pid_file.stop(Signal::SIGKILL, STOP);
    }

    /// Changes when the program file, an argument or a settings file changes.
    fn fingerprint(&self) -> Result<String> {
        let mut hasher = DefaultHasher::new();
        file_identity(&self.program)?.hash(&mut hasher);
        (&self.program, &self.arguments, &self.environment).hash(&mut hasher);
        for file in &self.settings {
            std::fs::read(file)
                .map_err(Error::file("read", file))?
                .hash(&mut hasher);
        }
        Ok(format!("{:016x}", hasher.finish()))
    }
}

/// What changes when a program is built anew, without reading all of it.
pub fn file_identity(program: &Path) -> Result<(u64, u64, i64, i64)> {
    let metadata = std::fs::metadata(program).map_err(|_| {
        Error::other(format!(
            "{} was not built; run `make build`",
            program.display()
        ))
    })?;
    Ok((
        metadata.ino(),
        metadata.size(),
        metadata.mtime(),
        metadata.mtime_nsec(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_restarts_only_when_its_settings_change() {
        let root = std::env::temp_dir().join(format!("gpuaas-part-{}", std::process::id()));
        crate::paths::ensure_dir(&root.join("pids")).unwrap();
        let settings = root.join("settings");
        std::fs::write(&settings, "one").unwrap();
        let part = Part::new(&root, "sleeper", "/bin/sleep".into(), Probe::Process)
            .arg("600")
            .reads(&settings);
        assert_eq!(part.ensure().unwrap(), Change::Started);
        let first = part.running().unwrap();
        assert_eq!(part.ensure().unwrap(), Change::Unchanged);
        assert_eq!(part.running().unwrap(), first);
        std::fs::write(&settings, "two").unwrap();
        assert_eq!(part.ensure().unwrap(), Change::Restarted);
        assert_ne!(part.running().unwrap(), first);
        part.stop();
        assert!(part.running().is_none());
        std::fs::remove_dir_all(root).unwrap();
    }
}
