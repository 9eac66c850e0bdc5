//! Where a request would fit now: in sum for users, node by node for operators. Nothing is written (B-57, B-58).
use std::sync::Arc;

use sqlx::PgConnection;
use uuid::Uuid;

use super::admit::check;
use super::{Explanation, Policy, Request, constraints, count, whole};
use crate::availability::launch_request;
use crate::capacity::Capacity;
use crate::catalog::Sku;
use crate::decision::{Choice, Fleet, Ranking, Rules, Verdict};
use crate::model::Shape;
use crate::waiting::Ahead;
use crate::{Reason, Result};

/// What placement makes of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeVerdict {
    /// Node.
    pub node_id: Uuid,
    /// Its host name.
    pub hostname: String,
    /// What would be taken, or why not.
    pub outcome: Result<Choice, Vec<Reason>>,
}

/// Where a request would fit; unlike [`super::validate`] it is no error when that is nowhere. Only region, SKU, count
/// and constraints of the request count.
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
        return whole::explain(conn, capacity, policy, request, &sku).await;
    }
    let rules = constraints::rules(conn, policy.filling, request).await?;
    let (fleet, ranking) = rank(conn, capacity, policy, &rules, request, &sku).await?;
    Ok(explanation(&fleet, &ranking))
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
    let mut nodes = capacity.now(conn).await?;
    let fleet = nodes.remove(&request.region_code).unwrap_or_default();
    let rules = ahead.keep_in(rules, &fleet);
    let ranking = fleet.rank(&rules, &launch_request(sku, request));
    Ok((fleet, ranking))
}

fn explanation(fleet: &Fleet, ranking: &Ranking) -> Explanation {
    Explanation {
        nodes: count(fleet.len()),
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
    if sku.capacity_shape == Shape::Baremetal {
        let found = whole::explain(conn, capacity, policy, request, &sku).await?;
        return Ok((found, Vec::new()));
    }
    let rules = constraints::rules(conn, policy.filling, request).await?;
    let (fleet, ranking) = rank(conn, capacity, policy, &rules, request, &sku).await?;
    let verdicts = fleet.verdicts(&ranking, limit);
    let ids: Vec<Uuid> = verdicts.iter().map(|verdict| verdict.node_id).collect();
    let names: Vec<(Uuid, String)> =
        sqlx::query_as("SELECT id, hostname FROM nodes WHERE id = ANY ($1)")
            .bind(ids)
            .fetch_all(conn)
            .await?;
    let verdicts = verdicts
        .into_iter()
        .map(|Verdict { node_id, outcome }| NodeVerdict {
            node_id,
            hostname: names
                .iter()
                .find(|(id, _)| *id == node_id)
                .map(|(_, name)| name.clone())
                .unwrap_or_default(),
            outcome,
        })
        .collect();
    Ok((explanation(&fleet, &ranking), verdicts))
}
