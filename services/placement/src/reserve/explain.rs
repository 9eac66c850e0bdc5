//! Where a request would fit now: in sum for users, node by node for operators. Nothing is written (B-57, B-58).
use std::collections::HashMap;
use std::sync::Arc;

use gpuaas_placement_decision::{Choice, Fleet, Ranking, Rules, UnschedulableReason, Verdict};
use sqlx::PgConnection;
use uuid::Uuid;

use super::admit::check;
use super::baremetal;
use super::explanation::{Explanation, count};
use crate::capacity::Capacity;
use crate::catalog::Sku;
use crate::constraints;
use crate::decision_input::launch_request;
use crate::error::Result;
use crate::model::{Policy, Request, Shape};
use crate::queue::Ahead;

/// What placement makes of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeVerdict {
    pub node_id: Uuid,
    /// Its host name.
    pub hostname: String,
    /// What would be taken, none: a bare-metal node; or the reasons. There are no reasons for a node of another size or
    /// class than the requested bare-metal node.
    pub outcome: Result<Option<Choice>, Vec<UnschedulableReason>>,
}

/// Where a request would fit; unlike [`super::now::validate`] it is no error when that is nowhere. Only project, region, SKU,
/// count, image and constraints of the request count.
///
/// # Errors
/// Those of [`super::reserve`] that are about region, SKU, count or constraints.
pub async fn explain(
    conn: &mut PgConnection,
    capacity: &Capacity,
    policy: Policy,
    request: &Request,
) -> Result<Explanation> {
    let sku = check(conn, policy, request).await?;
    if sku.capacity_shape == Shape::Baremetal {
        return baremetal::explain(conn, capacity, policy, request, &sku).await;
    }
    let rules = constraints::rules(conn, policy.packing_strategy, request, &sku).await?;
    let (_, ranking) = rank(conn, capacity, policy, &rules, request, &sku).await?;
    Ok(explanation(&ranking))
}

async fn rank(
    conn: &mut PgConnection,
    capacity: &Capacity,
    policy: Policy,
    rules: &Rules,
    request: &Request,
    sku: &Sku,
) -> Result<(Arc<Fleet>, Ranking)> {
    let ahead = Ahead::of(conn, policy, request, sku.slot_class).await?;
    let nodes = capacity.now(conn).await?;
    let fleet = nodes.fleet(&request.region_code);
    let rules = ahead.exclude_compiled(rules, &fleet);
    let ranking = fleet.rank(&rules, &launch_request(sku, request));
    Ok((fleet, ranking))
}

fn explanation(ranking: &Ranking) -> Explanation {
    Explanation {
        nodes: count(ranking.pool()),
        nodes_fit: count(ranking.fits()),
        removed: ranking.removed(),
    }
}

/// The same node by node, at most `limit` of them: those that fit in the order of their rank, then the others.
///
/// # Errors
/// As [`explain`].
pub async fn explain_nodes(
    conn: &mut PgConnection,
    capacity: &Capacity,
    policy: Policy,
    request: &Request,
    limit: usize,
) -> Result<(Explanation, Vec<NodeVerdict>)> {
    let sku = check(conn, policy, request).await?;
    let (found, mut verdicts) = if sku.capacity_shape == Shape::Baremetal {
        let (found, each) = baremetal::explain_each(conn, capacity, policy, request, &sku).await?;
        let whole =
            |(node_id, outcome): baremetal::Judged| unnamed(node_id, outcome.map(|()| None));
        (found, each.into_iter().take(limit).map(whole).collect())
    } else {
        let rules = constraints::rules(conn, policy.packing_strategy, request, &sku).await?;
        let (fleet, ranking) = rank(conn, capacity, policy, &rules, request, &sku).await?;
        let slots = |one: Verdict| unnamed(one.node_id, one.outcome.map(Some));
        let verdicts: Vec<NodeVerdict> = fleet
            .verdicts(&ranking, limit)
            .into_iter()
            .map(slots)
            .collect();
        (explanation(&ranking), verdicts)
    };
    let ids: Vec<Uuid> = verdicts.iter().map(|verdict| verdict.node_id).collect();
    let rows: Vec<(Uuid, String)> =
        sqlx::query_as("SELECT id, hostname FROM nodes WHERE id = ANY ($1)")
            .bind(ids)
            .fetch_all(conn)
            .await?;
    let mut names: HashMap<Uuid, String> = rows.into_iter().collect();
    for verdict in &mut verdicts {
        verdict.hostname = names.remove(&verdict.node_id).unwrap_or_default();
    }
    Ok((found, verdicts))
}

fn unnamed(
    node_id: Uuid,
    outcome: Result<Option<Choice>, Vec<UnschedulableReason>>,
) -> NodeVerdict {
    NodeVerdict {
        node_id,
        hostname: String::new(),
        outcome,
    }
}
