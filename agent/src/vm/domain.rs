//! A domain as libvirt describes it: its state, and the disks that it may use.
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use virt::connect::Connect;
use virt::domain::Domain as VirtDomain;
use virt::storage_pool::StoragePool;
use virt::storage_vol::StorageVol;
use virt::sys;

use super::disk_sources::sources;

/// State of a domain, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PowerState {
    /// Runs, or is being shut down.
    Running,
    /// Defined and not running.
    ShutOff,
    /// Paused, suspended or crashed with its process still there.
    Stuck,
}

impl PowerState {
    pub(super) fn of(state: sys::virDomainState) -> Self {
        match state {
            sys::VIR_DOMAIN_SHUTOFF => Self::ShutOff,
            sys::VIR_DOMAIN_RUNNING | sys::VIR_DOMAIN_BLOCKED | sys::VIR_DOMAIN_SHUTDOWN => {
                Self::Running
            }
            _ => Self::Stuck,
        }
    }

    /// As `virsh` reports it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::ShutOff => "shut off",
            Self::Stuck => "paused",
        }
    }
}

/// A domain as libvirt knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    pub name: String,
    pub state: PowerState,
    /// Absolute paths that its descriptions name, the running and the stored one.
    pub disk_sources: Vec<String>,
    /// Disks of it of which nobody knows where they lie: it may use any disk.
    pub untraced_sources: Vec<String>,
}

/// Reads both descriptions of a domain, the running and the stored one.
pub(super) fn describe(
    connection: &Connect,
    domain: &VirtDomain,
) -> Result<Domain, virt::error::Error> {
    let (state, _) = domain.get_state()?;
    let mut found = vec![sources(&domain.get_xml_desc(0)?)];
    if domain.is_persistent()? {
        let stored = domain.get_xml_desc(sys::VIR_DOMAIN_XML_INACTIVE)?;
        found.push(sources(&stored));
    }
    let (mut paths, mut untraced) = (BTreeSet::new(), BTreeSet::new());
    for one in found {
        match one {
            Ok(one) => {
                paths.extend(one.paths);
                untraced.extend(one.untraced);
                for (pool, volume) in one.volumes {
                    match path_of(connection, &pool, &volume) {
                        Ok(path) => paths.insert(path),
                        Err(_) => untraced.insert(format!("volume {volume} of pool {pool}")),
                    };
                }
            }
            Err(error) => {
                untraced.insert(format!("a description that cannot be read ({error})"));
            }
        }
    }
    Ok(Domain {
        name: domain.get_name()?,
        state: PowerState::of(state),
        disk_sources: paths.into_iter().collect(),
        untraced_sources: untraced.into_iter().collect(),
    })
}

/// Where a volume lies; a pool that is not active has none.
fn path_of(connection: &Connect, pool: &str, volume: &str) -> Result<String, virt::error::Error> {
    let pool = StoragePool::lookup_by_name(connection, pool)?;
    StorageVol::lookup_by_name(&pool, volume)?.get_path()
}
