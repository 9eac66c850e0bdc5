//! What a wipe notes on its way, so that its next run goes on from there.
use serde::{Deserialize, Serialize};

use super::method::Method;
use crate::error::HostResult;

/// How far a wipe is, as the journal notes it before the effect that it speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub method: Method,
    pub stage: Stage,
}

/// Stage of a wipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The media is erased, or about to be.
    Erasing,
    /// The erase is through, if there was one, and this many bytes from the beginning are zero.
    Zeroing(u64),
}

/// What a wipe leaves behind for its next run, and for those who watch.
pub trait WipeLog: Send + Sync {
    /// What an earlier run of this very wipe noted last.
    fn noted(&self) -> Option<Note>;
    /// Notes.
    ///
    /// # Errors
    /// It cannot be noted; then nothing more is done.
    fn note(&self, note: Note) -> HostResult<()>;
    /// Tells.
    fn progress(&self, percent: u32, message: &str);
}
