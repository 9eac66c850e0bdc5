//! Placement constraints: affinity and anti-affinity with other allocations of its project, and the image cache.
use std::collections::{BTreeSet, HashMap};

use gpuaas_placement_decision::{PackingStrategy, Rules};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::catalog::Sku;
use crate::error::{Error, Result};
use crate::model::{Constraints, Request};
use crate::reserved_slots;

/// The rules that the constraints of a request come to on the ledger as it is now; a disabled SKU is launched on nothing but
/// what the project has reserved of it. Evaluated again under a node's lock, the
/// answer holds for that node: whoever placed something there before has committed.
pub(crate) async fn rules(
    conn: &mut PgConnection,
    packing_strategy: PackingStrategy,
    request: &Request,
    sku: &Sku,
) -> Result<Rules> {
    let requested = Constrained::from(request);
    let neighbours = Neighbours::of(conn, &[requested]).await?;
    let mut rules = neighbours.rules(packing_strategy, requested)?;
    if sku.disabled {
        reserved_slots::Unused::of(
            conn,
            request.project_id,
            Some(&request.region_code),
            &sku.code,
        )
        .await?
        .limit(&mut rules);
    }
    Ok(rules)
}

/// Whose constraints they are.
#[derive(Clone, Copy)]
pub(crate) struct Constrained<'a> {
    pub(crate) project_id: Uuid,
    pub(crate) constraints: &'a Constraints,
    /// It was queued: an allocation named by its anti-affinity may have ended since, and does not matter any more.
    pub(crate) waited: bool,
}

impl<'a> From<&'a Request> for Constrained<'a> {
    fn from(request: &'a Request) -> Self {
        Self {
            project_id: request.project_id,
            constraints: &request.constraints,
            waited: request.batch_id.is_some(),
        }
    }
}

/// Where the allocations are that constraints name, read by one statement for any number of requests.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    /// Project and node of those that were named by id.
    named: HashMap<Uuid, (Uuid, Uuid)>,
    /// Per project and label, the nodes of those that have it.
    labelled: HashMap<(Uuid, Label), BTreeSet<Uuid>>,
}

type Label = (String, String);

impl Neighbours {
    /// Those of all these constraints that are placed and have not ended.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn of(conn: &mut PgConnection, all: &[Constrained<'_>]) -> Result<Self> {
        let mut ids = BTreeSet::new();
        let mut labels = BTreeSet::new();
        for one in all {
            let constraints = one.constraints;
            ids.extend(constraints.affinity);
            ids.extend(&constraints.anti_affinity);
            let avoided = constraints.anti_affinity_label.as_ref();
            let named = avoided.into_iter().chain(&constraints.affinity_label);
            labels.extend(named.map(|label| (one.project_id, label)));
        }
        let mut found = Self::default();
        if ids.is_empty() && labels.is_empty() {
            return Ok(found);
        }
        let (projects, values): (Vec<Uuid>, Vec<Value>) = labels
            .iter()
            .map(|(project_id, (key, value))| (*project_id, json!({ key.as_str(): value })))
            .unzip();
        // the second half names the label
        let rows: Vec<(Uuid, Option<i64>, Uuid, Uuid)> = sqlx::query_as(
            "SELECT a.id, NULL::bigint, a.project_id, a.node_id FROM allocations a
              WHERE a.id = ANY ($1) AND a.state NOT IN ('released', 'failed') AND a.node_id IS NOT NULL
             UNION ALL
             SELECT a.id, l.place, a.project_id, a.node_id
               FROM unnest($2::uuid[], $3::jsonb[]) WITH ORDINALITY AS l (project_id, label, place)
               JOIN allocations a ON a.project_id = l.project_id AND a.labels @> l.label
              WHERE a.state NOT IN ('released', 'failed') AND a.node_id IS NOT NULL",
        )
        .bind(Vec::from_iter(ids))
        .bind(projects)
        .bind(values)
        .fetch_all(conn)
        .await?;
        let labels = Vec::from_iter(labels);
        for (id, place, project_id, node_id) in rows {
            let label = place.and_then(|place| labels.get(usize::try_from(place - 1).ok()?));
            match label {
                Some((_, label)) => {
                    let nodes = found.labelled.entry((project_id, (*label).clone()));
                    nodes.or_default().insert(node_id);
                }
                None => {
                    found.named.insert(id, (project_id, node_id));
                }
            }
        }
        Ok(found)
    }

    /// The rules that some of these constraints come to.
    ///
    /// # Errors
    /// [`Error::Invalid`] when they name what is not there.
    pub(crate) fn rules(
        &self,
        packing_strategy: PackingStrategy,
        of: Constrained<'_>,
    ) -> Result<Rules> {
        let Constrained {
            project_id,
            constraints,
            waited,
        } = of;
        let mut rules = Rules {
            packing_strategy,
            // nil: of no allocation in particular
            project: Some(project_id).filter(|id| !id.is_nil()),
            ..Rules::default()
        };
        if let Some(id) = constraints.affinity {
            let node_id = self.node_of(project_id, id);
            let node_id = node_id.ok_or_else(|| not_there("placement.affinity", id))?;
            rules.only = Some(BTreeSet::from([node_id]));
        }
        if let Some(label) = &constraints.affinity_label {
            let nodes = self.labelled.get(&(project_id, label.clone()));
            let mut nodes = nodes.ok_or_else(|| nobody_has(label))?.clone();
            // both hold when both are given
            if let Some(only) = &rules.only {
                nodes.retain(|node_id| only.contains(node_id));
            }
            rules.only = Some(nodes);
        }
        for id in &constraints.anti_affinity {
            match self.node_of(project_id, *id) {
                Some(node_id) => {
                    rules.avoid.insert(node_id);
                }
                None if waited => {}
                None => return Err(not_there("placement.anti_affinity", *id)),
            }
        }
        if let Some(label) = &constraints.anti_affinity_label {
            let nodes = self.labelled.get(&(project_id, label.clone()));
            rules.avoid.extend(nodes.into_iter().flatten());
        }
        Ok(rules)
    }

    /// The node of an allocation of the project; another project's does not exist.
    fn node_of(&self, project_id: Uuid, id: Uuid) -> Option<Uuid> {
        let (of, node_id) = self.named.get(&id)?;
        (*of == project_id).then_some(*node_id)
    }
}

fn nobody_has((key, value): &Label) -> Error {
    Error::Invalid {
        reason: ErrorReason::FieldInvalid,
        field: "placement.affinity_label",
        rule: format!(
            "must be a label of an allocation of this project that is placed and has not ended; none has {key}={value}"
        ),
    }
}

fn not_there(field: &'static str, id: Uuid) -> Error {
    Error::Invalid {
        reason: ErrorReason::FieldInvalid,
        field,
        rule: format!(
            "must be an allocation of this project that is placed and has not ended; {id} is not"
        ),
    }
}
