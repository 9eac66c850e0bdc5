//! The gauges of the fleet record.
use std::collections::BTreeSet;
use std::time::Duration;

use gpuaas_common::{CancellationToken, db};
use gpuaas_placement::fleet::{self, Counts, FleetCounts, Pool};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Gauge, Meter};
use sqlx::PgPool;

/// Time between two counts of the fleet.
const INTERVAL: Duration = Duration::from_secs(15);

/// Gauges of nodes and GPUs by pool and state.
pub struct Gauges {
    nodes: Gauge<u64>,
    gpus: Gauge<u64>,
    /// Pools that were reported: one that is gone is reported as empty.
    reported: BTreeSet<Pool>,
}

impl Gauges {
    /// Instruments of a meter.
    #[must_use]
    pub fn new(meter: &Meter) -> Self {
        let gauge = |name: &'static str, what: &str| {
            let description = format!(
                "{what} by region, hardware type and state: delivered, healthy, reserved, active, and beside them \
                 reserved_unhealthy, active_unhealthy"
            );
            meter.u64_gauge(name).with_description(description).build()
        };
        Self {
            nodes: gauge("scheduler_fleet_nodes", "Nodes"),
            gpus: gauge("scheduler_fleet_gpus", "GPUs"),
            reported: BTreeSet::new(),
        }
    }

    /// Reports a count of the fleet.
    pub fn report(&mut self, pools: impl IntoIterator<Item = (Pool, FleetCounts)>) {
        let mut gone = std::mem::take(&mut self.reported);
        for (pool, counts) in pools {
            record(&self.nodes, &pool, counts.nodes);
            record(&self.gpus, &pool, counts.gpus);
            gone.remove(&pool);
            self.reported.insert(pool);
        }
        for pool in gone {
            record(&self.nodes, &pool, Counts::default());
            record(&self.gpus, &pool, Counts::default());
        }
    }
}

fn record(gauge: &Gauge<u64>, pool: &Pool, counts: Counts) {
    let states = [
        ("delivered", counts.delivered),
        ("healthy", counts.healthy),
        ("reserved", counts.reserved),
        ("active", counts.active),
        ("reserved_unhealthy", counts.reserved_unhealthy),
        ("active_unhealthy", counts.active_unhealthy),
    ];
    for (state, number) in states {
        let labels = [
            KeyValue::new("region", pool.region_code.clone()),
            KeyValue::new("hardware_type", pool.hardware_type.clone()),
            KeyValue::new("state", state),
        ];
        gauge.record(number, &labels);
    }
}

/// Counts the fleet for the gauges until `shutdown`. Every replica does, as each is read by itself.
pub async fn measure(pool: PgPool, mut gauges: Gauges, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        let counted = async {
            let mut conn = pool.acquire().await?;
            fleet::rollup(&mut conn, None).await
        };
        match shutdown
            .run_until_cancelled(db::within(db::PASS, counted))
            .await
        {
            Some(Ok(rollup)) => gauges.report(rollup.pools),
            Some(Err(error)) => {
                let error = gpuaas_common::Error::from(error);
                tracing::warn!("leave the fleet uncounted: {error:?}");
            }
            None => return,
        }
        let pause = tokio::time::sleep(INTERVAL);
        shutdown.run_until_cancelled(pause).await;
    }
}
