//! Webhooks: what happens to allocations, projects and who may do what in them, delivered to HTTPS endpoints of their owners.
//!
//! Gateways read the logs of the ledger and of billing and queue a delivery for each webhook that takes an event ([`collect`]);
//! what they change themselves they queue with the change ([`crate::identity`]). Whichever gateway is free takes what is due, signs
//! it and sends it ([`deliver`]). All state is in Postgres: the position in a log moves in the transaction that queues, and a
//! delivery is taken for a time, so that a gateway that is killed loses nothing and of two gateways one does the work. A delivery is
//! made at least once; of one object one at a time, in order.
//!
//! Endpoints are other people's: only public addresses are called ([`address`]), redirects are not followed, an answer's body is
//! not read. Secrets are sealed in the database ([`secret`]), and in no log or error.
pub mod address;
pub mod collect;
pub mod deliver;
pub mod event_types;
pub mod events;
pub mod message;
pub mod secret;
mod settings;
mod work;

use std::sync::Arc;
use std::time::Duration;

use gpuaas_common::{CancellationToken, Context, Result, db};

pub use self::settings::WebhookSettings;
pub use self::work::Webhooks;
use self::work::{Meters, Work};
use crate::store;

/// Redis topic that the ledger notifies when its log has grown.
const EVENTS_TOPIC: &str = "events";
/// Between two removals of old deliveries.
const SWEEP: Duration = Duration::from_secs(3600);

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
        let mut log = Log::new("ledger");
        loop {
            log.note(&collect::catch_up(&work).await);
            waiter.wait(poll).await;
        }
    };
    let collecting_usage = async {
        let mut log = Log::new("billing");
        loop {
            log.note(&collect::catch_up_with_usage(&work).await);
            tokio::time::sleep(poll).await;
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
        () = collecting_usage => {}
        () = sweeping => {}
        () = deliver::run(work.clone(), poll) => {}
    }
    Ok(())
}

/// A log that is read, and whether that went well, so that it is said when trouble begins and when it ends.
struct Log {
    of: &'static str,
    trouble: bool,
}

impl Log {
    fn new(of: &'static str) -> Self {
        Self { of, trouble: false }
    }

    fn note(&mut self, outcome: &Result<()>) {
        match (outcome, self.trouble) {
            (Err(error), false) => {
                tracing::warn!(of = self.of, "wait for events: {}", error.chain());
            }
            (Ok(()), true) => tracing::info!(of = self.of, "queue events for webhooks again"),
            _ => {}
        }
        self.trouble = outcome.is_err();
    }
}
