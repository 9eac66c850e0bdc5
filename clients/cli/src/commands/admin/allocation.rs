//! The claims and node tasks of an allocation.
use jiff::Timestamp;
use serde::Deserialize;

use super::Session;
use crate::allocation::{self, Allocation, Among};
use crate::api::{number, parse};
use crate::commands::place;
use crate::failure::Failure;
use crate::output::{print_json, print_line, print_table, took};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AllocationDetail {
    pub allocation: Allocation,
    pub node_id: String,
    pub claims: Vec<Claim>,
    pub tasks: Vec<NodeTask>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Claim {
    pub kind: String,
    pub slot_id: String,
    pub slot_index: u32,
    pub state: String,
    #[serde(deserialize_with = "number")]
    pub slot_generation: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeTask {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub state: String,
    pub create_time: Option<Timestamp>,
    pub end_time: Option<Timestamp>,
}

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Show the node, claims and node tasks of an allocation.
    Show {
        /// Full id of the allocation.
        allocation: String,
    },
}

pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    let Command::Show { allocation: given } = command;
    let id = allocation::resolve(&session.api, Among::All, &given).await?;
    let answer = session.api.get(&["admin", "allocations", &id], &[]).await?;
    if session.json() {
        print_json(&answer);
        return Ok(());
    }
    let detail: AllocationDetail = parse(&answer)?;
    say!(
        "{} is {} on node {}",
        detail.allocation.id,
        detail.allocation.status.state,
        detail.node_id
    );
    let constraints = detail.allocation.config.placement.as_ref();
    print_line(
        "Placement",
        &constraints.map(place::text).unwrap_or_default(),
    );
    let claims = detail.claims.into_iter().map(|c| {
        [
            c.kind,
            c.slot_index.to_string(),
            c.slot_id,
            c.slot_generation.to_string(),
            c.state,
        ]
    });
    print_table(
        ["CLAIM", "SLOT", "SLOT ID", "GENERATION", "STATE"],
        claims.collect(),
    );
    if !detail.tasks.is_empty() {
        say!("");
        let tasks = detail
            .tasks
            .into_iter()
            .map(|t| [t.kind, t.id, t.state, took(t.create_time, t.end_time)]);
        print_table(["TASK", "ID", "STATE", "DURATION"], tasks.collect());
    }
    Ok(())
}
