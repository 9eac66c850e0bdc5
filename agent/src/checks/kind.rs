//! What kind of host it is: by the mode of its node, and by whether it has GPUs.
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use crate::host::blocking;

/// What a node is offered as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeMode {
    /// In slices, each a VM.
    Slice,
    /// Whole, without VMs.
    Baremetal,
}

impl NodeMode {
    /// As the platform spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slice => "slice",
            Self::Baremetal => "baremetal",
        }
    }

    /// Reads the platform's word; `None` for one that this agent does not know.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Slice, Self::Baremetal]
            .into_iter()
            .find(|mode| mode.as_str() == text)
    }
}

/// What a host is judged as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKind {
    /// GPUs in VMs.
    Slice,
    /// VMs without GPUs.
    Lab,
    /// No VMs.
    BareMetal,
}

impl HostKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Slice, Self::Lab, Self::BareMetal];

    /// Of a mode and a profile.
    pub fn of(mode: NodeMode, lab: bool) -> Self {
        match (mode, lab) {
            (NodeMode::Baremetal, _) => Self::BareMetal,
            (NodeMode::Slice, true) => Self::Lab,
            (NodeMode::Slice, false) => Self::Slice,
        }
    }

    /// For sentences.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slice => "slice host",
            Self::Lab => "lab host",
            Self::BareMetal => "bare-metal host",
        }
    }
}

/// The mode that the platform assigned last. It is kept in a file: checks run beside the agent judge as the agent does.
#[derive(Debug)]
pub struct AssignedMode {
    file: PathBuf,
    mode: RwLock<Option<NodeMode>>,
}

impl AssignedMode {
    /// As it was told before the agent started.
    pub fn open(state_dir: &Path) -> Self {
        let file = state_dir.join("node-mode");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        Self {
            mode: RwLock::new(NodeMode::parse(text.trim())),
            file,
        }
    }

    /// The mode, if the platform told one.
    pub fn get(&self) -> Option<NodeMode> {
        *self.mode.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what the platform says; an empty or unknown word changes nothing.
    pub fn tell(&self, text: &str) {
        let Some(mode) = NodeMode::parse(text) else {
            return;
        };
        if self.get() == Some(mode) {
            return;
        }
        tracing::info!(mode = text, "the platform offers this node in another mode");
        *self.mode.write().unwrap_or_else(PoisonError::into_inner) = Some(mode);
        if let Err(error) = blocking::here(|| std::fs::write(&self.file, text)) {
            // only checks beside the agent read it
            tracing::warn!(%error, "cannot keep the mode of the node");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_48_the_mode_that_the_platform_tells_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let reported = AssignedMode::open(dir.path());
        assert_eq!(reported.get(), None);
        for word in ["", "whole", "baremetal", ""] {
            reported.tell(word);
        }
        assert_eq!(reported.get(), Some(NodeMode::Baremetal));
        assert_eq!(
            AssignedMode::open(dir.path()).get(),
            Some(NodeMode::Baremetal)
        );
        reported.tell("slice");
        assert_eq!(AssignedMode::open(dir.path()).get(), Some(NodeMode::Slice));
    }

    #[test]
    fn a_47_the_mode_decides_before_the_profile() {
        assert_eq!(HostKind::of(NodeMode::Slice, false), HostKind::Slice);
        assert_eq!(HostKind::of(NodeMode::Slice, true), HostKind::Lab);
        assert_eq!(HostKind::of(NodeMode::Baremetal, true), HostKind::BareMetal);
    }
}
