//! Allocations of all projects: their list, and what an operator does to one of them.
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::Session;
use crate::allocation::Allocation;
use crate::api::{parse, parse_all};
use crate::commands::select::Selected;
use crate::failure::Failure;
use crate::node::{self, Node};
use crate::output::{print_json, print_table, time};
use crate::resolve::unique;
use crate::{project, suggest};

/// States that a list can be narrowed to.
const STATES: [&str; 7] = [
    "requested",
    "reserved",
    "provisioning",
    "active",
    "releasing",
    "released",
    "failed",
];

#[derive(Debug, clap::Args)]
pub struct List {
    /// Only this project, by name or id.
    #[arg(long)]
    project: Option<String>,
    /// Only those on this node, by hostname or id.
    #[arg(long)]
    node: Option<String>,
    /// Only those in this state.
    #[arg(long, value_parser = STATES)]
    state: Option<String>,
    /// Include released and failed ones.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    selected: Selected,
}

/// What an operator does.
#[derive(Clone, Copy, Debug)]
pub enum Verb {
    Stop,
    Release,
}

#[derive(Debug, clap::Args)]
pub struct Change {
    /// Name, id, or unique prefix of the id.
    allocation: String,
    /// Reason, which the members of the project see.
    #[arg(long)]
    reason: String,
}

/// An allocation, and where it is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Placed {
    allocation: Allocation,
    node_id: String,
}

const PATH: [&str; 2] = ["admin", "allocations"];

/// Lists them, newest first.
///
/// # Errors
/// See [`Failure`].
pub async fn list(session: &Session, flags: List) -> Result<(), Failure> {
    let api = &session.api;
    let node = match &flags.node {
        Some(given) => Some(node::resolve(api, given).await?),
        None => None,
    };
    let mut query = crate::commands::given([
        ("project_id", project::given(api, flags.project).await?),
        ("node_id", node),
        ("state", flags.state),
        ("include_ended", flags.all.then(|| "true".to_owned())),
    ]);
    query.extend(flags.selected.query());
    let found = api.list(&PATH, &query, "allocations").await?;
    if session.json() {
        // an item is what commands take: the allocation, with its node
        let items = found.into_iter().map(|mut one| {
            let mut item = one["allocation"].take();
            item["node_id"] = one["node_id"].take();
            item
        });
        print_json(&json!({ "allocations": items.collect::<Vec<_>>() }));
        return Ok(());
    }
    if found.is_empty() {
        say!("No allocation matches. Include those that have ended: --all");
        return Ok(());
    }
    let nodes: Vec<Node> = match api.list(&["admin", "nodes"], &[], "nodes").await {
        Ok(found) => parse_all(&found)?,
        Err(_) => Vec::new(),
    };
    let projects = project::names(api).await;
    let rows = parse_all::<Placed>(&found)?.into_iter().map(|one| {
        let host = nodes.iter().find(|node| node.id == one.node_id);
        let a = one.allocation;
        [
            a.id,
            a.config.name,
            project::name_of(&projects, &a.config.project_id),
            a.status.text(),
            format!("{} x {}", a.config.gpu_count, a.config.sku),
            host.map_or(one.node_id, |node| node.config.hostname.clone()),
            time(a.metadata.create_time),
            a.creator,
        ]
    });
    print_table(
        [
            "ID", "NAME", "PROJECT", "STATE", "SIZE", "NODE", "CREATED", "BY",
        ],
        rows.collect(),
    );
    Ok(())
}

/// Stops or releases one.
///
/// # Errors
/// See [`Failure`].
pub async fn change(session: &Session, flags: &Change, verb: Verb) -> Result<(), Failure> {
    let id = resolve(session, &flags.allocation).await?;
    let word = match verb {
        Verb::Stop => "stop",
        Verb::Release => "release",
    };
    let last = format!("{id}:{word}");
    let body = json!({ "reason": flags.reason });
    let answer = session
        .api
        .change(
            Method::POST,
            &[PATH[0], PATH[1], &last],
            &body,
            &session.key,
        )
        .await?;
    if session.json() {
        print_json(&answer);
        return Ok(());
    }
    let allocation: Allocation = parse(&answer)?;
    let state = allocation.status.state_text();
    say!("{id} is {state}. Its members see the reason.");
    Ok(())
}

/// An allocation of any project by its id, a unique prefix of it, or its name. One that has ended is named by its whole id.
///
/// # Errors
/// Nothing matches, or several do.
pub async fn resolve(session: &Session, given: &str) -> Result<String, Failure> {
    if uuid::Uuid::parse_str(given).is_ok() {
        return Ok(given.to_owned());
    }
    let found = session.api.list(&PATH, &[], "allocations").await?;
    let all: Vec<Placed> = parse_all(&found)?;
    let named: Vec<&Placed> = all
        .iter()
        .filter(|one| one.allocation.config.name == given)
        .collect();
    match named.as_slice() {
        [one] => return Ok(one.allocation.id.clone()),
        [] => {}
        _ => {
            return Err(Failure::Usage(format!(
                "several projects have an allocation {given:?}; use its id"
            )));
        }
    }
    let ids = all.iter().map(|one| one.allocation.id.as_str());
    unique("allocation", given, ids, "gpuaas admin allocation list").map_err(|failure| {
        let names = all.iter().map(|one| one.allocation.config.name.as_str());
        match failure {
            Failure::NotFound(message) => {
                Failure::NotFound(suggest::with_nearest(message, given, names))
            }
            other => other,
        }
    })
}
