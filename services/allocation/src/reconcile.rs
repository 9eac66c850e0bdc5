//! The reconciler: compares ledger, host and hypervisor of every slice node, reports what differs, has removed what
//! is provably ours and over (P5, D-82), brings the hosts' ingress mappings to what the ledger says (D-80), and records `stopped`
//! after an unexpected shutdown of a VM.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use gpuaas_common::db;
use gpuaas_placement::model::Slot;
use gpuaas_placement::{
    agent_starts, claims, host_holds, networks, outbox, power, slots, workflows,
};
use gpuaas_proto::gpuaas::agent::v1::ListHoldsResponse;
use sqlx::PgConnection;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::domain::discrepancy::{Discrepancy, GUEST_KINDS, KINDS};
use crate::domain::host_holds::{self as leaked, Ledger};
use crate::domain::residue::{LedgerState, Vm, compare};
use crate::ingress;
use crate::store::{residue, visits};
use crate::workflow::Deps;
use crate::workflow::failure::StepError;
use crate::workflow::host::Host;
use crate::workflow::subject;

/// Longest visit to a node: its calls to the host have deadlines of their own.
const VISIT: Duration = Duration::from_secs(120);
/// A visit whose process was killed is over after this time.
const VISIT_LEASE_SECONDS: f64 = 150.0;

/// Compares at once, and then at the interval of the settings until `shutdown`; a node whose agent was started is compared as soon
/// as that is known, and again soon when that fails. `owner` names the replica.
pub async fn run(deps: &Deps, owner: &str, shutdown: CancellationToken) {
    if deps.config.reconcile_seconds <= 0.0 {
        return;
    }
    let interval = Duration::from_secs_f64(deps.config.reconcile_seconds);
    let starts = deps.wake.subscribe(agent_starts::TOPIC);
    let mut due = Instant::now();
    while !shutdown.is_cancelled() {
        let left = due.saturating_duration_since(Instant::now());
        let went = shutdown
            .run_until_cancelled(async {
                if left.is_zero() {
                    due = Instant::now() + interval;
                    return round(deps, owner).await;
                }
                // without a database to ask there is nothing to be early for
                let retry = db::within(db::PASS, visits::next_retry(&deps.pool)).await;
                let retry = retry.unwrap_or_default();
                let retry = retry.map_or(left, Duration::from_secs_f64);
                starts.wait(left.min(retry)).await;
                after_starts(deps, owner).await
            })
            .await;
        if let Some(Err(error)) = went {
            tracing::warn!("wait for the database to compare nodes: {error}");
        }
    }
}

/// How a round over all nodes went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Round {
    /// Nodes that were compared.
    pub compared: usize,
    /// Nodes that could not be.
    pub failed: usize,
    /// Nodes that another replica compares, or just has.
    pub left: usize,
}

/// Compares all slice nodes, several at once: a host that hangs holds up no other.
///
/// # Errors
/// Those of the database while it lists the nodes.
pub async fn round(deps: &Deps, owner: &str) -> sqlx::Result<Round> {
    let nodes = db::within(db::PASS, residue::slice_nodes(&deps.pool)).await?;
    Ok(visit_all(deps, nodes, owner).await)
}

/// Compares the nodes whose agent was started since somebody was there (D-82), or since when nobody got through: what it had
/// begun before may have come to an end that nobody saw.
///
/// # Errors
/// Those of the database while it lists the nodes.
pub async fn after_starts(deps: &Deps, owner: &str) -> sqlx::Result<Round> {
    let nodes = db::within(db::PASS, visits::started_since(&deps.pool)).await?;
    Ok(visit_all(deps, nodes, owner).await)
}

async fn visit_all(deps: &Deps, nodes: Vec<Uuid>, owner: &str) -> Round {
    let visits = futures::stream::iter(nodes)
        .map(|node_id| visit(deps, node_id, owner))
        .buffer_unordered(deps.config.reconcile_concurrency.max(1));
    let round = visits.fold(Round::default(), async |mut round, visit| {
        match visit {
            Visit::Compared => round.compared += 1,
            Visit::Failed => round.failed += 1,
            Visit::Left => round.left += 1,
        }
        round
    });
    round.await
}

enum Visit {
    Compared,
    Failed,
    Left,
}

/// Compares one node under its lease; a failure is counted and told. Since a start of its agent it is tried again soon, and
/// otherwise with the next round.
async fn visit(deps: &Deps, node_id: Uuid, owner: &str) -> Visit {
    // two replicas share the interval; clocks and rounds are not exact
    let interval = deps.config.reconcile_seconds / 2.0;
    let taken = visits::take(&deps.pool, node_id, owner, VISIT_LEASE_SECONDS, interval).await;
    let epoch = match taken {
        Ok(Some(epoch)) => epoch,
        Ok(None) => return Visit::Left,
        Err(error) => return not_compared(deps, node_id, &error.to_string()),
    };
    let compared = tokio::time::timeout(VISIT, node(deps, node_id)).await;
    let failed = !matches!(compared, Ok(Ok(_)));
    if let Err(error) = visits::end(&deps.pool, node_id, epoch, failed).await {
        tracing::warn!(%node_id, "leave the end of a visit to its lease: {error}");
    }
    match compared {
        Ok(Ok(_)) => Visit::Compared,
        Ok(Err(error)) => not_compared(deps, node_id, &format!("{error:?}")),
        Err(_) => not_compared(deps, node_id, "the comparison took too long"),
    }
}

fn not_compared(deps: &Deps, node_id: Uuid, why: &str) -> Visit {
    deps.metrics.not_compared(&node_id.to_string());
    tracing::warn!(%node_id, "cannot compare node with its host: {why}");
    Visit::Failed
}

/// Compares one node and starts what cleans it.
///
/// # Errors
/// The database or the host does not answer.
pub async fn node(deps: &Deps, node_id: Uuid) -> Result<Vec<Discrepancy>, StepError> {
    let host = Host::of_node(deps, node_id).await?;
    let (ledger, held) = inspect(deps, node_id, &host).await?;
    let [before, after] = &ledger.states;
    let discrepancies = compare(before, after, &held);
    let node = node_id.to_string();
    let count = |kind| {
        discrepancies
            .iter()
            .filter(|one| one.kind() == kind)
            .count() as u64
    };
    for kind in KINDS {
        deps.metrics.residue(&node, kind, count(kind));
    }
    for kind in GUEST_KINDS {
        deps.metrics.unhealthy_vms(&node, kind, count(kind));
    }
    for discrepancy in &discrepancies {
        if discrepancy.is_of_guest() {
            continue;
        }
        let allocation_id = discrepancy.allocation_id();
        tracing::warn!(%node_id, %allocation_id, kind = discrepancy.kind(), "find residue");
        // without a hold of the ledger there is no token the host would accept: that is for an operator
        if discrepancy.is_removable() && after.get(&allocation_id) == Some(&LedgerState::OverHeld) {
            start_clean_up(deps, allocation_id).await?;
        }
        if let Discrepancy::UnexpectedShutdown {
            id,
            boot_id,
            with_host,
        } = *discrepancy
        {
            unexpected_shutdown(deps, id, boot_id, with_host).await?;
        }
    }
    let noted = note_holds(deps, node_id, &ledger, &held).await;
    let grouped = set_network_groups(deps, node_id, &host, &held, after).await;
    // what fails of the one keeps nothing of the others back
    ingress::compare(deps, node_id, &held, after).await?;
    grouped?;
    noted?;
    Ok(discrepancies)
}

/// Carries what projects decided to the VMs that run. A host that names no groups is of an earlier release: its VMs are alone.
async fn set_network_groups(
    deps: &Deps,
    node_id: Uuid,
    host: &Host,
    held: &ListHoldsResponse,
    states: &BTreeMap<Uuid, LedgerState>,
) -> Result<(), StepError> {
    let groups = networks::groups_of_node(&mut *deps.pool.acquire().await?, node_id).await;
    let mut outcome = Ok(());
    for group in groups.map_err(subject::ledger)? {
        // whoever works on it may be removing it
        let id = group.allocation_id;
        let is_active = matches!(states.get(&id), Some(LedgerState::Active(_)));
        let text = id.to_string();
        let on_host = held.network_groups.iter();
        let differs = on_host
            .filter(|one| one.allocation_id == text)
            .any(|one| one.group != group.name);
        if is_active && differs {
            tracing::info!(%node_id, allocation_id = %id, group = group.name, "set network group of VM");
            // one that fails keeps no other from what its project decided (P11)
            let done = host.set_network_group(group).await;
            outcome = outcome.and(done.map(drop));
        }
    }
    outcome
}

/// Records unexpected shutdowns, and starts again the VMs that stopped with their host.
async fn unexpected_shutdown(
    deps: &Deps,
    id: Uuid,
    boot_id: Option<Uuid>,
    with_host: bool,
) -> Result<(), StepError> {
    let mut tx = deps.pool.begin().await?;
    let started = power::unexpected_shutdown(&mut tx, id, boot_id, with_host)
        .await
        .map_err(subject::ledger)?;
    tx.commit().await?;
    if let Some(workflow_id) = started {
        tracing::info!(allocation_id = %id, %workflow_id, "start a VM after an unexpected shutdown of its host");
        deps.wake.notify(workflows::TOPIC).await;
    }
    Ok(())
}

/// Takes slots out of service that nobody has and that the host holds, and forgets of those that it does not hold any more.
async fn note_holds(
    deps: &Deps,
    node_id: Uuid,
    ledger: &Ledger,
    held: &ListHoldsResponse,
) -> Result<(), StepError> {
    let held = leaked::host_holds(ledger, held);
    let known = ledger.slots[1]
        .iter()
        .any(|slot| slot.host_holder.is_some());
    if !known && held.values().all(|hold| hold.leaked_at.is_none()) {
        return Ok(());
    }
    let mut tx = deps.pool.begin().await?;
    let changed = host_holds::note(&mut tx, node_id, &held).await;
    let changed = changed.map_err(subject::ledger)?;
    tx.commit().await?;
    if changed > 0 {
        tracing::warn!(%node_id, slots = changed, "note slots that nobody has and that the host holds");
        deps.wake.notify(outbox::TOPIC).await;
    }
    Ok(())
}

/// Asks the host once which slots it holds, and notes those that nobody has, before one of them is repaired.
///
/// # Errors
/// The database or the host does not answer.
pub async fn find_leaked_holds(deps: &Deps, node_id: Uuid) -> Result<(), StepError> {
    let host = Host::of_node(deps, node_id).await?;
    let (ledger, held) = inspect(deps, node_id, &host).await?;
    note_holds(deps, node_id, &ledger, &held).await
}

/// What the host has, and the ledger before and after.
async fn inspect(
    deps: &Deps,
    node_id: Uuid,
    host: &Host,
) -> Result<(Ledger, ListHoldsResponse), StepError> {
    let (before, slots_before) = of_ledger(deps, node_id).await?;
    let held = host.holds().await?;
    let (after, slots_after) = of_ledger(deps, node_id).await?;
    let ledger = Ledger {
        states: [before, after],
        slots: [slots_before, slots_after],
    };
    Ok((ledger, held))
}

/// The ledger's allocations and slots of a node.
async fn of_ledger(
    deps: &Deps,
    node_id: Uuid,
) -> Result<(BTreeMap<Uuid, LedgerState>, Vec<Slot>), StepError> {
    let rows = residue::allocations_of(&deps.pool, node_id).await?;
    let slots = slots::list(&mut *deps.pool.acquire().await?, node_id).await;
    Ok((ledger_states(&rows), slots.map_err(subject::ledger)?))
}

/// Where allocations stand by the ledger.
pub(crate) fn ledger_states(rows: &[residue::Row]) -> BTreeMap<Uuid, LedgerState> {
    rows.iter().map(|row| (row.id, ledger_state(row))).collect()
}

/// Where an allocation stands by the ledger.
fn ledger_state(row: &residue::Row) -> LedgerState {
    match (row.worked_on, row.state.as_str(), row.holds) {
        (true, _, _) => LedgerState::Moving,
        (false, "active", _) => LedgerState::Active(Vm {
            running: matches!(row.power.as_deref(), Some("running" | "rescued")),
            boot_id: row.boot_id,
        }),
        (false, "released" | "failed", true) => LedgerState::OverHeld,
        (false, "released" | "failed", false) => LedgerState::Over,
        (false, _, _) => LedgerState::Moving,
    }
}

async fn start_clean_up(deps: &Deps, allocation_id: Uuid) -> Result<(), StepError> {
    let mut conn = deps.pool.acquire().await?;
    if claims::on_replaced_host(&mut conn, allocation_id)
        .await
        .map_err(subject::ledger)?
    {
        // what is claimed is gone with its host instance; what is on the present one is the repair's
        return Ok(());
    }
    match clean_up(&mut conn, allocation_id).await {
        Ok(workflow_id) => {
            tracing::info!(%allocation_id, %workflow_id, "start removal of residue");
            deps.wake.notify(workflows::TOPIC).await;
            Ok(())
        }
        // another replica was quicker
        Err(error)
            if error
                .as_database_error()
                .is_some_and(sqlx::error::DatabaseError::is_unique_violation) =>
        {
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Starts the removal of what a VM left on its host; the database refuses a second workflow of an allocation.
pub(crate) async fn clean_up(conn: &mut PgConnection, allocation_id: Uuid) -> sqlx::Result<Uuid> {
    let workflow = workflows::New {
        kind: "clean_up",
        allocation_id: Some(allocation_id),
        deadline_seconds: workflows::CLEAN_UP_WINDOW_SECONDS,
        ..workflows::New::default()
    };
    workflows::enqueue(conn, &workflow).await
}
