//! Which disks a transition has begun to erase and not proven raw yet, as a file for each in the agent's state.
use std::path::{Path, PathBuf};

use crate::disk::identity::BY_ID;
use crate::error::HostResult;
use crate::prepare::{Action, Machine, Plan};

const FOLDER: &str = "storage-transition";

fn file(state_dir: &Path, identity: &str) -> PathBuf {
    let link = identity.strip_prefix(BY_ID).unwrap_or(identity);
    let name = link.trim_start_matches('/');
    state_dir.join(FOLDER).join(format!("{name}.begun"))
}

/// Whether the disk of this stable link is one.
pub fn is(machine: &Machine, state_dir: &Path, identity: &str) -> bool {
    machine.root.exists(file(state_dir, identity))
}

/// Notes it.
///
/// # Errors
/// What is noted already cannot be read.
pub fn note(
    machine: &Machine,
    plan: &mut Plan,
    state_dir: &Path,
    identity: &str,
) -> HostResult<()> {
    let text = format!(
        "# Written by gpuaas-node-agent storage-transition: the content of this disk is not erased yet.\n{identity}\n"
    );
    let reason = "whoever repeats this finds that it was begun";
    let path = file(state_dir, identity);
    plan.file(machine, path, (&text, 0o644), None, reason)?;
    Ok(())
}

/// The disk is raw.
pub fn end(plan: &mut Plan, state_dir: &Path, identity: &str) {
    let action = Action::RemoveFile {
        path: file(state_dir, identity),
        backup: None,
    };
    plan.step(action, "the disk is erased");
}
