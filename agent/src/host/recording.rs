//! A recorded host: what discovery and readiness read of it, in one file. The same code runs on it again, elsewhere.
//!
//! A recording has the folders, files and links that were read, as a tree that is laid out below a folder, and the
//! answers of the programs that were run. [`replay`] runs work with these answers: a program that was not recorded has
//! not answered, so nothing is ever taken from the machine that replays.
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::future::Future;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::output::Output;
use super::secrets::{is_secret, without_secrets};
use crate::error::{HostError, HostResult, io_error};

/// Version of the file.
pub const SCHEMA: u32 = 1;
/// Bounds of a file that somebody sent.
const MAX_BYTES: u64 = 64 << 20;
const MAX_ENTRIES: usize = 200_000;

/// A recorded host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The agent that recorded it.
    pub agent_version: String,
    /// What of the agent's settings the checks depend on: profile, network, fabric, dnsmasq.
    pub settings: serde_json::Value,
    /// By absolute path.
    pub entries: BTreeMap<PathBuf, Entry>,
    /// By command line.
    pub answers: BTreeMap<String, Answer>,
}

/// Something below the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// With its permissions.
    Folder(u32),
    /// A text.
    Text(String),
    /// Bytes that are no text, in hex.
    Bytes(String),
    /// A symlink, by its target.
    Link(PathBuf),
}

/// What a program answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It ended.
    Ended {
        status: i32,
        stdout: String,
        stderr: String,
    },
    /// It could not be run, or did not end in time.
    Failed(String),
}

impl Answer {
    /// A program that succeeded.
    pub fn text(stdout: impl Into<String>) -> Self {
        Self::Ended {
            status: 0,
            stdout: stdout.into(),
            stderr: String::new(),
        }
    }

    fn of(result: &HostResult<Output>) -> Self {
        match result {
            Ok(output) => Self::Ended {
                status: output.status,
                stdout: withheld(&output.stdout),
                stderr: without_secrets(&output.stderr),
            },
            Err(error) => Self::Failed(without_secrets(&error.message)),
        }
    }

    fn output(&self) -> HostResult<Output> {
        match self {
            Self::Ended {
                status,
                stdout,
                stderr,
            } => Ok(Output {
                status: *status,
                stdout: stdout.clone(),
                stderr: stderr.clone(),
            }),
            Self::Failed(why) => Err(HostError::host(ErrorReason::HostNotReady, why.clone())),
        }
    }
}

/// What a program printed, without its secrets. Of JSON what has a secret's name is blank, so that the rest is still read.
fn withheld(stdout: &str) -> String {
    match serde_json::from_str(stdout) {
        Ok(mut value) => match blank(&mut value) {
            true => value.to_string(),
            false => stdout.to_owned(),
        },
        Err(_) => without_secrets(stdout),
    }
}

/// Returns whether there was anything. What has a secret's name is blank whatever it is, and of its kind still: a number, a
/// list or an object may be the secret, or have it inside.
fn blank(value: &mut Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter_mut().fold(false, |found, (name, value)| {
            if is_secret(name) && !value.is_null() {
                *value = match value {
                    Value::String(_) => Value::from(""),
                    Value::Number(_) => Value::from(0),
                    Value::Bool(_) => Value::from(false),
                    Value::Array(_) => Value::Array(Vec::new()),
                    Value::Object(_) | Value::Null => Value::Object(serde_json::Map::new()),
                };
                return true;
            }
            blank(value) || found
        }),
        Value::Array(items) => {
            let mut found = false;
            // each of them, also after the first that had any
            for item in items {
                found |= blank(item);
            }
            found
        }
        _ => false,
    }
}

impl Recording {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is larger than any recording, or is of a version that this agent does not know.
    pub fn load(file: &Path) -> HostResult<Self> {
        let failed = || io_error(format!("cannot read {}", file.display()));
        let bytes = std::fs::metadata(file).map_err(failed())?.len();
        if bytes > MAX_BYTES {
            return Err(refused(format!("{} has {bytes} bytes", file.display())));
        }
        Self::parse(&std::fs::read_to_string(file).map_err(failed())?)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// It is no recording, or one of a version that this agent does not know.
    pub fn parse(text: &str) -> HostResult<Self> {
        #[derive(Deserialize)]
        struct Version {
            schema: u32,
        }
        let bad = |error: serde_json::Error| refused(error.to_string());
        let version: Version = serde_json::from_str(text).map_err(bad)?;
        if version.schema != SCHEMA {
            return Err(refused(format!(
                "it has the version {}, and this agent reads version {SCHEMA}",
                version.schema
            )));
        }
        let found: Self = serde_json::from_str(text).map_err(bad)?;
        if found.entries.len() > MAX_ENTRIES {
            return Err(refused(format!("it has more than {MAX_ENTRIES} entries")));
        }
        Ok(found)
    }

    /// The file's text.
    pub fn to_text(&self) -> HostResult<String> {
        serde_json::to_string_pretty(self).map_err(|error| HostError::internal(error.to_string()))
    }

    /// Writes a new file, for its owner alone: it has serial numbers, addresses and what programs printed.
    ///
    /// # Errors
    /// It is there already, or cannot be written.
    pub fn save(&self, file: &Path) -> HostResult<()> {
        let failed = || io_error(format!("cannot make {}", file.display()));
        let mut options = std::fs::OpenOptions::new();
        let made = options.write(true).create_new(true).mode(0o600).open(file);
        let text = self.to_text()?;
        made.map_err(failed())?
            .write_all(text.as_bytes())
            .map_err(failed())
    }

    /// Lays the tree out below a folder.
    ///
    /// # Errors
    /// An entry would be, or would lead, outside of it; or the file system refuses.
    pub fn lay_out(&self, folder: &Path) -> HostResult<()> {
        for (path, entry) in &self.entries {
            check(path, entry)?;
            let mut above = path.ancestors().skip(1);
            if above.any(|above| matches!(self.entries.get(above), Some(Entry::Link(_)))) {
                return Err(refused(format!("{path:?} lies below a link")));
            }
        }
        let failed = |path: &Path| io_error(format!("cannot lay out {}", path.display()));
        for (path, entry) in &self.entries {
            place(folder, path, entry).map_err(failed(path))?;
        }
        Ok(())
    }
}

/// Places one entry; its folders are made.
fn place(folder: &Path, path: &Path, entry: &Entry) -> io::Result<()> {
    let at = folder.join(path.strip_prefix("/").unwrap_or(path));
    if let Some(above) = at.parent() {
        std::fs::create_dir_all(above)?;
    }
    match entry {
        Entry::Folder(mode) => {
            std::fs::create_dir_all(&at)?;
            std::fs::set_permissions(&at, PermissionsExt::from_mode(mode & 0o777 | 0o700))
        }
        Entry::Text(text) => std::fs::write(&at, text),
        Entry::Bytes(hex) => std::fs::write(&at, hex::decode(hex).map_err(io::Error::other)?),
        Entry::Link(target) => std::os::unix::fs::symlink(target, &at),
    }
}

/// A path has no way out of the tree, and neither has a link: what is read below the root is never this machine's. A link
/// goes up first and then down; since nothing lies below a link, each step up is a folder of the tree.
fn check(path: &Path, entry: &Entry) -> HostResult<()> {
    let plain = path.is_absolute()
        && path
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !plain {
        return Err(refused(format!("{path:?} is no path of a host")));
    }
    let Entry::Link(target) = entry else {
        return Ok(());
    };
    // what a process holds open is read and never followed; a recording has devices alone
    let is_descriptor =
        path.starts_with("/proc") && path.parent().is_some_and(|up| up.ends_with("fd"));
    if is_descriptor && target.is_absolute() {
        let is_device = target.starts_with("/dev")
            && target
                .components()
                .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        return if is_device {
            Ok(())
        } else {
            Err(refused(format!("{path:?} leads to {target:?}")))
        };
    }
    let mut depth = path.components().count().saturating_sub(2);
    let mut is_down = false;
    for part in target.components() {
        match part {
            Component::Normal(_) => is_down = true,
            Component::ParentDir if depth > 0 && !is_down => depth -= 1,
            Component::CurDir => {}
            _ => return Err(refused(format!("{path:?} leads to {target:?}"))),
        }
    }
    Ok(())
}

fn refused(why: String) -> HostError {
    HostError::invalid("recording", why)
}

/// What a task does with the answers of programs.
#[derive(Clone)]
enum Tape {
    Replay(Arc<Recording>),
    Record(Arc<Mutex<BTreeMap<String, Answer>>>),
}

tokio::task_local! {
    static TAPE: Tape;
}

/// Runs work with the answers of a recorded host in place of this machine's programs.
pub async fn replay<T>(recording: Arc<Recording>, work: impl Future<Output = T>) -> T {
    TAPE.scope(Tape::Replay(recording), work).await
}

/// Runs work, and tells which programs answered it what.
pub async fn record<T>(work: impl Future<Output = T>) -> (T, BTreeMap<String, Answer>) {
    let answers = Arc::default();
    let done = TAPE.scope(Tape::Record(Arc::clone(&answers)), work).await;
    let answers = std::mem::take(&mut *answers.lock().unwrap_or_else(PoisonError::into_inner));
    (done, answers)
}

/// Whether this task runs on a recorded host.
pub fn is_replay() -> bool {
    TAPE.try_with(|tape| matches!(tape, Tape::Replay(_)))
        .unwrap_or(false)
}

/// The answer to a command line: the recorded one on a recorded host, else that of `live`, which is noted while a host is
/// recorded. Whatever is observed without a program has a command line of its own, "probe" and what it is.
pub async fn answer<S: AsRef<OsStr>>(
    program: &str,
    arguments: &[S],
    live: impl Future<Output = HostResult<Output>>,
) -> HostResult<Output> {
    let Ok(tape) = TAPE.try_with(Clone::clone) else {
        return live.await;
    };
    let line = line(program, arguments);
    match tape {
        Tape::Replay(recording) => match recording.answers.get(&line) {
            Some(answer) => answer.output(),
            None => Err(HostError::host(
                ErrorReason::HostNotReady,
                format!("the recorded host has no answer of {line}"),
            )),
        },
        Tape::Record(answers) => {
            let result = live.await;
            let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.insert(line, Answer::of(&result));
            result
        }
    }
}

/// The same for what is observed without a program, under the name "probe WHAT".
///
/// # Errors
/// Those of the observation, and one where the recorded host has none of this name.
pub async fn observe<T: Serialize + DeserializeOwned>(
    what: &str,
    live: impl Future<Output = HostResult<T>>,
) -> HostResult<T> {
    if TAPE.try_with(|_| ()).is_err() {
        return live.await;
    }
    let malformed =
        |error: serde_json::Error| HostError::internal(format!("probe {what}: {error}"));
    let noted = async {
        Ok(Output {
            status: 0,
            stdout: serde_json::to_string(&live.await?).map_err(malformed)?,
            stderr: String::new(),
        })
    };
    let output = answer("probe", &[what], noted).await?;
    serde_json::from_str(&output.stdout).map_err(malformed)
}

/// The command line as a recording has it.
pub fn line<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> String {
    let mut line = program.to_owned();
    for argument in arguments {
        line.push(' ');
        line.push_str(&argument.as_ref().to_string_lossy());
    }
    line
}

#[cfg(test)]
#[path = "recording_tests.rs"]
mod tests;
