//! Rates from counters. A counter that begins anew gives none, until it was read twice.
use std::time::Duration;

use gpuaas_proto::gpuaas::common::v1::VmMetric;

use crate::vm::{Transferred, Usage};

/// What was counted, and when by a clock that is never set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Since the start of the host.
    pub at: Duration,
    pub usage: Usage,
}

/// What a VM used from one sample to the next.
pub fn rates(before: &Sample, now: &Sample) -> Vec<(VmMetric, f64)> {
    let Some(seconds) = now.at.checked_sub(before.at).map(|past| past.as_secs_f64()) else {
        return Vec::new();
    };
    // the VM was started anew, with new counters
    if seconds <= 0.0 || before.usage.run != now.usage.run {
        return Vec::new();
    }
    let (old, new) = (&before.usage, &now.usage);
    let mut found = Vec::new();
    if let Some(nanos) = grown(old.cpu_nanos, new.cpu_nanos) {
        let most = seconds * 1e9 * f64::from(new.vcpus.max(1));
        // the emulator's own threads may take more than the vCPUs have
        found.push((VmMetric::CpuPercent, (nanos / most * 100.0).min(100.0)));
    }
    let mut per_second = |old: Option<Transferred>, new: Option<Transferred>, metrics: [_; 2]| {
        let (Some(old), Some(new)) = (old, new) else {
            return;
        };
        let counters = [(old.inward, new.inward), (old.outward, new.outward)];
        for (metric, (old, new)) in metrics.into_iter().zip(counters) {
            found.extend(grown(old, new).map(|bytes| (metric, bytes / seconds)));
        }
    };
    per_second(
        old.network,
        new.network,
        [
            VmMetric::NetworkReceivedBytesPerSecond,
            VmMetric::NetworkSentBytesPerSecond,
        ],
    );
    per_second(
        old.disk,
        new.disk,
        [
            VmMetric::DiskReadBytesPerSecond,
            VmMetric::DiskWrittenBytesPerSecond,
        ],
    );
    found
}

/// How much a counter grew; none: it began anew.
fn grown(old: u64, new: u64) -> Option<f64> {
    new.checked_sub(old).map(|grown| grown as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: u64, run: u32, cpu_seconds: u64, bytes: u64) -> Sample {
        let both = Transferred {
            inward: bytes,
            outward: 2 * bytes,
        };
        Sample {
            at: Duration::from_secs(seconds),
            usage: Usage {
                run,
                cpu_nanos: cpu_seconds * 1_000_000_000,
                vcpus: 4,
                network: Some(both),
                disk: Some(both),
            },
        }
    }

    #[test]
    fn d_90_rates_are_what_counters_grew_by_in_the_time_between() {
        let found = rates(&sample(100, 1, 50, 1000), &sample(110, 1, 70, 3000));
        assert_eq!(
            found,
            [
                (VmMetric::CpuPercent, 50.0),
                (VmMetric::NetworkReceivedBytesPerSecond, 200.0),
                (VmMetric::NetworkSentBytesPerSecond, 400.0),
                (VmMetric::DiskReadBytesPerSecond, 200.0),
                (VmMetric::DiskWrittenBytesPerSecond, 400.0),
            ]
        );
    }

    #[test]
    fn d_90_a_counter_that_begins_anew_gives_no_rate() {
        let before = sample(100, 1, 50, 1000);
        // the VM was stopped and started
        assert_eq!(rates(&before, &sample(110, 2, 60, 2000)), []);
        // its port was made anew: the CPU time goes on
        let found = rates(&before, &sample(110, 1, 51, 10));
        assert_eq!(found, [(VmMetric::CpuPercent, 2.5)]);
        // the device is not known any more
        let mut unknown = sample(110, 1, 51, 2000);
        unknown.usage.network = None;
        let found = rates(&before, &unknown);
        assert_eq!(found.len(), 3, "{found:?}");
    }

    #[test]
    fn d_90_no_time_between_two_samples_gives_no_rate_and_no_vm_uses_more_than_it_has() {
        let before = sample(100, 1, 50, 1000);
        assert_eq!(rates(&before, &before), []);
        assert_eq!(rates(&before, &sample(99, 1, 60, 2000)), []);
        let found = rates(&before, &sample(101, 1, 99, 1000));
        assert_eq!(found[0], (VmMetric::CpuPercent, 100.0));
        assert_eq!(found[1].1, 0.0);
        let mut none = sample(101, 1, 51, 1000);
        none.usage.vcpus = 0;
        assert!(
            rates(&before, &none)
                .iter()
                .all(|(_, value)| value.is_finite())
        );
    }
}
