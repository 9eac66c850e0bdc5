//! Cordon and drain of nodes, and the explanation of a placement by node.
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use gpuaas_proto::gpuaas::allocation::v1::GetAllocationDetailRequest;
use gpuaas_proto::gpuaas::scheduler::v1::{
    CordonNodeRequest, DrainNodeRequest, ExplainNodesRequest, GetNodePlacementRequest,
    ListNodePlacementsRequest, ListNodePlacementsResponse, NodePlacement, NodeVerdict,
    StartNodeMaintenanceRequest, UncordonNodeRequest,
};

use super::plans::slots_text;
use crate::allocation;
use crate::api::Answer;
use crate::commands::explain::{self, print_explanation};
use crate::failure::Failure;
use crate::node;
use crate::output::{print_json, print_table};
use crate::session::{Session, Side, done};

/// Maximum nodes of one explanation.
const MAX_NODES: i32 = 500;
const POLL: Duration = Duration::from_millis(500);

/// What an operator does to a node.
#[derive(Clone, Copy, Debug)]
pub enum Verb {
    /// No new allocations; existing ones continue.
    Cordon,
    /// Ends a cordon or a drain.
    Uncordon,
    /// No new allocations until it is empty.
    Drain,
    /// Work on the host of an empty node.
    Maintain,
}

impl Verb {
    async fn apply(
        self,
        session: &Session,
        node: &str,
        reason: &str,
    ) -> Result<Answer<NodePlacement>, Failure> {
        let (node_id, reason, etag) = (node.to_owned(), reason.to_owned(), String::new());
        let (api, key) = (&session.api, &session.key);
        match self {
            Self::Cordon => {
                let request = CordonNodeRequest {
                    node_id,
                    reason,
                    etag,
                };
                api.apply(&request, key).await
            }
            Self::Uncordon => {
                let request = UncordonNodeRequest {
                    node_id,
                    reason,
                    etag,
                };
                api.apply(&request, key).await
            }
            Self::Drain => {
                let request = DrainNodeRequest {
                    node_id,
                    reason,
                    etag,
                };
                api.apply(&request, key).await
            }
            Self::Maintain => {
                let request = StartNodeMaintenanceRequest {
                    node_id,
                    reason,
                    etag,
                };
                api.apply(&request, key).await
            }
        }
    }
}

/// Changes the state of a node, and with a limit waits until a drained node is empty.
///
/// # Errors
/// See [`Failure`]; a node that is not empty when the time is over.
pub async fn change(
    session: &Session,
    node: &str,
    verb: Verb,
    reason: &str,
    wait: Option<Duration>,
) -> Result<(), Failure> {
    let node = node::resolve(&session.api, node).await?;
    let mut answer = verb.apply(session, &node, reason).await?;
    let started = Instant::now();
    let mut reported = None;
    loop {
        let now = &answer.message;
        match wait {
            Some(limit) if !now.drained && now.admin_state == "draining" => {
                let counts = Some((now.live_claims, now.live_allocations));
                if !session.json() && reported != counts {
                    note!("{}", left(session, &node, now).await?);
                    reported = counts;
                }
                if started.elapsed() >= limit {
                    return Err(Failure::Local(format!(
                        "node {1} is not empty after {0} s: {2} left. Allocations end when their owners release them",
                        limit.as_secs(),
                        now.hostname,
                        load(now)
                    )));
                }
                tokio::time::sleep(POLL).await;
                answer = get(session, &node).await?;
            }
            _ => {
                done(session, &answer.json, &sentence(now));
                return Ok(());
            }
        }
    }
}

/// The remaining allocations of a node, by name where its slots have them.
async fn left(session: &Session, id: &str, node: &NodePlacement) -> Result<String, Failure> {
    if node.live_allocations == 0 {
        return Ok(format!(
            "0 allocations and {} claim(s) left; see: gpuaas admin slot list {}",
            node.live_claims, node.hostname
        ));
    }
    let slots = node::slots(&session.api, id).await?;
    let allocations: BTreeSet<String> = slots.into_iter().map(|slot| slot.allocation_id).collect();
    let mut names = Vec::new();
    for allocation_id in allocations.into_iter().filter(|id| !id.is_empty()) {
        let request = GetAllocationDetailRequest { allocation_id };
        let detail = session.api.call(&request).await?.message;
        let allocation = detail.allocation.unwrap_or_default();
        names.push(allocation::name_of(&allocation).to_owned());
    }
    let plural = if node.live_allocations == 1 { "" } else { "s" };
    let which = if names.is_empty() { "" } else { ": " };
    Ok(format!(
        "{} allocation{plural} left{which}{}",
        node.live_allocations,
        names.join(", ")
    ))
}

/// Shows whether a node takes allocations.
///
/// # Errors
/// See [`Failure`].
pub async fn show(session: &Session, node: &str) -> Result<(), Failure> {
    let node = node::resolve(&session.api, node).await?;
    let answer = get(session, &node).await?;
    done(session, &answer.json, &sentence(&answer.message));
    Ok(())
}

async fn get(session: &Session, node: &str) -> Result<Answer<NodePlacement>, Failure> {
    let request = GetNodePlacementRequest {
        node_id: node.to_owned(),
    };
    session.api.call(&request).await
}

fn sentence(node: &NodePlacement) -> String {
    let why = if node.admin_reason.is_empty() {
        String::new()
    } else {
        format!(" ({})", node.admin_reason)
    };
    let name = &node.hostname;
    match node.admin_state.as_str() {
        "draining" if node.drained => {
            format!("Node {name} is drained{why}: it has no allocations.")
        }
        "draining" => format!(
            "Node {name} is draining{why}: it takes no new allocations and has {} left.",
            load(node)
        ),
        "cordoned" => format!(
            "Node {name} is cordoned{why}: it takes no new allocations; {} continue.",
            load(node)
        ),
        "maintenance" => format!("Node {name} is in maintenance{why}: it takes no allocations."),
        "broken" => format!(
            "Node {name} is broken{why}: it takes no new allocations and has {} left.",
            load(node)
        ),
        "retired" => format!("Node {name} is retired{why}."),
        _ if node.schedulable => {
            format!("Node {name} takes allocations; it has {}.", load(node))
        }
        _ => format!(
            "Node {name} takes no allocations because it is not ready: {}.",
            node.not_schedulable_reason
        ),
    }
}

fn load(node: &NodePlacement) -> String {
    format!(
        "{} claim(s) of {} allocation(s)",
        node.live_claims, node.live_allocations
    )
}

/// The placement of each node.
///
/// # Errors
/// See [`Failure`].
pub async fn of_all(session: &Session) -> Result<Answer<ListNodePlacementsResponse>, Failure> {
    let request = ListNodePlacementsRequest::default();
    session.api.call_all_pages(&request, "nodes").await
}

/// The scheduler's verdict on each node for a launch.
///
/// # Errors
/// See [`Failure`].
pub async fn explain(session: &Session, flags: explain::Flags) -> Result<(), Failure> {
    let launch = flags.request(session, Side::Operator).await?;
    let request = ExplainNodesRequest {
        region_code: launch.region_code,
        sku: launch.sku,
        gpu_count: launch.gpu_count,
        page_size: MAX_NODES,
        project_id: launch.project_id,
        image_digest: launch.image_digest,
        placement: launch.placement,
    };
    let answer = session.api.call(&request).await?;
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    let found = answer.message;
    let explanation = found.explanation.unwrap_or_default();
    print_explanation(&explanation);
    say!("");
    let shown = found.nodes.len();
    let rows = found.nodes.into_iter().map(|node| {
        let outcome = outcome(&node);
        let score: Vec<String> = node
            .score
            .iter()
            .map(|part| format!("{}={}", part.name, part.value))
            .collect();
        [node.hostname, outcome, score.join(" ")]
    });
    print_table(["NODE", "PLACEMENT OR REASON", "SCORE"], rows.collect());
    let all = explanation.nodes;
    if shown < usize::try_from(all).unwrap_or(usize::MAX) {
        say!("\nShowing the best {shown} of {all} nodes. The totals above cover all nodes.");
    }
    Ok(())
}

/// The slots that the launch would use, or the reasons against the node.
fn outcome(node: &NodeVerdict) -> String {
    if node.fits {
        return slots_text(&node.slot_indexes);
    }
    let reasons: Vec<&str> = node.reasons.iter().map(|r| r.message.as_str()).collect();
    if reasons.is_empty() {
        return "other GPU count or slot class".to_owned();
    }
    reasons.join(" ")
}
