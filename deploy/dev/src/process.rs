//! Processes that outlive us: started detached, remembered by pid file, ended only when it is surely them.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{Error, Result};
use crate::paths;

/// How many lines of a log a failure shows.
const TAIL_LINES: usize = 15;

/// A process as its pid file names it: a pid alone may have been given to another process since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks since boot, as `/proc/<pid>/stat` has it.
    pub started: u64,
    /// Boot that the two numbers belong to.
    boot: String,
}

impl Process {
    /// The running process with this pid.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // the command's name may hold spaces and parentheses: fields are counted after the last one
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        if matches!(*fields.first()?, "Z" | "X") {
            return None;
        }
        Some(Self {
            pid,
            started: fields.get(19)?.parse().ok()?,
            boot: boot_id(),
        })
    }

    /// Whether it still runs.
    pub fn alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }

    /// Resident memory in bytes.
    pub fn memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kibibytes * 1024)
    }

    /// Sends a signal if it still runs.
    pub fn signal(&self, signal: Signal) {
        if self.alive() {
            let _gone_is_fine: Result<(), Errno> = kill(Pid::from_raw(self.pid), signal);
        }
    }

    /// Asks it to end, waits up to `timeout`, then ends it.
    pub fn stop(&self, signal: Signal, timeout: Duration) {
        self.signal(signal);
        if !wait_until(timeout, || !self.alive()) {
            self.signal(Signal::SIGKILL);
            wait_until(Duration::from_secs(5), || !self.alive());
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_whitespace();
        Some(Self {
            pid: fields.next()?.parse().ok()?,
            started: fields.next()?.parse().ok()?,
            boot: fields.next()?.to_owned(),
        })
    }
}

/// A part's pid file.
#[derive(Debug, Clone)]
pub struct PidFile(PathBuf);

impl PidFile {
    /// The file at `path`; it need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The process the file names, if that very process still runs.
    pub fn running(&self) -> Option<Process> {
        let process = Process::parse(&std::fs::read_to_string(&self.0).ok()?)?;
        process.alive().then_some(process)
    }

    /// Ends the process if it runs, as [`Process::stop`], and forgets it.
    pub fn stop(&self, signal: Signal, timeout: Duration) {
        if let Some(process) = self.running() {
            process.stop(signal, timeout);
        }
        self.remove();
    }

    /// Remembers a process.
    pub fn write(&self, process: &Process) -> Result<()> {
        let line = format!("{} {} {}\n", process.pid, process.started, process.boot);
        paths::write_with_mode(&self.0, line.as_bytes(), 0o644)
    }

    /// Forgets it.
    fn remove(&self) {
        let _absent_is_fine = std::fs::remove_file(&self.0);
    }
}

/// Starts `command` in a session of its own with its output appended to `log`, and remembers it in `pid_file`.
///
/// The process ends neither with us nor with our terminal.
pub fn spawn_detached(command: &Command, log: &Path, pid_file: &PidFile) -> Result<Process> {
    if let Some(folder) = log.parent() {
        paths::ensure_dir(folder)?;
    }
    let output: File = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .map_err(Error::file("open", log))?;
    let errors = output.try_clone().map_err(Error::file("open", log))?;
    // setsid(1) replaces itself by the program, so the child's pid is the program's
    let mut detached = Command::new("setsid");
    detached.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => detached.env(name, value),
            None => detached.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        detached.current_dir(folder);
    }
    let child = detached
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .map_err(|_| missing("setsid"))?;
    let pid = i32::try_from(child.id()).map_err(|_| Error::other("pid out of range"))?;
    // reaped in the background, else it would stay a zombie for as long as we live
    std::thread::spawn(move || {
        let mut child = child;
        let _status = child.wait();
    });
    let process = Process::of(pid).ok_or_else(|| {
        Error::other(format!(
            "{} ended at once: {}",
            command.get_program().to_string_lossy(),
            tail(log)
        ))
    })?;
    pid_file.write(&process)?;
    Ok(process)
}

/// A command that runs `program` as another user, or as ourselves when `user` is `None`.
pub fn as_user(user: Option<&nix::unistd::User>, program: &Path) -> Command {
    match user {
        None => Command::new(program),
        Some(user) => {
            let mut command = Command::new("setpriv");
            command
                .arg(format!("--reuid={}", user.uid))
                .arg(format!("--regid={}", user.gid))
                .args(["--clear-groups", "--"])
                .arg(program)
                .env("HOME", &user.dir);
            command
        }
    }
}

/// Runs a command to its end and returns what it printed.
pub fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|_| missing(&program))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut printed = String::from_utf8_lossy(&output.stderr).into_owned();
    if printed.trim().is_empty() {
        printed = String::from_utf8_lossy(&output.stdout).into_owned();
    }
    Err(Error::Program {
        program,
        status: output.status.to_string(),
        output: last_lines(&printed),
    })
}

/// Runs a program with arguments to its end.
pub fn run(program: &str, arguments: &[&str]) -> Result<String> {
    output(Command::new(program).args(arguments))
}

/// The last lines of a log file, for an error message.
pub fn tail(log: &Path) -> String {
    let content = std::fs::read(log).unwrap_or_default();
    last_lines(&String::from_utf8_lossy(&content))
}

/// The error of a part that does not get ready, with the end of its log.
pub fn not_ready(part: &str, reason: impl Into<String>, log: &Path) -> Error {
    Error::NotReady {
        part: part.to_owned(),
        reason: reason.into(),
        log: log.to_path_buf(),
        tail: tail(log),
    }
}

/// Polls `condition` until it holds or `timeout` is over; says whether it held.
pub fn wait_until(timeout: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + timeout;
    while !condition() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

fn missing(program: &str) -> Error {
    Error::Missing {
        program: program.to_owned(),
    }
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("gpuaas-process-{name}-{}", std::process::id()));
        paths::ensure_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn a_detached_process_is_found_again_and_ended() {
        let folder = folder("detached");
        let pid_file = PidFile::new(folder.join("pid"));
        let mut command = Command::new("sleep");
        command.arg("600");
        let process = spawn_detached(&command, &folder.join("log"), &pid_file).unwrap();
        assert_eq!(pid_file.running(), Some(process.clone()));
        process.stop(Signal::SIGTERM, Duration::from_secs(5));
        assert!(!process.alive());
        assert_eq!(pid_file.running(), None);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_recycled_pid_is_never_taken_for_the_part() {
        let folder = folder("recycled");
        let pid_file = PidFile::new(folder.join("pid"));
        let own = Process::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        pid_file.write(&own).unwrap();
        assert!(pid_file.running().is_some());
        let other = Process {
            started: own.started + 1,
            ..own
        };
        pid_file.write(&other).unwrap();
        assert_eq!(
            pid_file.running(),
            None,
            "same pid, another start: another process"
        );
        std::fs::remove_dir_all(folder).unwrap();
    }
}
