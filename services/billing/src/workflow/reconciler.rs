//! Proves, again and again, that billed time is billable time (P3): the union of the usage intervals against
//! the periods that the ledger's events tell.
use std::time::Duration;

use gpuaas_common::client::GrpcChannel;
use gpuaas_common::{CancellationToken, Error, db};
use gpuaas_proto::gpuaas::internal::events::v1::ReadRequest;
use gpuaas_proto::gpuaas::internal::events::v1::event_service_client::EventServiceClient;
use sqlx::{Connection as _, PgPool};

use crate::domain::event;
use crate::domain::reconcile::{Billed, Difference, History, differences};
use crate::metrics::Metrics;
use crate::store;

/// Events asked for at once.
const BATCH: i32 = 1000;

/// Compares usage with the ledger's log.
#[derive(Clone)]
pub struct Reconciler {
    /// Database of this service.
    pub pool: PgPool,
    /// Host of the ledger's log.
    pub ledger: GrpcChannel,
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
        let (billed, history) = loop {
            let (upto, billed) = self.billed(oldest).await?;
            let history = self.history(oldest, upto, &billed).await?;
            let now = self.oldest().await?;
            if now == oldest {
                break (billed, history);
            }
            // old events were removed meanwhile: time that they opened would count as invented
            oldest = now;
        };
        let found = differences(&billed.periods, history.periods());
        self.metrics.reconciled(found.len(), jiff::Timestamp::now());
        for difference in &found {
            tracing::error!(?difference, "find usage that differs from the ledger");
        }
        Ok(found)
    }

    /// The position that usage has reached, and what events after `oldest` prove, of one snapshot: usage would move between
    /// the two.
    async fn billed(&self, oldest: i64) -> Result<(i64, Billed), Error> {
        let mut connection = self.pool.acquire().await?;
        let mut tx = connection
            .begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            .await?;
        let upto = store::position::read(&mut *tx).await?;
        let billed = store::usage::periods(&mut *tx, oldest).await?;
        tx.commit().await?;
        Ok((upto, billed))
    }

    /// Position before the oldest event that is still kept; the newest one when the log is empty.
    async fn oldest(&self) -> Result<i64, Error> {
        let request = ReadRequest {
            after_position: 0,
            limit: 1,
        };
        let read = EventServiceClient::new(self.ledger.clone())
            .read(request)
            .await?
            .into_inner();
        Ok(read
            .events
            .first()
            .map_or(read.head_position, |event| event.position - 1))
    }

    async fn history(&self, oldest: i64, upto: i64, billed: &Billed) -> Result<History, Error> {
        let mut history = History::carrying(&billed.carried);
        let mut after = oldest;
        while after < upto {
            let request = ReadRequest {
                after_position: after,
                limit: BATCH,
            };
            let read = EventServiceClient::new(self.ledger.clone())
                .read(request)
                .await?
                .into_inner();
            let Some(last) = read.events.last() else {
                break;
            };
            after = last.position;
            for wire in read
                .events
                .iter()
                .take_while(|event| event.position <= upto)
            {
                history.push(&event::parse(wire).map_err(Error::internal)?);
            }
        }
        Ok(history)
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
