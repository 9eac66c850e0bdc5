//! Synchronises regions and nodes to the ledger: the desired state is computed and stored with every change, pushed after
//! the commit, and pushed again until the ledger has confirmed it.
use std::time::Duration;

use gpuaas_common::time::{backoff, proto_time};
use gpuaas_common::{CancellationToken, Error, Result, db};
use gpuaas_proto::gpuaas::agent::v1::TopologyReport;
use gpuaas_proto::gpuaas::common::v1::HealthState;
use gpuaas_proto::gpuaas::internal::scheduler::v1::{GpuGroup, PutNodeRequest, PutRegionRequest};
use prost::Message as _;
use sqlx::PgConnection;
use uuid::Uuid;

use super::rest;
use crate::config::Freshness;
use crate::domain::readiness::{HostHealth, devices_of};
use crate::state::State;
use crate::store::ledger_sync::{self, ClaimedPush, Kind};
use crate::store::regions::RegionRow;
use crate::store::{heartbeats, nodes, tasks};

/// A push that takes longer is given up; its lease outlives it.
const PUSH_TIMEOUT: Duration = Duration::from_secs(10);
const LEASE_SECONDS: u32 = 20;
/// Pushes that one process does at the same time: a node whose push hangs holds up no other, and a fleet that comes back is
/// handed over as fast as the ledger takes it.
pub(crate) const WORKERS: usize = 4;
/// Pauses between two attempts.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Sets the ledger's desired state of a node: the node as it is now. The node's row is locked by the caller. Returns whether that is
/// news; the caller notifies the workers after the commit. The host's next report is taken in full, because what it led to
/// may be another now.
///
/// # Errors
/// Database errors.
pub(crate) async fn set_desired_node(
    conn: &mut PgConnection,
    node_id: Uuid,
    freshness: Freshness,
    reimaged: bool,
) -> sqlx::Result<bool> {
    heartbeats::forget(&mut *conn, &[node_id]).await?;
    update_desired_node(conn, node_id, freshness, reimaged).await
}

/// The same for a report that is being taken in full, whose digest the caller notes.
///
/// # Errors
/// Database errors.
pub(crate) async fn update_desired_node(
    conn: &mut PgConnection,
    node_id: Uuid,
    freshness: Freshness,
    reimaged: bool,
) -> sqlx::Result<bool> {
    let Some(node) = nodes::find(&mut *conn, node_id, freshness).await? else {
        return Ok(false);
    };
    // the ledger knows that it is gone
    if node.removed.is_some() {
        return Ok(false);
    }
    // nothing can be placed on a node before a host has enrolled for it: the ledger need not have it
    let Some(instance_id) = node.instance_id else {
        return Ok(false);
    };
    let (report, is_lost) = (node.report()?, node.is_lost());
    let readiness = node.readiness(report.as_ref());
    let topology = tasks::current_topology(&mut *conn, node_id)
        .await?
        .map(|bytes| TopologyReport::decode(bytes.as_slice()))
        .transpose()
        .map_err(|error| sqlx::Error::Decode(error.into()))?;
    let health = match readiness.health {
        HostHealth::Healthy => HealthState::Healthy,
        HostHealth::Unknown => HealthState::Unknown,
        HostHealth::Degraded => HealthState::Degraded,
    };
    let message = PutNodeRequest {
        node_id: node_id.to_string(),
        hostname: node.hostname,
        region_code: node.region_code,
        mode: node.mode,
        agent_address: node.agent_address.unwrap_or_default(),
        instance_id: instance_id.to_string(),
        schedulable: readiness.schedulable(),
        not_schedulable_reason: readiness.blockers.join(", "),
        hugepages_1g_free: report.as_ref().map_or(0, |report| report.hugepages_1g_free),
        max_vms_per_node: u32::try_from(node.max_vms_per_node).unwrap_or_default(),
        legal_groups: topology
            .unwrap_or_default()
            .legal_groups
            .into_iter()
            .map(|group| GpuGroup {
                module_ids: group.module_ids,
            })
            .collect(),
        lab: node.lab.unwrap_or_default(),
        host_health: health.into(),
        hugepages_allocated_to: report.as_ref().map_or_else(Vec::new, |report| {
            in_order(report.hugepages_allocated_to.clone())
        }),
        // its instance counts as heard from its enrolment on, so a host that is silent was heard last then or later
        host_lost_since: node
            .last_heartbeat_time
            .filter(|_| is_lost)
            .map(|at| proto_time(at.to_jiff())),
        devices: report.as_ref().and_then(devices_of),
        agent_started_time: report.as_ref().and_then(|report| report.agent_started_time),
        image_digests: report.map_or_else(Vec::new, |report| in_order(report.cached_image_digests)),
        // reported at the time of the push, for as long as the ledger has not confirmed it
        new_instance: false,
        rack: node.rack,
    };
    nodes::set_schedulable(&mut *conn, node_id, readiness.schedulable()).await?;
    ledger_sync::set_desired(
        conn,
        Kind::Node,
        &message.node_id,
        &message.encode_to_vec(),
        reimaged,
    )
    .await
}

/// Each once, so that what is the same is the same message.
fn in_order(mut names: Vec<String>) -> Vec<String> {
    names.sort_unstable();
    names.dedup();
    names
}

/// Sets the ledger's desired state of a region.
///
/// # Errors
/// Database errors.
pub(crate) async fn set_desired_region(
    conn: &mut PgConnection,
    region: &RegionRow,
) -> sqlx::Result<bool> {
    let message = PutRegionRequest {
        code: region.code.clone(),
        enabled: region.enabled,
        unavailable_reason: region.unavailable_reason.clone(),
    };
    ledger_sync::set_desired(
        conn,
        Kind::Region,
        &message.code,
        &message.encode_to_vec(),
        false,
    )
    .await
}

/// Pushes this now, if no other replica is doing so. A failure is not the caller's: the background goes on with it.
pub(crate) async fn push_now(state: &State, kind: Kind, key: &str) {
    match ledger_sync::claim(&state.pool, Some((kind, key)), LEASE_SECONDS).await {
        Ok(Some(push)) => push_claimed(state, &push).await,
        Ok(None) => {}
        Err(error) => tracing::warn!(
            kind = kind.as_str(),
            key,
            "cannot claim a push to the ledger: {error}"
        ),
    }
    state.push_due.notify_one();
}

/// Pushes what is due until `shutdown`.
pub(crate) async fn run(state: State, shutdown: CancellationToken) {
    while !shutdown.is_cancelled() {
        let claim = ledger_sync::claim(&state.pool, None, LEASE_SECONDS);
        match db::within(db::PASS, claim).await {
            Ok(Some(push)) => {
                push_claimed(&state, &push).await;
                continue;
            }
            Ok(None) => {}
            Err(error) => tracing::warn!("cannot claim a push to the ledger: {error}"),
        }
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = rest(&state.push_due, state.config.poll_interval()) => {}
        }
    }
}

async fn push_claimed(state: &State, push: &ClaimedPush) {
    let (kind, key, version) = (push.kind.as_str(), push.key.as_str(), push.version);
    let pushed = match tokio::time::timeout(PUSH_TIMEOUT, send(state, push)).await {
        Ok(pushed) => pushed,
        Err(elapsed) => Err(Error::unavailable("the ledger", elapsed)),
    };
    let noted = match pushed {
        Ok(()) => {
            tracing::debug!(kind, key, version, "push to the ledger");
            db::within(db::PASS, ledger_sync::confirm(&state.pool, push)).await
        }
        Err(error) => {
            tracing::warn!(
                kind,
                key,
                version,
                attempts = push.attempts,
                "cannot push to the ledger: {}",
                error.chain()
            );
            let postponed = ledger_sync::postpone(&state.pool, push, pause(push.attempts));
            db::within(db::PASS, postponed).await
        }
    };
    if let Err(error) = noted {
        tracing::warn!(
            kind,
            key,
            version,
            "cannot note the outcome of a push: {error}"
        );
    }
}

async fn send(state: &State, push: &ClaimedPush) -> Result<()> {
    let mut ledger = state.ledger()?;
    if push.kind == Kind::Region.as_str() {
        let message = PutRegionRequest::decode(push.desired.as_slice()).map_err(Error::internal)?;
        ledger.put_region(message).await?;
    } else {
        let mut message =
            PutNodeRequest::decode(push.desired.as_slice()).map_err(Error::internal)?;
        message.new_instance = push.new_instance;
        ledger.put_node(message).await?;
    }
    Ok(())
}

fn pause(attempts: i32) -> Duration {
    let failures = u32::try_from(attempts).unwrap_or_default();
    backoff(failures, FIRST_PAUSE, LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit() {
        let pauses = [1, 2, 3, 6, 1000].map(|attempts| pause(attempts).as_secs());
        assert_eq!(pauses, [1, 2, 4, 30, 30]);
    }
}
