//! The capacity that a request must leave to those before it in the queue.
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};

use gpuaas_placement_decision::{
    self as decision, BaremetalCandidate, CandidateNode, Fleet, ImageKey, Rules, judge_baremetal,
};
use sqlx::PgConnection;
use uuid::Uuid;

use super::entries::{Member, QueuedRequest, in_order, load};
use super::fair_share::Batch;
use super::priority;
use crate::catalog;
use crate::constraints::{Constrained, Neighbours};
use crate::decision_input::decision_request;
use crate::error::{Error, Result};
use crate::model::{Policy, Request, Shape, SlotClass};
use crate::quota;
use crate::reserved_slots::Unused;

/// What is before a request in its queue.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Their requests, each once.
    specs: HashSet<QueuedSpec>,
    /// Nodes with a backfill reservation for one of them.
    backfill_reserved: BTreeSet<Uuid>,
    /// The queue is not empty: requests are before or behind.
    has_queue: bool,
}

/// What a request needs: equal values fit on the same nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct QueuedSpec {
    pub(super) request: decision::Request,
    pub(super) rules: Rules,
    /// A bare-metal node.
    pub(super) baremetal: bool,
}

impl Ahead {
    /// The requests before a request: a queued one has its position, a new one the position it would get.
    pub(crate) async fn of(
        conn: &mut PgConnection,
        policy: Policy,
        request: &Request,
        slot_class: SlotClass,
    ) -> Result<Self> {
        if request.bypasses_queue {
            return Ok(Self::default());
        }
        let (queued, now) = load(conn, &request.region_code, slot_class).await?;
        if queued.is_empty() {
            return Ok(Self::default());
        }
        let (queued, own) = match request.batch_id {
            Some(batch_id) => (queued, batch_id),
            None => (with_new(conn, request, queued, now).await?, Uuid::nil()),
        };
        let before = queued.into_iter().take_while(|entry| entry.batch.id != own);
        let before = able(conn, policy, before.collect()).await?;
        let batches: Vec<Uuid> = before.iter().map(|entry| entry.batch.id).collect();
        let reserved: Vec<Uuid> = sqlx::query_scalar(
            "SELECT node_id FROM backfill_reservations WHERE region_code = $1 AND slot_class = $2 AND batch_id = ANY ($3)",
        )
        .bind(&request.region_code)
        .bind(slot_class.as_str())
        .bind(batches)
        .fetch_all(&mut *conn)
        .await?;
        // where one of a batch fits, the batch may still not: only the first batch blocks others
        let first = before.first().map(|entry| entry.batch.id);
        let mut blocking = before;
        blocking.retain(|entry| entry.members.len() == 1 || Some(entry.batch.id) == first);
        Ok(Self {
            specs: specs(conn, policy, &blocking)
                .await?
                .into_values()
                .collect(),
            backfill_reserved: reserved.into_iter().collect(),
            has_queue: true,
        })
    }

    /// The same as it is under a node's lock. What joined an empty queue since came later.
    pub(crate) async fn again(
        &self,
        conn: &mut PgConnection,
        policy: Policy,
        request: &Request,
        slot_class: SlotClass,
    ) -> Result<Self> {
        if self.has_queue {
            Self::of(conn, policy, request, slot_class).await
        } else {
            Ok(Self::default())
        }
    }

    /// The rules of a request, with the nodes that are not for it because a request before it would fit there now.
    pub(crate) fn exclude(&self, rules: &Rules, nodes: &[CandidateNode]) -> Rules {
        if self.has_queue {
            self.exclude_compiled(rules, &Fleet::of(nodes))
        } else {
            rules.clone()
        }
    }

    /// The same of nodes that are compiled already.
    pub(crate) fn exclude_compiled(&self, rules: &Rules, fleet: &Fleet) -> Rules {
        let mut rules = self.exclude_for_slices(rules, fleet);
        for spec in self.specs.iter().filter(|spec| spec.baremetal) {
            rules
                .queued_ahead
                .extend(fleet.baremetal(&spec.rules, &spec.request));
        }
        rules
    }

    /// The same for a request for a bare-metal node: `nodes` are those of every mode, `slices` those of them that are in mode
    /// slice.
    pub(crate) fn exclude_for_baremetal(
        &self,
        rules: &Rules,
        slices: &Fleet,
        nodes: &[BaremetalCandidate],
    ) -> Rules {
        let mut rules = self.exclude_for_slices(rules, slices);
        for spec in self.specs.iter().filter(|spec| spec.baremetal) {
            let (fit, _) = judge_baremetal(&spec.rules, &spec.request, nodes);
            rules.queued_ahead.extend(fit);
        }
        rules
    }

    /// Without nodes with a backfill reservation, and those on which a slice that a request before it needs would fit.
    fn exclude_for_slices(&self, rules: &Rules, fleet: &Fleet) -> Rules {
        let mut rules = rules.clone();
        rules.queued_ahead.extend(&self.backfill_reserved);
        for spec in self.specs.iter().filter(|spec| !spec.baremetal) {
            let fit = fleet.rank(&spec.rules, &spec.request);
            rules
                .queued_ahead
                .extend(fleet.choices(&fit).map(|choice| choice.node_id));
        }
        rules
    }

    /// The queue is not empty.
    pub(crate) fn has_queue(&self) -> bool {
        self.has_queue
    }
}

/// The queue as it would be with a new request, whose batch is nil.
async fn with_new(
    conn: &mut PgConnection,
    request: &Request,
    mut queued: Vec<QueuedRequest>,
    now: jiff::Timestamp,
) -> Result<Vec<QueuedRequest>> {
    let project_id = request.project_id;
    // a project without queued requests joins the round robin at its end
    let last_served = queued
        .iter()
        .find(|entry| entry.batch.project_id == project_id)
        .map_or(i64::MAX, |entry| entry.batch.last_served);
    let batch = Batch {
        id: Uuid::nil(),
        project_id,
        priority: priority::get(conn, project_id).await?,
        since: now,
        last_served,
    };
    queued.push(QueuedRequest {
        batch,
        members: Vec::new(),
        deadline: now,
        reason: String::new(),
        reserves: false,
        suspended: false,
    });
    Ok(in_order(queued, now))
}

/// Those whose project is not suspended, and its quota lets them be served now.
pub(super) async fn able(
    conn: &mut PgConnection,
    policy: Policy,
    mut queued: Vec<QueuedRequest>,
) -> Result<Vec<QueuedRequest>> {
    queued.retain(|entry| !entry.suspended);
    let pairs: BTreeSet<(Uuid, &str)> = queued
        .iter()
        .flat_map(|entry| {
            let project_id = entry.batch.project_id;
            entry
                .members
                .iter()
                .map(move |member| (project_id, member.sku.as_str()))
        })
        .collect();
    let quotas = quota::read_all(conn, pairs, policy).await?;
    Ok(queued
        .into_iter()
        .filter(|entry| {
            let allocations = i64::try_from(entry.members.len()).unwrap_or(i64::MAX);
            let mut requested: HashMap<&str, i64> = HashMap::new();
            for member in &entry.members {
                *requested.entry(&member.sku).or_default() += i64::from(member.gpu_count.get());
            }
            requested.into_iter().all(|(sku, gpus)| {
                quotas
                    .get(&(entry.batch.project_id, sku.to_owned()))
                    .is_some_and(|quota| quota.exceeded_by_all(allocations, gpus).is_none())
            })
        })
        .collect())
}

/// The specs of the allocations of a queue, by their ids; those are missing whose constraints cannot be met any more. A long
/// queue costs as many statements as a short one.
pub(crate) async fn specs(
    conn: &mut PgConnection,
    policy: Policy,
    queued: &[QueuedRequest],
) -> Result<HashMap<Uuid, QueuedSpec>> {
    if queued.is_empty() {
        return Ok(HashMap::new());
    }
    let mut codes = BTreeSet::new();
    let mut members: Vec<(&QueuedRequest, &Member)> = Vec::new();
    let mut constrained = Vec::new();
    for entry in queued {
        for member in &entry.members {
            codes.insert(member.sku.as_str());
            members.push((entry, member));
            constrained.push(Constrained {
                project_id: entry.batch.project_id,
                constraints: &member.constraints,
                waited: true,
            });
        }
    }
    let skus = catalog::skus_of(conn, &Vec::from_iter(codes)).await?;
    let neighbours = Neighbours::of(conn, &constrained).await?;
    // one statement for each project that is queued for a disabled SKU
    let mut unused: HashMap<(Uuid, &str), Unused> = HashMap::new();
    let mut specs = HashMap::with_capacity(members.len());
    for ((entry, member), constrained) in members.into_iter().zip(constrained) {
        let Some(sku) = skus.iter().find(|sku| sku.code == member.sku) else {
            return Err(Error::not_found("sku", &member.sku));
        };
        let mut rules = match neighbours.rules(policy.packing_strategy, constrained) {
            Err(Error::Invalid { .. }) => continue,
            other => other?,
        };
        if sku.disabled {
            let of = (constrained.project_id, sku.code.as_str());
            if let Entry::Vacant(unread) = unused.entry(of) {
                unread.insert(Unused::of(conn, of.0, None, of.1).await?);
            }
            unused[&of].clone().limit(&mut rules);
        }
        // projects without reserved slots have the same specs
        rules.project = rules.project.filter(|_| entry.reserves);
        let prewarmed = member.constraints.require_prewarmed;
        // where it fits depends on the image only then, and each spec is evaluated once
        let image = ImageKey::of(&member.image_digest).filter(|_| prewarmed);
        let request = decision::Request {
            image,
            prewarmed,
            ..decision_request(sku, member.gpu_count)
        };
        let baremetal = sku.capacity_shape == Shape::Baremetal;
        let spec = QueuedSpec {
            request,
            rules,
            baremetal,
        };
        specs.insert(member.allocation_id, spec);
    }
    Ok(specs)
}
