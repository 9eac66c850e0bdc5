//! Instruments: how far billing is, whether it stands still, and whether it is proven right.
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Meter};

use crate::domain::inconsistency::Inconsistency;

/// All instruments of this service.
#[derive(Clone)]
pub struct Metrics {
    applied: Counter<u64>,
    position: Gauge<i64>,
    lag: Gauge<i64>,
    stopped: Gauge<u64>,
    differences: Gauge<u64>,
    reconciled: Gauge<i64>,
    unpublished: Gauge<u64>,
}

impl Metrics {
    /// Registers the instruments.
    pub fn new(meter: &Meter) -> Self {
        Self {
            applied: meter
                .u64_counter("billing_events_applied_total")
                .with_description("Ledger events whose effect on usage was committed")
                .build(),
            position: meter
                .i64_gauge("billing_position")
                .with_description("Position in the ledger's log up to which usage is complete")
                .build(),
            lag: meter
                .i64_gauge("billing_lag_events")
                .with_description("Ledger events not applied yet")
                .build(),
            stopped: meter
                .u64_gauge("billing_stopped")
                .with_description(
                    "1 while an inconsistent event keeps usage from going on, by reason",
                )
                .build(),
            differences: meter
                .u64_gauge("billing_reconcile_differences")
                .with_description("Allocations whose billed time differs from their billable time")
                .build(),
            reconciled: meter
                .i64_gauge("billing_reconciled_timestamp_seconds")
                .with_description(
                    "When billed time was last compared with billable time, in seconds since 1970",
                )
                .build(),
            unpublished: meter
                .u64_gauge("billing_unpublished_skus")
                .with_description("SKUs with a price the ledger has not acknowledged")
                .build(),
        }
    }

    /// A batch was committed, or nothing was new.
    pub fn progressed(&self, applied: u64, position: i64, head: i64) {
        self.applied.add(applied, &[]);
        self.position.record(position, &[]);
        self.lag.record((head - position).max(0), &[]);
    }

    /// Usage stands still because of this, or goes on again.
    pub fn stopped(&self, cause: &Inconsistency, stopped: bool) {
        let reason = KeyValue::new("reason", cause.label());
        self.stopped.record(u64::from(stopped), &[reason]);
    }

    /// A reconciliation ended at a time; one that fails is none.
    pub fn reconciled(&self, differences: usize, at: jiff::Timestamp) {
        self.differences.record(differences as u64, &[]);
        self.reconciled.record(at.as_second(), &[]);
    }

    /// Prices were read.
    pub fn unpublished(&self, skus: usize) {
        self.unpublished.record(skus as u64, &[]);
    }
}
