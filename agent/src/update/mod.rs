//! Updates of this agent, as the platform's rollouts name them.
//!
//! The agent pulls: the answer to a heartbeat names a version, the digest and the size of its package, never a command and
//! never a place. The package comes from the source of this host's own settings, is checked while it streams, and is handed to
//! `gpuaas-node-agent-update.service`, which is outside the agent's control group, so that it outlives the restart. The updater
//! keeps the package before, installs, restarts, and goes back when the new agent is not ready in time: ready is one whose
//! heartbeat was answered. VMs, leases and the journal are untouched; nothing begins while an operation of the host runs.
mod files;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use gpuaas_common::CancellationToken;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::inventory::v1 as pb;
use pb::AgentUpdateState as State;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::watch;

use self::files::{Given, given, outcome, replace, request};
use crate::build;
use crate::error::{HostError, HostResult, io_error};
use crate::host::exec;
use crate::ids::Digest;
use crate::image::registry::Registry;
use crate::journal::Journal;

/// The updater, which outlives the agent that starts it.
const UNIT: &str = "gpuaas-node-agent-update.service";
/// Largest package, in bytes.
const MAX_PACKAGE: u64 = 1 << 30;

/// Updates of the agent of one host.
pub struct Updates {
    folder: PathBuf,
    /// Repository of the packages, without a digest; empty: this host takes no updates.
    source: String,
    registry: Registry,
    /// Starts the updater.
    start: Vec<String>,
    told: watch::Sender<Option<pb::AgentUpdate>>,
    /// What is said of the update that was told last.
    said: Mutex<Option<pb::AgentUpdateReport>>,
    heard: AtomicBool,
}

impl Updates {
    /// As the agent before has left them.
    pub fn open(state_dir: &Path, source: &str, registry: Registry) -> Self {
        let folder = state_dir.join("update");
        let said =
            given(&read(&folder.join("request"))).map(|of| report(&of, State::Installing, ""));
        let start = ["systemctl", "start", "--no-block", UNIT];
        Self {
            folder,
            source: source.to_owned(),
            registry,
            start: start.map(str::to_owned).to_vec(),
            told: watch::Sender::new(None),
            said: Mutex::new(said),
            heard: AtomicBool::new(false),
        }
    }

    /// What the next heartbeat says.
    pub fn report(&self) -> Option<pb::AgentUpdateReport> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let now = said.as_mut()?;
        // the updater works beside the agent
        if now.state() == State::Installing
            && let Some(ended) = outcome(&self.read("outcome"))
            && is_of(&ended.of, now)
        {
            now.state = match ended.installed {
                true => State::Installed.into(),
                false => State::Failed.into(),
            };
            now.reason = ended.reason;
        }
        said.clone()
    }

    /// A heartbeat was answered, and this is the update that it named. An update is begun once: another turn has another
    /// number.
    pub fn answered(&self, update: Option<&pb::AgentUpdate>) {
        if !self.heard.swap(true, Ordering::Relaxed)
            && let Err(error) = self.note_ready()
        {
            tracing::warn!(%error, "cannot tell the updater that this agent is ready");
        }
        let Some(update) = update else {
            return;
        };
        let of = Given {
            rollout_id: update.rollout_id.clone(),
            attempt: update.attempt,
        };
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.as_ref().is_some_and(|said| is_of(&of, said)) {
            return;
        }
        *said = Some(report(&of, State::Waiting, ""));
        drop(said);
        self.told.send_replace(Some(update.clone()));
    }

    /// The updater waits for this file after a restart.
    fn note_ready(&self) -> HostResult<()> {
        if !self.folder.exists() {
            return Ok(());
        }
        let text = format!("{}\n", build::version());
        replace(&self.folder.join("ready"), &text)
    }

    fn say(&self, update: &pb::AgentUpdate, state: State, reason: &str) {
        let of = Given {
            rollout_id: update.rollout_id.clone(),
            attempt: update.attempt,
        };
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(report(&of, state, reason));
    }

    fn read(&self, name: &str) -> String {
        read(&self.folder.join(name))
    }
}

/// What a file says; nothing when there is none. A message of a program may be cut in the middle of a character.
fn read(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Brings this agent to the versions that it is told, until `shutdown`.
pub async fn run(updates: &Updates, journal: &Journal, shutdown: CancellationToken) {
    let mut told = updates.told.subscribe();
    // a host that lost power in the middle: the updater takes up what it was given
    let open = updates.report();
    if open.is_some_and(|said| said.state() == State::Installing)
        && let Err(error) = start(updates).await
    {
        tracing::warn!(%error, "cannot start the updater again");
    }
    loop {
        let update = told.borrow_and_update().clone();
        if let Some(update) = update {
            let (id, version) = (&update.rollout_id, &update.version);
            tracing::info!(rollout_id = id, version, "begin update of this agent");
            let brought = tokio::select! {
                () = shutdown.cancelled() => return,
                brought = bring(updates, journal, &update) => brought,
            };
            if let Err(error) = brought {
                tracing::warn!(rollout_id = id, version, %error, "cannot update this agent");
                updates.say(&update, State::Failed, &error.to_string());
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            changed = told.changed() => if changed.is_err() { return },
        }
    }
}

async fn bring(updates: &Updates, journal: &Journal, update: &pb::AgentUpdate) -> HostResult<()> {
    check(updates, update)?;
    between_operations(journal).await?;
    std::fs::create_dir_all(&updates.folder).map_err(io_error("cannot make the update folder"))?;
    if !update.rollback {
        updates.say(update, State::Fetching, "");
        fetch(updates, update).await?;
        // one may have begun meanwhile
        updates.say(update, State::Waiting, "");
        between_operations(journal).await?;
    }
    replace(&updates.folder.join("request"), &request(update))?;
    updates.say(update, State::Installing, "");
    start(updates).await
}

/// What the platform names is checked here too: it is written to a file that a program as root reads.
fn check(updates: &Updates, update: &pb::AgentUpdate) -> HostResult<()> {
    if update.rollout_id.parse::<uuid::Uuid>().is_err() {
        return Err(refused("rollout_id must be a UUID"));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-+_".contains(&byte);
    let version = &update.version;
    if version.is_empty() || version.len() > 64 || !version.bytes().all(plain) {
        return Err(refused("version must be a version"));
    }
    if update.rollback {
        return Ok(());
    }
    if updates.source.is_empty() {
        return Err(refused(
            "agent.update.source is not set: this host takes no updates",
        ));
    }
    update.digest.parse::<Digest>()?;
    if u64::try_from(update.size_bytes).is_ok_and(|size| (1..=MAX_PACKAGE).contains(&size)) {
        return Ok(());
    }
    Err(refused("size_bytes must be the size of a package"))
}

/// The text is all that an operator is shown.
fn refused(text: impl Into<String>) -> HostError {
    HostError::host(ErrorReason::FieldInvalid, text)
}

/// Waits until no operation of this host runs.
async fn between_operations(journal: &Journal) -> HostResult<()> {
    let mut changes = journal.changes();
    loop {
        changes.mark_unchanged();
        if journal.running_operations()?.is_empty() {
            return Ok(());
        }
        if changes.changed().await.is_err() {
            return Err(HostError::internal("the journal is closed"));
        }
    }
}

/// Fetches the package by its digest. What is not it is never given its name.
async fn fetch(updates: &Updates, update: &pb::AgentUpdate) -> HostResult<()> {
    let digest: Digest = update.digest.parse()?;
    let size = u64::try_from(update.size_bytes).unwrap_or_default();
    let part = updates.folder.join("package.part");
    let mut file = tokio::fs::File::create(&part)
        .await
        .map_err(io_error("cannot store the package"))?;
    let source = format!("{}@{}", updates.source, update.digest);
    let written = updates
        .registry
        .pull(&source, &digest, size, &mut file, |_| ())
        .await?;
    if written != size {
        return Err(refused(format!(
            "size_bytes is {size}, and the package has {written} bytes"
        )));
    }
    file.flush()
        .await
        .map_err(io_error("cannot store the package"))?;
    file.sync_all()
        .await
        .map_err(io_error("cannot store the package"))?;
    std::fs::rename(&part, updates.folder.join("package.deb"))
        .map_err(io_error("cannot store the package"))
}

async fn start(updates: &Updates) -> HostResult<()> {
    let Some((program, arguments)) = updates.start.split_first() else {
        return Ok(());
    };
    exec::run_with(program, arguments, &[], exec::PROBE_LIMIT)
        .await?
        .success(program)
        .map(drop)
}

fn report(of: &Given, state: State, reason: &str) -> pb::AgentUpdateReport {
    let mut reason = reason.to_owned();
    while reason.len() > 500 {
        reason.pop();
    }
    pb::AgentUpdateReport {
        rollout_id: of.rollout_id.clone(),
        attempt: of.attempt,
        state: state.into(),
        reason,
    }
}

fn is_of(of: &Given, said: &pb::AgentUpdateReport) -> bool {
    of.rollout_id == said.rollout_id && of.attempt == said.attempt
}

#[cfg(test)]
mod tests;
