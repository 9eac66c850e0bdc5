//! `health-event`: when what a project has was not healthy.
use gpuaas_proto::gpuaas::scheduler::v1::ListHealthEventsRequest;

use super::select::SelectedOf;
use crate::allocation::{self, Among};
use crate::failure::Failure;
use crate::output::{print_json, print_table, time, word};
use crate::project;
use crate::session::Session;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the health events, newest first.
    List(Flags),
}

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Only this allocation: id, unique prefix of it, or name.
    #[arg(long)]
    allocation: Option<String>,
    /// Project [default: that of the context, else your only one].
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    #[command(flatten)]
    selected: SelectedOf<ListHealthEventsRequest>,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    let Command::List(Flags {
        allocation,
        project,
        selected,
    }) = command;
    let project = project::chosen(&session.api, project).await?;
    let allocation_id = match allocation {
        None => String::new(),
        Some(given) => {
            let among = Among::Project(project.as_deref());
            allocation::resolve(&session.api, among, &given).await?
        }
    };
    let request = ListHealthEventsRequest {
        project_id: project.unwrap_or_default(),
        allocation_id,
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListHealthEventsRequest::default()
    };
    let listed = session.api.call_all_pages(&request, "events").await?;
    if session.json() {
        print_json(&listed.json);
        return Ok(());
    }
    let events = listed.message.events;
    if events.is_empty() {
        say!(
            "{}",
            match selected.narrows() {
                true => "No health event matches the filter.",
                false => "No health events: nothing was known to be unhealthy.",
            }
        );
        return Ok(());
    }
    let rows = events.into_iter().map(|one| {
        let end = match one.end_time {
            None => "lasts".to_owned(),
            end => time(end),
        };
        [
            time(one.start_time),
            end,
            one.allocation_id.clone(),
            one.gpu_count.to_string(),
            word(one.health()),
            one.message,
        ]
    });
    print_table(
        ["START", "END", "ALLOCATION", "GPUS", "HEALTH", "MESSAGE"],
        rows.collect(),
    );
    Ok(())
}
