//! The edges of every step of an operation, where a test kills the agent, fails a step or holds it up. Nobody else stands
//! there. Kill points are in development and test builds alone: a build without debug assertions, as every release is, has
//! none.
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use crate::error::HostResult;
use crate::journal::Kind;

/// Before or after an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// Recorded as begun, effect not yet tried.
    Before,
    /// Effect done, not yet recorded.
    After,
}

/// A step and an edge of it, as tests name them.
#[cfg(debug_assertions)]
fn name(step: &str, edge: Edge) -> String {
    match edge {
        Edge::Before => format!("{step}:before"),
        Edge::After => format!("{step}:after"),
    }
}

/// Dies here when `<state_dir>/kill-at` names this step and edge; first proves that it did in
/// `<state_dir>/killed-at`.
#[cfg(debug_assertions)]
pub fn boundary(state_dir: &Path, step: &str, edge: Edge) {
    use std::io::Write;
    let kill_at = state_dir.join("kill-at");
    let here = name(step, edge);
    let armed = std::fs::read_to_string(&kill_at).unwrap_or_default();
    if armed.trim() != here {
        return;
    }
    // Before the proof: whoever sees the proof may give the next order at once.
    std::fs::remove_file(&kill_at).expect("kill-at can be removed");
    let mut proof =
        std::fs::File::create(state_dir.join("killed-at")).expect("killed-at can be written");
    proof
        .write_all(here.as_bytes())
        .expect("killed-at can be written");
    proof.sync_all().expect("killed-at can be synced");
    // As hard as a crash: nothing is flushed, no destructor runs.
    let _ = nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL);
}

/// Waits while the proof of the last kill is there: who gave that order gives the next one before taking the proof away, so
/// that an agent that is back sooner does not run past its next point. Not for ever: the proof of a test that failed stays.
#[cfg(debug_assertions)]
async fn proof_taken(state_dir: &Path) {
    let proof = state_dir.join("killed-at");
    let taken = async {
        while proof.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let _given_up = tokio::time::timeout(std::time::Duration::from_secs(20), taken).await;
}

/// Stays here when `<state_dir>/hold-at` names this step and edge, until whoever gave that order takes the proof of it,
/// `<state_dir>/held-at`, away: meanwhile a test ends what the step needs. Not for ever, as above.
#[cfg(debug_assertions)]
async fn held(state_dir: &Path, step: &str, edge: Edge) {
    let (order, proof) = (state_dir.join("hold-at"), state_dir.join("held-at"));
    let here = name(step, edge);
    let ordered = std::fs::read_to_string(&order).unwrap_or_default();
    if ordered.trim() != here {
        return;
    }
    // before the order goes: whoever sees that it is gone finds the proof
    std::fs::write(&proof, &here).expect("held-at can be written");
    std::fs::remove_file(&order).expect("hold-at can be removed");
    let taken = async {
        while proof.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let _given_up = tokio::time::timeout(std::time::Duration::from_secs(60), taken).await;
}

/// Does nothing.
#[cfg(not(debug_assertions))]
async fn proof_taken(_state_dir: &Path) {}

/// Does nothing.
#[cfg(not(debug_assertions))]
async fn held(_state_dir: &Path, _step: &str, _edge: Edge) {}

/// Does nothing.
#[cfg(not(debug_assertions))]
pub fn boundary(_state_dir: &Path, _step: &str, _edge: Edge) {}

/// Where an operation is. The undo of a step is called `undo_` and the step's name.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Kind of operation.
    pub kind: Kind,
    pub step: &'a str,
    /// Before its effect, or after it and before its record.
    pub edge: Edge,
}

/// Who stands at the edges.
#[async_trait]
pub trait Edges: Send + Sync {
    /// Lets the operation pass.
    ///
    /// # Errors
    /// The step fails with this.
    async fn pass(&self, place: Place<'_>) -> HostResult<()>;
}

/// The agent's own: everything passes, but for the points of builds for fault tests at which it is killed or held up.
pub struct KillFile {
    /// Path of the order to die.
    pub state_dir: PathBuf,
}

#[async_trait]
impl Edges for KillFile {
    async fn pass(&self, place: Place<'_>) -> HostResult<()> {
        proof_taken(&self.state_dir).await;
        held(&self.state_dir, place.step, place.edge).await;
        boundary(&self.state_dir, place.step, place.edge);
        Ok(())
    }
}
