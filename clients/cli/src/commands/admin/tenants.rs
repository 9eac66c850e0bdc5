//! Allocations of all projects: their list, and what an operator does to one of them.
use gpuaas_proto::gpuaas::allocation::v1::{
    Allocation, AllocationState, ListAllAllocationsRequest, ReleaseTenantAllocationRequest,
    StopTenantAllocationRequest, TenantAllocation,
};
use gpuaas_proto::json::Enumeration as _;
use serde_json::{Value, json};

use super::Session;
use crate::allocation::{label_of, name_of, state_text, status_text};
use crate::commands::select::SelectedOf;
use crate::failure::Failure;
use crate::node;
use crate::output::{print_json, print_table, time};
use crate::project;
use crate::resolve::unique_or_near;

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
    /// Only allocations on this node, by hostname or id.
    #[arg(long)]
    node: Option<String>,
    /// Only allocations in this state.
    #[arg(long, value_parser = STATES)]
    state: Option<String>,
    /// Include released and failed allocations.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    selected: SelectedOf<ListAllAllocationsRequest>,
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
    let state = flags.state.as_deref().and_then(AllocationState::of_word);
    let request = ListAllAllocationsRequest {
        project_id: project::given(api, flags.project)
            .await?
            .unwrap_or_default(),
        node_id: node.unwrap_or_default(),
        state: state.unwrap_or_default().into(),
        include_ended: flags.all,
        filter: flags.selected.filter(),
        order_by: flags.selected.order_by(),
        ..ListAllAllocationsRequest::default()
    };
    let mut found = api.call_all_pages(&request, "allocations").await?;
    if session.json() {
        // an item is what commands take: the allocation, with its node
        let all = found.json["allocations"].as_array_mut();
        let items = all.into_iter().flatten().map(|one| {
            let mut item = one["allocation"].take();
            item["node_id"] = one["node_id"].take();
            item
        });
        print_json(&json!({ "allocations": items.collect::<Vec<Value>>() }));
        return Ok(());
    }
    let found = found.message.allocations;
    if found.is_empty() {
        say!("No allocation matches. Include those that have ended: --all");
        return Ok(());
    }
    let nodes = node::all(api).await.unwrap_or_default();
    let projects = project::names(api).await;
    let rows = found.into_iter().map(|one| {
        let host = nodes.iter().find(|node| node.id == one.node_id);
        let host = host.map(|node| node::hostname_of(node).to_owned());
        let a = one.allocation.unwrap_or_default();
        let label = label_of(&a);
        let (config, status) = (a.config.unwrap_or_default(), a.status.unwrap_or_default());
        [
            a.id,
            label,
            project::name_of(&projects, &config.project_id),
            status_text(&status),
            format!("{} x {}", config.gpu_count, config.sku),
            host.unwrap_or(one.node_id),
            time(a.metadata.unwrap_or_default().create_time),
            a.creator,
        ]
    });
    print_table(
        [
            "ID",
            "NAME",
            "PROJECT",
            "STATE",
            "SIZE",
            "NODE",
            "CREATED",
            "CREATED BY",
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
    let (allocation_id, reason) = (id.clone(), flags.reason.clone());
    let (api, key) = (&session.api, &session.key);
    let answer = match verb {
        Verb::Stop => {
            let request = StopTenantAllocationRequest {
                allocation_id,
                reason,
            };
            api.apply(&request, key).await?
        }
        Verb::Release => {
            let request = ReleaseTenantAllocationRequest {
                allocation_id,
                reason,
            };
            api.apply(&request, key).await?
        }
    };
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    let state = state_text(&answer.message.status.unwrap_or_default());
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
    let request = ListAllAllocationsRequest::default();
    let listed = session.api.call_all_pages(&request, "allocations").await?;
    let all = listed.message.allocations.into_iter();
    let all: Vec<Allocation> = all
        .filter_map(|one: TenantAllocation| one.allocation)
        .collect();
    let named: Vec<&Allocation> = all.iter().filter(|one| name_of(one) == given).collect();
    match named.as_slice() {
        [one] => return Ok(one.id.clone()),
        [] => {}
        _ => {
            return Err(Failure::Usage(format!(
                "several projects have an allocation {given:?}; use its id"
            )));
        }
    }
    let ids = all.iter().map(|one| one.id.as_str());
    let names = all.iter().map(name_of);
    let list = "gpuaas admin allocation list";
    unique_or_near("allocation", given, ids, names, list)
}
