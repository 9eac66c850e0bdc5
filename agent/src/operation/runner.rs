//! Drives operations through their steps, and their undo, and takes them up again after a restart.
//!
//! Operations of one allocation run one after the other. A release, clean-up or repair stops everything else of the same
//! allocation (a provision, a start, a reboot), waits until its undo has ended, then begins.
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use gpuaas_common::trace;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::work::{Done, Effect, StepDef, Work};
use super::{power, provision, steps_of, wiping};
use crate::error::{HostError, HostResult};
use crate::faults::{Edge, Place};
use crate::ids::{AllocationId, OperationId, SlotId, Token};
use crate::journal::{Failure, Kind, NewOperation, OperationRow, State, StepStatus};
use crate::node::Node;
use crate::wall_clock::now_ms;

/// How often, and at which interval, an undo is tried.
const UNDO_TRIES: u32 = 3;
const UNDO_LIMIT: Duration = Duration::from_secs(90);

struct Running {
    kind: Kind,
    allocation: AllocationId,
    stop: CancellationToken,
}

/// Runs operations.
pub struct Runner {
    node: Arc<Node>,
    running: Mutex<HashMap<OperationId, Running>>,
    turns: Mutex<HashMap<AllocationId, Arc<tokio::sync::Mutex<()>>>>,
}

impl Runner {
    /// A runner of one host.
    pub fn new(node: Arc<Node>) -> Arc<Self> {
        Arc::new(Self {
            node,
            running: Mutex::default(),
            turns: Mutex::default(),
        })
    }

    /// Journals an operation and begins it; the same operation again is only found.
    pub fn begin(self: &Arc<Self>, mut operation: NewOperation) -> HostResult<()> {
        operation.steps = steps_of(operation.kind)
            .iter()
            .map(|step| step.name)
            .collect();
        if self.node.journal.start_operation(&operation)? {
            tracing::info!(operation_id = %operation.id, allocation_id = %operation.allocation,
                kind = operation.kind.as_str(), "begin operation");
            self.spawn(operation.id, operation.kind, operation.allocation);
        }
        Ok(())
    }

    /// Takes up every operation that had not ended.
    pub fn resume(self: &Arc<Self>) -> HostResult<usize> {
        let rows = self.node.journal.running_operations()?;
        for row in &rows {
            let left = row
                .steps
                .iter()
                .find(|step| matches!(step.status, StepStatus::Pending | StepStatus::Running));
            let step = left.map_or("", |step| step.name.as_str());
            tracing::info!(operation_id = %row.id, allocation_id = %row.allocation, kind = row.kind.as_str(),
                step, "resume operation");
            self.spawn(row.id, row.kind, row.allocation);
        }
        Ok(rows.len())
    }

    fn spawn(self: &Arc<Self>, id: OperationId, kind: Kind, allocation: AllocationId) {
        let stop = CancellationToken::new();
        {
            let mut running = lock(&self.running);
            if matches!(kind, Kind::Release | Kind::CleanUp | Kind::RepairSlot) {
                for other in running
                    .values()
                    .filter(|other| other.allocation == allocation)
                {
                    if !matches!(other.kind, Kind::Release | Kind::CleanUp | Kind::RepairSlot) {
                        other.stop.cancel();
                    }
                }
            }
            running.insert(
                id,
                Running {
                    kind,
                    allocation,
                    stop: stop.clone(),
                },
            );
        }
        let runner = Arc::clone(self);
        tokio::spawn(async move {
            let turn = Arc::clone(lock(&runner.turns).entry(allocation).or_default());
            let own = turn.lock().await;
            // Only a journal that cannot be written brings us here again; nothing was done, so it goes on.
            while let Err(error) = runner.drive(id, &stop).await {
                tracing::error!(operation_id = %id, %error, "operation waits for the journal");
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
            lock(&runner.running).remove(&id);
            drop(own);
            let mut turns = lock(&runner.turns);
            // held by the map and by us: nothing else waits for this allocation
            if Arc::strong_count(&turn) == 2 {
                turns.remove(&allocation);
            }
        });
    }

    /// Brings an operation to its end. Errors are those of the journal alone.
    async fn drive(&self, id: OperationId, stop: &CancellationToken) -> HostResult<()> {
        loop {
            let Some(row) = self.node.journal.operation(id)? else {
                return Ok(());
            };
            if row.state != State::Running {
                return Ok(());
            }
            if let Some(failure) = row.failure.clone() {
                return self.undo(&row, failure).await;
            }
            if row.deadline.boot_id != self.node.clock.boot_id() {
                let error = HostError::host(
                    ErrorReason::LeaseExpired,
                    "the host was restarted, which ends its leases",
                );
                self.record_failure(&row, "", &error)?;
                continue;
            }
            let next = row
                .steps
                .iter()
                .find(|step| !matches!(step.status, StepStatus::Done | StepStatus::Skipped));
            let Some(next) = next else {
                match self.result(&row) {
                    Ok((result, ends)) => return self.succeed(&row, &result, &ends),
                    // it would be the same the next time
                    Err(error) => {
                        tracing::warn!(operation_id = %id, reason = error.reason_name(), %error,
                            "an operation whose steps are done has no result");
                        self.record_failure(&row, "", &error)?;
                        continue;
                    }
                }
            };
            let definition = steps_of(row.kind)
                .iter()
                .find(|step| step.name == next.name);
            let Some(definition) = definition else {
                let error = HostError::internal(format!("this agent knows no step {}", next.name));
                self.record_failure(&row, &next.name, &error)?;
                continue;
            };
            self.step(row, definition, stop).await?;
        }
    }

    async fn step(
        &self,
        row: OperationRow,
        definition: &'static StepDef,
        stop: &CancellationToken,
    ) -> HostResult<()> {
        let id = row.id;
        let span = tracing::info_span!("host_step", otel.name = format!("host.{}", definition.name), step = definition.name, operation_id = %id,
            allocation_id = %row.allocation, kind = row.kind.as_str());
        trace::set_parent(&span, &row.traceparent);
        self.node
            .journal
            .begin_step(id, definition.name, now_ms())?;
        let work = Work {
            node: Arc::clone(&self.node),
            operation: row,
            step: definition.name,
        };
        let outcome = self
            .effect(&work, definition, stop)
            .instrument(span.clone())
            .await;
        match outcome {
            Ok(done) => {
                span.in_scope(|| tracing::info!(operation_id = %id, step = definition.name, "{}", done.message));
                let journal = &self.node.journal;
                journal.end_step(
                    id,
                    definition.name,
                    done.status,
                    &done.message,
                    &done.output,
                    now_ms(),
                )
            }
            Err(error) => {
                span.in_scope(|| {
                    tracing::warn!(operation_id = %id, step = definition.name, reason = error.reason_name(), %error,
                        "step failed");
                });
                self.record_failure(&work.operation, definition.name, &error)
            }
        }
    }

    async fn effect(
        &self,
        work: &Work,
        definition: &StepDef,
        stop: &CancellationToken,
    ) -> HostResult<Done> {
        let left = work.remaining();
        let over = || {
            let message = format!("the budget ended in step {}", definition.name);
            Err(HostError::host(ErrorReason::DeadlineExceeded, message))
        };
        if left.is_zero() {
            return over();
        }
        let effect = AssertUnwindSafe(async {
            self.pass(work, definition.name, Edge::Before).await?;
            let done = (definition.run)(work).await?;
            self.pass(work, definition.name, Edge::After).await?;
            Ok(done)
        })
        .catch_unwind();
        tokio::select! {
            biased;
            () = stop.cancelled() => Err(HostError::host(
                ErrorReason::StateConflict, "stopped, since a release of the same allocation was asked for")),
            () = tokio::time::sleep(left) => over(),
            done = effect => done.unwrap_or_else(|_| Err(HostError::internal("the step panicked"))),
        }
    }

    async fn pass(&self, work: &Work, step: &str, edge: Edge) -> HostResult<()> {
        let kind = work.operation.kind;
        self.node.edges.pass(Place { kind, step, edge }).await
    }

    fn record_failure(&self, row: &OperationRow, step: &str, error: &HostError) -> HostResult<()> {
        if !step.is_empty() {
            let message = error.to_string();
            self.node
                .journal
                .fail_step(row.id, step, &message, now_ms())?;
        }
        let failure = Failure {
            reason: error.reason_name().to_owned(),
            message: error.to_string(),
            step: step.to_owned(),
            class: error.class.into(),
            host_clean: false,
            serial_log_end: error.serial_log_end.clone(),
        };
        self.node.journal.record_failure(row.id, &failure)
    }

    /// Undoes begun steps in reverse. A provision leaves nothing but a dirty disk; a failed release leaves
    /// whatever it did not come to, for the next one.
    async fn undo(&self, row: &OperationRow, mut failure: Failure) -> HostResult<()> {
        let definitions = steps_of(row.kind);
        let mut clean = row.kind == Kind::Provision;
        for definition in definitions.iter().rev() {
            let begun = row
                .steps
                .iter()
                .any(|step| step.name == definition.name && step.status != StepStatus::Pending);
            let Some(undo) = definition.undo.filter(|_| begun) else {
                continue;
            };
            let name = format!("undo_{}", definition.name);
            let span = tracing::info_span!("host_step", otel.name = format!("host.{name}"), step = name, operation_id = %row.id,
                allocation_id = %row.allocation, kind = row.kind.as_str());
            trace::set_parent(&span, &row.traceparent);
            let work = Work {
                node: Arc::clone(&self.node),
                operation: row.clone(),
                step: definition.name,
            };
            let undone = self.undo_step(&work, &name, undo).instrument(span).await;
            if let Err(error) = undone {
                tracing::error!(operation_id = %row.id, step = definition.name, %error, "undo failed");
                clean = false;
            }
        }
        failure.host_clean = clean;
        tracing::warn!(operation_id = %row.id, allocation_id = %row.allocation, kind = row.kind.as_str(),
            reason = failure.reason, step = failure.step, host_clean = clean, "operation failed");
        self.node.journal.fail(row.id, &failure, now_ms())
    }

    async fn undo_step(&self, work: &Work, name: &str, undo: Effect<()>) -> HostResult<()> {
        let mut tries = 1;
        self.pass(work, name, Edge::Before).await?;
        loop {
            let late = || {
                HostError::host(
                    ErrorReason::DeadlineExceeded,
                    "the undo did not end in time",
                )
            };
            match tokio::time::timeout(UNDO_LIMIT, undo(work))
                .await
                .unwrap_or_else(|_| Err(late()))
            {
                Err(error) if tries < UNDO_TRIES => {
                    tries += 1;
                    tracing::warn!(operation_id = %work.operation.id, step = work.step, %error, "undo is tried again");
                    tokio::time::sleep(self.node.settings.polling.undo()).await;
                }
                other => {
                    self.pass(work, name, Edge::After).await?;
                    return other;
                }
            }
        }
    }

    /// What the steps' outputs add up to, and the holds that end with it. Nothing but the operation is read.
    fn result(&self, row: &OperationRow) -> HostResult<(pb::HostOperation, Vec<(SlotId, Token)>)> {
        let work = Work {
            node: Arc::clone(&self.node),
            operation: row.clone(),
            step: "",
        };
        Ok(match row.kind {
            Kind::Provision => (provision::result(&work)?, Vec::new()),
            Kind::Release | Kind::RepairSlot => (wiping::result(&work)?, proven(&work)?),
            Kind::Start | Kind::Reboot | Kind::Rescue => (power::result(&work)?, Vec::new()),
            Kind::CleanUp | Kind::Stop => (pb::HostOperation::default(), Vec::new()),
        })
    }

    fn succeed(
        &self,
        row: &OperationRow,
        result: &pb::HostOperation,
        ends: &[(SlotId, Token)],
    ) -> HostResult<()> {
        let (id, kind, allocation) = (row.id, row.kind, row.allocation);
        self.node.journal.succeed(id, result, now_ms(), ends)?;
        tracing::info!(operation_id = %id, allocation_id = %allocation, kind = kind.as_str(), "operation succeeded");
        Ok(())
    }
}

/// The slots that an operation has proven empty, each under its token.
fn proven(work: &Work) -> HostResult<Vec<(SlotId, Token)>> {
    let slots = work.slots()?.into_iter();
    Ok(slots.map(|slot| (slot.id, slot.token)).collect())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The maps are consistent between any two statements, so a panic elsewhere leaves them usable.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
