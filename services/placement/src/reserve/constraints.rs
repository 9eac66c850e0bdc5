//! Where an allocation may be placed: beside, or away from, other allocations of its project, and with its image.
use std::collections::BTreeSet;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use super::Request;
use crate::decision::{Filling, Rules};
use crate::{Error, Result};

/// Where an allocation may be placed; all of it must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Constraints {
    /// The node of this allocation.
    pub same_node_as: Option<Uuid>,
    /// No node of one of these allocations.
    pub spread_from: Vec<Uuid>,
    /// No node with an allocation that has this label.
    pub spread_from_label: Option<(String, String)>,
    /// Only nodes that have the image verified in their cache (CON-10).
    pub require_prewarmed: bool,
}

impl Constraints {
    /// Where it may be placed depends on where other allocations are.
    pub(crate) fn name_others(&self) -> bool {
        self.same_node_as.is_some()
            || !self.spread_from.is_empty()
            || self.spread_from_label.is_some()
    }
}

/// The rules that the constraints come to on the ledger as it is now. Asked again under a node's lock, the answer
/// holds for that node: whoever placed something there before has committed.
pub(crate) async fn rules(
    conn: &mut PgConnection,
    filling: Filling,
    request: &Request,
) -> Result<Rules> {
    let constraints = &request.constraints;
    let mut rules = Rules {
        filling,
        // nil: nobody's in particular
        project: Some(request.project_id).filter(|id| !id.is_nil()),
        ..Rules::default()
    };
    if let Some(id) = constraints.same_node_as {
        rules.only = Some(node_of(conn, request.project_id, id, "placement.same_node_as").await?);
    }
    for id in &constraints.spread_from {
        let node_id = node_of(conn, request.project_id, *id, "placement.spread_from").await?;
        rules.avoid.insert(node_id);
    }
    if let Some((key, value)) = &constraints.spread_from_label {
        let nodes: Vec<Uuid> = sqlx::query_scalar(
            "SELECT DISTINCT node_id FROM allocations
              WHERE project_id = $1 AND labels @> $2 AND state NOT IN ('released', 'failed') AND node_id IS NOT NULL",
        )
        .bind(request.project_id)
        .bind(json!({ key.as_str(): value }))
        .fetch_all(conn)
        .await?;
        rules.avoid.extend(BTreeSet::from_iter(nodes));
    }
    Ok(rules)
}

/// The constraints without the allocations to keep away from that have ended.
pub(crate) async fn still_meant(
    conn: &mut PgConnection,
    constraints: &Constraints,
) -> Result<Constraints> {
    let mut constraints = constraints.clone();
    if !constraints.spread_from.is_empty() {
        constraints.spread_from = sqlx::query_scalar(
            "SELECT id FROM allocations WHERE id = ANY ($1) AND state NOT IN ('released', 'failed')",
        )
        .bind(&constraints.spread_from)
        .fetch_all(conn)
        .await?;
    }
    Ok(constraints)
}

/// The node of an allocation of the project that has not ended; another project's does not exist.
async fn node_of(
    conn: &mut PgConnection,
    project_id: Uuid,
    id: Uuid,
    field: &'static str,
) -> Result<Uuid> {
    let node_id: Option<Option<Uuid>> = sqlx::query_scalar(
        "SELECT node_id FROM allocations
          WHERE id = $1 AND project_id = $2 AND state NOT IN ('released', 'failed')",
    )
    .bind(id)
    .bind(project_id)
    .fetch_optional(conn)
    .await?;
    node_id.flatten().ok_or_else(|| Error::Invalid {
        reason: ErrorReason::FieldInvalid,
        field,
        rule: format!(
            "must be an allocation of this project that is placed and has not ended; {id} is not"
        ),
    })
}
