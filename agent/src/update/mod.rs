//! Updates of this agent, as the platform's rollouts name them.
//!
//! The agent pulls: the answer to a heartbeat names a version, the digest and the size of its package, never a command and
//! never a place. The package comes from the source of this host's own settings, is checked while it streams, and is handed to
//! `gpuaas-node-agent-update.service`, which is outside the agent's control group, so that it outlives the restart. The updater
//! keeps the package before, installs, restarts, and goes back when the new agent is not ready in time: ready is one whose
//! heartbeat was answered. VMs, leases and the journal are untouched; nothing begins while an operation of the host runs.
pub(crate) mod files;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gpuaas_common::CancellationToken;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::inventory::v1 as pb;
use pb::AgentUpdateState as State;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::watch;

use self::files::{Given, given, outcome, replace, request};
use crate::build;
use crate::error::{HostError, HostResult, io_error};
use crate::host::{blocking, exec};
use crate::ids::Digest;
use crate::image::registry::Registry;
use crate::journal::Journal;

/// The updater, which outlives the agent that starts it.
const UNIT: &str = "gpuaas-node-agent-update.service";
/// How often an updater that still works on an earlier turn is looked at.
const UPDATER_POLL: Duration = Duration::from_millis(500);
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
    reported: watch::Sender<Option<pb::AgentUpdate>>,
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
            reported: watch::Sender::new(None),
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

    /// A heartbeat was answered, and this is the update that it named, or that it names none. An update is begun once: another
    /// turn has another number. One that is named no more is dropped while nothing of the host was changed.
    pub fn answered(&self, update: Option<&pb::AgentUpdate>) {
        if !self.heard.load(Ordering::Relaxed) {
            match self.note_ready() {
                Ok(()) => self.heard.store(true, Ordering::Relaxed),
                Err(error) => {
                    tracing::warn!(%error, "cannot tell the updater that this agent is ready");
                }
            }
        }
        self.reported.send_if_modified(|reported| {
            let differs = reported.as_ref() != update;
            *reported = update.cloned();
            differs
        });
        if let Some(update) = update
            && !self.knows(update)
        {
            self.say(update, State::Waiting, "");
        }
    }

    /// Whether something was said of this turn.
    fn knows(&self, update: &pb::AgentUpdate) -> bool {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.as_ref().is_some_and(|said| is_of(&turn(update), said))
    }

    /// Whether this turn was not given to the updater, and has not failed before that.
    fn is_open(&self, update: &pb::AgentUpdate) -> bool {
        let said = self.report();
        let said = said.filter(|said| is_of(&turn(update), said));
        said.is_none_or(|said| matches!(said.state(), State::Waiting | State::Fetching))
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
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(report(&turn(update), state, reason));
    }

    fn read(&self, name: &str) -> String {
        read(&self.folder.join(name))
    }
}

/// What a file says; nothing when there is none. A message of a program may be cut in the middle of a character.
fn read(path: &Path) -> String {
    let bytes = blocking::here(|| std::fs::read(path)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Brings this agent to the versions that it is told, until `shutdown`.
pub async fn run(updates: &Updates, journal: &Journal, shutdown: CancellationToken) {
    let mut reported = updates.reported.subscribe();
    // a host that lost power in the middle: the updater takes up what it was given
    let open = updates.report();
    if open.is_some_and(|said| said.state() == State::Installing)
        && let Err(error) = start(updates).await
    {
        tracing::warn!(%error, "cannot start the updater again");
    }
    loop {
        let update = reported.borrow_and_update().clone();
        if let Some(update) = update.filter(|update| updates.is_open(update)) {
            let (id, version) = (&update.rollout_id, &update.version);
            tracing::info!(rollout_id = id, version, "begin update of this agent");
            let prepared = tokio::select! {
                () = shutdown.cancelled() => return,
                changed = reported.changed() => match changed {
                    Ok(()) => {
                        tracing::info!(rollout_id = id, version, "drop update of this agent: it is named no more");
                        continue;
                    }
                    Err(_) => return,
                },
                prepared = prepare(updates, journal, &update) => prepared,
            };
            // from here on nothing interrupts it: the updater has all of it, or knows nothing of it
            let ended = match prepared {
                Ok(true) if *reported.borrow() == Some(update.clone()) => {
                    give(updates, &update).await
                }
                other => other.map(drop),
            };
            if let Err(error) = ended {
                tracing::warn!(rollout_id = id, version, %error, "cannot update this agent");
                updates.say(&update, State::Failed, &error.to_string());
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            changed = reported.changed() => if changed.is_err() { return },
        }
    }
}

/// All that changes nothing of the host. False: this agent has the version already, and there is nothing to do.
async fn prepare(
    updates: &Updates,
    journal: &Journal,
    update: &pb::AgentUpdate,
) -> HostResult<bool> {
    check(updates, update)?;
    between_updates(updates).await?;
    // one that was late may have brought it, so that another turn finds nothing to do
    if update.version == build::version() {
        updates.say(update, State::Installed, "");
        return Ok(false);
    }
    between_operations(journal).await?;
    blocking::here(|| std::fs::create_dir_all(&updates.folder))
        .map_err(io_error("cannot make the update folder"))?;
    if !update.rollback {
        updates.say(update, State::Fetching, "");
        fetch(updates, update).await?;
        // one may have begun meanwhile
        updates.say(update, State::Waiting, "");
        between_operations(journal).await?;
    }
    Ok(true)
}

/// Gives the update to the updater.
async fn give(updates: &Updates, update: &pb::AgentUpdate) -> HostResult<()> {
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

/// Waits until the updater has ended what it was given before, which uses the same files.
async fn between_updates(updates: &Updates) -> HostResult<()> {
    let is_open = || {
        let given = given(&updates.read("request"));
        given.is_some_and(|given| {
            outcome(&updates.read("outcome")).is_none_or(|ended| ended.of != given)
        })
    };
    if !is_open() {
        return Ok(());
    }
    // it runs, or it was ended in the middle
    start(updates).await?;
    while is_open() {
        // its end is a file of another program
        tokio::time::sleep(UPDATER_POLL).await;
    }
    Ok(())
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
        .pull(&source, &digest, size, &mut file, |_| Ok(()))
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
    blocking::here(|| std::fs::rename(&part, updates.folder.join("package.deb")))
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

fn turn(update: &pb::AgentUpdate) -> Given {
    Given {
        rollout_id: update.rollout_id.clone(),
        attempt: update.attempt,
    }
}

fn is_of(of: &Given, said: &pb::AgentUpdateReport) -> bool {
    of.rollout_id == said.rollout_id && of.attempt == said.attempt
}

#[cfg(test)]
mod tests;
