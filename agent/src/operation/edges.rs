//! The edges of every step, where a test kills the agent, fails a step or holds it up. Nobody else stands there.
use std::path::PathBuf;

use async_trait::async_trait;

use crate::error::HostResult;
use crate::faults::{Edge, boundary};
use crate::journal::Kind;

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

/// The agent's own: everything passes, but for the kill points of builds for fault tests.
pub struct KillFile {
    /// Path of the order to die.
    pub state_dir: PathBuf,
}

#[async_trait]
impl Edges for KillFile {
    async fn pass(&self, place: Place<'_>) -> HostResult<()> {
        boundary(&self.state_dir, place.step, place.edge);
        Ok(())
    }
}
