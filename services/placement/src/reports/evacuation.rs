//! What would have to be stopped for nodes to be empty, and where it would fit.
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use gpuaas_placement_decision::{
    BaremetalCandidate, DisplacedAllocation, Fleet, GpuCount, PlanInput, Rules, evacuate,
    judge_baremetal, refusal_reasons,
};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use super::allocations::{Names, PlannedAllocation, PlannedPlacement, Skus};
use super::rows::{Row, on_nodes};
use crate::capacity::Capacity;
use crate::error::{Error, Reason, Result, cause, reasons};
use crate::model::{AllocationState, Policy, Request, Shape, SlotClass};
use crate::queue::{self, Ahead};
use crate::{candidates, nodes};

/// Most nodes of one plan.
pub const MAX_NODES: usize = 32;

/// What becomes of an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It would fit here.
    Fits(PlannedPlacement),
    /// It fits nowhere, and why.
    Nowhere(Vec<Reason>),
    /// It is being released and ends by itself.
    Ends,
}

/// An allocation that would have to be stopped.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// The allocation as it is.
    pub allocation: PlannedAllocation,
    /// What becomes of it.
    pub outcome: Outcome,
    /// The plan respects its placement constraints; false: the platform before this one made it, and they are unknown.
    pub constraints_known: bool,
}

/// What emptying nodes would take.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Region of the nodes.
    pub region_code: String,
    /// In the order in which they would be placed, then those that end.
    pub allocations: Vec<Planned>,
    /// Slots of the nodes that wait for a repair.
    pub blocked_slots: u32,
}

/// Plans to empty nodes of one region at the same time. Nothing is written.
///
/// # Errors
/// [`Error::Invalid`] for no or too many nodes, or nodes of several regions; [`Error::NotFound`] for a node.
pub async fn evacuation(
    conn: &mut PgConnection,
    capacity: &Capacity,
    policy: Policy,
    node_ids: &BTreeSet<Uuid>,
) -> Result<Plan> {
    // first, so that the copy and what follows are of one snapshot
    let regions = capacity.now(conn).await?;
    let region_code = region_of(conn, node_ids).await?;
    let leaving: Vec<Uuid> = node_ids.iter().copied().collect();
    let mut fleet: Fleet = Arc::unwrap_or_clone(regions.fleet(&region_code));
    leaving.iter().for_each(|id| fleet.remove(*id));

    let rows = on_nodes(conn, &leaving).await?;
    let skus = Skus::of(conn, &rows).await?;
    let (ending, staying): (Vec<&Row>, Vec<&Row>) = rows
        .iter()
        .partition(|row| row.state == AllocationState::Releasing);
    let (baremetal, slices): (Vec<&Row>, Vec<&Row>) = staying
        .into_iter()
        .partition(|row| row.capacity_shape == Shape::Baremetal);

    // bare-metal nodes first: they are the largest, and what they take is not there for slices
    let mut queued_ahead = QueuedAhead::new(conn, policy, &region_code).await?;
    let mut outcomes =
        place_baremetal(conn, &mut queued_ahead, &fleet, node_ids, &baremetal, &skus).await?;
    for (_, outcome) in &outcomes {
        if let Ok((node_id, _)) = outcome {
            fleet.remove(*node_id);
        }
    }
    let (displaced, node_of) = displaced(conn, &mut queued_ahead, &fleet, &slices, &skus).await?;
    let input = PlanInput {
        fleet: &fleet,
        packing_strategy: policy.packing_strategy,
        backfill_reserved: &BTreeSet::new(),
    };
    let gpus: HashMap<Uuid, GpuCount> = displaced
        .iter()
        .map(|one| (one.id, one.request.gpu_count))
        .collect();
    for (id, outcome) in evacuate(&input, &displaced, &node_of) {
        let outcome = outcome.map(|choice| (choice.node_id, choice.score.indexes));
        let reported = |causes| {
            reasons(refusal_reasons(
                causes,
                gpus.get(&id).copied().unwrap_or_default(),
            ))
        };
        outcomes.push((id, outcome.map_err(reported)));
    }

    let places = outcomes
        .iter()
        .filter_map(|(_, outcome)| outcome.as_ref().ok());
    let hosts = places.map(|(node_id, _)| *node_id).collect();
    let names = Names::of(conn, hosts, rows.iter().map(|row| row.id).collect()).await?;
    let known: BTreeSet<Uuid> = rows
        .iter()
        .filter(|row| row.constraints.is_some())
        .map(|row| row.id)
        .collect();
    let planned = |id: Uuid, outcome: Outcome| {
        Ok(Planned {
            allocation: names.allocation(id)?,
            outcome,
            constraints_known: known.contains(&id),
        })
    };
    let placed = outcomes.into_iter().map(|(id, outcome)| {
        let outcome = match outcome {
            Ok((node_id, slot_indexes)) => Outcome::Fits(PlannedPlacement {
                node_id,
                hostname: names.host(node_id),
                slot_indexes,
            }),
            // none has GPUs of the kind, but for those that are to be drained
            Err(causes) if causes.iter().all(|cause| cause.nodes == 0) => {
                Outcome::Nowhere(vec![no_other_node()])
            }
            Err(causes) => Outcome::Nowhere(causes),
        };
        planned(id, outcome)
    });
    let ended = ending.iter().map(|row| planned(row.id, Outcome::Ends));
    Ok(Plan {
        region_code,
        allocations: placed.chain(ended).collect::<Result<_>>()?,
        blocked_slots: blocked_slots(conn, &leaving).await?,
    })
}

/// The region that all the nodes are in.
async fn region_of(conn: &mut PgConnection, node_ids: &BTreeSet<Uuid>) -> Result<String> {
    let invalid = |rule: String| Error::Invalid {
        reason: ErrorReason::FieldInvalid,
        field: "node_ids",
        rule,
    };
    if node_ids.is_empty() || node_ids.len() > MAX_NODES {
        return Err(invalid(format!("must name 1 to {MAX_NODES} nodes")));
    }
    let mut regions = BTreeSet::new();
    for id in node_ids {
        regions.insert(nodes::get(conn, *id).await?.region_code);
    }
    match (regions.pop_first(), regions.is_empty()) {
        (Some(region), true) => Ok(region),
        _ => Err(invalid("must be nodes of one region".to_owned())),
    }
}

type Placed = (Uuid, Result<(Uuid, Vec<i32>), Vec<Reason>>);

/// Nodes on which a queued request is before an allocation; read once for each project, class and shape.
struct QueuedAhead<'a> {
    policy: Policy,
    region_code: &'a str,
    queues: Vec<(String, SlotClass)>,
    cached: HashMap<(Uuid, SlotClass, Shape), Arc<BTreeSet<Uuid>>>,
}

impl<'a> QueuedAhead<'a> {
    async fn new(conn: &mut PgConnection, policy: Policy, region_code: &'a str) -> Result<Self> {
        Ok(Self {
            policy,
            region_code,
            queues: queue::queues(conn).await?,
            cached: HashMap::new(),
        })
    }

    /// Of the nodes of a fleet, and for a bare-metal node of `nodes`, which are those of every mode; what was removed from them
    /// since the last time makes no difference to the others.
    async fn for_one(
        &mut self,
        conn: &mut PgConnection,
        (fleet, nodes): (&Fleet, &[BaremetalCandidate]),
        row: &Row,
        class: SlotClass,
    ) -> Result<Arc<BTreeSet<Uuid>>> {
        let key = (row.project_id, class, row.capacity_shape);
        if let Some(cached) = self.cached.get(&key) {
            return Ok(cached.clone());
        }
        let queue = (self.region_code.to_owned(), class);
        let queued_ahead = if self.queues.contains(&queue) {
            let again = Request {
                project_id: row.project_id,
                region_code: self.region_code.to_owned(),
                sku: row.sku.clone(),
                ..Request::default()
            };
            let ahead = Ahead::of(conn, self.policy, &again, class).await?;
            let anybody = Rules::default();
            let rules = match row.capacity_shape {
                Shape::GpuSlice => ahead.exclude_compiled(&anybody, fleet),
                Shape::Baremetal => ahead.exclude_for_baremetal(&anybody, fleet, nodes),
            };
            Arc::new(rules.queued_ahead)
        } else {
            Arc::default()
        };
        self.cached.insert(key, queued_ahead.clone());
        Ok(queued_ahead)
    }
}

/// Where allocations of bare-metal nodes would fit, the largest first. Anti-affinity holds by itself: nothing runs on a free
/// bare-metal node.
async fn place_baremetal(
    conn: &mut PgConnection,
    queued_ahead: &mut QueuedAhead<'_>,
    fleet: &Fleet,
    leaving: &BTreeSet<Uuid>,
    rows: &[&Row],
    skus: &Skus,
) -> Result<Vec<Placed>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let mut nodes = candidates::load_baremetal(conn, queued_ahead.region_code, None).await?;
    nodes.retain(|node| !leaving.contains(&node.id));
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.gpu_count), row.id));
    let mut rules = Rules::default();
    let mut placed = Vec::with_capacity(rows.len());
    for row in rows {
        let request = skus.request(row)?;
        let before = queued_ahead
            .for_one(conn, (fleet, &nodes), row, request.slot_class)
            .await?;
        rules.queued_ahead.clone_from(&before);
        let (fit, removed) = judge_baremetal(&rules, &request, &nodes);
        let outcome = match fit.first() {
            Some(node_id) => {
                rules.avoid.insert(*node_id);
                Ok((*node_id, Vec::new()))
            }
            None => Err(reasons(removed)),
        };
        placed.push((row.id, outcome));
    }
    Ok(placed)
}

/// Slices with their placement constraints as far as they are known, and where the allocations are that these name.
async fn displaced(
    conn: &mut PgConnection,
    queued_ahead: &mut QueuedAhead<'_>,
    fleet: &Fleet,
    rows: &[&Row],
    skus: &Skus,
) -> Result<(Vec<DisplacedAllocation>, HashMap<Uuid, Uuid>)> {
    let mut node_of = HashMap::new();
    let mut displaced = Vec::with_capacity(rows.len());
    for row in rows {
        let request = skus.request(row)?;
        let class = request.slot_class;
        let mut one = DisplacedAllocation {
            id: row.id,
            request,
            affinity: Vec::new(),
            anti_affinity: Vec::new(),
            queued_ahead: queued_ahead.for_one(conn, (fleet, &[]), row, class).await?,
        };
        constrain(conn, row, &mut one, &mut node_of).await?;
        displaced.push(one);
    }
    Ok((displaced, node_of))
}

/// Adds the constraints of an allocation, without those that its ended neighbours made void.
async fn constrain(
    conn: &mut PgConnection,
    row: &Row,
    one: &mut DisplacedAllocation,
    node_of: &mut HashMap<Uuid, Uuid>,
) -> Result<()> {
    let Some(requested) = row
        .requested()
        .filter(|requested| requested.depend_on_others())
    else {
        return Ok(());
    };
    let label = |label: &Option<(String, String)>| {
        label
            .as_ref()
            .map(|(key, value)| json!({ key.as_str(): value }))
    };
    let named: Vec<Uuid> = requested
        .anti_affinity
        .iter()
        .chain(&requested.affinity)
        .copied()
        .collect();
    // id and node, and whether it has the anti-affinity label and the affinity label
    let live: Vec<(Uuid, Uuid, bool, bool)> = sqlx::query_as(
        "SELECT id, node_id, coalesce(labels @> $4, false), coalesce(labels @> $5, false) FROM allocations
          WHERE project_id = $1 AND state NOT IN ('released', 'failed') AND node_id IS NOT NULL AND id <> $2
            AND (id = ANY ($3) OR labels @> $4 OR labels @> $5)",
    )
    .bind(row.project_id)
    .bind(row.id)
    .bind(named)
    .bind(label(&requested.anti_affinity_label))
    .bind(label(&requested.affinity_label))
    .fetch_all(conn)
    .await?;
    for (id, node_id, apart, _) in &live {
        if *apart || requested.anti_affinity.contains(id) {
            one.anti_affinity.push(*id);
        }
        if requested.affinity == Some(*id) {
            one.affinity.push(vec![*id]);
        }
        node_of.insert(*id, *node_id);
    }
    // a launch is refused when no allocation is left for its affinity; whoever launches it again leaves that out
    let labelled = live.iter().filter(|(.., beside)| *beside);
    let labelled: Vec<Uuid> = labelled.map(|(id, ..)| *id).collect();
    one.affinity
        .extend(Some(labelled).filter(|ids| !ids.is_empty()));
    Ok(())
}

async fn blocked_slots(conn: &mut PgConnection, node_ids: &[Uuid]) -> Result<u32> {
    let count: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM claims WHERE node_id = ANY ($1) AND state = 'cleanup_blocked'",
    )
    .bind(node_ids)
    .fetch_one(conn)
    .await?;
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

fn no_other_node() -> Reason {
    Reason {
        message: "No other node in the region offers GPUs of this class.".to_owned(),
        ..cause(ErrorReason::NoCapacity)
    }
}
