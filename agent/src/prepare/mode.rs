//! Whether a host is explicitly in slice mode (A-134, D-58, D-59, I-108, CON-26).
use std::path::Path;

use crate::checks::NodeMode;
use crate::host::root::HostRoot;

/// Everything that says what a host is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Modes {
    /// Who runs the command.
    pub flag: Option<NodeMode>,
    /// The setting `agent.profile.mode`.
    pub profile: Option<NodeMode>,
    /// The platform, with its last answer to a heartbeat.
    pub reported: Option<NodeMode>,
}

impl Modes {
    /// What the platform told the agent at last is in the agent's state.
    pub fn of(
        root: &HostRoot,
        state_dir: &Path,
        flag: Option<NodeMode>,
        profile: Option<NodeMode>,
    ) -> Self {
        let reported = root.read_value(state_dir.join("node-mode"));
        Self {
            flag,
            profile,
            reported: reported.and_then(|text| NodeMode::parse(&text)),
        }
    }

    /// Whether somebody says that it is for bare metal: then nothing of slices stays on it.
    pub fn is_baremetal(self) -> bool {
        [self.flag, self.profile, self.reported].contains(&Some(NodeMode::Baremetal))
    }

    /// Whether it is in slice mode: somebody says so, and nobody else.
    ///
    /// # Errors
    /// Why not.
    pub fn slice(self) -> Result<(), String> {
        let all = [
            ("--mode", self.flag),
            ("agent.profile.mode", self.profile),
            ("the platform", self.reported),
        ];
        let other = all
            .iter()
            .find(|(_, mode)| *mode == Some(NodeMode::Baremetal));
        if let Some((who, _)) = other {
            return Err(format!("{who} says that this host is for baremetal"));
        }
        if all.iter().all(|(_, mode)| mode.is_none()) {
            return Err("nothing says that this host is in slice mode: set agent.profile.mode = \"slice\" in /etc/gpuaas/node-agent.toml, or give --mode slice".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i_108_con_26_slice_mode_is_said_and_contradicted_by_nobody() {
        let modes = |flag, profile, reported| Modes {
            flag,
            profile,
            reported,
        };
        let (slice, metal) = (Some(NodeMode::Slice), Some(NodeMode::Baremetal));
        assert!(modes(None, None, None).slice().is_err());
        assert!(!modes(None, None, None).is_baremetal());
        for good in [
            modes(slice, None, None),
            modes(None, slice, None),
            modes(None, None, slice),
            modes(slice, slice, slice),
        ] {
            assert_eq!(good.slice(), Ok(()));
            assert!(!good.is_baremetal());
        }
        for (bad, who) in [
            (modes(slice, slice, metal), "the platform"),
            (modes(slice, metal, None), "agent.profile.mode"),
            (modes(metal, slice, slice), "--mode"),
        ] {
            assert!(bad.slice().unwrap_err().starts_with(who));
            assert!(bad.is_baremetal());
        }
    }
}
