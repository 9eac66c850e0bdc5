//! The placement decision: a pure function from a request and candidate nodes to ranked choices with reasons.
//!
//! A node is compiled once, when it is loaded: its slots are bits of a mask, a legal group is a mask too, so "fits",
//! "breaks" and "left over" are bit operations, and a score is an integer. A [`Fleet`] holds compiled nodes; slots,
//! scores and reasons are spelled out for those that are shown. What may be sold together comes from the host's
//! report; without one only a single GPU or the whole board is legal. Nothing here reads a clock, a database or a
//! random number.
mod alike;
mod board;
mod causes;
mod defragmentation;
mod emptied;
mod evacuation;
mod fleet;
mod image;
mod preservation;
mod reserved;
mod rooms;
mod trial;
mod whole;

use std::collections::BTreeSet;
use std::sync::Arc;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::Reason;
use crate::model::{Health, SlotClass, SlotStatus};

pub use causes::{Found, sentence};
pub use defragmentation::{Defragmentation, Step, defragment};
pub use evacuation::{Evacuee, evacuate};
pub use fleet::{Fleet, Ranking, Verdict};
pub use image::ImageKey;
pub use preservation::{ClassReport, Emptied, preserve};
pub use trial::{Apart, Move, Site, Tenant};
pub(crate) use whole::{Judged, judge_each_whole};
pub use whole::{WholeNode, judge_whole};

/// What is to be placed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Request {
    /// GPUs, all on one node (B-17).
    pub gpu_count: usize,
    /// Class the SKU sells.
    pub slot_class: SlotClass,
    /// Free hugepages of 1 GiB the VM needs; 0: the profile needs none (B-11).
    pub hugepages_1g: u32,
    /// The image it boots: a node that has it is better. None: none is named, and all nodes are alike.
    pub image: Option<ImageKey>,
    /// Only nodes that have the image (CON-10).
    pub prewarmed: bool,
}

impl Request {
    /// A node with these images is one on which it can start without a pull.
    fn finds_its_image(&self, images: &[ImageKey]) -> bool {
        self.image.is_some_and(|image| images.contains(&image))
    }
}

/// A slot as the decision sees it.
#[derive(Debug, Clone)]
pub struct CandidateSlot {
    /// Id.
    pub id: Uuid,
    /// Index on the node.
    pub index: i32,
    /// Class.
    pub class: SlotClass,
    /// Status.
    pub status: SlotStatus,
    /// Health.
    pub health: Health,
    /// A live claim is on it.
    pub held: bool,
    /// All bindings its class needs are there (B-44, INC-40).
    pub complete: bool,
    /// Module id of its GPU.
    pub module_id: Option<u32>,
    /// NUMA node of its GPU.
    pub numa_node: Option<i32>,
    /// Parent fabric device; empty: none.
    pub fabric_device: String,
    /// It has a data-plane function of its own.
    pub own_fabric_vf: bool,
    /// Only one project may have it.
    pub reserved: Option<ReservedFor>,
}

/// Whom a slot is reserved for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservedFor {
    /// Project.
    pub project_id: Uuid,
    /// Free hugepages of 1 GiB that a VM needs for this GPU.
    pub hugepages_1g: u32,
}

/// A node as the decision sees it.
#[derive(Debug, Clone)]
pub struct CandidateNode {
    /// Id.
    pub id: Uuid,
    /// Neither cordoned nor draining.
    pub enabled: bool,
    /// The host is ready.
    pub schedulable: bool,
    /// Hugepages of 1 GiB that it reported free and that no VM which holds slots is still to take.
    pub hugepages_1g_free: u32,
    /// 0: no limit.
    pub max_vms: u32,
    /// VMs that hold slots now.
    pub live_vms: u32,
    /// It is held as a whole.
    pub exclusively_held: bool,
    /// Images that are verified in its cache.
    pub images: Vec<ImageKey>,
    /// Sets of module ids that may be sold together; empty: only one and all.
    pub legal_groups: Vec<Vec<u32>>,
    /// Changes whenever anything of this does; opaque.
    pub version: Arc<str>,
    /// All its slots but retired ones.
    pub slots: Vec<CandidateSlot>,
}

/// How a site fills its nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PackingStrategy {
    /// Fill a node before the next one is opened, so that clean nodes stay whole (B-36, B-47).
    #[default]
    MostAllocated,
    /// Prefer the emptiest node: the loss of one host hurts fewer tenants, and fewer nodes stay whole.
    LeastAllocated,
}

/// What narrows and orders the nodes besides the request itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Rules {
    /// The site's policy.
    pub packing_strategy: PackingStrategy,
    /// Who asks: what is reserved for this project is for it, too, and comes first. None: somebody for whom nothing is
    /// reserved.
    pub project: Option<Uuid>,
    /// Only one of these nodes.
    pub only: Option<BTreeSet<Uuid>>,
    /// None of these nodes.
    pub avoid: BTreeSet<Uuid>,
    /// None of these either: what is free there is first for requests that wait.
    pub kept: BTreeSet<Uuid>,
}

impl Rules {
    /// A node does not have what is like it for an answer: they say something about this very one.
    fn name(&self, node_id: Uuid) -> bool {
        !self.allow(node_id) || self.kept.contains(&node_id)
    }

    fn allow(&self, node_id: Uuid) -> bool {
        let among = |only: &BTreeSet<Uuid>| only.contains(&node_id);
        self.only.as_ref().is_none_or(among) && !self.avoid.contains(&node_id)
    }
}

/// How good a choice is; less is better, and under [`PackingStrategy::MostAllocated`] the order of the fields is the policy. Under
/// [`PackingStrategy::LeastAllocated`] clean nodes are not kept, and more slots left over are better.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Score {
    /// NUMA nodes the GPUs are spread over.
    pub numa_nodes: usize,
    /// A node without slices stays whole for bare metal (B-47).
    pub clean_node: bool,
    /// Legal groups that could be sold before and cannot after, each weighing its GPUs.
    pub broken_groups: u32,
    /// Free slots left on the node: fill one before opening the next (B-36).
    pub left_over: u32,
    /// The image must be pulled first.
    pub image_missing: bool,
    /// The same input always gives the same answer (B-37).
    pub node_id: Uuid,
    /// Lowest slots first.
    pub indexes: Vec<i32>,
}

impl Score {
    /// Its parts with their names, in the order in which they count when nodes are filled.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, i64); 5] {
        [
            (
                "numa_nodes",
                i64::try_from(self.numa_nodes).unwrap_or(i64::MAX),
            ),
            ("clean_node", i64::from(self.clean_node)),
            ("broken_groups", i64::from(self.broken_groups)),
            ("left_over", i64::from(self.left_over)),
            ("image_missing", i64::from(self.image_missing)),
        ]
    }
}

/// One way to place the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Node.
    pub node_id: Uuid,
    /// Slots by index.
    pub slot_ids: Vec<Uuid>,
    /// Those of them that hold their fabric device alone.
    pub alone: Vec<Uuid>,
    /// All of them are reserved for the project that asks.
    pub own: bool,
    /// How good it is.
    pub score: Score,
}

/// Choices, best first, at most one per node; and when there is none, why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// Best first.
    pub choices: Vec<Choice>,
    /// Why not more; told for nodes without a choice.
    pub reasons: Vec<Reason>,
}

/// Ranks the nodes for a request, with no rules but the request's own.
#[must_use]
pub fn decide(request: &Request, nodes: &[CandidateNode]) -> Decision {
    decide_by(&Rules::default(), request, nodes)
}

/// Ranks the nodes for a request.
#[must_use]
pub fn decide_by(rules: &Rules, request: &Request, nodes: &[CandidateNode]) -> Decision {
    let fleet = Fleet::of(nodes);
    let ranking = fleet.rank(rules, request);
    Decision {
        choices: fleet.choices(&ranking).collect(),
        reasons: telling(ranking.removed(), request.gpu_count),
    }
}

/// The causes that explain a refusal. Fragmented means that the sum would do: too few free GPUs are explained by what
/// keeps the others away, or by how few there are.
#[must_use]
pub fn telling(mut causes: Vec<Reason>, gpu_count: usize) -> Vec<Reason> {
    let too_few = |cause: &Reason| {
        cause.reason == ErrorReason::Fragmented && (cause.gpus as usize) < gpu_count
    };
    match &mut causes[..] {
        [only] if too_few(only) => *only = causes::no_more(only.gpus, only.nodes),
        _ => causes.retain(|cause| !too_few(cause)),
    }
    causes
}

/// How many such requests fit at the same time, filled in the order of the policy.
#[must_use]
pub fn count_fits(request: &Request, nodes: &[CandidateNode]) -> u32 {
    Fleet::of(nodes).count_fits(request)
}

/// The fabric device a claim on this slot holds alone; empty when none. A shared parent is exclusive until every
/// slot of it that can be sold has a function of its own (B-52..B-55, INC-27).
#[must_use]
pub fn fabric_key<'a>(slot: &'a CandidateSlot, node: &CandidateNode) -> &'a str {
    let shared = |other: &&CandidateSlot| {
        other.fabric_device == slot.fabric_device && other.status != SlotStatus::Disabled
    };
    let all_own = node
        .slots
        .iter()
        .filter(shared)
        .all(|other| other.own_fabric_vf)
        && slot.own_fabric_vf;
    if all_own { "" } else { &slot.fabric_device }
}
