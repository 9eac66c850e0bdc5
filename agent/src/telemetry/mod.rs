//! What the VMs of this host use (D-90): CPU, network and disk as libvirt counts them, memory and GPUs as the guests report
//! over the host's own login. It is kept in memory, for charts: an hour as it was measured, a day by the minute. A restart of the
//! agent leaves the hour (`kept`). Prometheus is for history (`metrics`).
//!
//! A guest is the tenant's. Each is queried by a task of its own, so that a slow one keeps no other waiting; its answer becomes
//! numbers within bounds, and nothing of it a name or a label but the index of a GPU.
pub mod follow;
mod guest;
mod guest_locks;
mod kept;
mod measure;
pub mod metrics;
mod rates;
pub(crate) mod report;
mod series;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpuaas_proto::gpuaas::common::v1::GuestMetricsState;

use crate::ids::AllocationId;
use crate::vm::Usage;
use guest_locks::GuestLocks;
pub use kept::message;
use rates::{Sample, rates};
pub use report::COMMAND as GUEST_COMMAND;
use report::Report;
use series::VmSeries;
pub use series::{Key, Point};

/// Pauses until a guest that did not answer is queried again.
const AFTER_FAILURE: u32 = 4;
/// Pauses for which the last answer of a guest is shown as its present.
const PRESENT: u32 = 8;

/// What is known of one VM.
#[derive(Default)]
struct Vm {
    series: VmSeries,
    /// Counters of the run that is under way.
    last: Option<Sample>,
    guest: GuestMetricsState,
    /// Queries in a row to which the guest gave no complete answer, all silent or all with GPUs that failed.
    unwell: u32,
    /// What the guest reported last, and when.
    reported: Vec<(Key, f64)>,
    reported_ms: i64,
}

/// What is known of the VMs that this host holds something for.
pub struct Telemetry {
    vms: Mutex<HashMap<AllocationId, Vm>>,
    pause: Duration,
    queries_guests: bool,
    /// The measurements that are under way.
    guest_locks: GuestLocks,
}

/// What was measured of a VM in a time.
pub struct Measured {
    pub series: Vec<(Key, Vec<Point>)>,
    /// What came of the last query to the guest.
    pub guest: GuestMetricsState,
}

/// What is known of a VM now, for Prometheus.
struct Present {
    allocation: AllocationId,
    usage: Usage,
    reported: Vec<(Key, f64)>,
}

impl Telemetry {
    /// Nothing is known yet.
    pub fn new(settings: &crate::settings::Telemetry) -> Self {
        Self {
            vms: Mutex::default(),
            pause: settings.pause(),
            queries_guests: settings.guests,
            guest_locks: GuestLocks::default(),
        }
    }

    fn vms(&self) -> MutexGuard<'_, HashMap<AllocationId, Vm>> {
        self.vms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Between two measurements.
    pub fn pause(&self) -> Duration {
        self.pause
    }

    /// What was measured of a VM from `start_ms` to before `end_ms`, as means of steps.
    pub fn read(&self, of: AllocationId, start_ms: i64, end_ms: i64, step_ms: i64) -> Measured {
        let vms = self.vms();
        let vm = vms.get(&of);
        let guest = match vm {
            _ if !self.queries_guests => GuestMetricsState::Off,
            None => GuestMetricsState::Unspecified,
            Some(vm) => vm.guest,
        };
        let series = vm.map_or_else(Vec::new, |vm| vm.series.read(start_ms, end_ms, step_ms));
        Measured { series, guest }
    }

    /// What came of the last query to the guest of a VM, and how many in a row gave no complete answer (D-80).
    pub fn guest(&self, of: AllocationId) -> (GuestMetricsState, u32) {
        match self.vms().get(&of) {
            _ if !self.queries_guests => (GuestMetricsState::Off, 0),
            None => (GuestMetricsState::Unspecified, 0),
            Some(vm) => (vm.guest, vm.unwell),
        }
    }

    /// Takes in what was counted of a VM; none: it does not run.
    fn counted(&self, of: AllocationId, sample: Option<Sample>, now_ms: i64) {
        let mut vms = self.vms();
        let vm = vms.entry(of).or_default();
        if let (Some(before), Some(now)) = (&vm.last, &sample) {
            for (metric, value) in rates(before, now) {
                vm.series.add((metric, None), (now_ms, value));
            }
        }
        if sample.is_none() {
            vm.reported.clear();
            // what it reported was of a VM that ran
            vm.guest = GuestMetricsState::Unspecified;
            vm.unwell = 0;
        }
        vm.last = sample;
        vm.series.forget(now_ms);
    }

    /// Takes in what a guest reported.
    fn reported(&self, of: AllocationId, report: Report, now_ms: i64) {
        let mut vms = self.vms();
        // its hold ended meanwhile
        let Some(vm) = vms.get_mut(&of) else { return };
        // a guest that boots is silent first, and its driver may not be loaded when it first answers
        let (gpus, failed) = (GuestMetricsState::GpuToolFailed, report.state);
        let as_before = (vm.guest == gpus) == (failed == gpus);
        vm.unwell = match failed {
            GuestMetricsState::Complete | GuestMetricsState::NoGpuTool => 0,
            _ if as_before => vm.unwell.saturating_add(1),
            _ => 1,
        };
        vm.guest = report.state;
        for (key, value) in &report.values {
            vm.series.add(*key, (now_ms, *value));
        }
        if !report.values.is_empty() {
            (vm.reported, vm.reported_ms) = (report.values, now_ms);
        }
    }

    /// Forgets VMs that are none of these.
    fn retain(&self, held: &BTreeSet<AllocationId>) {
        self.vms().retain(|allocation, _| held.contains(allocation));
    }

    fn present(&self, now_ms: i64) -> Vec<Present> {
        let kept = i64::try_from((self.pause * PRESENT).as_millis()).unwrap_or(i64::MAX);
        let of = |(allocation, vm): (&AllocationId, &Vm)| {
            let is_fresh = vm.reported_ms >= now_ms.saturating_sub(kept);
            Some(Present {
                allocation: *allocation,
                usage: vm.last?.usage,
                reported: if is_fresh {
                    vm.reported.clone()
                } else {
                    Vec::new()
                },
            })
        };
        self.vms().iter().filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d_80_the_queries_that_a_guest_left_unanswered_are_counted_until_it_is_well_or_off() {
        use GuestMetricsState as State;
        let telemetry = Telemetry::new(&crate::settings::Telemetry::default());
        let of = AllocationId(uuid::Uuid::from_u128(1));
        assert_eq!(telemetry.guest(of), (State::Unspecified, 0));
        let report = |state| {
            let values = Vec::new();
            telemetry.reported(of, Report { state, values }, 0);
            telemetry.guest(of)
        };
        telemetry.counted(of, None, 0);
        assert_eq!(report(State::NoLogin), (State::NoLogin, 1));
        assert_eq!(report(State::TooSlow), (State::TooSlow, 2));
        assert_eq!(report(State::GpuToolFailed), (State::GpuToolFailed, 1));
        assert_eq!(report(State::GpuToolFailed), (State::GpuToolFailed, 2));
        assert_eq!(report(State::NoGpuTool), (State::NoGpuTool, 0));
        assert_eq!(report(State::Malformed), (State::Malformed, 1));
        assert_eq!(report(State::Complete), (State::Complete, 0));
        report(State::NoLogin);
        // it was shut off
        telemetry.counted(of, None, 0);
        assert_eq!(telemetry.guest(of), (State::Unspecified, 0));

        let off = Telemetry::new(&crate::settings::Telemetry {
            guests: false,
            ..crate::settings::Telemetry::default()
        });
        off.counted(of, None, 0);
        assert_eq!(off.guest(of), (State::Off, 0));
    }
}
