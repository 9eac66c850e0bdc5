//! The approved storage profile: which disks the site's infrastructure gives to slices, and which mounts it gives up
//! (A-133, D-36, D-37).
use std::path::Path;

use serde::Deserialize;

use crate::disk::DiskIdentity;
use crate::error::{HostError, HostResult};
use crate::prepare::Machine;

/// Where it is unless the caller names another file.
pub const DEFAULT_PROFILE: &str = "/etc/gpuaas/slice-storage.toml";

/// The file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Who approved it, for the manifest: a name, a ticket.
    pub approved_by: String,
    /// Disks by `/dev/disk/by-id/nvme-eui.…`: kernel names change with a restart (CON-27).
    pub devices: Vec<String>,
    /// Mount points that the host gives up.
    #[serde(default)]
    pub unmount: Vec<String>,
}

impl Profile {
    /// Reads and checks it.
    ///
    /// # Errors
    /// There is none, or it is not a profile.
    pub fn read(machine: &Machine, path: &Path) -> HostResult<Self> {
        let text = machine.root.read(path).map_err(|error| {
            let message = format!(
                "no approved storage profile: cannot read {}: {error}",
                path.display()
            );
            HostError::invalid("profile", message)
        })?;
        Self::parse(&text).map_err(|why| {
            let message = format!("{} is no storage profile: {why}", path.display());
            HostError::invalid("profile", message)
        })
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let found: Self = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        if found.approved_by.trim().is_empty() || found.approved_by.contains(char::is_control) {
            return Err("approved_by must say in one line who approved it".to_owned());
        }
        if found.devices.is_empty() {
            return Err("devices must name the disks".to_owned());
        }
        for device in &found.devices {
            if !matches!(device.parse(), Ok(DiskIdentity::ByEui(_))) {
                return Err(format!(
                    "devices: {device:?} must be \"/dev/disk/by-id/nvme-eui.<hex>\""
                ));
            }
        }
        const NEVER: [&str; 8] = [
            "/",
            "/boot",
            "/boot/efi",
            "/etc",
            "/home",
            "/root",
            "/usr",
            "/var",
        ];
        for at in &found.unmount {
            let is_plain = at.starts_with('/')
                && !at.ends_with('/')
                && !at.split('/').any(|part| part == "..");
            if NEVER.contains(&at.as_str()) || !is_plain {
                return Err(format!(
                    "unmount: {at:?} is no mount point that a host can give up"
                ));
            }
        }
        Ok(found)
    }

    /// Whether a mount may go.
    pub fn gives_up(&self, at: &str) -> bool {
        self.unmount.iter().any(|own| own == at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "approved_by = \"infra, 4711\"\ndevices = [\"/dev/disk/by-id/nvme-eui.000000000000000100a075244a103331\"]\nunmount = [\"/share2\"]\n";

    /// D-36
    #[test]
    fn i_121_con_27_a_profile_names_its_approval_and_stable_identities() {
        let good = Profile::parse(GOOD).unwrap();
        assert!(good.gives_up("/share2") && !good.gives_up("/share20"));
        for (from, to) in [
            ("infra, 4711", " "),
            (
                "/dev/disk/by-id/nvme-eui.000000000000000100a075244a103331",
                "/dev/nvme0n1",
            ),
            ("/share2", "/"),
            ("/share2", "/var"),
            ("/share2", "share2"),
            ("/share2", "/a/../b"),
            ("unmount", "force"),
        ] {
            let text = GOOD.replace(from, to);
            assert!(Profile::parse(&text).is_err(), "{text}");
        }
        assert!(Profile::parse("approved_by = \"x\"\ndevices = []").is_err());
    }
}
