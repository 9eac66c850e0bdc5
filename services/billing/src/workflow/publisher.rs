//! Pushes prices to the ledger until it acknowledges them, a SKU's prices in their order.
use std::time::Duration;

use gpuaas_common::client::GrpcChannel;
use gpuaas_common::time::proto_time;
use gpuaas_common::wake::Waiter;
use gpuaas_common::{CancellationToken, Error, db};
use gpuaas_proto::gpuaas::internal::scheduler::v1::PutSkuPriceRequest;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_client::PlacementServiceClient;
use sqlx::PgPool;

use crate::metrics::Metrics;
use crate::store;
use crate::store::prices::PriceVersion;

/// Topic that tells other replicas of a new price.
pub const TOPIC: &str = "prices";

/// Publishes prices.
#[derive(Clone)]
pub struct Publisher {
    /// Database of this service.
    pub pool: PgPool,
    /// Host of the ledger's prices.
    pub ledger: GrpcChannel,
    /// Instruments.
    pub metrics: Metrics,
}

impl Publisher {
    /// Publishes everything that is not yet, oldest first. Calls are idempotent: a crash between the call and
    /// its note, or another replica, costs a repeated call.
    ///
    /// # Errors
    /// The first one of each SKU is returned last, after all other SKUs were tried.
    pub async fn publish(&self) -> Result<(), Error> {
        let mut failed = None;
        let mut stuck: Vec<String> = Vec::new();
        loop {
            let waiting = store::prices::unpublished(&self.pool);
            let mut waiting = db::within(db::PASS, waiting).await?;
            waiting.retain(|version| !stuck.contains(&version.sku));
            if waiting.is_empty() {
                self.metrics.unpublished(stuck.len());
                return failed.map_or(Ok(()), Err);
            }
            for version in waiting {
                match self.put(&version).await {
                    Ok(()) => {
                        let noted = store::prices::set_published(&self.pool, version.id);
                        db::within(db::PASS, noted).await?;
                    }
                    Err(error) => {
                        stuck.push(version.sku);
                        failed.get_or_insert(error);
                    }
                }
            }
        }
    }

    async fn put(&self, version: &PriceVersion) -> Result<(), Error> {
        let request = PutSkuPriceRequest {
            sku: version.sku.clone(),
            price_version_id: version.id.to_string(),
            price_per_gpu_hour: Some(version.price().to_money()),
            effective_time: Some(proto_time(version.effective_at.to_jiff())),
        };
        PlacementServiceClient::new(self.ledger.clone())
            .put_sku_price(request)
            .await?;
        tracing::info!(price_version_id = %version.id, sku = version.sku, "publish price");
        Ok(())
    }

    /// Publishes until `shutdown`, at every wake-up and at the poll interval.
    pub async fn run(&self, waiter: Waiter, poll_interval: Duration, shutdown: CancellationToken) {
        let mut failing = false;
        while !shutdown.is_cancelled() {
            let outcome = tokio::select! {
                () = shutdown.cancelled() => return,
                outcome = self.publish() => outcome,
            };
            match (&outcome, failing) {
                (Err(error), false) => tracing::warn!("wait to publish prices: {}", error.chain()),
                (Ok(()), true) => tracing::info!("publish prices again"),
                _ => {}
            }
            failing = outcome.is_err();
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = waiter.wait(poll_interval) => {}
            }
        }
    }
}
