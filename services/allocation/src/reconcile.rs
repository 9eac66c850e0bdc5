//! The reconciler: compares ledger, host and hypervisor of every slice node, reports what differs, has removed what
//! is provably ours and over (P5), and records `stopped` after an unexpected shutdown of a VM.

use std::collections::BTreeMap;
use std::time::Duration;

use gpuaas_placement::{power, workflows};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::domain::residue::{Finding, KINDS, Standing, Vm, compare};
use crate::store::residue;
use crate::workflow::Deps;
use crate::workflow::failure::StepError;
use crate::workflow::host::Host;
use crate::workflow::subject;

/// Compares at the interval of the settings until `shutdown`.
pub async fn run(deps: &Deps, shutdown: CancellationToken) {
    if deps.config.reconcile_seconds <= 0.0 {
        return;
    }
    let interval = Duration::from_secs_f64(deps.config.reconcile_seconds);
    while shutdown
        .run_until_cancelled(tokio::time::sleep(interval))
        .await
        .is_some()
    {
        match residue::slice_nodes(&deps.pool).await {
            Ok(nodes) => {
                for node_id in nodes {
                    match shutdown.run_until_cancelled(node(deps, node_id)).await {
                        Some(Ok(_)) => {}
                        Some(Err(error)) => {
                            tracing::debug!(%node_id, "skip comparison of node: {error:?}");
                        }
                        None => return,
                    }
                }
            }
            Err(error) => tracing::warn!("wait for the database to compare nodes: {error}"),
        }
    }
}

/// Compares one node and starts what cleans it.
///
/// # Errors
/// The database or the host does not answer.
pub async fn node(deps: &Deps, node_id: Uuid) -> Result<Vec<Finding>, StepError> {
    let host = Host::of_node(deps, node_id).await?;
    let before = standings(deps, node_id).await?;
    let held = host.holds().await?;
    let after = standings(deps, node_id).await?;
    let findings = compare(&before, &after, &held);
    for kind in KINDS {
        let count = findings
            .iter()
            .filter(|finding| finding.kind() == kind)
            .count();
        deps.metrics
            .residue(&node_id.to_string(), kind, count as u64);
    }
    for finding in &findings {
        let allocation_id = finding.allocation_id();
        tracing::warn!(%node_id, %allocation_id, kind = finding.kind(), "find residue");
        let removable = matches!(
            finding,
            Finding::LeakedDomain(_) | Finding::LeakedReservation(_)
        );
        // without a hold of the ledger there is no token the host would accept: that is for an operator
        if removable && after.get(&allocation_id) == Some(&Standing::OverHeld) {
            start_clean_up(deps, allocation_id).await?;
        }
        if let Finding::UnexpectedShutdown {
            id,
            boot_id,
            with_host,
        } = *finding
        {
            unexpected_shutdown(deps, id, boot_id, with_host).await?;
        }
    }
    Ok(findings)
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
        tracing::info!(allocation_id = %id, %workflow_id, "start what went off with its host");
        deps.wake.notify(workflows::TOPIC).await;
    }
    Ok(())
}

async fn standings(deps: &Deps, node_id: Uuid) -> Result<BTreeMap<Uuid, Standing>, StepError> {
    let rows = residue::allocations_of(&deps.pool, node_id).await?;
    let standing = |row: residue::Row| {
        let standing = match (row.worked_on, row.state.as_str(), row.holds) {
            (true, _, _) => Standing::Moving,
            (false, "active", _) => Standing::Active(Vm {
                running: row.power.as_deref() == Some("running"),
                boot_id: row.boot_id,
            }),
            (false, "released" | "failed", true) => Standing::OverHeld,
            (false, "released" | "failed", false) => Standing::Over,
            (false, _, _) => Standing::Moving,
        };
        (row.id, standing)
    };
    Ok(rows.into_iter().map(standing).collect())
}

async fn start_clean_up(deps: &Deps, allocation_id: Uuid) -> Result<(), StepError> {
    let mut conn = deps.pool.acquire().await?;
    let window = workflows::DISCARD_WINDOW_SECONDS;
    match workflows::enqueue(
        &mut conn,
        "clean_up",
        Some(allocation_id),
        None,
        window,
        "",
        "",
    )
    .await
    {
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
