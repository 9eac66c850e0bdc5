//! Backfill reservations: nodes reserved for the first of a queue that does not fit.
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use gpuaas_placement_decision::{
    BaremetalCandidate, CandidateNode, CandidateSlot, Fleet, decide_by, judge_baremetal,
};
use sqlx::PgConnection;
use uuid::Uuid;

use super::ahead::{QueuedSpec, able, specs};
use super::entries::load;
use crate::candidates;
use crate::capacity::Capacity;
use crate::error::Result;
use crate::model::{Health, Policy, SlotClass, SlotStatus};

/// Reserves nodes for the first of a queue that does not fit, as few and as free ones as will do, and no others. The copy of
/// the nodes names the candidates, and only some of those are read. The connection's transaction must
/// not have written.
pub(crate) async fn plan_backfill(
    conn: &mut PgConnection,
    capacity: &Capacity,
    policy: Policy,
    region_code: &str,
    slot_class: SlotClass,
) -> Result<()> {
    // replicas plan the backfill of a queue one after the other
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 1))")
        .bind(format!("{region_code}\n{}", slot_class.as_str()))
        .execute(&mut *conn)
        .await?;
    let (queued, _) = load(conn, region_code, slot_class).await?;
    let queued = able(conn, policy, queued).await?;
    let mut wanted = (Uuid::nil(), BTreeSet::new());
    if !queued.is_empty() {
        let fleet = capacity.now(conn).await?.get(region_code).cloned();
        let mut slices = Slices {
            region_code,
            fleet: fleet.unwrap_or_default(),
            cached: HashMap::new(),
        };
        let mut nodes = None;
        let requested = specs(conn, policy, &queued).await?;
        for entry in queued {
            let ids = entry.members.iter().map(|member| member.allocation_id);
            let specs: Vec<&QueuedSpec> = ids.filter_map(|id| requested.get(&id)).collect();
            if nodes.is_none() && specs.iter().any(|spec| spec.baremetal) {
                nodes = Some(candidates::load_baremetal(conn, region_code, None).await?);
            }
            let nodes = nodes.as_deref().unwrap_or_default();
            if let Some(found) = nodes_for(conn, &specs, &mut slices, nodes).await? {
                wanted = (entry.batch.id, found);
                break;
            }
            // no node could ever hold it as things are: the next one is the first that can be served
        }
    }
    let (batch_id, nodes) = wanted;
    let nodes: Vec<Uuid> = nodes.into_iter().collect();
    sqlx::query(
        "DELETE FROM backfill_reservations WHERE region_code = $1 AND slot_class = $2 AND NOT (batch_id = $3 AND node_id = ANY ($4))",
    )
    .bind(region_code)
    .bind(slot_class.as_str())
    .bind(batch_id)
    .bind(&nodes)
    .execute(&mut *conn)
    .await?;
    sqlx::query(
        "INSERT INTO backfill_reservations (region_code, slot_class, node_id, batch_id)
         SELECT $1, $2, node_id, $3 FROM unnest($4::uuid[]) AS n (node_id) ON CONFLICT DO NOTHING",
    )
    .bind(region_code)
    .bind(slot_class.as_str())
    .bind(batch_id)
    .bind(&nodes)
    .execute(conn)
    .await?;
    Ok(())
}

/// The nodes of a region for slices.
struct Slices<'a> {
    region_code: &'a str,
    fleet: Arc<Fleet>,
    /// Those that were read, as they are once all allocations on them have ended.
    cached: HashMap<Uuid, CandidateNode>,
}

/// Nodes that are read at once; nearly always the first of them will do.
const READ: usize = 16;

impl Slices<'_> {
    /// The node with most free slots on which the request would fit, except for some.
    async fn freest(
        &mut self,
        conn: &mut PgConnection,
        spec: &QueuedSpec,
        but: &BTreeSet<Uuid>,
    ) -> Result<Option<CandidateNode>> {
        let mut ids = self.fleet.fits_when_drained(&spec.rules, &spec.request);
        ids.retain(|id| !but.contains(id));
        for some in ids.chunks(READ) {
            let mut uncached = some.to_vec();
            uncached.retain(|id| !self.cached.contains_key(id));
            if !uncached.is_empty() {
                let read = candidates::load(conn, self.region_code, &uncached).await?;
                let drained = read.into_iter().map(|node| (node.id, drained(node)));
                self.cached.extend(drained);
            }
            let mut cached = some.iter().filter_map(|id| self.cached.get(id));
            if let Some(node) = cached.find(|node| takes(node, spec)) {
                return Ok(Some(node.clone()));
            }
        }
        Ok(None)
    }
}

/// The nodes on which all of it would fit if everything there were free, those with most free slots first: one for each
/// bare-metal node, and as few as will do for the slices. None when there are not enough such nodes. `nodes` are
/// the nodes of every mode, `slices` those of them that are in mode slice.
async fn nodes_for(
    conn: &mut PgConnection,
    specs: &[&QueuedSpec],
    slices: &mut Slices<'_>,
    nodes: &[BaremetalCandidate],
) -> Result<Option<BTreeSet<Uuid>>> {
    let mut reserved = BTreeSet::new();
    let mut drained: Vec<BaremetalCandidate> = freest_first(nodes).map(drained_baremetal).collect();
    for spec in specs.iter().filter(|spec| spec.baremetal) {
        let fits = |node: &BaremetalCandidate| {
            let (fit, _) = judge_baremetal(&spec.rules, &spec.request, std::slice::from_ref(node));
            !fit.is_empty()
        };
        let Some(place) = drained.iter().position(fits) else {
            return Ok(None);
        };
        reserved.insert(drained.remove(place).id);
    }
    let mut chosen: Vec<CandidateNode> = Vec::new();
    for spec in specs.iter().filter(|spec| !spec.baremetal) {
        if let Some(node) = chosen.iter_mut().find(|node| takes(node, spec)) {
            take(node, spec);
            continue;
        }
        let Some(mut node) = slices.freest(conn, spec, &reserved).await? else {
            return Ok(None);
        };
        take(&mut node, spec);
        reserved.insert(node.id);
        chosen.push(node);
    }
    Ok(Some(reserved))
}

fn freest_first(nodes: &[BaremetalCandidate]) -> impl Iterator<Item = &BaremetalCandidate> {
    let mut order: Vec<&BaremetalCandidate> = nodes.iter().collect();
    order.sort_by_key(|node| (Reverse(free_for_baremetal(node)), node.id));
    order.into_iter()
}

/// The slots of a bare-metal node stay schedulable until its host is touched: none of them is free.
fn free_for_baremetal(node: &BaremetalCandidate) -> usize {
    if node.held && !node.slots.iter().any(|slot| slot.held) {
        return 0;
    }
    node.slots.iter().filter(|slot| is_free(slot)).count()
}

fn is_free(slot: &CandidateSlot) -> bool {
    slot.status == SlotStatus::Available
        && !slot.held
        && slot.reserved.is_none()
        && slot.health == Health::Healthy
}

/// The node as it is once all allocations on it have ended.
fn drained(mut node: CandidateNode) -> CandidateNode {
    node.live_vms = 0;
    node.exclusively_held = false;
    // what the VMs there have comes back with them
    node.hugepages_1g_free = u32::MAX;
    drain_slots(&mut node.slots);
    node
}

fn drained_baremetal(node: &BaremetalCandidate) -> BaremetalCandidate {
    let mut node = node.clone();
    node.held = false;
    drain_slots(&mut node.slots);
    node
}

fn drain_slots(slots: &mut [CandidateSlot]) {
    for slot in slots {
        if !matches!(slot.status, SlotStatus::Disabled | SlotStatus::Retired) {
            slot.status = SlotStatus::Available;
            slot.held = false;
        }
    }
}

fn takes(node: &CandidateNode, spec: &QueuedSpec) -> bool {
    let only = std::slice::from_ref(node);
    !decide_by(&spec.rules, &spec.request, only)
        .choices
        .is_empty()
}

fn take(node: &mut CandidateNode, spec: &QueuedSpec) {
    let only = std::slice::from_ref(node);
    let choice = decide_by(&spec.rules, &spec.request, only)
        .choices
        .into_iter()
        .next();
    node.live_vms += 1;
    for slot in &mut node.slots {
        if choice
            .as_ref()
            .is_some_and(|choice| choice.slot_ids.contains(&slot.id))
        {
            slot.status = SlotStatus::Reserved;
            slot.held = true;
        }
    }
}
