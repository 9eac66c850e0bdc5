//! The edges of every step, where a test kills its runner or fails the step. Nobody else stands there.

use async_trait::async_trait;

use super::failure::StepError;
use super::kill::{self, Point};

/// Who stands at the edges.
#[async_trait]
pub trait Edges: Send + Sync {
    /// Lets the workflow pass.
    ///
    /// # Errors
    /// What the step fails with here.
    async fn pass(&self, kind: &str, step: &str, point: Point) -> Result<(), StepError>;
}

/// The service's own: everything passes, but for the kill points of builds for fault tests.
pub struct KillFile;

#[async_trait]
impl Edges for KillFile {
    async fn pass(&self, kind: &str, step: &str, point: Point) -> Result<(), StepError> {
        kill::point(kind, step, point);
        Ok(())
    }
}
