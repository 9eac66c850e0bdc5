//! `nodes` and `slots`: the fleet as an administrator sees it.
use std::collections::HashMap;

use gpuaas_proto::gpuaas::allocation::v1::GetSlotRepairRequest;
use gpuaas_proto::gpuaas::common::v1::SlotStatus;
use gpuaas_proto::gpuaas::inventory::v1::{
    ListNodesRequest, ListResourceSlotsRequest, ListResourceSlotsResponse, Node, NodeState,
    ResourceSlot,
};
use gpuaas_proto::gpuaas::scheduler::v1::NodePlacement;
use serde_json::Value;

use super::Session;
use super::admin::placement;
use super::select::SelectedOf;
use crate::api::Answer;
use crate::failure::Failure;
use crate::fit::short;
use crate::node::{self, drift_text, is_first_wipe, is_wiped, out_of_service};
use crate::output::{print_json, print_table, time, word};
use crate::owners;

#[derive(Debug, clap::Args)]
pub struct NodeFlags {
    /// Only nodes with this text in their hostname, id or blockers.
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Only nodes of this region.
    #[arg(long)]
    region: Option<String>,
    /// Only nodes of this mode.
    #[arg(long, value_parser = ["slice", "baremetal"])]
    mode: Option<String>,
    /// Only nodes of this health.
    #[arg(long, value_enum)]
    health: Option<Health>,
    #[command(flatten)]
    selected: SelectedOf<ListNodesRequest>,
}

/// A node, and what operators do with it.
type Placed = (Node, NodePlacement);

/// A node is in exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Health {
    /// The node takes launches.
    Schedulable,
    /// Ready, but taken out of service by an operator: cordoned, draining, in maintenance, broken or retired.
    OutOfService,
    /// A check fails.
    NotReady,
    /// No heartbeat from the agent.
    Lost,
    /// The agent has not enrolled.
    Waiting,
}

impl Health {
    const ALL: [Self; 5] = [
        Self::Schedulable,
        Self::OutOfService,
        Self::NotReady,
        Self::Lost,
        Self::Waiting,
    ];

    fn of((node, placement): &Placed) -> Self {
        let status = node.status.clone().unwrap_or_default();
        match (status.state(), status.schedulable) {
            (NodeState::Lost, _) => Self::Lost,
            (NodeState::Pending, _) => Self::Waiting,
            (_, true) if out_of_service(placement).is_some() => Self::OutOfService,
            (_, true) => Self::Schedulable,
            (_, false) => Self::NotReady,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Schedulable => "schedulable",
            Self::OutOfService => "out of service",
            Self::NotReady => "not ready",
            Self::Lost => "lost",
            Self::Waiting => "waiting for their agent",
        }
    }
}

impl NodeFlags {
    fn lets_through(&self, placed: &Placed) -> bool {
        let is = |wanted: &Option<String>, value: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == value)
        };
        let (node, _) = placed;
        let config = node.config.clone().unwrap_or_default();
        let blockers = node.status.iter().flat_map(|status| &status.blockers);
        let blockers: Vec<&str> = blockers.map(String::as_str).collect();
        let text = format!("{} {} {}", config.hostname, node.id, blockers.join(" "));
        let search = self.search.as_deref().unwrap_or_default().to_lowercase();
        text.to_lowercase().contains(&search)
            && is(&self.region, &config.region_code)
            && is(&self.mode, &config.mode)
            && self
                .health
                .is_none_or(|wanted| wanted == Health::of(placed))
    }
}

/// "25 nodes: 20 schedulable, 2 not ready, 3 lost".
fn health_text(nodes: &[Placed]) -> String {
    let counts = Health::ALL.into_iter().filter_map(|health| {
        let count = nodes.iter().filter(|node| Health::of(node) == health);
        let count = count.count();
        (count > 0).then(|| format!("{count} {}", health.text()))
    });
    let counts: Vec<String> = counts.collect();
    let plural = if nodes.len() == 1 { "" } else { "s" };
    format!("{} node{plural}: {}.", nodes.len(), counts.join(", "))
}

/// `nodes`.
///
/// # Errors
/// See [`Failure`].
pub async fn nodes(session: &Session, flags: &NodeFlags) -> Result<(), Failure> {
    let request = ListNodesRequest {
        filter: flags.selected.filter(),
        order_by: flags.selected.order_by(),
        ..ListNodesRequest::default()
    };
    let Answer { message, mut json } = session.api.call_all_pages(&request, "nodes").await?;
    let mut placements = HashMap::new();
    if !message.nodes.is_empty() {
        let all = placement::of_all(session).await?;
        for (at, placement) in all.message.nodes.into_iter().enumerate() {
            let sent = all.json["nodes"][at].clone();
            placements.insert(placement.node_id.clone(), (placement, sent));
        }
    }
    let mut nodes = Vec::new();
    for (at, node) in message.nodes.into_iter().enumerate() {
        let placement = placements.remove(&node.id);
        let (placement, sent) = placement.unwrap_or_default();
        if sent.is_object() {
            json["nodes"][at]["placement"] = sent;
        }
        nodes.push((node, placement));
    }
    if session.json() {
        let mut wanted = nodes.iter().map(|node| flags.lets_through(node));
        if let Value::Array(nodes) = &mut json["nodes"] {
            nodes.retain(|_| wanted.next().unwrap_or_default());
        }
        print_json(&json);
        return Ok(());
    }
    if nodes.is_empty() && flags.selected.narrows() {
        say!("No node matches the filter.");
        return Ok(());
    }
    if nodes.is_empty() {
        say!(
            "No nodes yet. Register one: gpuaas admin node create --hostname NAME --region REGION --mode slice"
        );
        return Ok(());
    }
    let health = health_text(&nodes);
    nodes.retain(|node| flags.lets_through(node));
    if nodes.is_empty() {
        say!("No node matches. {health}");
        return Ok(());
    }
    let rows = nodes.into_iter().map(|(node, placement)| {
        let schedulable = node::schedulable(&node, &placement);
        let state = node::state_text(&node);
        let (config, status) = (
            node.config.unwrap_or_default(),
            node.status.unwrap_or_default(),
        );
        let slots = status.slots.iter();
        let slots: Vec<String> = slots
            .map(|(status, count)| format!("{count} {status}"))
            .collect();
        let mode = if status.lab {
            format!("{} (lab)", config.mode)
        } else {
            config.mode
        };
        [
            node.id,
            config.hostname,
            config.region_code,
            mode,
            state,
            schedulable,
            admin_state(&placement),
            slots.join(", "),
            status.instance.unwrap_or_default().agent_version,
            time(status.last_heartbeat_time),
        ]
    });
    print_table(
        [
            "ID",
            "HOSTNAME",
            "REGION",
            "MODE",
            "STATE",
            "SCHEDULABLE",
            "ADMIN STATE",
            "SLOTS",
            "AGENT",
            "LAST HEARTBEAT",
        ],
        rows.collect(),
    );
    say!("{health}");
    Ok(())
}

/// The administrative state of a node, with the progress of a drain.
pub fn admin_state(placement: &NodePlacement) -> String {
    let state = match placement.admin_state.as_str() {
        "draining" if placement.drained => "drained".to_owned(),
        "draining" => format!("draining, {} claim(s) left", placement.live_claims),
        other => other.to_owned(),
    };
    if placement.admin_reason.is_empty() {
        state
    } else {
        format!("{state}: {}", short(&placement.admin_reason, 40))
    }
}

#[derive(Debug, clap::Args)]
pub struct SlotFlags {
    /// Id, unique prefix of it, or hostname.
    node: String,
    #[command(flatten)]
    selected: SelectedOf<ListResourceSlotsRequest>,
}

/// `slots`.
///
/// # Errors
/// See [`Failure`].
pub async fn slots(session: &Session, flags: &SlotFlags) -> Result<(), Failure> {
    let node = node::resolve(&session.api, &flags.node).await?;
    let empty = match flags.selected.narrows() {
        true => "No slot of this node matches the filter.".to_owned(),
        false => format!(
            "This node has no approved slots. Discover candidates: gpuaas admin node discover {node} --wait"
        ),
    };
    let request = ListResourceSlotsRequest {
        node_id: node,
        filter: flags.selected.filter(),
        order_by: flags.selected.order_by(),
        ..ListResourceSlotsRequest::default()
    };
    let answer = session.api.call_all_pages(&request, "slots").await?;
    print_slots(session, answer, &empty).await;
    Ok(())
}

/// Slots as table or JSON; `empty` is printed when there are none.
pub async fn print_slots(
    session: &Session,
    answer: Answer<ListResourceSlotsResponse>,
    empty: &str,
) {
    if session.json() {
        print_json(&answer.json);
        return;
    }
    let slots = answer.message.slots;
    if slots.is_empty() {
        say!("{empty}");
        return;
    }
    let ids = slots.iter().map(|slot| slot.allocation_id.as_str());
    let owners = owners::of(&session.api, ids).await;
    let wipes = wipes(session, &slots).await;
    let notes: Vec<String> = slots.iter().filter_map(|slot| note(slot, &wipes)).collect();
    print_table(
        [
            "INDEX",
            "ID",
            "CLASS",
            "STATUS",
            "HEALTH",
            "GENERATION",
            "ALLOCATION",
            "WIPE EVIDENCE",
            "ALLOCATION ID",
        ],
        slots
            .into_iter()
            .map(|slot| slot_row(slot, &owners))
            .collect(),
    );
    for note in notes {
        say!("{note}");
    }
}

/// What the running wipes say of their slots, by slot: a step and its share, such as "Wiping the disk. (40 %)".
async fn wipes(session: &Session, slots: &[ResourceSlot]) -> HashMap<String, String> {
    let mut reported = HashMap::new();
    for slot in slots.iter().filter(|slot| is_wiped(slot)) {
        let request = GetSlotRepairRequest {
            node_id: slot.node_id.clone(),
            slot_id: slot.id.clone(),
        };
        // a wipe that is part of a release is no repair
        let Ok(repair) = session.api.call(&request).await else {
            continue;
        };
        let repair = repair.message;
        if repair.state == "running" && repair.detail != slot.health_detail {
            reported.insert(slot.id.clone(), repair.detail);
        }
    }
    reported
}

/// Why a slot that is wiped takes no allocations, and how far the wipe is; how an approved slot and its host differ.
fn note(slot: &ResourceSlot, wipes: &HashMap<String, String>) -> Option<String> {
    if let Some(drift) = slot.drift.first() {
        let index = slot.slot_index;
        return Some(format!("Slot {index}: {}", drift_text(drift)));
    }
    is_wiped(slot).then(|| {
        let why = if slot.health_detail.is_empty() {
            "The disk is being wiped and verified."
        } else {
            &slot.health_detail
        };
        let step = wipes.get(&slot.id).map_or("", String::as_str);
        let line = format!(
            "Slot {} is not schedulable yet. {why} {step}",
            slot.slot_index
        );
        line.trim_end().to_owned()
    })
}

fn slot_row(slot: ResourceSlot, owners: &HashMap<String, String>) -> [String; 9] {
    // nobody has looked at a disk that was never wiped: its health is not in doubt
    let health = word(slot.health_state());
    let health = if is_first_wipe(&slot) {
        String::new()
    } else if slot.health_detail.is_empty() || is_wiped(&slot) {
        health
    } else {
        format!("{health}: {}", short(&slot.health_detail, 60))
    };
    let status = word(slot.status());
    let status = if is_first_wipe(&slot) {
        "first wipe".to_owned()
    } else if slot.disabled && slot.status() != SlotStatus::Disabled {
        format!("{status} (disabled after release)")
    } else {
        status
    };
    // evidence of an earlier generation does not count for this one
    let evidence = if slot.clean_generation == slot.generation {
        short(&slot.clean_evidence, 44)
    } else {
        String::new()
    };
    [
        slot.slot_index.to_string(),
        slot.id,
        slot.slot_class,
        status,
        health,
        slot.generation.to_string(),
        owners.get(&slot.allocation_id).cloned().unwrap_or_default(),
        evidence,
        slot.allocation_id,
    ]
}
