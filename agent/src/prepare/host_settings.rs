//! The settings that host preparation uses.
use std::path::PathBuf;

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
