//! Inspects hosts: takes queued tasks `slice.topology_discover`, calls the agent, stores its report (A-56..A-58).
//!
//! A worker that dies leaves a lease that ends; another one begins the inspection again. It changes nothing on a host.
use std::time::Duration;

use gpuaas_common::error::{Error, reason_name};
use gpuaas_common::time::backoff;
use gpuaas_common::{CancellationToken, Result, db, trace};
use gpuaas_proto::gpuaas::agent::v1::topology_client::TopologyClient;
use gpuaas_proto::gpuaas::agent::v1::{DiscoverRequest, TopologyReport};
use gpuaas_proto::gpuaas::common::v1::SlotStatus;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1::LedgerSlot;
use prost::Message;
use tracing::Instrument as _;

use super::ledger_sync::set_desired_node;
use super::rest;
use crate::domain::topology_report;
use crate::state::State;
use crate::store::nodes;
use crate::store::tasks::{self, ClaimedTask, Ending, Generations};

/// Hosts that one process inspects at the same time.
pub(crate) const WORKERS: usize = 4;
const MAX_ATTEMPTS: i32 = 3;
/// Pauses between two attempts.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// What a lease is longer than the inspection, in seconds.
const LEASE_MARGIN_SECONDS: u32 = 15;
/// How long to wait for the ledger before an inspection; less than that margin.
const LEDGER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an inspection may go on after the process began to stop.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// Works until `shutdown`. An inspection that does not end soon after it is left to its lease: another replica begins again.
pub(crate) async fn run(state: State, shutdown: CancellationToken) {
    let lease = state.config.discovery_timeout_seconds + LEASE_MARGIN_SECONDS;
    while !shutdown.is_cancelled() {
        match db::within(db::PASS, tasks::claim(&state.pool, lease)).await {
            Ok(Some(task)) => {
                let span = tracing::info_span!("discover_topology", task_id = %task.id, node_id = %task.node_id);
                trace::set_parent(&span, &task.traceparent);
                tokio::select! {
                    biased;
                    // then the lease is over, and another replica begins again
                    _ = tokio::time::timeout(Duration::from_secs(lease.into()), work(&state, &task).instrument(span)) => continue,
                    () = given_up(&shutdown) => break,
                }
            }
            Ok(None) => {}
            Err(error) => tracing::warn!("cannot claim a task: {error}"),
        }
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = rest(&state.task_due, state.config.poll_interval()) => {}
        }
    }
}

async fn given_up(shutdown: &CancellationToken) {
    shutdown.cancelled().await;
    tokio::time::sleep(SHUTDOWN_GRACE).await;
}

async fn work(state: &State, task: &ClaimedTask) {
    let report = if task.attempts > MAX_ATTEMPTS {
        Err(Failure {
            reason: ErrorReason::DeadlineExceeded,
            text: "The discovery was started several times and never completed. Start it again."
                .to_owned(),
            may_pass: false,
        })
    } else {
        inspect(state, task).await
    };
    let failures = u32::try_from(task.attempts).unwrap_or_default();
    let pause = backoff(failures, FIRST_PAUSE, LONGEST_PAUSE);
    let encoded = report
        .as_ref()
        .map(|(report, before)| (report.encode_to_vec(), before));
    let ending = match &encoded {
        Ok((bytes, before)) => Ending::Completed(bytes, before),
        Err(failure) if failure.may_pass && task.attempts < MAX_ATTEMPTS => Ending::Retry(pause),
        Err(failure) => Ending::Failed(&failure.text, reason_name(failure.reason)),
    };
    match store(state, task, ending).await {
        Ok(true) => match &report {
            Ok((report, _)) => tracing::info!(
                candidates = report.candidates.len(),
                "store topology of host"
            ),
            Err(failure) => tracing::warn!(
                attempts = task.attempts,
                "cannot inspect host: {}",
                failure.text
            ),
        },
        Ok(false) => tracing::warn!("drop inspection: another worker has taken it over"),
        Err(error) => tracing::warn!("cannot store inspection: {error}"),
    }
}

struct Failure {
    reason: ErrorReason,
    /// For operators.
    text: String,
    /// It is tried again.
    may_pass: bool,
}

/// The host's report, and the ledger's slots of it before the inspection.
async fn inspect(
    state: &State,
    task: &ClaimedTask,
) -> Result<(TopologyReport, Generations), Failure> {
    let (before, left_by_tenants) = slots_before(state, task).await;
    let limit = Duration::from_secs(state.config.discovery_timeout_seconds.into());
    let request = async {
        let channel =
            state
                .peers
                .host_channel(&task.agent_address, &task.node_id, &task.instance_id)?;
        let report = TopologyClient::new(channel)
            .discover(DiscoverRequest { left_by_tenants })
            .await?;
        Ok::<_, Error>(report.into_inner())
    };
    let report = match tokio::time::timeout(limit, request).await {
        Ok(Ok(report)) => report,
        Ok(Err(error)) => {
            let (may_pass, said) = (error.is_transient(), error.message());
            let text = match may_pass {
                true => format!("The host does not answer: {said}."),
                false => format!("The host refused: {said}."),
            };
            return Err(Failure {
                reason: error.reason(),
                text,
                may_pass,
            });
        }
        Err(_elapsed) => {
            return Err(Failure {
                reason: ErrorReason::DeadlineExceeded,
                text: "The host did not answer in time.".to_owned(),
                may_pass: true,
            });
        }
    };
    match topology_report::check(&report) {
        Ok(()) => Ok((report, before)),
        Err(fault) => {
            let reason = ErrorReason::FieldInvalid;
            state.refusals.count("Discover", reason);
            Err(Failure {
                reason,
                text: format!(
                    "The host reports a topology whose {} is wrong: it {}.",
                    fault.field, fault.rule
                ),
                may_pass: false,
            })
        }
    }
}

/// Generations of the node's slots now, and the disks that a tenant was the last to have. An inspection is worth having
/// without them, too: only slots that the ledger has already are then not approved from it.
async fn slots_before(state: &State, task: &ClaimedTask) -> (Generations, Vec<String>) {
    let ledger = tokio::time::timeout(LEDGER_TIMEOUT, state.ledger_slots(task.node_id)).await;
    match ledger.unwrap_or_else(|elapsed| Err(Error::unavailable("the ledger", elapsed))) {
        Ok(ledger) => {
            let of = |slot: LedgerSlot| (slot.slot_index, slot.generation);
            let in_service = |slot: &LedgerSlot| slot.status() != SlotStatus::Retired;
            let slots = ledger.slots.into_iter().filter(in_service);
            (slots.map(of).collect(), ledger.left_by_tenants)
        }
        // a node that never reached the ledger has no slots
        Err(error) if error.reason() == ErrorReason::NodeNotFound => Default::default(),
        Err(error) => {
            tracing::warn!("cannot read the generations of the host's slots: {error}");
            Default::default()
        }
    }
}

async fn store(state: &State, task: &ClaimedTask, ending: Ending<'_>) -> sqlx::Result<bool> {
    let mut tx = state.pool.begin().await?;
    nodes::lock(&mut tx, task.node_id).await?;
    let stored = tasks::finish(&mut tx, task, ending).await?;
    // the host's legal GPU groups come with its topology
    let news =
        stored && set_desired_node(&mut tx, task.node_id, state.config.freshness(), false).await?;
    tx.commit().await?;
    if news {
        state.push_due.notify_one();
    }
    Ok(stored)
}
