//! Where a request would fit now: in sum for users, node by node for operators. Nothing is written (B-57, B-58).
use sqlx::PgConnection;
use uuid::Uuid;

use super::admit::check;
use super::{Explanation, Policy, Request, constraints, count, whole};
use crate::availability::decision_request;
use crate::decision::{Choice, Verdict, judge, message, summary};
use crate::model::Shape;
use crate::{Reason, Result, candidates};

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
    policy: Policy,
    request: &Request,
) -> Result<Explanation> {
    let sku = check(conn, policy, request).await?;
    let rules = constraints::rules(conn, policy.filling, request).await?;
    if sku.capacity_shape == Shape::Baremetal {
        return whole::explain(conn, &rules, request, &sku).await;
    }
    let asked = decision_request(&sku, request.gpu_count);
    let nodes = candidates::load(conn, &request.region_code, None).await?;
    let (choices, removed) = summary(&rules, &asked, judge(&rules, &asked, &nodes));
    Ok(Explanation {
        nodes: count(nodes.len()),
        nodes_fit: count(choices.len()),
        removed,
    })
}

/// The same node by node, at most `limit` of them: those that fit in the order of their rank, then the others.
///
/// # Errors
/// As [`explain`].
pub async fn explain_nodes(
    conn: &mut PgConnection,
    policy: Policy,
    request: &Request,
    limit: usize,
) -> Result<(Explanation, Vec<NodeVerdict>)> {
    let explanation = explain(conn, policy, request).await?;
    let sku = check(conn, policy, request).await?;
    if sku.capacity_shape == Shape::Baremetal {
        return Ok((explanation, Vec::new()));
    }
    let rules = constraints::rules(conn, policy.filling, request).await?;
    let asked = decision_request(&sku, request.gpu_count);
    let nodes = candidates::load(conn, &request.region_code, None).await?;
    let mut verdicts = judge(&rules, &asked, &nodes);
    verdicts.truncate(limit);
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
            outcome: outcome.map_err(|found| told(&found, asked.gpu_count)),
        })
        .collect();
    Ok((explanation, verdicts))
}

/// What keeps GPUs of one node away, each cause once.
fn told(
    found: &[(gpuaas_proto::gpuaas::errors::v1::ErrorReason, u32)],
    asked: usize,
) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = Vec::new();
    for (reason, gpus) in found {
        match reasons.iter_mut().find(|cause| cause.reason == *reason) {
            Some(cause) => cause.gpus += gpus,
            None => reasons.push(Reason {
                reason: *reason,
                gpus: *gpus,
                nodes: 1,
                message: String::new(),
            }),
        }
    }
    for cause in &mut reasons {
        cause.message = message(cause.reason, cause.gpus, 1, asked);
    }
    reasons
}
