//! Follows the ledger's log. An inconsistent event stops usage loudly (log, metric) until the cause is gone;
//! it is never skipped.
use std::time::Duration;

use gpuaas_common::client::GrpcChannel;
use gpuaas_common::id::IdGen;
use gpuaas_common::wake::Waiter;
use gpuaas_common::{CancellationToken, Error, db};
use gpuaas_proto::gpuaas::internal::events::v1::ReadRequest;
use gpuaas_proto::gpuaas::internal::events::v1::event_service_client::EventServiceClient;
use sqlx::PgPool;

use super::apply::apply;
use crate::config::HostLost;
use crate::domain::inconsistency::Inconsistency;
use crate::domain::usage;
use crate::metrics::Metrics;
use crate::store;

/// Events asked for at once.
const BATCH: i32 = 500;

/// Turns ledger events into usage.
#[derive(Clone)]
pub struct Consumer {
    /// Database of this service.
    pub pool: PgPool,
    /// Makes interval ids.
    pub ids: IdGen,
    /// Host of the ledger's log.
    pub ledger: GrpcChannel,
    /// What becomes of the time in which a host is lost.
    pub policy: HostLost,
    /// Longest wait for the database, for a batch.
    pub limit: Duration,
    /// Instruments.
    pub metrics: Metrics,
}

/// Why a round ended.
#[derive(Debug, thiserror::Error)]
pub enum RoundError {
    /// The log contradicts itself or what is on record.
    #[error(transparent)]
    Inconsistent(#[from] Inconsistency),
    /// The ledger or the database does not answer; the next round tries again.
    #[error("the ledger or the database does not answer")]
    Unavailable(#[source] Error),
}

impl From<sqlx::Error> for RoundError {
    fn from(error: sqlx::Error) -> Self {
        Self::Unavailable(error.into())
    }
}

impl Consumer {
    /// Reads and applies one batch. Returns whether the log may hold more.
    ///
    /// # Errors
    /// [`RoundError`]; whatever came before the cause is committed.
    pub async fn round(&self) -> Result<bool, RoundError> {
        let (after, mark) = db::within(self.limit, store::position::marked(&self.pool)).await?;
        // from the last one that was applied on, to see that the log is still the same
        let request = ReadRequest {
            after_position: (after - 1).max(0),
            limit: BATCH,
        };
        let read = EventServiceClient::new(self.ledger.clone())
            .read(request)
            .await
            .map_err(|status| RoundError::Unavailable(status.into()))?
            .into_inner();
        if read.head_position < after {
            return Err(Inconsistency::LedgerBehind {
                after,
                head: read.head_position,
            }
            .into());
        }
        usage::check_log(after, mark.as_deref(), &read.events)?;
        let applied = apply(&self.pool, &self.ids, self.policy, &read.events);
        let applied = db::within(self.limit, applied).await?;
        self.metrics
            .progressed(applied.events, applied.position, read.head_position);
        match applied.stopped {
            Some(cause) => Err(cause.into()),
            None => Ok(!read.events.is_empty() && applied.position < read.head_position),
        }
    }

    /// Applies everything the log holds now.
    ///
    /// # Errors
    /// As [`Self::round`].
    pub async fn catch_up(&self) -> Result<(), RoundError> {
        while self.round().await? {}
        Ok(())
    }

    /// Follows the log until `shutdown`: at every wake-up, and at the poll interval without one (P8).
    pub async fn run(&self, waiter: Waiter, poll_interval: Duration, shutdown: CancellationToken) {
        let mut trouble = Trouble::default();
        while !shutdown.is_cancelled() {
            let outcome = tokio::select! {
                () = shutdown.cancelled() => return,
                outcome = self.catch_up() => outcome,
            };
            trouble.note(&self.metrics, outcome.err());
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = waiter.wait(poll_interval) => {}
            }
        }
    }
}

/// What is wrong right now, so that it is logged when it begins and when it ends, not at every poll.
#[derive(Default)]
struct Trouble {
    stopped: Option<Inconsistency>,
    unavailable: bool,
}

impl Trouble {
    fn note(&mut self, metrics: &Metrics, error: Option<RoundError>) {
        let (cause, unavailable) = match error {
            None => (None, None),
            // whether an earlier inconsistency is gone is not known while the ledger is silent
            Some(RoundError::Unavailable(error)) => (self.stopped.clone(), Some(error)),
            Some(RoundError::Inconsistent(cause)) => (Some(cause), None),
        };
        match (&unavailable, self.unavailable) {
            (Some(error), false) => tracing::warn!("wait for the ledger: {}", error.chain()),
            (None, true) => tracing::info!("follow the ledger again"),
            _ => {}
        }
        self.unavailable = unavailable.is_some();
        if cause != self.stopped {
            if let Some(old) = &self.stopped {
                metrics.stopped(old, false);
            }
            match &cause {
                Some(new) => {
                    metrics.stopped(new, true);
                    tracing::error!(reason = new.label(), "stop usage: {new}");
                }
                None => tracing::info!("go on with usage"),
            }
            self.stopped = cause;
        }
    }
}
