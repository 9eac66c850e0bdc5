//! Applies a plan, step by step, and ends at the first one that fails.
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::plan::{Action, Step};
use super::{Machine, storage};
use crate::error::{HostError, HostResult, io_error};

/// What every line of an outcome begins with.
pub const PREFIX: &str = "GPUAAS_SLICE_APPLY";

/// Applies steps in order; each outcome is told as it comes.
///
/// # Errors
/// That of the first step that failed; none after it was begun.
pub async fn apply(
    machine: &Machine,
    steps: &[Step],
    mut reported: impl FnMut(&Step, &HostResult<()>),
) -> HostResult<()> {
    for step in steps {
        let done = one(machine, &step.action).await;
        reported(step, &done);
        let is_optional = matches!(
            step.action,
            Action::Run {
                best_effort: true,
                ..
            }
        );
        if !is_optional {
            done?;
        }
    }
    Ok(())
}

async fn one(machine: &Machine, action: &Action) -> HostResult<()> {
    let root = &machine.root;
    let failed = |path: &Path| io_error(format!("cannot change {}", path.display()));
    match action {
        Action::MakeFolder { path, mode } => {
            make_folder(&root.path(path), *mode).map_err(failed(path))
        }
        Action::WriteFile {
            path,
            text,
            mode,
            backup,
        } => {
            keep(machine, path, backup.as_deref())?;
            write_file(&root.path(path), text, *mode).map_err(failed(path))
        }
        Action::RemoveFile { path, backup } => {
            keep(machine, path, backup.as_deref())?;
            match fs::remove_file(root.path(path)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path)(error)),
                _ => Ok(()),
            }
        }
        Action::SetMode { path, mode } => {
            fs::set_permissions(root.path(path), Permissions::from_mode(*mode))
                .map_err(failed(path))
        }
        Action::WriteValue { path, value } => {
            machine.write_value(path, value).map_err(failed(path))
        }
        Action::Run {
            program,
            arguments,
            environment,
            ..
        } => machine
            .run(program, arguments, environment)
            .await
            .map(|_| ()),
        Action::ProveUnused { identity, name } => {
            storage::prove_unused(machine, identity, name).await
        }
        Action::ProveRaw { identity, name } => storage::prove_raw(machine, identity, name).await,
    }
}

fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// A backup is never overwritten: it may be the only copy of what an operator wrote.
fn keep(machine: &Machine, path: &Path, backup: Option<&Path>) -> HostResult<()> {
    let Some(backup) = backup else { return Ok(()) };
    let copy = || -> io::Result<()> {
        let from = machine.root.path(path);
        let mode = fs::metadata(&from)?.permissions().mode() & 0o777;
        let mut to = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(machine.root.path(backup))?;
        to.write_all(&fs::read(from)?)?;
        to.sync_all()
    };
    copy().map_err(io_error(format_args!(
        "cannot back {} up to {}",
        path.display(),
        backup.display()
    )))
}

/// Whoever reads the file finds the old text or the new one, also after a loss of power.
pub(crate) fn write_file(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|file| file.is_symlink()) {
        return Err(io::Error::other("it is a symlink, which is not replaced"));
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = folder.join(format!(".{name}.gpuaas-new"));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&new)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    fs::File::open(folder)?.sync_all()
}

/// A step's outcome as a line.
pub fn line(command: &str, step: &Step, done: &HostResult<()>) -> String {
    use crate::parity::line::escape;
    let detail = escape(&step.action.to_string());
    let head = |status: &str| {
        let name = step.action.name();
        format!("{PREFIX} status={status} command={command} action={name} detail={detail}")
    };
    match done {
        Ok(()) => head("DONE"),
        Err(HostError { message, .. }) => format!("{} error={}", head("FAILED"), escape(message)),
    }
}
