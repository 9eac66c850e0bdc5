//! Instruments: lengths of the queues, how long requests are queued, and how that ends.
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use gpuaas_placement::drift;
use gpuaas_placement::model::SlotClass;
use gpuaas_placement::queue::{Outcome, QueueLength};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Meter};

/// A queue: region and slot class.
type Queue = (String, SlotClass);

/// All instruments. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    requests: Gauge<u64>,
    gpus: Gauge<u64>,
    oldest: Gauge<f64>,
    left: Counter<u64>,
    drifted: Gauge<u64>,
    /// Kinds of drift that were reported: one that has ended is reported as none.
    drifts_reported: Arc<Mutex<BTreeSet<(String, bool)>>>,
    /// Queues that were reported: one that has become empty is reported as empty.
    reported: Arc<Mutex<BTreeSet<Queue>>>,
}

fn labels((region, class): &Queue) -> [KeyValue; 2] {
    [
        KeyValue::new("region", region.clone()),
        KeyValue::new("slot_class", class.as_str()),
    ]
}

impl Metrics {
    /// Instruments of a meter.
    #[must_use]
    pub fn new(meter: &Meter) -> Self {
        Self {
            requests: meter
                .u64_gauge("scheduler_queued_requests")
                .with_description("Queued requests, by region and slot class; a batch counts as one")
                .build(),
            gpus: meter
                .u64_gauge("scheduler_queued_gpus")
                .with_description("GPUs of queued requests, by region and slot class")
                .build(),
            oldest: meter
                .f64_gauge("scheduler_queued_oldest_seconds")
                .with_description("Age of the oldest queued request, by region and slot class")
                .build(),
            left: meter
                .u64_counter("scheduler_queued_ends_total")
                .with_description(
                    "Allocations that this process took out of the queue, by region, slot class and outcome: served, expired, \
                     impossible",
                )
                .build(),
            drifted: meter
                .u64_gauge("scheduler_drifted_slots")
                .with_description(
                    "Slots whose host does not have what was approved, by kind of drift, and whether somebody has the slot",
                )
                .build(),
            drifts_reported: Arc::default(),
            reported: Arc::default(),
        }
    }

    /// How many slots drift; a kind that is not among them has ended.
    pub fn drifted(&self, counts: &[drift::Count]) {
        let mut reported = self
            .drifts_reported
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut ended = std::mem::take(&mut *reported);
        for count in counts {
            let key = (count.kind.clone(), count.occupied);
            self.record_drift(&key, count.slots.unsigned_abs());
            ended.remove(&key);
            reported.insert(key);
        }
        for key in &ended {
            self.record_drift(key, 0);
        }
        reported.append(&mut ended);
    }

    fn record_drift(&self, (kind, occupied): &(String, bool), slots: u64) {
        let labels = [
            KeyValue::new("kind", kind.clone()),
            KeyValue::new("occupied", *occupied),
        ];
        self.drifted.record(slots, &labels);
    }

    /// How long the queues are; one that is not among them is empty.
    pub fn queues(&self, lengths: &[QueueLength]) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let mut empty = std::mem::take(&mut *reported);
        for length in lengths {
            let queue = (length.region_code.clone(), length.slot_class);
            self.record(&queue, length.requests, length.gpus, length.oldest_seconds);
            empty.remove(&queue);
            reported.insert(queue);
        }
        for queue in &empty {
            self.record(queue, 0, 0, 0.0);
        }
        reported.append(&mut empty);
    }

    fn record(&self, queue: &Queue, requests: i64, gpus: i64, oldest: f64) {
        let labels = labels(queue);
        self.requests.record(requests.unsigned_abs(), &labels);
        self.gpus.record(gpus.unsigned_abs(), &labels);
        self.oldest.record(oldest, &labels);
    }

    /// Allocations left their queues.
    pub fn left(&self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            let queue = (outcome.region_code.clone(), outcome.slot_class);
            let [region, class] = labels(&queue);
            let how = KeyValue::new("outcome", outcome.how.clone());
            let count = outcome.allocations.unsigned_abs();
            self.left.add(count, &[region, class, how]);
        }
    }
}
