//! The settings that host preparation uses.
use std::path::PathBuf;

use gpuaas_common::config::{self, ConfigError};
use serde::Deserialize;

use crate::checks::NodeMode;
use crate::settings::{Dhcp, Fabric, GpuFabric, Network, Settings};

/// What of the agent's settings these commands use. A host that is not enrolled yet has none: then these are the
/// defaults.
#[derive(Debug, Clone)]
pub struct HostSettings {
    pub network: Network,
    pub dhcp: Dhcp,
    pub fabric: Fabric,
    pub gpu_fabric: GpuFabric,
    pub mode: Option<NodeMode>,
    pub state_dir: PathBuf,
}

impl Default for HostSettings {
    fn default() -> Self {
        Self {
            network: Network::default(),
            dhcp: Dhcp::default(),
            fabric: Fabric::default(),
            gpu_fabric: GpuFabric::default(),
            mode: None,
            state_dir: default_state_dir(),
        }
    }
}

impl From<Settings> for HostSettings {
    fn from(settings: Settings) -> Self {
        Self {
            network: settings.network,
            dhcp: settings.dhcp,
            fabric: settings.fabric,
            gpu_fabric: settings.gpu_fabric,
            mode: settings.profile.mode,
            state_dir: settings.state_dir,
        }
    }
}

/// Where the agent keeps its state when no setting says so.
fn default_state_dir() -> PathBuf {
    "/var/lib/gpuaas".into()
}

/// The state folder that these settings name. Nothing else of them is read: the updater asks for it, and must also find its way
/// back from an agent that refuses another setting.
///
/// # Errors
/// A file cannot be read or is no TOML.
pub fn state_dir(files: &[PathBuf], sets: &[String]) -> Result<PathBuf, ConfigError> {
    #[derive(Deserialize)]
    struct Whole {
        agent: Option<Section>,
    }
    #[derive(Deserialize)]
    struct Section {
        state_dir: Option<PathBuf>,
    }
    let whole: Whole = config::load(files, sets)?;
    let named = whole.agent.and_then(|agent| agent.state_dir);
    Ok(named.unwrap_or_else(default_state_dir))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_state_folder_is_found_whatever_else_the_settings_hold() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("node-agent.toml");
        let text = "[agent]\nstate_dir = \"/srv/gpuaas\"\nof_a_later_version = 1\n";
        std::fs::write(&file, text).unwrap();
        let files = [file];
        let set = ["agent.state_dir=/srv/other".to_owned()];
        let found = |files: &[PathBuf], sets: &[String]| state_dir(files, sets).unwrap();
        assert_eq!(found(&files, &[]), Path::new("/srv/gpuaas"));
        assert_eq!(found(&files, &set), Path::new("/srv/other"));
        assert_eq!(found(&[], &[]), Path::new("/var/lib/gpuaas"));
        let missing = [folder.path().join("missing.toml")];
        assert!(state_dir(&missing, &[]).is_err());
    }
}
