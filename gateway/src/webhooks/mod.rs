//! Webhooks: what happens to allocations, delivered to HTTPS endpoints of their owners.
//!
//! Gateways read the ledger's log and queue a delivery for each webhook that takes an event ([`collect`]); whichever gateway is
//! free takes what is due, signs it and sends it ([`deliver`]). All state is in Postgres: the position in the log moves in the
//! transaction that queues, and a delivery is taken for a time, so that a gateway that is killed loses nothing and of two
//! gateways one does the work. A delivery is made at least once; of one allocation one at a time, in order.
//!
//! Endpoints are other people's: only public addresses are called ([`address`]), redirects are not followed, an answer's body is
//! not read. Secrets are sealed in the database ([`secret`]), and in no log or error.
pub mod address;
pub mod collect;
pub mod deliver;
pub mod events;
pub mod message;
pub mod secret;

use std::sync::Arc;
use std::time::Duration;

use gpuaas_common::client::Peers;
use gpuaas_common::id::IdGen;
use gpuaas_common::{CancellationToken, Context, db};
use opentelemetry::metrics::{Counter, Gauge, Meter};
use serde::Deserialize;
use sqlx::PgPool;
use tokio::sync::Notify;

use self::secret::Sealer;
use crate::store;

/// Redis topic that the ledger notifies when its log has grown.
const EVENTS_TOPIC: &str = "events";
/// Between two removals of old deliveries.
const SWEEP: Duration = Duration::from_secs(3600);

/// Section `[gateway.webhooks]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhookSettings {
    /// Plain HTTP and addresses that are not public are allowed. For development and tests alone: with it every owner of a
    /// project reaches what the gateway reaches.
    pub allow_insecure: bool,
    /// Webhooks that a project or an organisation may have. 0 is no limit.
    pub max_per_owner: usize,
    /// Longest time for one attempt, in seconds: from the lookup of the name to the head of the answer.
    pub timeout_seconds: f64,
    /// Pause after the first failed attempt, in seconds; it doubles with each further one.
    pub first_retry_seconds: f64,
    /// Longest pause between two attempts, in seconds.
    pub longest_retry_seconds: f64,
    /// A delivery that is pending for so many hours fails with its next failed attempt.
    pub max_age_hours: f64,
    /// A webhook is disabled when so many hours no delivery has succeeded and one fails.
    pub disable_after_hours: f64,
    /// Days for which deliveries are kept.
    pub keep_days: u32,
    /// Attempts that one gateway makes at once; at most half of them to endpoints that fail.
    pub max_concurrent: usize,
    /// Seconds between two polls for due deliveries, and of the ledger's log when no wake-up comes.
    pub poll_seconds: f64,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            allow_insecure: false,
            max_per_owner: 20,
            timeout_seconds: 15.0,
            first_retry_seconds: 5.0,
            longest_retry_seconds: 3600.0,
            max_age_hours: 24.0,
            disable_after_hours: 72.0,
            keep_days: 30,
            max_concurrent: 32,
            poll_seconds: 1.0,
        }
    }
}

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
struct Meters {
    attempts: Counter<u64>,
    lag: Gauge<i64>,
}

impl Meters {
    fn new(meter: &Meter) -> Self {
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
struct Work {
    pool: PgPool,
    peers: Peers,
    ids: IdGen,
    settings: WebhookSettings,
    webhooks: Arc<Webhooks>,
    meters: Meters,
}

/// Queues and delivers until `shutdown`.
///
/// # Errors
/// Settings of the database or of Redis that are unusable.
pub async fn run(
    context: Context,
    settings: WebhookSettings,
    webhooks: Arc<Webhooks>,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let poll = Duration::from_secs_f64(settings.poll_seconds.max(0.01));
    let waiter = context.wake()?.subscribe(EVENTS_TOPIC);
    let work = Arc::new(Work {
        // connections of its own: deliveries take none from those that answer requests
        pool: context.database_of(2)?,
        peers: context.peers.clone(),
        ids: context.ids,
        meters: Meters::new(&context.meter),
        settings,
        webhooks,
    });
    let collecting = async {
        let mut trouble = false;
        loop {
            let outcome = db::within(db::PASS, collect::catch_up(&work)).await;
            match (&outcome, trouble) {
                (Err(error), false) => tracing::warn!("wait for the ledger: {}", error.chain()),
                (Ok(()), true) => tracing::info!("queue events for webhooks again"),
                _ => {}
            }
            trouble = outcome.is_err();
            waiter.wait(poll).await;
        }
    };
    let sweeping = async {
        loop {
            let sweep = store::sweep_deliveries(&work.pool, work.settings.keep_days);
            match db::within(db::SWEEP, sweep).await {
                Ok(0) => {}
                Ok(deliveries) => tracing::info!(deliveries, "remove old webhook deliveries"),
                Err(error) => tracing::warn!("leave old webhook deliveries: {error}"),
            }
            tokio::time::sleep(SWEEP).await;
        }
    };
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = collecting => {}
        () = sweeping => {}
        () = deliver::run(work.clone(), poll) => {}
    }
    Ok(())
}
