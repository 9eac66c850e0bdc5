//! A node and its slots: the parts that commands use, and how an operator refers to one.
use gpuaas_proto::gpuaas::common::v1::{HealthState, SlotDrift, SlotStatus};
use gpuaas_proto::gpuaas::inventory::v1::{
    GetNodeRequest, ListNodesRequest, ListResourceSlotsRequest, Node, NodeState, ResourceSlot,
};
use gpuaas_proto::gpuaas::scheduler::v1::NodePlacement;
use uuid::Uuid;

use crate::api::Api;
use crate::failure::Failure;
use crate::output::word;
use crate::resolve::unique;
use crate::suggest;

/// How an operator took a node out of service, if so.
pub fn out_of_service(placement: &NodePlacement) -> Option<&str> {
    let state = placement.admin_state.as_str();
    matches!(
        state,
        "cordoned" | "draining" | "maintenance" | "broken" | "retired"
    )
    .then_some(state)
}

/// Where a node is in its life; that its host has never reported, or no longer does, comes before that.
pub fn state_text(node: &Node) -> String {
    let status = node.status.clone().unwrap_or_default();
    let state = status.state();
    match &status.life {
        Some(life) if !matches!(state, NodeState::Pending | NodeState::Lost) => word(life.state()),
        _ => word(state),
    }
}

/// Whether launches can go to a node, and if not, why.
pub fn schedulable(node: &Node, placement: &NodePlacement) -> String {
    let status = node.status.clone().unwrap_or_default();
    let text = match (status.schedulable, out_of_service(placement)) {
        (true, None) => return "yes".to_owned(),
        (true, Some(state)) => state.to_owned(),
        (false, _) => status.blockers.join(", "),
    };
    format!("no: {text}").trim_end_matches(": ").to_owned()
}

/// The name of its host.
pub fn hostname_of(node: &Node) -> &str {
    let config = node.config.as_ref();
    config.map_or("", |config| &config.hostname)
}

/// A blocker, which is the name of a check or one of these, with what it means.
pub fn blocker_text(blocker: &str) -> String {
    let meaning = match blocker {
        "not_enrolled" => "the agent has not enrolled",
        "host_lost" => "no heartbeat from the agent",
        "no_evidence" => "no checks from the agent yet",
        "evidence_stale" => "the last checks are too old",
        "device_drift" => "the devices of a slot differ from the approval",
        _ => return blocker.to_owned(),
    };
    format!("{blocker}: {meaning}")
}

/// Its disk is being wiped and verified.
pub fn is_wiped(slot: &ResourceSlot) -> bool {
    slot.status() == SlotStatus::Cleanup
}

/// It was approved and its disk is not proven empty yet.
pub fn is_first_wipe(slot: &ResourceSlot) -> bool {
    is_wiped(slot) && slot.health_state() == HealthState::Unknown && slot.allocation_id.is_empty()
}

/// What differs between an approved slot and its host, and what to do about it.
pub fn drift_text(drift: &SlotDrift) -> String {
    let line = format!("{} {}", drift.message, drift.remediation);
    line.trim_end().to_owned()
}

/// All nodes.
///
/// # Errors
/// See [`Failure`].
pub async fn all(api: &Api) -> Result<Vec<Node>, Failure> {
    let request = ListNodesRequest::default();
    Ok(api.call_all_pages(&request, "nodes").await?.message.nodes)
}

/// The slots of a node.
///
/// # Errors
/// See [`Failure`].
pub async fn slots(api: &Api, node: &str) -> Result<Vec<ResourceSlot>, Failure> {
    let request = ListResourceSlotsRequest {
        node_id: node.to_owned(),
        ..ListResourceSlotsRequest::default()
    };
    Ok(api.call_all_pages(&request, "slots").await?.message.slots)
}

/// A node by id, beginning of id, or hostname.
///
/// # Errors
/// Nothing matches, or several do.
pub async fn resolve(api: &Api, given: &str) -> Result<String, Failure> {
    if Uuid::parse_str(given).is_ok() {
        return Ok(given.to_owned());
    }
    let all = all(api).await?;
    if let Some(named) = all.iter().find(|node| hostname_of(node) == given) {
        return Ok(named.id.clone());
    }
    let found = unique(
        "node",
        given,
        all.iter().map(|n| n.id.as_str()),
        "gpuaas nodes",
    );
    let names = all.iter().map(hostname_of);
    found.map_err(|failure| match failure {
        Failure::NotFound(message) => {
            Failure::NotFound(suggest::with_nearest(message, given, names))
        }
        other => other,
    })
}

/// The hostname of a node, else its id.
pub async fn hostname(api: &Api, id: &str) -> String {
    let request = GetNodeRequest {
        node_id: id.to_owned(),
    };
    let found = api.call(&request).await.unwrap_or_default();
    match hostname_of(&found.message) {
        "" => id.to_owned(),
        name => name.to_owned(),
    }
}

/// Slots of a node by their indexes, as text; their ids where the node does not tell them.
pub async fn slot_names(api: &Api, node: &str, ids: &[String]) -> Vec<String> {
    let slots = slots(api, node).await.unwrap_or_default();
    let name = |id: &String| {
        let slot = slots.iter().find(|slot| slot.id == *id);
        slot.map_or_else(|| id.clone(), |slot| slot.slot_index.to_string())
    };
    ids.iter().map(name).collect()
}

/// A slot of a node by id, beginning of id, or index.
///
/// # Errors
/// Nothing matches, or several do.
pub async fn resolve_slot(api: &Api, node: &str, given: &str) -> Result<String, Failure> {
    if Uuid::parse_str(given).is_ok() {
        return Ok(given.to_owned());
    }
    let all = slots(api, node).await?;
    if let Some(indexed) = given.parse::<u32>().ok().and_then(|i| {
        // the index of a retired slot may be another one's by now
        let of_index = |slot: &&ResourceSlot| slot.slot_index == i;
        let in_service = |slot: &&ResourceSlot| slot.status() != SlotStatus::Retired;
        let mut all = all.iter().filter(of_index);
        all.clone().find(in_service).or_else(|| all.next())
    }) {
        return Ok(indexed.id.clone());
    }
    unique(
        "slot",
        given,
        all.iter().map(|s| s.id.as_str()),
        &format!("gpuaas slots {node}"),
    )
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::inventory::v1::{NodeLife, NodeLifeState, NodeStatus};

    use super::*;

    #[test]
    fn a_node_is_what_it_is_in_its_life_unless_its_host_is_silent() {
        for (state, life, shown) in [
            (NodeState::Enrolled, Some(NodeLifeState::Ready), "ready"),
            (NodeState::Enrolled, None, "enrolled"),
            (NodeState::Lost, Some(NodeLifeState::Ready), "lost"),
            (
                NodeState::Pending,
                Some(NodeLifeState::Registered),
                "pending",
            ),
        ] {
            let life = life.map(|life| NodeLife {
                state: life.into(),
                ..NodeLife::default()
            });
            let status = NodeStatus {
                state: state.into(),
                life,
                ..NodeStatus::default()
            };
            let node = Node {
                status: Some(status),
                ..Node::default()
            };
            assert_eq!(state_text(&node), shown, "{node:?}");
        }
    }
}
