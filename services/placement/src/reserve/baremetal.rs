//! Taking a bare-metal node: one exclusive claim, and the node's mode under its lock (B-21, B-32).
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gpuaas_common::id::IdGen;
use gpuaas_placement_decision::{
    BaremetalCandidate, Fleet, Rules, judge_baremetal, judge_each_baremetal,
};
use sqlx::{Acquire as _, PgConnection};
use uuid::Uuid;

use super::admit::refusal;
use super::explanation::{Explanation, count};
use super::place::{Host, Search, bound, lock_first, unbound};
use super::record::NewClaim;
use crate::capacity::Capacity;
use crate::catalog::Sku;
use crate::decision_input::decision_request;
use crate::error::{Error, Result};
use crate::model::{Bindings, Policy, Request, Snapshot};
use crate::outbox::EventClaim;
use crate::queue::Ahead;
use crate::{candidates, constraints};
pub(super) use gpuaas_placement_decision::Judged;

/// Takes a node that is empty, ready and proven clean, and returns where its agent is, locked. `seen` are nodes on which
/// the same fitted before, best first; the region is read when none of them can be had, and what else fits there
/// is left in it.
pub(crate) async fn take(
    conn: &mut PgConnection,
    search: Search<'_>,
    request: &Request,
    sku: &Sku,
    seen: &mut VecDeque<Uuid>,
) -> Result<Host> {
    let Search {
        capacity,
        policy,
        until,
        ..
    } = search;
    while let Some(node_id) = seen.pop_front() {
        if let Some(host) = try_node(conn, policy, sku, request, node_id, None).await? {
            return Ok(host);
        }
    }
    let requested = decision_request(sku, request.gpu_count);
    loop {
        let (rules, nodes) = read_region(conn, capacity, policy, request, sku).await?;
        let (fit, reasons) = judge_baremetal(&rules, &requested, &nodes);
        if fit.is_empty() {
            return Err(refusal(reasons));
        }
        for (place, node_id) in fit.iter().enumerate() {
            if let Some(host) = try_node(conn, policy, sku, request, *node_id, None).await? {
                seen.extend(&fit[place + 1..]);
                return Ok(host);
            }
        }
        for node_id in &fit {
            let Some(wait) = bound(policy, until) else {
                break;
            };
            let wait = Some(wait);
            if let Some(host) = try_node(conn, policy, sku, request, *node_id, wait).await? {
                return Ok(host);
            }
        }
        if Instant::now() >= until {
            return Err(Error::Busy { nodes: fit.len() });
        }
    }
}

/// The nodes of a request's region, and its rules, with the nodes that it must leave to the requests before
/// it.
async fn read_region(
    conn: &mut PgConnection,
    capacity: &Capacity,
    policy: Policy,
    request: &Request,
    sku: &Sku,
) -> Result<(Rules, Vec<BaremetalCandidate>)> {
    let region = &request.region_code;
    let mut rules = constraints::rules(conn, policy.packing_strategy, request, sku).await?;
    let nodes = candidates::load_baremetal(conn, region, None).await?;
    let ahead = Ahead::of(conn, policy, request, sku.slot_class).await?;
    if ahead.has_queue() {
        let slices = capacity.now(conn).await?.fleet(region);
        rules = ahead.exclude_for_baremetal(&rules, &slices, &nodes);
    }
    Ok((rules, nodes))
}

/// The same of one node, which is locked.
async fn read_locked(
    conn: &mut PgConnection,
    policy: Policy,
    request: &Request,
    sku: &Sku,
    node_id: Uuid,
) -> Result<(Rules, Vec<BaremetalCandidate>)> {
    let region = &request.region_code;
    let mut rules = constraints::rules(conn, policy.packing_strategy, request, sku).await?;
    let nodes = candidates::load_baremetal(conn, region, Some(node_id)).await?;
    let ahead = Ahead::of(conn, policy, request, sku.slot_class).await?;
    if ahead.has_queue() {
        let slices = candidates::load(conn, region, &[node_id]).await?;
        rules = ahead.exclude_for_baremetal(&rules, &Fleet::of(&slices), &nodes);
    }
    Ok((rules, nodes))
}

/// Locks a node within a savepoint and decides again about it alone; none under contention.
async fn try_node(
    conn: &mut PgConnection,
    policy: Policy,
    sku: &Sku,
    request: &Request,
    node_id: Uuid,
    wait: Option<Duration>,
) -> Result<Option<Host>> {
    let mut savepoint = conn.begin().await?;
    if let Some(host) = lock_first(&mut savepoint, &[node_id], wait).await? {
        let requested = decision_request(sku, request.gpu_count);
        let (rules, found) = read_locked(&mut savepoint, policy, request, sku, node_id).await?;
        if !judge_baremetal(&rules, &requested, &found).0.is_empty() {
            unbound(&mut savepoint, wait).await?;
            savepoint.commit().await?;
            return Ok(Some(host));
        }
    }
    savepoint.rollback().await?;
    Ok(None)
}

/// Makes the locked node a bare-metal one, and its exclusive claim. Its slots stay as they are until the host is
/// touched: nothing but the mode excludes slices, and the claim's foreign key fixes the mode.
pub(super) async fn claim(
    conn: &mut PgConnection,
    ids: IdGen,
    sku: &Sku,
    host: Host,
) -> Result<Vec<NewClaim>> {
    let generation: i64 = sqlx::query_scalar(
        "UPDATE nodes SET mode = 'baremetal', intended_mode = coalesce(intended_mode, mode), generation = generation + 1,
                updated_at = greatest(clock_timestamp(), updated_at) WHERE id = $1 RETURNING generation",
    )
    .bind(host.id)
    .fetch_one(&mut *conn)
    .await?;
    let claim = NewClaim {
        held: EventClaim {
            id: ids.next(),
            kind: "node_exclusive",
            node_id: host.id,
            slot_id: None,
            slot_generation: generation,
        },
        class: None,
        fabric_key: String::new(),
        snapshot: Snapshot {
            profile: sku.profile.clone(),
            price: sku.price.clone(),
            bindings: Bindings::default(),
            instance_id: host.instance_id,
            agent_address: host.agent_address,
            hostname: host.hostname,
        },
    };
    Ok(vec![claim])
}

/// Where a request for a bare-metal node would fit now.
pub(super) async fn explain(
    conn: &mut PgConnection,
    capacity: &Capacity,
    policy: Policy,
    request: &Request,
    sku: &Sku,
) -> Result<Explanation> {
    let (rules, nodes) = read_region(conn, capacity, policy, request, sku).await?;
    let requested = decision_request(sku, request.gpu_count);
    let (fit, removed) = judge_baremetal(&rules, &requested, &nodes);
    Ok(Explanation {
        nodes: count(nodes.len()),
        nodes_fit: count(fit.len()),
        removed,
    })
}

/// The same with the reasons of each node, those that fit first.
pub(super) async fn explain_each(
    conn: &mut PgConnection,
    capacity: &Capacity,
    policy: Policy,
    request: &Request,
    sku: &Sku,
) -> Result<(Explanation, Vec<Judged>)> {
    let (rules, nodes) = read_region(conn, capacity, policy, request, sku).await?;
    let requested = decision_request(sku, request.gpu_count);
    let (removed, each) = judge_each_baremetal(&rules, &requested, &nodes);
    let explanation = Explanation {
        nodes: count(nodes.len()),
        nodes_fit: count(each.iter().filter(|(_, outcome)| outcome.is_ok()).count()),
        removed,
    };
    Ok((explanation, each))
}
