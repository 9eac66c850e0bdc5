//! Proves, again and again, that billed time is billable time (P3): the union of the usage intervals against
//! the periods that the ledger's events tell. The log is read page by page, and what is equal and has ended is not kept.
use std::time::Duration;

use gpuaas_common::client::GrpcChannel;
use gpuaas_common::{CancellationToken, Error, db};
use gpuaas_proto::gpuaas::internal::events::v1::event_service_client::EventServiceClient;
use gpuaas_proto::gpuaas::internal::events::v1::{ReadRequest, ReadResponse};
use sqlx::PgPool;

use crate::domain::event::{self, LedgerEvent};
use crate::domain::reconcile::{Comparison, Difference};
use crate::metrics::Metrics;
use crate::store;
use crate::store::usage::Opened;

/// Events of a page.
pub const PAGE: i32 = 1000;

/// Compares usage with the ledger's log.
#[derive(Clone)]
pub struct Reconciler {
    /// Database of this service.
    pub pool: PgPool,
    /// Host of the ledger's log.
    pub ledger: GrpcChannel,
    /// Events asked for at once.
    pub page: i32,
    /// Instruments.
    pub metrics: Metrics,
}

impl Reconciler {
    /// Compares once, as of the position usage has reached. Of an interval that is older than the kept log, the end is
    /// compared, or that there is none; one that ended before it was compared while its events were kept.
    ///
    /// # Errors
    /// The ledger or the database does not answer, or an event cannot be read.
    pub async fn reconcile(&self) -> Result<Vec<Difference>, Error> {
        let mut oldest = self.oldest().await?;
        let found = loop {
            let found = self.compare(oldest).await?;
            let now = self.oldest().await?;
            if now == oldest {
                break found;
            }
            // old events were removed meanwhile: time that they opened would count as invented
            oldest = now;
        };
        self.metrics.reconciled(found.len(), jiff::Timestamp::now());
        for difference in &found {
            tracing::error!(?difference, "find usage that differs from the ledger");
        }
        Ok(found)
    }

    /// Compares what events after `oldest` opened, and what was open there.
    async fn compare(&self, oldest: i64) -> Result<Vec<Difference>, Error> {
        let upto = store::position::read(&self.pool).await?;
        let carried = store::usage::carried(&self.pool, oldest, upto).await?;
        let mut comparison = Comparison::carrying(carried);
        let mut after = oldest;
        while after < upto {
            let read = self.read(after, self.page).await?;
            let events = read.events.iter();
            let events: Vec<LedgerEvent> = events
                .take_while(|event| event.position <= upto)
                .map(event::parse)
                .collect::<Result<_, _>>()
                .map_err(Error::internal)?;
            // of a log that has ended before, the rest of the intervals
            let last = read.events.last();
            let last = last.map_or(upto, |event| event.position.min(upto));
            let opened = Opened { after, last, upto };
            let billed = store::usage::periods(&self.pool, opened).await?;
            comparison.push_page(&events, billed);
            after = last;
        }
        let ahead = store::usage::periods_ahead(&self.pool).await?;
        comparison.push_page(&[], ahead);
        Ok(comparison.differences())
    }

    /// Position before the oldest event that is still kept; the newest one when the log is empty.
    async fn oldest(&self) -> Result<i64, Error> {
        let read = self.read(0, 1).await?;
        Ok(read
            .events
            .first()
            .map_or(read.head_position, |event| event.position - 1))
    }

    async fn read(&self, after_position: i64, limit: i32) -> Result<ReadResponse, Error> {
        let request = ReadRequest {
            after_position,
            limit,
        };
        Ok(EventServiceClient::new(self.ledger.clone())
            .read(request)
            .await?
            .into_inner())
    }

    /// Compares at every interval until `shutdown`.
    pub async fn run(&self, interval: Duration, shutdown: CancellationToken) {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                _ = ticks.tick() => {}
            }
            if let Err(error) = db::within(db::SWEEP, self.reconcile()).await {
                tracing::warn!("put off the reconciliation: {}", error.chain());
            }
        }
    }
}
