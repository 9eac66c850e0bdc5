//! What VMs use, for Prometheus: counters as libvirt has them, and what the guests reported last. A VM is named by its allocation
//! and a GPU by its index; nothing else of a tenant is in a label.
use std::sync::Arc;

use gpuaas_proto::gpuaas::common::v1::VmMetric;
use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use super::{Present, Telemetry};
use crate::vm::Usage;
use crate::wall_clock::now_ms;

/// A counter: its name, its text, and what it counts.
type Counter = (&'static str, &'static str, fn(&Usage) -> Option<f64>);

const COUNTERS: [Counter; 5] = [
    (
        "agent_vm_cpu_seconds_total",
        "Time of a VM on CPUs since it was started, its emulator included",
        |usage| Some(usage.cpu_nanos as f64 / 1e9),
    ),
    (
        "agent_vm_network_received_bytes_total",
        "Bytes that a VM received since it was started",
        |usage| Some(usage.network?.inward as f64),
    ),
    (
        "agent_vm_network_sent_bytes_total",
        "Bytes that a VM sent since it was started",
        |usage| Some(usage.network?.outward as f64),
    ),
    (
        "agent_vm_disk_read_bytes_total",
        "Bytes that a VM read from its disks since it was started",
        |usage| Some(usage.disk?.inward as f64),
    ),
    (
        "agent_vm_disk_written_bytes_total",
        "Bytes that a VM wrote to its disks since it was started",
        |usage| Some(usage.disk?.outward as f64),
    ),
];

const GAUGES: [(&str, &str, VmMetric); 7] = [
    (
        "agent_vm_memory_used_bytes",
        "Memory of a guest that it cannot give to other programs, as it reports",
        VmMetric::MemoryUsedBytes,
    ),
    (
        "agent_vm_memory_total_bytes",
        "Memory of a guest, as it reports",
        VmMetric::MemoryTotalBytes,
    ),
    (
        "agent_vm_gpu_utilization_percent",
        "Time in which a GPU ran a kernel, as its guest reports",
        VmMetric::GpuUtilizationPercent,
    ),
    (
        "agent_vm_gpu_memory_used_bytes",
        "Memory of a GPU in use, as its guest reports",
        VmMetric::GpuMemoryUsedBytes,
    ),
    (
        "agent_vm_gpu_memory_total_bytes",
        "Memory of a GPU, as its guest reports",
        VmMetric::GpuMemoryTotalBytes,
    ),
    (
        "agent_vm_gpu_temperature_celsius",
        "Temperature of a GPU, as its guest reports",
        VmMetric::GpuTemperatureCelsius,
    ),
    (
        "agent_vm_gpu_power_watts",
        "Power that a GPU takes, as its guest reports",
        VmMetric::GpuPowerWatts,
    ),
];

/// Shows them from now on, as they are at each scrape; of VMs that do not run there is nothing.
pub fn show(meter: &Meter, telemetry: &Arc<Telemetry>) {
    for (name, text, count) in COUNTERS {
        let telemetry = Arc::clone(telemetry);
        let _shown = meter
            .f64_observable_counter(name)
            .with_description(text)
            .with_callback(move |counter| {
                for vm in telemetry.present(now_ms()) {
                    if let Some(value) = count(&vm.usage) {
                        counter.observe(value, &[label(&vm)]);
                    }
                }
            })
            .build();
    }
    for (name, text, wanted) in GAUGES {
        let telemetry = Arc::clone(telemetry);
        let _shown = meter
            .f64_observable_gauge(name)
            .with_description(text)
            .with_callback(move |gauge| {
                for vm in telemetry.present(now_ms()) {
                    for ((metric, index), value) in &vm.reported {
                        if *metric == wanted {
                            let mut labels = vec![label(&vm)];
                            labels
                                .extend(index.map(|index| KeyValue::new("gpu", i64::from(index))));
                            gauge.observe(*value, &labels);
                        }
                    }
                }
            })
            .build();
    }
}

fn label(vm: &Present) -> KeyValue {
    KeyValue::new("allocation_id", vm.allocation.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use gpuaas_proto::gpuaas::common::v1::GuestMetricsState;
    use uuid::Uuid;

    use super::*;
    use crate::ids::AllocationId;
    use crate::telemetry::rates::Sample;
    use crate::telemetry::report::Report;
    use crate::vm::Transferred;

    #[test]
    fn d_90_prometheus_has_what_vms_that_run_use_by_allocation_and_index_of_the_gpu() {
        let (meter, _meters, registry) = gpuaas_common::telemetry::meter("agent").unwrap();
        let telemetry = Arc::new(Telemetry::new(&crate::settings::Telemetry::default()));
        show(&meter, &telemetry);
        let text = || {
            prometheus::TextEncoder::new()
                .encode_to_string(&registry.gather())
                .unwrap()
        };
        assert!(!text().contains("agent_vm_"), "{}", text());
        let (running, stopped) = (AllocationId(Uuid::now_v7()), AllocationId(Uuid::now_v7()));
        let sample = Sample {
            at: Duration::from_secs(1),
            usage: Usage {
                run: 1,
                cpu_nanos: 1_500_000_000,
                vcpus: 2,
                network: Some(Transferred {
                    inward: 7,
                    outward: 8,
                }),
                disk: None,
            },
        };
        let now = now_ms();
        telemetry.counted(running, Some(sample), now);
        telemetry.counted(stopped, Some(sample), now);
        let report = |state| Report {
            state,
            values: vec![
                ((VmMetric::MemoryUsedBytes, None), 1024.0),
                ((VmMetric::GpuUtilizationPercent, Some(3)), 97.0),
            ],
        };
        telemetry.reported(running, report(GuestMetricsState::Complete), now);
        telemetry.counted(stopped, None, now);
        let shown = text();
        for (name, labels, value) in [
            ("agent_vm_cpu_seconds_total", "", "1.5"),
            ("agent_vm_network_sent_bytes_total", "", "8"),
            ("agent_vm_memory_used_bytes", "", "1024"),
            ("agent_vm_gpu_utilization_percent", ",gpu=\"3\"", "97"),
        ] {
            let labels = format!("allocation_id=\"{running}\"{labels},otel_scope_name=\"agent\"");
            let line = format!("{name}{{{labels}}} {value}\n");
            assert!(shown.contains(&line), "{line} in {shown}");
        }
        assert!(!shown.contains(&stopped.to_string()), "{shown}");
        assert!(!shown.contains("agent_vm_disk_read"), "{shown}");
        // its hold ended
        telemetry.retain(&BTreeSet::new());
        assert!(!text().contains(&running.to_string()), "{}", text());
    }
}
