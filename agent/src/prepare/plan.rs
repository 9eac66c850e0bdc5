//! What a command would change of its host.
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Machine;
use crate::error::{HostResult, io_error};
use crate::parity::line::escape;

/// What every line of a plan begins with.
pub const PREFIX: &str = "GPUAAS_SLICE_PLAN";

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// Makes a folder, and those above it.
    MakeFolder { path: PathBuf, mode: u32 },
    /// Writes a whole file; what it had before is copied to `backup` first.
    WriteFile {
        path: PathBuf,
        text: String,
        mode: u32,
        backup: Option<PathBuf>,
    },
    /// Removes a file; what it had is copied to `backup` first.
    RemoveFile {
        path: PathBuf,
        backup: Option<PathBuf>,
    },
    /// Gives a file or folder another mode.
    SetMode { path: PathBuf, mode: u32 },
    /// Writes to an attribute of the kernel that is there already.
    WriteValue { path: PathBuf, value: String },
    /// Runs a program, never through a shell.
    Run {
        program: String,
        arguments: Vec<String>,
        environment: Vec<(String, String)>,
        /// A failure is reported and ends nothing.
        best_effort: bool,
    },
    /// Ends the plan unless a disk is still the one that was observed, and nothing uses it (P9).
    ProveUnused { identity: String, name: String },
    /// Ends the plan unless a disk has neither partitions nor signatures (I-122).
    ProveRaw { identity: String, name: String },
}

impl Action {
    /// Running a program.
    pub fn run(program: &str, arguments: &[&str]) -> Self {
        Self::Run {
            program: program.to_owned(),
            arguments: arguments.iter().map(|one| (*one).to_owned()).collect(),
            environment: Vec::new(),
            best_effort: false,
        }
    }

    /// Its name, as the JSON has it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::MakeFolder { .. } => "make_folder",
            Self::WriteFile { .. } => "write_file",
            Self::RemoveFile { .. } => "remove_file",
            Self::SetMode { .. } => "set_mode",
            Self::WriteValue { .. } => "write_value",
            Self::Run { .. } => "run",
            Self::ProveUnused { .. } => "prove_unused",
            Self::ProveRaw { .. } => "prove_raw",
        }
    }
}

impl Display for Action {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kept = |f: &mut Formatter<'_>, backup: &Option<PathBuf>| match backup {
            Some(backup) => write!(f, " (backup {})", backup.display()),
            None => Ok(()),
        };
        match self {
            Self::MakeFolder { path, mode } | Self::SetMode { path, mode } => {
                write!(f, "{} {mode:04o}", path.display())
            }
            Self::WriteFile {
                path,
                text,
                mode,
                backup,
            } => {
                write!(f, "{} {mode:04o}, {} bytes", path.display(), text.len())?;
                kept(f, backup)
            }
            Self::RemoveFile { path, backup } => {
                write!(f, "{}", path.display())?;
                kept(f, backup)
            }
            Self::WriteValue { path, value } => write!(f, "{value} > {}", path.display()),
            Self::Run {
                program, arguments, ..
            } => write!(f, "{program} {}", arguments.join(" ")),
            Self::ProveUnused { identity, name } | Self::ProveRaw { identity, name } => {
                write!(f, "{identity} (/dev/{name})")
            }
        }
    }
}

/// A change with what it is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    #[serde(flatten)]
    pub action: Action,
    pub reason: String,
}

/// Why something is refused, for programs; the text beside it is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The host is not in slice mode.
    Mode,
    /// The approved profile cannot be read.
    Profile,
    /// There is no such disk.
    NoSuchDisk,
    /// The disk has no stable identity.
    NoIdentity,
    /// The approved profile does not name the disk.
    NotApproved,
    /// The disk is that of the operating system.
    SystemDisk,
    /// Somebody uses the disk.
    InUse,
    /// The disk is that of a slot.
    SlotDisk,
    /// What must be known cannot be observed.
    Unknown,
}

impl Cause {
    /// As the JSON has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Profile => "profile",
            Self::NoSuchDisk => "no_such_disk",
            Self::NoIdentity => "no_identity",
            Self::NotApproved => "not_approved",
            Self::SystemDisk => "system_disk",
            Self::InUse => "in_use",
            Self::SlotDisk => "slot_disk",
            Self::Unknown => "unknown",
        }
    }
}

/// What a command would do, and what it observed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    pub command: String,
    /// In order.
    pub steps: Vec<Step>,
    /// What is left out, and why.
    pub notes: Vec<String>,
    /// Why the command changes nothing, or not all that it was asked to.
    pub refusals: Vec<String>,
    /// The causes of those refusals that have one, by the place of the refusal.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub causes: BTreeMap<usize, Cause>,
    /// Whether the host must restart before it is as planned (I-86).
    pub reboot_required: bool,
}

impl Plan {
    /// Of a command.
    pub fn new(command: &str) -> Self {
        Self {
            command: command.to_owned(),
            ..Self::default()
        }
    }

    /// Whether the host is as it must be.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.refusals.is_empty()
    }

    pub(crate) fn step(&mut self, action: Action, reason: impl Into<String>) {
        let reason = reason.into();
        self.steps.push(Step { action, reason });
    }

    pub(crate) fn run(&mut self, program: &str, arguments: &[&str], reason: impl Into<String>) {
        self.step(Action::run(program, arguments), reason);
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Refuses for a cause that programs know.
    pub(crate) fn refuse_for(&mut self, cause: Cause, why: impl Into<String>) {
        self.causes.insert(self.refusals.len(), cause);
        self.refuse(why);
    }

    pub(crate) fn refuse(&mut self, why: impl Into<String>) {
        self.refusals.push(why.into());
    }

    /// Writes a file unless it has this text already; returns whether it must be written. `backup` keeps what it had.
    pub(crate) fn file(
        &mut self,
        machine: &Machine,
        path: impl AsRef<Path>,
        (text, mode): (&str, u32),
        backup: Option<PathBuf>,
        reason: &str,
    ) -> HostResult<bool> {
        let path = path.as_ref();
        let there = match machine.root.read(path) {
            Ok(there) => Some(there),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                return Err(io_error(format_args!("cannot read {}", path.display()))(
                    error,
                ));
            }
        };
        if there.as_deref() == Some(text) {
            return Ok(false);
        }
        let action = Action::WriteFile {
            path: path.to_owned(),
            text: text.to_owned(),
            mode,
            backup: backup.filter(|_| there.is_some()),
        };
        self.step(action, reason);
        Ok(true)
    }

    /// Puts another command's steps at the end.
    pub(crate) fn append(&mut self, other: Self) {
        self.steps.extend(other.steps);
        self.notes.extend(other.notes);
        let before = self.refusals.len();
        let causes = other.causes.into_iter();
        self.causes
            .extend(causes.map(|(place, cause)| (before + place, cause)));
        self.refusals.extend(other.refusals);
        self.reboot_required |= other.reboot_required;
    }

    /// One line per step for programs and people, and a summary; values are escaped as a shell reads them.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |action: &str, rest: String| {
            text.push_str(&format!(
                "{PREFIX} command={} action={action} {rest}\n",
                self.command
            ));
        };
        for step in &self.steps {
            let detail = escape(&step.action.to_string());
            let rest = format!("detail={detail} reason={}", escape(&step.reason));
            line(step.action.name(), rest);
        }
        for note in &self.notes {
            line("skip", format!("detail={}", escape(note)));
        }
        for (place, why) in self.refusals.iter().enumerate() {
            let detail = escape(why);
            line(
                "refuse",
                match self.causes.get(&place) {
                    Some(cause) => format!("cause={} detail={detail}", cause.as_str()),
                    None => format!("detail={detail}"),
                },
            );
        }
        text.push_str(&format!(
            "{PREFIX} summary command={} steps={} skipped={} refused={} reboot_required={}\n",
            self.command,
            self.steps.len(),
            self.notes.len(),
            self.refusals.len(),
            u8::from(self.reboot_required)
        ));
        text
    }
}
