//! Cordon and drain of nodes, and the explanation of a placement by node.
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::plans::slots_text;
use super::{Session, done};
use crate::api::parse;
use crate::commands::Side;
use crate::commands::admin::allocation::AllocationDetail;
use crate::commands::explain::{self, PlacementExplanation, print_explanation};
use crate::failure::Failure;
use crate::node::{self, NodePlacement, Slot};
use crate::output::{print_json, print_table};
use crate::reason::UnavailableReason;

/// Maximum nodes of one explanation.
const MAX_NODES: u32 = 500;
const POLL: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeVerdicts {
    pub explanation: PlacementExplanation,
    pub nodes: Vec<NodeVerdict>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeVerdict {
    pub hostname: String,
    pub fits: bool,
    pub slot_indexes: Vec<u32>,
    pub score: Vec<ScorePart>,
    pub reasons: Vec<UnavailableReason>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ScorePart {
    pub name: String,
    /// 64-bit integers travel as text.
    pub value: String,
}

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
    fn name(self) -> &'static str {
        match self {
            Self::Cordon => "cordon",
            Self::Uncordon => "uncordon",
            Self::Drain => "drain",
            Self::Maintain => "startMaintenance",
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
    let mut answer = session
        .api
        .change(
            Method::POST,
            &["admin", "nodes", &format!("{node}:{}", verb.name())],
            &json!({ "reason": reason }),
            &session.key,
        )
        .await?;
    let started = Instant::now();
    let mut reported = None;
    loop {
        let now: NodePlacement = parse(&answer)?;
        match wait {
            Some(limit) if !now.drained && now.admin_state == "draining" => {
                let counts = Some((now.live_claims, now.live_allocations));
                if !session.json() && reported != counts {
                    note!("{}", left(session, &node, &now).await?);
                    reported = counts;
                }
                if started.elapsed() >= limit {
                    return Err(Failure::Local(format!(
                        "node {1} is not empty after {0} s: {2} left. Allocations end when their owners release them",
                        limit.as_secs(),
                        now.hostname,
                        load(&now)
                    )));
                }
                tokio::time::sleep(POLL).await;
                answer = session
                    .api
                    .get(&["admin", "nodes", &node, "placement"], &[])
                    .await?;
            }
            _ => {
                done(session, &answer, &sentence(&now));
                return Ok(());
            }
        }
    }
}

/// The remaining allocations of a node, by name where its slots have them.
async fn left(session: &Session, id: &str, node: &NodePlacement) -> Result<String, Failure> {
    if node.live_allocations == 0 {
        return Ok(format!(
            "0 allocations and {} claim(s) left; see: gpuaas slots {}",
            node.live_claims, node.hostname
        ));
    }
    let slots = ["admin", "nodes", id, "resource-slots"];
    let answer = session.api.get(&slots, &[]).await?;
    let slots: Vec<Slot> = parse(answer.get("slots").unwrap_or(&Value::Array(Vec::new())))?;
    let allocations: BTreeSet<String> = slots.into_iter().map(|slot| slot.allocation_id).collect();
    let mut names = Vec::new();
    for allocation in allocations.iter().filter(|id| !id.is_empty()) {
        let path = ["admin", "allocations", allocation];
        let detail: AllocationDetail = parse(&session.api.get(&path, &[]).await?)?;
        names.push(detail.allocation.config.name);
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
    let answer = session
        .api
        .get(&["admin", "nodes", &node, "placement"], &[])
        .await?;
    let now: NodePlacement = parse(&answer)?;
    done(session, &answer, &sentence(&now));
    Ok(())
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

/// Each node with its placement, by node id.
///
/// # Errors
/// See [`Failure`].
pub async fn of_all(session: &Session) -> Result<Vec<Value>, Failure> {
    session
        .api
        .list(&["admin", "node-placements"], &[], "nodes")
        .await
}

/// The scheduler's verdict on each node for a launch.
///
/// # Errors
/// See [`Failure`].
pub async fn explain(session: &Session, flags: explain::Flags) -> Result<(), Failure> {
    let mut query = flags.query(session, Side::Operator).await?;
    query.push(("page_size", MAX_NODES.to_string()));
    let answer = session
        .api
        .get(&["admin", "node-placements:explain"], &query)
        .await?;
    if session.json() {
        print_json(&answer);
        return Ok(());
    }
    let found: NodeVerdicts = parse(&answer)?;
    print_explanation(&found.explanation);
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
    let all = found.explanation.nodes;
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
