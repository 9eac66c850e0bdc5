//! The input of an effect: the taken workflow, its step, what earlier steps recorded, and the way out.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gpuaas_common::client::Peers;
use gpuaas_common::db;
use gpuaas_common::wake::Wake;
use gpuaas_placement::{Fence, timeline};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::{Value, json};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::edges::Edges;
use super::failure::{Failure, StepError};
use crate::config::Config;
use crate::domain::operation::Progress;
use crate::metrics::Metrics;
use crate::store::workflow_rows::{self, Lost, StepRow, Taken};

/// What every workflow of a process shares.
pub struct Deps {
    /// Pool of the service's role.
    pub pool: PgPool,
    /// Channels to hosts and services.
    pub peers: Peers,
    /// Wake-ups after commits.
    pub wake: Wake,
    /// Settings.
    pub config: Config,
    /// Instruments.
    pub metrics: Metrics,
    /// Who stands at the edges of steps.
    pub edges: Arc<dyn Edges>,
    /// Certificates (PEM) of the authority of hosts, by which what hosts sign is verified.
    pub host_authority: String,
}

impl Deps {
    /// Work with the database, given up when it takes longer than a lease: the heartbeat renews it by another connection,
    /// so a host of the database that vanished would hold up this one alone.
    pub fn within<T, E: From<sqlx::Error>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> impl Future<Output = Result<T, E>> {
        let lease = Duration::from_secs_f64(self.config.lease_seconds);
        db::within(lease.clamp(SHORTEST, db::PASS), work)
    }
}

/// A transaction of a busy database takes less.
const SHORTEST: Duration = Duration::from_secs(5);

/// One run of one step.
pub struct Work {
    /// Shared parts.
    pub deps: Arc<Deps>,
    /// The workflow as taken.
    pub taken: Taken,
    /// The step's row.
    pub step: StepRow,
    /// What is left of the step's time and of the workflow's window, whichever ends first.
    pub left: Duration,
    /// Names of the steps that were ever begun.
    pub begun: Arc<HashSet<String>>,
    /// Outputs of the steps that are done, by name.
    pub outputs: Arc<HashMap<String, Value>>,
    /// The host lease of this taking.
    pub host_lease: Arc<Mutex<Option<String>>>,
}

impl Work {
    /// The fence of this taking, for ledger changes.
    pub fn fence(&self) -> Fence {
        Fence {
            workflow_id: self.taken.id,
            lease_epoch: self.taken.lease_epoch,
        }
    }

    /// The allocation worked on.
    ///
    /// # Errors
    /// The workflow has none: its row is wrong.
    pub fn allocation_id(&self) -> Result<Uuid, StepError> {
        self.taken
            .allocation_id
            .ok_or_else(|| malformed("allocation"))
    }

    /// The slot worked on.
    ///
    /// # Errors
    /// The workflow has none: its row is wrong.
    pub fn slot_id(&self) -> Result<Uuid, StepError> {
        self.taken.slot_id.ok_or_else(|| malformed("slot"))
    }

    /// A connection of the pool.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn conn(&self) -> Result<sqlx::pool::PoolConnection<sqlx::Postgres>, StepError> {
        Ok(self.deps.pool.acquire().await?)
    }

    /// The lease the host granted to this taking, if any.
    pub fn lease(&self) -> Option<String> {
        self.host_lease
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Remembers the lease the host granted.
    pub fn set_lease(&self, lease_id: Option<String>) {
        *self
            .host_lease
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = lease_id;
    }

    /// The lease an earlier taking recorded, for giving it back.
    pub fn recorded_lease(&self) -> Option<String> {
        let of = |step: &str| {
            self.outputs
                .get(step)?
                .get("lease_id")?
                .as_str()
                .map(str::to_owned)
        };
        self.lease().or_else(|| of("acquire_lease"))
    }

    /// Why the workflow failed, as it was stored when it turned round.
    pub fn failure(&self) -> Failure {
        let stored = self.taken.failure.clone();
        stored
            .and_then(|stored| serde_json::from_value(stored).ok())
            .unwrap_or_else(|| Failure {
                reason: "INTERNAL".into(),
                message: "the failure was not recorded".into(),
                step: String::new(),
                failure_class: "host".into(),
                host_clean: false,
                serial_log_end: Box::default(),
            })
    }

    /// Writes progress under the fence.
    ///
    /// # Errors
    /// [`StepError::Lost`] when another runner has the work.
    pub async fn progress(
        &self,
        conn: &mut PgConnection,
        progress: &Progress,
    ) -> Result<(), StepError> {
        let (id, epoch) = (self.taken.id, self.taken.lease_epoch);
        workflow_rows::set_progress(conn, id, epoch, &json!(progress))
            .await?
            .map_err(|Lost| StepError::Lost)
    }

    /// Writes a timeline entry of the allocation, if there is one. The caller holds the fence.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn record_timeline(
        &self,
        conn: &mut PgConnection,
        step: &str,
        state: timeline::State,
        percent: u32,
        message: &str,
        error: Option<&Value>,
    ) -> sqlx::Result<()> {
        let Some(allocation_id) = self.taken.allocation_id else {
            return Ok(());
        };
        let step = format!("{}.{step}", self.taken.kind);
        let percent = i16::try_from(percent.min(100)).unwrap_or(100);
        timeline::record(conn, allocation_id, &step, state, percent, message, error).await
    }
}

fn malformed(what: &str) -> StepError {
    StepError::fail(
        ErrorReason::Internal,
        format!("workflow row has no {what}"),
        gpuaas_proto::gpuaas::agent::v1::FailureClass::Host,
    )
}
