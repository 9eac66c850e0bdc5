//! What webhooks are answered, queued and delivered with.
use std::sync::Arc;

use gpuaas_common::client::Peers;
use gpuaas_common::id::IdGen;
use opentelemetry::metrics::{Counter, Gauge, Meter};
use sqlx::PgPool;
use tokio::sync::Notify;

use super::secret::Sealer;
use super::settings::WebhookSettings;

/// What answering the methods on webhooks needs.
pub struct Webhooks {
    /// Seals and opens secrets.
    pub sealer: Sealer,
    /// Of the settings.
    pub allow_insecure: bool,
    /// Of the settings.
    pub max_per_owner: usize,
    /// Something is due now.
    pub due: Arc<Notify>,
}

impl Webhooks {
    /// With the gateways' common key.
    ///
    /// # Errors
    /// A key of which none can be derived.
    pub fn new(settings: &WebhookSettings, internal_key: &str) -> anyhow::Result<Self> {
        Ok(Self {
            sealer: Sealer::derive(internal_key)?,
            allow_insecure: settings.allow_insecure,
            max_per_owner: settings.max_per_owner,
            due: Arc::default(),
        })
    }
}

/// Instruments.
#[derive(Clone, Debug)]
pub(super) struct Meters {
    pub(super) attempts: Counter<u64>,
    pub(super) lag: Gauge<i64>,
}

impl Meters {
    pub(super) fn new(meter: &Meter) -> Self {
        Self {
            attempts: meter
                .u64_counter("edge_webhook_attempts_total")
                .with_description(
                    "Attempts to deliver an event, by outcome (delivered, retry, failed, disabled)",
                )
                .build(),
            lag: meter
                .i64_gauge("edge_webhook_lag_events")
                .with_description("Events of the ledger's log that are not queued for webhooks yet")
                .build(),
        }
    }
}

/// What the background work needs.
pub(super) struct Work {
    pub(super) pool: PgPool,
    pub(super) peers: Peers,
    pub(super) ids: IdGen,
    pub(super) settings: WebhookSettings,
    pub(super) webhooks: Arc<Webhooks>,
    pub(super) meters: Meters,
}
