//! The last hour of each VM across a restart of the agent: it is in the journal from the orderly end of the agent to its next
//! start. An agent that is killed keeps nothing.
use gpuaas_proto::gpuaas::agent::v1::ReadMetricsResponse;
use gpuaas_proto::gpuaas::common::v1::{MetricPoint, MetricSeries, VmMetric};
use prost::Message as _;

use super::series::FINE_MS;
use super::{Key, Point, Telemetry};
use crate::error::{HostError, HostResult};
use crate::journal::Journal;
use crate::wall_clock::timestamp;

impl Telemetry {
    /// Hands over to the next agent.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn keep(&self, journal: &Journal, now_ms: i64) -> HostResult<()> {
        let start_ms = now_ms.saturating_sub(FINE_MS);
        let of = |vm: &super::Vm| {
            // each value as it was measured
            let series = vm.series.read(start_ms, now_ms.saturating_add(1), 1);
            ReadMetricsResponse {
                series: series.into_iter().map(message).collect(),
                ..ReadMetricsResponse::default()
            }
        };
        let vms = self.vms();
        let measured: Vec<_> = vms
            .iter()
            .map(|(allocation, vm)| (*allocation, of(vm).encode_to_vec()))
            .collect();
        drop(vms);
        journal.keep_measured(&measured)
    }

    /// Takes over from the agent before. VMs that are gone are forgotten by the next measurement.
    ///
    /// # Errors
    /// The journal cannot be read; what it has of a VM is malformed, and the others are taken over.
    pub fn take_over(&self, journal: &Journal, now_ms: i64) -> HostResult<()> {
        let mut outcome = Ok(());
        for (allocation, kept) in journal.take_measured()? {
            let Ok(kept) = ReadMetricsResponse::decode(kept.as_slice()) else {
                let text = format!("what was measured of {allocation} is malformed");
                outcome = outcome.and(Err(HostError::internal(text)));
                continue;
            };
            let mut vms = self.vms();
            let series = &mut vms.entry(allocation).or_default().series;
            for (key, point) in kept.series.iter().flat_map(points) {
                series.add(key, point);
            }
            series.forget(now_ms);
        }
        outcome
    }
}

/// A metric over time as the contract has it.
pub fn message(((metric, gpu), points): (Key, Vec<Point>)) -> MetricSeries {
    let point = |(at_ms, value)| MetricPoint {
        time: Some(timestamp(at_ms)),
        value,
    };
    MetricSeries {
        metric: metric.into(),
        gpu,
        points: points.into_iter().map(point).collect(),
    }
}

/// The other way round; none of a metric that this agent does not know.
fn points(series: &MetricSeries) -> impl Iterator<Item = (Key, Point)> {
    let metric = VmMetric::try_from(series.metric).ok();
    let of = move |point: &MetricPoint| {
        let time = point.time.as_ref()?;
        let time = jiff::Timestamp::new(time.seconds, time.nanos).ok()?;
        Some(((metric?, series.gpu), (time.as_millisecond(), point.value)))
    };
    series.points.iter().filter_map(of)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ids::AllocationId;

    const CPU: Key = (VmMetric::CpuPercent, None);
    const GPU: Key = (VmMetric::GpuUtilizationPercent, Some(3));
    const NOW: i64 = 1_800_000_000_000;

    fn telemetry() -> Telemetry {
        Telemetry::new(&crate::settings::Telemetry::default())
    }

    fn everything(telemetry: &Telemetry, of: AllocationId) -> Vec<(Key, Vec<Point>)> {
        telemetry
            .read(of, NOW - 2 * FINE_MS, NOW + FINE_MS, 1)
            .series
    }

    #[test]
    fn d_90_the_next_agent_has_the_last_hour_of_each_vm() {
        let journal = Journal::in_memory().unwrap();
        let [one, other] = [1, 2].map(|number| AllocationId(Uuid::from_u128(number)));
        let before = telemetry();
        for (of, key, at_ms, value) in [
            (one, CPU, NOW - FINE_MS - 60_000, 1.0),
            (one, CPU, NOW - FINE_MS + 1, 2.5),
            (one, CPU, NOW - 15_000, 3.0),
            (one, GPU, NOW, 99.0),
            (other, CPU, NOW - 1, 4.0),
        ] {
            let mut vms = before.vms();
            vms.entry(of).or_default().series.add(key, (at_ms, value));
        }
        before.keep(&journal, NOW).unwrap();

        let after = telemetry();
        after.take_over(&journal, NOW + 5000).unwrap();
        // what is an hour old by now is there by the minute
        let cpu = vec![(NOW - FINE_MS, 2.5), (NOW - 15_000, 3.0)];
        let expected = [(CPU, cpu), (GPU, vec![(NOW, 99.0)])];
        assert_eq!(everything(&after, one), expected, "an hour, and no more");
        assert_eq!(everything(&after, other), [(CPU, vec![(NOW - 1, 4.0)])]);
        // it goes on, and nothing is taken twice
        let mut vms = after.vms();
        let series = &mut vms.get_mut(&other).unwrap().series;
        series.add(CPU, (NOW + 6000, 5.0));
        drop(vms);
        let continued = vec![(NOW - 1, 4.0), (NOW + 6000, 5.0)];
        assert_eq!(everything(&after, other), [(CPU, continued)]);
        assert_eq!(journal.take_measured().unwrap(), []);
    }

    #[test]
    fn d_90_what_is_malformed_keeps_no_other_vm_from_being_taken_over() {
        let journal = Journal::in_memory().unwrap();
        let [one, other] = [1, 2].map(|number| AllocationId(Uuid::from_u128(number)));
        let series = vec![
            message((CPU, vec![(NOW, 1.0), (NOW + 1, f64::NAN)])),
            MetricSeries {
                metric: 9999,
                ..message((CPU, vec![(NOW, 1.0)]))
            },
        ];
        let kept = ReadMetricsResponse {
            series,
            ..ReadMetricsResponse::default()
        };
        let kept = [(one, vec![0xff]), (other, kept.encode_to_vec())];
        journal.keep_measured(&kept).unwrap();
        let telemetry = telemetry();
        let error = telemetry.take_over(&journal, NOW).unwrap_err();
        assert!(error.message.contains(&one.to_string()), "{error}");
        assert_eq!(everything(&telemetry, other), [(CPU, vec![(NOW, 1.0)])]);
    }
}
