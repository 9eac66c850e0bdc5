//! Instruments of the service.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter};

/// All instruments. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    runs: Counter<u64>,
    retries: Counter<u64>,
    duration: Histogram<f64>,
    sequenced: Counter<u64>,
    residue: Gauge<u64>,
    unhealthy_vms: Gauge<u64>,
    not_compared: Counter<u64>,
}

impl Metrics {
    /// Instruments of a meter.
    #[must_use]
    pub fn new(meter: &Meter) -> Self {
        Self {
            runs: meter
                .u64_counter("allocation_workflow_ends_total")
                .with_description("Workflows that ended, by kind and outcome")
                .build(),
            retries: meter
                .u64_counter("allocation_step_retries_total")
                .with_description(
                    "Attempts of workflow steps that must be repeated, by kind and step",
                )
                .build(),
            duration: meter
                .f64_histogram("allocation_workflow_duration_seconds")
                .with_description(
                    "Time from the start of a workflow to its end, by kind and outcome",
                )
                .with_boundaries(vec![
                    1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1280.0,
                ])
                .build(),
            sequenced: meter
                .u64_counter("allocation_events_sequenced_total")
                .with_description("Ledger events that got their position")
                .build(),
            residue: meter
                .u64_gauge("allocation_host_residue")
                .with_description(
                    "Differences between ledger and host at the last comparison, by node and kind",
                )
                .build(),
            unhealthy_vms: meter
                .u64_gauge("allocation_unhealthy_vms")
                .with_description(
                    "VMs that did not answer or whose GPUs failed at the last comparison, by node and kind",
                )
                .build(),
            not_compared: meter
                .u64_counter("allocation_comparison_failures_total")
                .with_description("Comparisons of ledger and host that failed, by node")
                .build(),
        }
    }

    /// A workflow ended.
    pub fn workflow_end(&self, kind: &str, outcome: &'static str, seconds: f64) {
        let labels = [
            KeyValue::new("kind", kind.to_owned()),
            KeyValue::new("outcome", outcome),
        ];
        self.runs.add(1, &labels);
        self.duration.record(seconds, &labels);
    }

    /// A step must be tried again.
    pub fn step_retry(&self, kind: &str, step: &'static str) {
        self.retries.add(
            1,
            &[
                KeyValue::new("kind", kind.to_owned()),
                KeyValue::new("step", step),
            ],
        );
    }

    /// Events got their positions.
    pub fn sequenced(&self, count: u64) {
        self.sequenced.add(count, &[]);
    }

    /// A node could not be compared with the ledger.
    pub fn not_compared(&self, node: &str) {
        self.not_compared
            .add(1, &[KeyValue::new("node", node.to_owned())]);
    }

    /// The result of a comparison of a node.
    pub fn residue(&self, node: &str, kind: &'static str, count: u64) {
        self.residue.record(count, &of_node(node, kind));
    }

    /// VMs of a node that were unhealthy at its comparison.
    pub fn unhealthy_vms(&self, node: &str, kind: &'static str, count: u64) {
        self.unhealthy_vms.record(count, &of_node(node, kind));
    }
}

fn of_node(node: &str, kind: &'static str) -> [KeyValue; 2] {
    [
        KeyValue::new("node", node.to_owned()),
        KeyValue::new("kind", kind),
    ]
}
