//! Nodes compiled for decisions, in the order of their ids.
use uuid::Uuid;

use super::capacity_index::CapacityIndex;
use super::compiled_node::{CompiledNode, LACKS_IMAGE, NOT_OWN, Shared};
use super::equivalence::EquivalenceClasses;
use super::unschedulable::{NodeReasons, ReasonCounts, none_offered};
use super::{CandidateNode, Choice, Request, Rules};
use crate::UnschedulableReason;
use crate::model::SlotClass;

/// Candidate nodes, compiled once and queried often.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    /// By id.
    pub(super) compiled_nodes: Vec<CompiledNode>,
    shared: Shared,
    index: CapacityIndex,
}

/// The nodes on which a request fits, best first, and what removes the others.
#[derive(Debug)]
pub struct Ranking {
    rules: Rules,
    request: Request,
    /// Rank in the upper half, index in the fleet in the lower: of equal ones the lower id comes first (B-37).
    order: Vec<u64>,
    removed: ReasonCounts,
    /// Nodes on which it fits or that have reasons.
    pool: usize,
}

/// Nodes that are evaluated first where the shortlist could not be proven to hold the best.
const SHORTLIST_SIZE: usize = 32;

/// What becomes of the nodes of an equivalence class.
enum Outcome {
    /// With this rank.
    Fits(u32),
    /// The GPUs that each reason removes on so many nodes.
    Removed { reasons: NodeReasons, nodes: u32 },
}

/// What becomes of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub node_id: Uuid,
    /// The best choice on it, or the GPUs that each reason removes.
    pub outcome: Result<Choice, Vec<UnschedulableReason>>,
}

impl Ranking {
    /// Nodes on which it fits.
    #[must_use]
    pub fn fits(&self) -> usize {
        self.order.len()
    }

    /// How many of them, the first ones, have slots for it that are reserved for the project.
    #[must_use]
    pub fn own(&self) -> usize {
        let own = |key: &u64| key >> 32 < u64::from(NOT_OWN);
        self.order.partition_point(own)
    }

    /// Nodes that have schedulable GPUs of the class, free or not.
    #[must_use]
    pub fn pool(&self) -> usize {
        self.pool
    }

    /// Per reason, the nodes it removes and their GPUs; one reason without numbers when there is no such node.
    #[must_use]
    pub fn removed(&self) -> Vec<UnschedulableReason> {
        if self.pool == 0 {
            return vec![none_offered("GPUs of this class")];
        }
        self.removed.reasons(self.request.gpu_count)
    }
}

impl Fleet {
    /// Compiles nodes.
    #[must_use]
    pub fn of(nodes: &[CandidateNode]) -> Self {
        let mut shared = Shared::default();
        let mut compiled_nodes: Vec<CompiledNode> = nodes
            .iter()
            .map(|node| CompiledNode::of(node, &mut shared))
            .collect();
        compiled_nodes.sort_by_key(|compiled| compiled.id);
        let mut index = CapacityIndex::default();
        compiled_nodes
            .iter()
            .for_each(|compiled| index.add(compiled));
        Self {
            compiled_nodes,
            shared,
            index,
        }
    }

    /// Adds or replaces a node.
    pub fn put(&mut self, node: &CandidateNode) {
        let compiled = CompiledNode::of(node, &mut self.shared);
        match self
            .compiled_nodes
            .binary_search_by_key(&node.id, |compiled| compiled.id)
        {
            Ok(place) => {
                let before = std::mem::replace(&mut self.compiled_nodes[place], compiled);
                self.index.remove(&before);
                self.index.add(&self.compiled_nodes[place]);
            }
            Err(place) => {
                self.index.add(&compiled);
                self.compiled_nodes.insert(place, compiled);
            }
        }
    }

    /// Forgets a node.
    pub fn remove(&mut self, id: Uuid) {
        if let Ok(place) = self
            .compiled_nodes
            .binary_search_by_key(&id, |compiled| compiled.id)
        {
            let before = self.compiled_nodes.remove(place);
            self.index.remove(&before);
        }
    }

    /// A few nodes with capacity for a request, the best of all among them, and of equal ones those next to `at`: a fleet of
    /// its own, whose size does not grow with this one. Where none of them fits, others may.
    #[must_use]
    pub fn shortlist(&self, rules: &Rules, request: &Request, at: u32) -> Self {
        let of = (request.slot_class, request.gpu_count.get());
        let shortlist = self
            .index
            .shortlist(of, rules.packing_strategy, rules.project, at);
        let few = self.these(shortlist.ids);
        let best = few.rank(rules, request).order.first().map(|key| key >> 32);
        let others_are_worse = match best {
            Some(rank) if rank < u64::from(NOT_OWN) => true,
            Some(rank) => {
                let rank = rank as u32 & !(NOT_OWN | LACKS_IMAGE);
                !shortlist.others_reserved && shortlist.others.is_none_or(|least| rank <= least)
            }
            None => shortlist.others.is_none() && !shortlist.others_reserved,
        };
        if others_are_worse {
            return few;
        }
        // the shortlist is out of the question for this request, by the host's free memory or for its image
        let ranking = self.rank(rules, request);
        self.these(self.nodes(&ranking).take(SHORTLIST_SIZE))
    }

    /// These nodes as a fleet of its own.
    fn these(&self, ids: impl IntoIterator<Item = Uuid>) -> Self {
        let compiled_nodes = ids.into_iter().filter_map(|id| self.compiled(id)).cloned();
        let mut compiled_nodes: Vec<CompiledNode> = compiled_nodes.collect();
        compiled_nodes.sort_unstable_by_key(|compiled| compiled.id);
        Self {
            compiled_nodes,
            ..Self::default()
        }
    }

    /// The largest count of a class that one node offers, for any project.
    #[must_use]
    pub fn largest(&self, class: SlotClass) -> u32 {
        self.index.largest(class)
    }

    fn compiled(&self, id: Uuid) -> Option<&CompiledNode> {
        let place = self
            .compiled_nodes
            .binary_search_by_key(&id, |compiled| compiled.id);
        place.ok().map(|place| &self.compiled_nodes[place])
    }

    /// Nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.compiled_nodes.len()
    }

    /// No nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.compiled_nodes.is_empty()
    }

    /// Ranks the nodes for a request.
    #[must_use]
    pub fn rank(&self, rules: &Rules, request: &Request) -> Ranking {
        let mut order = Vec::with_capacity(self.compiled_nodes.len());
        let mut outcome = |compiled: &CompiledNode| match compiled.best(rules, request) {
            Some(pick) => Outcome::Fits(compiled.rank(rules.packing_strategy, request, &pick)),
            None => Outcome::Removed {
                reasons: compiled.reasons(rules, request).into_owned(),
                nodes: 0,
            },
        };
        let mut outcomes = EquivalenceClasses::new(rules);
        for (place, compiled) in self.compiled_nodes.iter().enumerate() {
            match outcomes.of(compiled, &mut outcome) {
                Outcome::Fits(rank) => order.push(u64::from(*rank) << 32 | place as u64),
                Outcome::Removed { nodes, .. } => *nodes += 1,
            }
        }
        order.sort_unstable();
        let mut removed = ReasonCounts::default();
        let mut pool = order.len();
        for outcome in outcomes.into_all() {
            if let Outcome::Removed { reasons, nodes } = outcome {
                removed.add_nodes(&reasons, nodes);
                pool += if reasons.is_empty() {
                    0
                } else {
                    nodes as usize
                };
            }
        }
        Ranking {
            rules: rules.clone(),
            request: request.clone(),
            order,
            removed,
            pool,
        }
    }

    /// The nodes of a ranking of this fleet, best first.
    pub fn nodes<'a>(&'a self, ranking: &'a Ranking) -> impl Iterator<Item = Uuid> + 'a {
        let place = |key: &u64| (key & u64::from(u32::MAX)) as usize;
        let compiled_nodes = ranking
            .order
            .iter()
            .map(move |key| self.compiled_nodes.get(place(key)));
        compiled_nodes.flatten().map(|compiled| compiled.id)
    }

    /// The choices of a ranking of this fleet, best first.
    pub fn choices<'a>(&'a self, ranking: &'a Ranking) -> impl Iterator<Item = Choice> + 'a {
        ranking.order.iter().filter_map(move |key| {
            let compiled = self
                .compiled_nodes
                .get((key & u64::from(u32::MAX)) as usize)?;
            let pick = compiled.best(&ranking.rules, &ranking.request)?;
            Some(compiled.choice(&ranking.request, &pick))
        })
    }

    /// The choice of a ranking of this fleet on a node, and the version of the node it was made on.
    #[must_use]
    pub fn choice_on(&self, ranking: &Ranking, node_id: Uuid) -> Option<(Choice, &str)> {
        let compiled = self.compiled(node_id)?;
        let pick = compiled.best(&ranking.rules, &ranking.request)?;
        Some((compiled.choice(&ranking.request, &pick), &*compiled.version))
    }

    /// The nodes available as bare metal with exactly so many GPUs of the class.
    pub fn baremetal<'a>(
        &'a self,
        rules: &'a Rules,
        request: &'a Request,
    ) -> impl Iterator<Item = Uuid> + 'a {
        let fit = self.compiled_nodes.iter();
        fit.filter(|compiled| compiled.fits_baremetal(rules, request))
            .map(|compiled| compiled.id)
    }

    /// What becomes of each node of the pool, at most `limit` of them: those with a choice in the order of their rank, then the
    /// others by id.
    #[must_use]
    pub fn verdicts(&self, ranking: &Ranking, limit: usize) -> Vec<Verdict> {
        let (rules, request) = (&ranking.rules, &ranking.request);
        let others = self.compiled_nodes.iter().filter_map(|compiled| {
            if compiled.best(rules, request).is_some() {
                return None;
            }
            let reasons = compiled.reasons(rules, request);
            if reasons.is_empty() {
                return None;
            }
            let mut counts = ReasonCounts::default();
            counts.add(&reasons);
            Some(Verdict {
                node_id: compiled.id,
                outcome: Err(counts.reasons(request.gpu_count)),
            })
        });
        self.choices(ranking)
            .map(|choice| Verdict {
                node_id: choice.node_id,
                outcome: Ok(choice),
            })
            .chain(others)
            .take(limit)
            .collect()
    }

    /// How many such requests without reserved slots fit at the same time, placed in the order of the
    /// policy.
    #[must_use]
    pub fn count_fits(&self, request: &Request) -> u32 {
        self.count_fits_by(&Rules::default(), request)
    }

    /// How many fit under rules.
    #[must_use]
    pub fn count_fits_by(&self, rules: &Rules, request: &Request) -> u32 {
        let mut count = |compiled: &CompiledNode| compiled.count_fits(rules, request);
        let mut counts = EquivalenceClasses::new(rules);
        self.compiled_nodes
            .iter()
            .map(|compiled| *counts.of(compiled, &mut count))
            .sum()
    }
}
