//! The host's boot clock. Leases and budgets are measured by it, so that neither a change of the wall clock
//! nor a suspend moves them, and a reboot ends them.
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::root::HostRoot;

/// A moment of one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootMoment {
    /// The kernel's boot id.
    pub boot_id: String,
    /// Nanoseconds of CLOCK_BOOTTIME.
    pub nanos: u64,
}

impl BootMoment {
    /// This moment plus a duration.
    pub fn plus(&self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self {
            boot_id: self.boot_id.clone(),
            nanos: self.nanos.saturating_add(nanos),
        }
    }

    /// Time since the start of the host.
    pub fn since_start(&self) -> prost_types::Duration {
        gpuaas_common::time::proto_duration(Duration::from_nanos(self.nanos))
    }

    /// Time left from `now` until this moment; zero when it is past or of another boot.
    pub fn remaining(&self, now: &Self) -> Duration {
        if self.boot_id == now.boot_id {
            Duration::from_nanos(self.nanos.saturating_sub(now.nanos))
        } else {
            Duration::ZERO
        }
    }
}

/// Reads the boot clock.
#[derive(Debug, Clone)]
pub struct BootClock {
    boot_id: String,
}

impl BootClock {
    /// Reads the boot id once; it cannot change while we run.
    pub fn new(root: &HostRoot) -> std::io::Result<Self> {
        Ok(Self {
            boot_id: root
                .read("/proc/sys/kernel/random/boot_id")?
                .trim()
                .to_owned(),
        })
    }

    /// The kernel's boot id.
    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }

    /// Now.
    pub fn now(&self) -> BootMoment {
        // CLOCK_BOOTTIME exists on every kernel we can run on; a failure here has no meaning but zero time.
        let nanos = clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(0, |time| {
            let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
            seconds * 1_000_000_000 + u64::try_from(time.tv_nsec()).unwrap_or(0)
        });
        BootMoment {
            boot_id: self.boot_id.clone(),
            nanos,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_boot_leaves_nothing() {
        let now = BootMoment {
            boot_id: "a".into(),
            nanos: 5,
        };
        let later = now.plus(Duration::from_nanos(7));
        assert_eq!(later.remaining(&now), Duration::from_nanos(7));
        assert_eq!(
            later.remaining(&BootMoment {
                boot_id: "b".into(),
                nanos: 0
            }),
            Duration::ZERO
        );
        assert_eq!(now.remaining(&later), Duration::ZERO);
    }
}
