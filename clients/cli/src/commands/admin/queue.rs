//! Queued launch requests, in order, and their priorities.
use std::collections::HashMap;

use clap::ValueEnum;
use jiff::Timestamp;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{PROJECT_HELP, Session, done};
use crate::api::{parse, parse_all};
use crate::failure::Failure;
use crate::node::Node;
use crate::output::{print_json, print_table, time};
use crate::owners;
use crate::project;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List queued requests in the order in which they are placed.
    List {
        /// Only this region.
        #[arg(long)]
        region: Option<String>,
    },
    /// Show the priority of a project.
    Priority {
        #[arg(help = PROJECT_HELP)]
        project: String,
    },
    /// Set the priority of a project, queued requests included. The existence of the project is not checked.
    SetPriority {
        #[arg(help = PROJECT_HELP)]
        project: String,
        /// Higher priorities are placed first; each hour in the queue raises a request by one level.
        #[arg(value_enum)]
        priority: Priority,
    },
}

/// A queued request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct QueuedRequest {
    /// Where it waits; set by this client, which asks for one region after the other.
    pub region_code: String,
    pub slot_class: String,
    pub position: u32,
    pub project_id: String,
    pub priority: String,
    pub allocation_ids: Vec<String>,
    pub gpus: u32,
    pub since: Option<Timestamp>,
    pub deadline: Option<Timestamp>,
    pub reason: String,
    pub backfill_node_ids: Vec<String>,
}

/// Priority of queued requests.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Priority {
    Low,
    Normal,
    High,
}

pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { region } => {
            let regions = match region {
                Some(region) => vec![region],
                None => all_regions(session).await?,
            };
            list(session, &regions).await
        }
        Command::Priority { project } => {
            let id = project::id(&session.api, &project).await?;
            let path = ["admin", "projects", &id, "priority"];
            let answer = session.api.get(&path, &[]).await?;
            let word = answer["priority"].as_str().unwrap_or_default();
            let sentence = format!("Project {project} has {word} priority.");
            done(session, &answer, &sentence);
            Ok(())
        }
        Command::SetPriority { project, priority } => {
            let id = project::id(&session.api, &project).await?;
            let word = priority.to_possible_value();
            let word = word.as_ref().map_or("", |value| value.get_name());
            let answer = session
                .api
                .change(
                    Method::PUT,
                    &["admin", "projects", &id, "priority"],
                    &json!({ "priority": word }),
                    &session.key,
                )
                .await?;
            let sentence = format!("Project {project} has {word} priority.");
            done(session, &answer, &sentence);
            Ok(())
        }
    }
}

/// The closed ones too: what was queued before is still there.
async fn all_regions(session: &Session) -> Result<Vec<String>, Failure> {
    let all = session.api.list(&["regions"], &[], "regions").await?;
    let codes = all.iter().filter_map(|one| one["code"].as_str());
    Ok(codes.map(str::to_owned).collect())
}

async fn list(session: &Session, regions: &[String]) -> Result<(), Failure> {
    let mut found = Vec::new();
    for region in regions {
        let query = [("region_code", region.clone())];
        let own = session.api.list(&["admin", "queue"], &query, "requests");
        for mut request in own.await? {
            request["region_code"] = region.as_str().into();
            found.push(request);
        }
    }
    let requests = Value::Array(found);
    if session.json() {
        print_json(&json!({ "requests": requests }));
        return Ok(());
    }
    let requests: Vec<QueuedRequest> = parse(&requests)?;
    if requests.is_empty() {
        say!(
            "No queued requests in {}.",
            match regions {
                [one] => one.as_str(),
                _ => "any region",
            }
        );
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
    let projects = project::names(&session.api).await;
    let first = requests.iter().filter_map(|one| one.allocation_ids.first());
    let owners = owners::of(&session.api, first.map(String::as_str)).await;
    let rows = requests.into_iter().map(|one| {
        let reserved = one.backfill_node_ids.iter();
        let reserved: Vec<&str> = reserved
            .map(|id| hostnames.get(id).unwrap_or(id).as_str())
            .collect();
        [
            one.region_code,
            one.slot_class,
            one.position.to_string(),
            one.priority,
            project::name_of(&projects, &one.project_id),
            one.gpus.to_string(),
            allocations_text(&one.allocation_ids, &owners),
            time(one.since),
            time(one.deadline),
            one.reason,
            reserved.join(" "),
            one.allocation_ids.join(" "),
        ]
    });
    print_table(
        [
            "REGION",
            "CLASS",
            "POSITION",
            "PRIORITY",
            "PROJECT",
            "GPUS",
            "ALLOCATIONS",
            "WAITING SINCE",
            "DEADLINE",
            "REASON",
            "BACKFILL NODES",
            "ALLOCATION IDS",
        ],
        rows.collect(),
    );
    Ok(())
}

/// The allocations of a request: the first by its name, else its id, and how many there are beside it. A column of its own
/// has all ids.
fn allocations_text(ids: &[String], owners: &HashMap<String, String>) -> String {
    let Some((first, others)) = ids.split_first() else {
        return String::new();
    };
    // the project has a column of its own
    let name = owners::name_of(owners, first);
    let name = name
        .split_once(" of ")
        .map_or(name.as_str(), |(name, _)| name);
    match others.len() {
        0 => name.to_owned(),
        more => format!("{name} and {more} more"),
    }
}
