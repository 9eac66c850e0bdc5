//! Requests that wait for capacity: who, in which order, and in which class.
use std::collections::HashMap;

use clap::ValueEnum;
use reqwest::Method;
use serde_json::{Value, json};

use super::{PROJECT_HELP, Session, done};
use crate::api::{parse, parse_all};
use crate::commands::catalog::only_region;
use crate::failure::Failure;
use crate::model::{Node, QueuedRequest};
use crate::output::{print_json, print_table, time};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List them in the order in which they are served.
    List {
        /// The region [default: the only enabled one].
        #[arg(long)]
        region: Option<String>,
    },
    /// Show the class of a project's requests.
    Priority {
        #[arg(help = PROJECT_HELP)]
        project: String,
    },
    /// Set the class of a project's requests, those that wait already included. That there is such a project is not
    /// checked.
    Prioritise {
        #[arg(help = PROJECT_HELP)]
        project: String,
        /// A higher class is served first; every hour of waiting raises a request by one.
        #[arg(value_enum)]
        priority: Priority,
    },
}

/// Class of waiting requests.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Priority {
    Low,
    Normal,
    High,
}

pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { region } => {
            let region = match region {
                Some(region) => region,
                None => only_region(session).await?,
            };
            list(session, region).await
        }
        Command::Priority { project } => {
            let path = ["admin", "projects", &project, "priority"];
            let answer = session.api.get(&path, &[]).await?;
            let word = answer["priority"].as_str().unwrap_or_default();
            let told = format!("Requests of project {project} wait with priority {word}.");
            done(session, &answer, &told);
            Ok(())
        }
        Command::Prioritise { project, priority } => {
            let word = priority.to_possible_value();
            let word = word.as_ref().map_or("", |value| value.get_name());
            let answer = session
                .api
                .change(
                    Method::PUT,
                    &["admin", "projects", &project, "priority"],
                    &json!({ "priority": word }),
                    &session.key,
                )
                .await?;
            let told = format!("Requests of project {project} wait with priority {word}.");
            done(session, &answer, &told);
            Ok(())
        }
    }
}

async fn list(session: &Session, region: String) -> Result<(), Failure> {
    let query = [("region_code", region.clone())];
    let found = session
        .api
        .list(&["admin", "queue"], &query, "requests")
        .await?;
    let requests = Value::Array(found);
    if session.json() {
        print_json(&json!({ "requests": requests }));
        return Ok(());
    }
    let requests: Vec<QueuedRequest> = parse(&requests)?;
    if requests.is_empty() {
        say!("Nobody waits in {region}.");
        return Ok(());
    }
    let mut hostnames = HashMap::new();
    if requests.iter().any(|one| !one.backfill_node_ids.is_empty()) {
        let nodes = session.api.list(&["admin", "nodes"], &[], "nodes").await?;
        let nodes: Vec<Node> = parse_all(&nodes)?;
        hostnames.extend(
            nodes
                .into_iter()
                .map(|node| (node.id, node.config.hostname)),
        );
    }
    let rows = requests.into_iter().map(|one| {
        let kept = one.backfill_node_ids.iter();
        let kept: Vec<&str> = kept
            .map(|id| hostnames.get(id).unwrap_or(id).as_str())
            .collect();
        [
            one.slot_class,
            one.position.to_string(),
            one.priority,
            one.project_id,
            one.gpus.to_string(),
            one.allocation_ids.join(" "),
            time(one.since),
            time(one.deadline),
            one.reason,
            kept.join(" "),
        ]
    });
    print_table(
        [
            "CLASS",
            "PLACE",
            "PRIORITY",
            "PROJECT",
            "GPUS",
            "ALLOCATIONS",
            "SINCE",
            "UNTIL",
            "REASON",
            "NODES KEPT",
        ],
        rows.collect(),
    );
    Ok(())
}
