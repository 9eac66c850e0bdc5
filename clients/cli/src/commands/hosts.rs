//! `nodes` and `slots`: the fleet as an administrator sees it.
use std::collections::HashMap;

use serde_json::{Value, json};

use super::Session;
use super::admin::placement;
use crate::api::{parse, parse_all};
use crate::failure::Failure;
use crate::node::{self, Node, NodePlacement, Slot};
use crate::output::{print_json, print_table, short, time};

/// `nodes`.
///
/// # Errors
/// See [`Failure`].
pub async fn nodes(session: &Session) -> Result<(), Failure> {
    let mut found = session.api.list(&["admin", "nodes"], &[], "nodes").await?;
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
    if session.json() {
        print_json(&json!({ "nodes": found }));
        return Ok(());
    }
    let nodes: Vec<Node> = parse_all(&found)?;
    if nodes.is_empty() {
        say!(
            "No nodes yet. Register one: gpuaas admin node create --hostname NAME --region REGION --mode slice"
        );
        return Ok(());
    }
    let rows = nodes.into_iter().map(|n| {
        let slots: Vec<String> = n
            .status
            .slots
            .iter()
            .map(|(status, count)| format!("{count} {status}"))
            .collect();
        let ready = match (n.status.schedulable, n.placement.admin_state.as_str()) {
            // ready, but operators keep launches away
            (true, state @ ("cordoned" | "draining")) => format!("no: {state}"),
            (true, _) => "yes".to_owned(),
            (false, _) => format!("no: {}", n.status.blockers.join(", ")),
        };
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
            n.status.state,
            ready.trim_end_matches(": ").to_owned(),
            admin_state(&n.placement),
            slots.join(", "),
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
            "LAST HEARTBEAT",
        ],
        rows.collect(),
    );
    Ok(())
}

/// The administrative state of a node, with the progress of a drain.
fn admin_state(placement: &NodePlacement) -> String {
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
}

/// Slots as table or JSON; `empty` is printed when there are none.
///
/// # Errors
/// See [`Failure`].
pub fn print_slots(session: &Session, answer: &Value, empty: &str) -> Result<(), Failure> {
    if session.json() {
        print_json(answer);
        return Ok(());
    }
    let slots: Vec<Slot> = parse(answer.get("slots").unwrap_or(&Value::Array(Vec::new())))?;
    if slots.is_empty() {
        say!("{empty}");
        return Ok(());
    }
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
        ],
        slots.into_iter().map(slot_row).collect(),
    );
    Ok(())
}

fn slot_row(slot: Slot) -> [String; 8] {
    let health = if slot.health_detail.is_empty() {
        slot.health_state
    } else {
        format!("{}: {}", slot.health_state, short(&slot.health_detail, 60))
    };
    let status = if slot.disabled && slot.status != "disabled" {
        format!("{} (disabled after release)", slot.status)
    } else {
        slot.status
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
        slot.allocation_id,
        evidence,
    ]
}
