//! The placement decision: which node a request goes to, why it goes to no other, and what a plan would change.
//!
//! Everything here is a pure function over plain data. This crate is one side of a wall: its `Cargo.toml` names no
//! database, no async runtime, no clock and no random number, and neither does anything that it depends on (a test of
//! the crate checks that). The other side is the ledger, `gpuaas-placement`: it loads the data, locks the rows and
//! stores what is decided here.
//!
//! | module | what it does |
//! |---|---|
//! | [`model`] | slots, nodes, requests and rules: the types that both sides share |
//! | `fleet` | filters and scores the nodes of a region for a request |
//! | `unschedulable` | unschedulable reasons with their GPUs and sentences |
//! | `baremetal` | the same for bare-metal nodes |
//! | `simulation` | simulates moves on a copy of a fleet; `evacuation`, `defragmentation` and `preservation` are plans made with it |
//! | `regions` | the fleets of all regions, brought up to date node by node |
//!
//! A node is compiled once, when it is loaded: its slots are bits of a mask, a legal group is a mask too, so "fits",
//! "breaks" and "left over" are bit operations, and a score is an integer. A [`Fleet`] holds compiled nodes; slots,
//! scores and reasons are spelled out for those that are shown. What may be allocated together comes from the host's
//! report; without one only a single GPU or all of them is legal.
mod baremetal;
mod capacity_index;
mod compiled_node;
mod defragmentation;
mod drained;
mod equivalence;
mod evacuation;
mod fleet;
mod gpu_count;
mod image;
pub mod model;
mod preservation;
mod regions;
mod reserved;
mod simulation;
mod unschedulable;

pub use baremetal::{BaremetalCandidate, Judged, judge_baremetal, judge_each_baremetal};
pub use defragmentation::{Defragmentation, Step, defragment};
pub use evacuation::{DisplacedAllocation, evacuate};
pub use fleet::{Fleet, Ranking, Verdict};
pub use gpu_count::{GpuCount, NoGpuCount};
pub use image::ImageKey;
pub use model::{
    CandidateNode, CandidateSlot, Choice, Decision, PackingStrategy, Request, ReservedFor, Rules,
    Score,
};
pub use preservation::{ClassReport, DrainedNode, preserve};
pub use regions::Regions;
pub use simulation::{AntiAffinity, Move, PlacedAllocation, PlanInput};
pub use unschedulable::{Cause, UnschedulableReason};

use model::SlotStatus;

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
        reasons: refusal_reasons(ranking.removed(), request.gpu_count),
    }
}

/// The reasons that explain a refusal. Fragmented means that the sum would do: too few free GPUs are explained by what
/// removes the others, or by how few there are.
#[must_use]
pub fn refusal_reasons(
    mut reasons: Vec<UnschedulableReason>,
    gpu_count: GpuCount,
) -> Vec<UnschedulableReason> {
    let too_few = |found: &UnschedulableReason| {
        found.cause == Cause::Fragmented && found.gpus < gpu_count.get()
    };
    match &mut reasons[..] {
        [only] if too_few(only) => *only = unschedulable::too_few_offered(only.gpus, only.nodes),
        _ => reasons.retain(|found| !too_few(found)),
    }
    reasons
}

/// How many such requests fit at the same time, placed in the order of the policy.
#[must_use]
pub fn count_fits(request: &Request, nodes: &[CandidateNode]) -> u32 {
    Fleet::of(nodes).count_fits(request)
}

/// The fabric device a claim on this slot holds alone; empty when none. A shared parent is exclusive until every
/// slot of it that is schedulable has a function of its own (B-52..B-55, INC-27).
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
