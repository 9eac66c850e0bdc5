//! `admin usage`: the usage of any project.
use std::collections::HashMap;

use gpuaas_proto::gpuaas::allocation::v1::ListAllAllocationsRequest;
use gpuaas_proto::gpuaas::billing::v1::ListProjectUsageRequest;

use crate::allocation;
use crate::commands::select::SelectedOf;
use crate::commands::usage;
use crate::failure::Failure;
use crate::project::{self, PROJECT_HELP};
use crate::session::Session;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the usage and exact cost of a project, also of a closed one.
    List {
        #[arg(long, value_name = "PROJECT", help = PROJECT_HELP)]
        project: String,
        /// Only this allocation.
        #[arg(long, value_name = "ID")]
        allocation: Option<String>,
        #[command(flatten)]
        selected: SelectedOf<ListProjectUsageRequest>,
    },
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    let Command::List {
        project,
        allocation: of_one,
        selected,
    } = command;
    let request = ListProjectUsageRequest {
        project_id: project::id(&session.api, &project).await?,
        allocation_id: of_one.unwrap_or_default(),
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListProjectUsageRequest::default()
    };
    let found = session.api.call_all_pages(&request, "intervals").await?;
    let names = if session.json() || found.message.intervals.is_empty() {
        HashMap::new()
    } else {
        names(session, request.project_id).await
    };
    usage::print(session, found, &names, &selected);
    Ok(())
}

/// The names of the allocations of a project by their ids; empty when they cannot be read, so that ids are shown.
async fn names(session: &Session, project_id: String) -> HashMap<String, String> {
    let request = ListAllAllocationsRequest {
        project_id,
        include_ended: true,
        ..ListAllAllocationsRequest::default()
    };
    let listed = session.api.call_all_pages(&request, "allocations").await;
    let all = listed.unwrap_or_default().message.allocations.into_iter();
    all.filter_map(|one| one.allocation)
        .map(|one| (one.id.clone(), allocation::label_of(&one)))
        .collect()
}
