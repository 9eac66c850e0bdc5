//! Settings of how long something takes, how much is kept, and how a disk is wiped and read back.
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::disk::policy::WipePolicy;
use crate::journal::Kind;

/// Shortest lease that makes sense, in seconds.
pub const MIN_LEASE_S: u64 = 5;

/// Bounds of time and size. All times in seconds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Longest graceful shutdown a caller may request.
    pub max_graceful_s: u64,
    /// Longest lease, at least 5.
    pub max_lease_s: u64,
    /// Longest wait for the guest's address when the image names no boot timeout.
    pub boot_timeout_s: u64,
    /// Budget of an operation when the caller gives none: 20 minutes (INC-22).
    pub budget_s: u64,
    /// Longest time of a release or of a repair of a slot, in seconds: both wipe disks, which takes as long as the disk needs.
    /// The caller may give less (`allocation.wipe_seconds`).
    pub wipe_budget_s: u64,
    /// Disks up to this size are read back completely after a wipe; larger ones at both ends and in samples.
    pub full_verify_bytes: u64,
    /// Bytes read back of a larger disk.
    pub sample_verify_bytes: u64,
    /// Largest image that is pulled.
    pub max_image_bytes: u64,
    /// Bytes that stay free on the file systems of `agent.images.cache_dir` and `agent.state_dir`. A pull or a rescue that would
    /// leave less first removes cached images that no operation needs, those that were used longest ago first, and is refused
    /// where that is not enough. A host that has less free is not ready.
    pub min_free_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const GIB: u64 = 1 << 30;
        Self {
            max_graceful_s: 600,
            max_lease_s: 3600,
            boot_timeout_s: 300,
            budget_s: 1200,
            wipe_budget_s: 6 * 3600,
            full_verify_bytes: 16 * GIB,
            sample_verify_bytes: 4 * GIB,
            max_image_bytes: 256 * GIB,
            min_free_bytes: GIB,
        }
    }
}

impl Limits {
    /// Longest time of an operation of a kind.
    pub fn budget(&self, kind: Kind) -> Duration {
        Duration::from_secs(match kind {
            Kind::Release | Kind::RepairSlot => self.wipe_budget_s,
            _ => self.budget_s,
        })
    }
}

/// How disks are wiped, and how that is proven.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Wipe {
    /// Wipe policy that this host proposes for its slots, and that is approved with them (D-75, D-76): "blkdiscard",
    /// "nvme_format" or "site_erase". It names the least: the strongest method that the disk's controller offers and that
    /// reaches no other slot's disk is taken, and one that cannot meet it leaves the slot `cleanup_blocked`. Slots that are
    /// approved keep theirs.
    pub policy: WipePolicy,
    /// Program of the site that erases the disk of a slot whose wipe policy is `site_erase` (D-75): an absolute path. It runs
    /// as root, without arguments and without a shell, with the variables `GPUAAS_SLOT_ID`, `GPUAAS_DISK` (the disk's path in
    /// `/dev/disk/by-id`) and `GPUAAS_DISK_BYTES`; status 0 says that the disk is erased. Empty: none, and such a slot is not
    /// wiped.
    pub site_command: PathBuf,
    /// Longest time of the site's program, in seconds; never longer than what is left of `agent.limits.wipe_budget_s`.
    pub site_limit_s: u64,
    /// How much of a disk is read back after its wipe.
    pub verify: WipeVerification,
}

/// How much of a disk is read back after its wipe. Signatures and partitions are looked for always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WipeVerification {
    /// A disk of up to `agent.limits.full_verify_bytes` completely, a larger one at both ends and in samples.
    #[default]
    Samples,
    /// Every disk completely, which takes as long as reading it.
    Whole,
}

impl Default for Wipe {
    fn default() -> Self {
        Self {
            policy: WipePolicy::Blkdiscard,
            site_command: PathBuf::new(),
            site_limit_s: 3600,
            verify: WipeVerification::Samples,
        }
    }
}

/// What the journal retains.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JournalSettings {
    /// Days that an operation is retained after it ended, at least one: the control plane may still query its result.
    pub retention_days: u32,
}

impl JournalSettings {
    pub(crate) fn retention(&self) -> Duration {
        Duration::from_secs(u64::from(self.retention_days.max(1)) * 24 * 3600)
    }
}

impl Default for JournalSettings {
    fn default() -> Self {
        Self { retention_days: 30 }
    }
}

/// What the VMs of this host print on their serial consoles, kept on its own disk, for root alone.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SerialLog {
    /// Days that it is retained after it was printed, at least one; also after its VM is gone. Its tenant can read it so long.
    pub retention_days: u32,
    /// Mebibytes that are retained of one VM, at least one; the oldest go first.
    pub max_mib: u32,
}

impl SerialLog {
    pub(crate) fn retention(&self) -> Duration {
        Duration::from_secs(u64::from(self.retention_days.max(1)) * 24 * 3600)
    }

    pub(crate) fn max_bytes(&self) -> u64 {
        u64::from(self.max_mib.max(1)) << 20
    }
}

impl Default for SerialLog {
    fn default() -> Self {
        Self {
            retention_days: 30,
            max_mib: 16,
        }
    }
}

/// What is measured of the VMs (D-90), for charts of their owners and for Prometheus.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {
    /// Pause between two measurements of a VM, in milliseconds.
    pub pause_ms: u64,
    /// Ask each guest for its memory and its GPUs, over the login that the host has for itself. Without it there is only what
    /// libvirt counts.
    pub guests: bool,
}

impl Telemetry {
    pub(crate) fn pause(&self) -> Duration {
        Duration::from_millis(self.pause_ms.max(1))
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            pause_ms: 15_000,
            guests: true,
        }
    }
}

/// Pauses between two polls, in milliseconds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Polling {
    /// At a guest that boots.
    pub guest_ms: u64,
    /// At a guest that shuts down.
    pub shutdown_ms: u64,
    /// At an undo that failed.
    pub undo_ms: u64,
    /// At a serial log, for what was printed since.
    pub serial_ms: u64,
}

impl Polling {
    pub(crate) fn guest(&self) -> Duration {
        Duration::from_millis(self.guest_ms.max(1))
    }

    pub(crate) fn shutdown(&self) -> Duration {
        Duration::from_millis(self.shutdown_ms.max(1))
    }

    pub(crate) fn undo(&self) -> Duration {
        Duration::from_millis(self.undo_ms.max(1))
    }

    pub(crate) fn serial(&self) -> Duration {
        Duration::from_millis(self.serial_ms.max(1))
    }
}

impl Default for Polling {
    fn default() -> Self {
        Self {
            guest_ms: 400,
            shutdown_ms: 250,
            undo_ms: 1000,
            serial_ms: 500,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d_75_a_wipe_has_the_time_that_the_sites_program_may_take() {
        let limits = Limits::default();
        let site = Duration::from_secs(Wipe::default().site_limit_s);
        for kind in [Kind::Release, Kind::RepairSlot] {
            assert!(limits.budget(kind) > site, "{kind:?}");
        }
        // INC-22
        assert_eq!(limits.budget(Kind::Provision), Duration::from_secs(1200));
    }
}
