//! Queued launch requests, in order, and their priorities.
use std::collections::HashMap;

use clap::ValueEnum;
use gpuaas_proto::gpuaas::scheduler::v1::{
    self as contract, GetProjectPriorityRequest, ListQueueRequest, PutProjectPriorityRequest,
};
use serde_json::{Value, json};

use super::{PROJECT_HELP, Session, done};
use crate::commands::catalog;
use crate::commands::select::{Read, Selected, SelectedOf};
use crate::failure::Failure;
use crate::node::{self, hostname_of};
use crate::output::{print_json, print_table, time, word};
use crate::owners;
use crate::project;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List queued requests in the order in which they are placed.
    List {
        /// Only this region.
        #[arg(long)]
        region: Option<String>,
        #[command(flatten)]
        selected: SelectedOf<ListQueueRequest>,
    },
    /// Show the priority of a project.
    Priority {
        #[arg(help = PROJECT_HELP)]
        project: String,
    },
    /// Set the priority of a project, including its queued requests. The command does not check that the project exists.
    SetPriority {
        #[arg(help = PROJECT_HELP)]
        project: String,
        /// Higher priorities are placed first; each hour in the queue raises a request by one level.
        #[arg(value_enum)]
        priority: Priority,
        #[command(flatten)]
        read: Read,
    },
}

/// Priority of queued requests.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Priority {
    Low,
    Normal,
    High,
}

impl From<Priority> for contract::Priority {
    fn from(priority: Priority) -> Self {
        match priority {
            Priority::Low => Self::Low,
            Priority::Normal => Self::Normal,
            Priority::High => Self::High,
        }
    }
}

pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { region, selected } => {
            let regions = match region {
                Some(region) => vec![region],
                None => all_regions(session).await?,
            };
            list(session, &regions, &selected).await
        }
        Command::Priority { project } => {
            let request = GetProjectPriorityRequest {
                project_id: project::id(&session.api, &project).await?,
            };
            let answer = session.api.call(&request).await?;
            let word = word(answer.message.priority());
            let sentence = format!("Project {project} has {word} priority.");
            done(session, &answer.json, &sentence);
            Ok(())
        }
        Command::SetPriority {
            project,
            priority,
            read,
        } => {
            let priority = contract::Priority::from(priority);
            let request = PutProjectPriorityRequest {
                project_id: project::id(&session.api, &project).await?,
                priority: priority.into(),
                etag: read.etag,
            };
            let answer = session.api.apply(&request, &session.key).await?;
            let sentence = format!("Project {project} has {} priority.", word(priority));
            done(session, &answer.json, &sentence);
            Ok(())
        }
    }
}

/// The closed ones too: what was queued before is still there.
async fn all_regions(session: &Session) -> Result<Vec<String>, Failure> {
    let all = catalog::all_regions(&session.api).await?.into_iter();
    Ok(all.map(|region| region.code).collect())
}

async fn list(session: &Session, regions: &[String], selected: &Selected) -> Result<(), Failure> {
    let (mut requests, mut sent) = (Vec::new(), Vec::new());
    for region in regions {
        let request = ListQueueRequest {
            region_code: region.clone(),
            filter: selected.filter(),
            order_by: selected.order_by(),
            ..ListQueueRequest::default()
        };
        let own = session.api.call_all_pages(&request, "requests").await?;
        for (at, one) in own.message.requests.into_iter().enumerate() {
            let mut json = own.json["requests"][at].clone();
            json["region_code"] = region.as_str().into();
            sent.push(json);
            requests.push((region.clone(), one));
        }
    }
    if session.json() {
        print_json(&json!({ "requests": Value::Array(sent) }));
        return Ok(());
    }
    if requests.is_empty() && selected.narrows() {
        say!("No queued request matches the filter.");
        return Ok(());
    }
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
    let mut waiting = requests.iter().map(|(_, one)| one);
    if waiting.any(|one| !one.backfill_node_ids.is_empty()) {
        let nodes = node::all(&session.api).await?.into_iter();
        hostnames.extend(nodes.map(|node| (node.id.clone(), hostname_of(&node).to_owned())));
    }
    let projects = project::names(&session.api).await;
    let first = requests
        .iter()
        .filter_map(|(_, one)| one.allocation_ids.first());
    let owners = owners::of(&session.api, first.map(String::as_str)).await;
    let rows = requests.into_iter().map(|(region, one)| {
        let reserved = one.backfill_node_ids.iter();
        let reserved: Vec<&str> = reserved
            .map(|id| hostnames.get(id).unwrap_or(id).as_str())
            .collect();
        [
            region,
            one.slot_class.clone(),
            one.position.to_string(),
            word(one.priority()),
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
