//! `nodes` and `slots`: the fleet as an administrator sees it.
use std::collections::HashMap;

use serde_json::{Value, json};

use super::Session;
use super::admin::placement;
use super::select::Selected;
use crate::api::{parse, parse_all};
use crate::failure::Failure;
use crate::node::{self, Node, NodePlacement, Slot};
use crate::output::{print_json, print_table, short, time};
use crate::owners;

#[derive(Debug, clap::Args)]
pub struct NodeFlags {
    /// Only nodes with this in their hostname, id or blockers.
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
    selected: Selected,
}

/// A node is in exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Health {
    /// Launches can go to it.
    Schedulable,
    /// It is ready, and an operator took it out of service: cordoned, draining, in maintenance, broken or retired.
    OutOfService,
    /// Something blocks it.
    NotReady,
    /// Its reports have stopped.
    Lost,
    /// Its agent has not enrolled.
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

    fn of(node: &Node) -> Self {
        match (node.status.state.as_str(), node.status.schedulable) {
            ("lost", _) => Self::Lost,
            ("pending", _) => Self::Waiting,
            (_, true) if node.out_of_service().is_some() => Self::OutOfService,
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
    fn lets_through(&self, node: &Node) -> bool {
        let is = |wanted: &Option<String>, value: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == value)
        };
        let text = format!(
            "{} {} {}",
            node.config.hostname,
            node.id,
            node.status.blockers.join(" ")
        );
        let search = self.search.as_deref().unwrap_or_default().to_lowercase();
        text.to_lowercase().contains(&search)
            && is(&self.region, &node.config.region_code)
            && is(&self.mode, &node.config.mode)
            && self.health.is_none_or(|wanted| wanted == Health::of(node))
    }
}

/// "25 nodes: 20 schedulable, 2 not ready, 3 lost".
fn health_text(nodes: &[Node]) -> String {
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
    let query = flags.selected.query();
    let mut found = session
        .api
        .list(&["admin", "nodes"], &query, "nodes")
        .await?;
    let mut placements = HashMap::new();
    if !found.is_empty() {
        for placement in placement::of_all(session).await? {
            let id = placement["node_id"].as_str().unwrap_or_default().to_owned();
            placements.insert(id, placement);
        }
    }
    for node in &mut found {
        let id = node["id"].as_str().unwrap_or_default();
        if let Some(placement) = placements.get(id) {
            node["placement"] = placement.clone();
        }
    }
    let mut nodes: Vec<Node> = parse_all(&found)?;
    if session.json() {
        let mut wanted = nodes.iter().map(|node| flags.lets_through(node));
        found.retain(|_| wanted.next().unwrap_or_default());
        print_json(&json!({ "nodes": found }));
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
    let rows = nodes.into_iter().map(|n| {
        let slots: Vec<String> = n
            .status
            .slots
            .iter()
            .map(|(status, count)| format!("{count} {status}"))
            .collect();
        let schedulable = n.schedulable();
        let state = n.state().to_owned();
        let mode = if n.status.lab {
            format!("{} (lab)", n.config.mode)
        } else {
            n.config.mode
        };
        [
            n.id,
            n.config.hostname,
            n.config.region_code,
            mode,
            state,
            schedulable,
            admin_state(&n.placement),
            slots.join(", "),
            n.status.instance.agent_version,
            time(n.status.last_heartbeat_time),
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
}

/// `slots`.
///
/// # Errors
/// See [`Failure`].
pub async fn slots(session: &Session, flags: &SlotFlags) -> Result<(), Failure> {
    let node = node::resolve(&session.api, &flags.node).await?;
    let answer = session
        .api
        .get(&["admin", "nodes", &node, "resource-slots"], &[])
        .await?;
    print_slots(
        session,
        &answer,
        &format!(
            "This node has no approved slots. Discover candidates: gpuaas admin node discover {node} --wait"
        ),
    )
    .await
}

/// Slots as table or JSON; `empty` is printed when there are none.
///
/// # Errors
/// See [`Failure`].
pub async fn print_slots(session: &Session, answer: &Value, empty: &str) -> Result<(), Failure> {
    if session.json() {
        print_json(answer);
        return Ok(());
    }
    let slots: Vec<Slot> = parse(answer.get("slots").unwrap_or(&Value::Array(Vec::new())))?;
    if slots.is_empty() {
        say!("{empty}");
        return Ok(());
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
    Ok(())
}

/// What the running wipes say of their slots, by slot: a step and its share, such as "Wiping the disk. (40 %)".
async fn wipes(session: &Session, slots: &[Slot]) -> HashMap<String, String> {
    let mut reported = HashMap::new();
    for slot in slots.iter().filter(|slot| slot.is_wiped()) {
        let path = [
            "admin",
            "nodes",
            &slot.node_id,
            "resource-slots",
            &slot.id,
            "repair",
        ];
        // a wipe that is part of a release is no repair
        let Ok(repair) = session.api.get(&path, &[]).await else {
            continue;
        };
        let detail = repair["detail"].as_str().unwrap_or_default();
        if repair["state"] == "running" && detail != slot.health_detail {
            reported.insert(slot.id.clone(), detail.to_owned());
        }
    }
    reported
}

/// Why a slot that is wiped takes no allocations, and how far the wipe is; how an approved slot and its host differ.
fn note(slot: &Slot, wipes: &HashMap<String, String>) -> Option<String> {
    if let Some(drift) = slot.drift.first() {
        let index = slot.slot_index;
        return Some(format!("Slot {index}: {}", drift.text()));
    }
    slot.is_wiped().then(|| {
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

fn slot_row(slot: Slot, owners: &HashMap<String, String>) -> [String; 9] {
    // nobody has looked at a disk that was never wiped: its health is not in doubt
    let health = if slot.is_first_wipe() {
        String::new()
    } else if slot.health_detail.is_empty() || slot.is_wiped() {
        slot.health_state.clone()
    } else {
        format!("{}: {}", slot.health_state, short(&slot.health_detail, 60))
    };
    let status = if slot.is_first_wipe() {
        "first wipe".to_owned()
    } else if slot.disabled && slot.status != "disabled" {
        format!("{} (disabled after release)", slot.status)
    } else {
        slot.status.clone()
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
