//! A node and its slots: the parts that commands use, and how an operator refers to one.
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::api::{Api, number, parse, parse_all};
use crate::failure::Failure;
use crate::resolve::unique;
use crate::suggest;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    pub id: String,
    pub config: NodeConfig,
    pub status: NodeStatus,
    pub placement: NodePlacement,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeConfig {
    pub hostname: String,
    pub region_code: String,
    pub mode: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    pub state: String,
    pub schedulable: bool,
    pub blockers: Vec<String>,
    pub lab: bool,
    pub last_heartbeat_time: Option<Timestamp>,
    pub slots: BTreeMap<String, u32>,
    pub evidence: Vec<Evidence>,
    pub hypervisor: String,
    pub host_profile: String,
    pub instance: HostInstance,
    pub life: Option<NodeLife>,
    pub onboarding: Vec<OnboardingStep>,
}

impl Node {
    /// How an operator took it out of service, if so.
    pub fn out_of_service(&self) -> Option<&str> {
        let state = self.placement.admin_state.as_str();
        matches!(
            state,
            "cordoned" | "draining" | "maintenance" | "broken" | "retired"
        )
        .then_some(state)
    }

    /// Where it is in its life; that its host has never reported, or no longer does, comes before that.
    pub fn state(&self) -> &str {
        let state = self.status.state.as_str();
        match &self.status.life {
            Some(life) if !matches!(state, "pending" | "lost") => &life.state,
            _ => state,
        }
    }

    /// Whether launches can go to it, and if not, why.
    pub fn schedulable(&self) -> String {
        let text = match (self.status.schedulable, self.out_of_service()) {
            (true, None) => return "yes".to_owned(),
            (true, Some(state)) => state.to_owned(),
            (false, _) => self.status.blockers.join(", "),
        };
        format!("no: {text}").trim_end_matches(": ").to_owned()
    }
}

/// A blocker, which is the name of a check or one of these, with what it means.
pub fn blocker_text(blocker: &str) -> String {
    let meaning = match blocker {
        "not_enrolled" => "its agent has not enrolled",
        "host_lost" => "its reports have stopped",
        "no_evidence" => "its agent has not reported its checks yet",
        "evidence_stale" => "the last report of its checks is too old",
        "device_drift" => "the devices of a slot are not as approved",
        _ => return blocker.to_owned(),
    };
    format!("{blocker}: {meaning}")
}

/// One checked condition of a host.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Evidence {
    pub check: String,
    pub status: String,
    pub detail: String,
    pub remediation: String,
    pub observed_at: Option<Timestamp>,
    /// "hard", "warn" or "info".
    pub severity: String,
}

/// Where a node is in its life, and why.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeLife {
    pub state: String,
    pub reason: String,
    pub principal: String,
    pub since: Option<Timestamp>,
}

/// A step from bare machine to schedulable node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct OnboardingStep {
    pub number: u32,
    pub name: String,
    pub state: String,
    pub detail: String,
}

/// One boot of an installed image.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct HostInstance {
    pub boot_id: String,
    pub agent_version: String,
    pub agent_built_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodePlacement {
    pub node_id: String,
    pub hostname: String,
    pub admin_state: String,
    pub admin_reason: String,
    pub schedulable: bool,
    pub not_schedulable_reason: String,
    pub live_claims: u32,
    pub live_allocations: u32,
    pub drained: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Slot {
    pub id: String,
    pub node_id: String,
    pub slot_index: u32,
    pub slot_class: String,
    pub status: String,
    pub health_state: String,
    pub health_detail: String,
    pub disabled: bool,
    #[serde(deserialize_with = "number")]
    pub generation: i64,
    pub allocation_id: String,
    pub clean_evidence: String,
    /// The generation that the evidence is of.
    #[serde(deserialize_with = "number")]
    pub clean_generation: i64,
    pub drift: Vec<SlotDrift>,
}

impl Slot {
    /// Its disk is being wiped and verified.
    pub fn is_wiped(&self) -> bool {
        self.status == "cleanup"
    }

    /// It was approved and its disk is not proven empty yet.
    pub fn is_first_wipe(&self) -> bool {
        self.is_wiped() && self.health_state == "unknown" && self.allocation_id.is_empty()
    }
}

/// A difference between what was approved for a slot and what its host has now.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlotDrift {
    pub message: String,
    pub remediation: String,
    pub since: Option<Timestamp>,
}

impl SlotDrift {
    /// What differs and what to do about it.
    pub fn text(&self) -> String {
        let line = format!("{} {}", self.message, self.remediation);
        line.trim_end().to_owned()
    }
}

/// A node by id, beginning of id, or hostname.
///
/// # Errors
/// Nothing matches, or several do.
pub async fn resolve(api: &Api, given: &str) -> Result<String, Failure> {
    if Uuid::parse_str(given).is_ok() {
        return Ok(given.to_owned());
    }
    let all: Vec<Node> = parse_all(&api.list(&["admin", "nodes"], &[], "nodes").await?)?;
    if let Some(named) = all.iter().find(|n| n.config.hostname == given) {
        return Ok(named.id.clone());
    }
    let found = unique(
        "node",
        given,
        all.iter().map(|n| n.id.as_str()),
        "gpuaas nodes",
    );
    let names = all.iter().map(|n| n.config.hostname.as_str());
    found.map_err(|failure| match failure {
        Failure::NotFound(message) => {
            Failure::NotFound(suggest::with_nearest(message, given, names))
        }
        other => other,
    })
}

/// The hostname of a node, else its id.
pub async fn hostname(api: &Api, id: &str) -> String {
    let found = api.get(&["admin", "nodes", id], &[]).await;
    let named = found.ok().and_then(|node| {
        let name = node["config"]["hostname"].as_str();
        name.filter(|name| !name.is_empty()).map(str::to_owned)
    });
    named.unwrap_or_else(|| id.to_owned())
}

/// Slots of a node by their indexes, as text; their ids where the node does not tell them.
pub async fn slot_names(api: &Api, node: &str, ids: &[String]) -> Vec<String> {
    let path = ["admin", "nodes", node, "resource-slots"];
    let found = api.get(&path, &[]).await.ok();
    let slots: Vec<Slot> = found
        .and_then(|answer| parse(answer.get("slots")?).ok())
        .unwrap_or_default();
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
    let answer = api
        .get(&["admin", "nodes", node, "resource-slots"], &[])
        .await?;
    let all: Vec<Slot> = parse(answer.get("slots").unwrap_or(&Value::Array(Vec::new())))?;
    if let Some(indexed) = given.parse::<u32>().ok().and_then(|i| {
        // the index of a retired slot may be another one's by now
        let of_index = |s: &&Slot| s.slot_index == i;
        let in_service = |s: &&Slot| s.status != "retired";
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
    use super::*;

    #[test]
    fn a_node_is_what_it_is_in_its_life_unless_its_host_is_silent() {
        for (state, life, shown) in [
            ("enrolled", Some("ready"), "ready"),
            ("enrolled", None, "enrolled"),
            ("lost", Some("ready"), "lost"),
            ("pending", Some("registered"), "pending"),
        ] {
            let mut node = Node::default();
            node.status.state = state.to_owned();
            node.status.life = life.map(|life| NodeLife {
                state: life.to_owned(),
                ..NodeLife::default()
            });
            assert_eq!(node.state(), shown, "{state} {life:?}");
        }
    }
}
