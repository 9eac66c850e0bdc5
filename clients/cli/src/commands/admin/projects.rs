//! `admin project`: the projects of all organisations.
use gpuaas_proto::call::IdentityAdminListProjects;
use gpuaas_proto::gpuaas::identity::v1::{ListProjectsRequest, TenantState};
use gpuaas_proto::json::Enumeration as _;

use super::Session;
use super::organisations::{self, STATES};
use crate::commands::select::SelectedOf;
use crate::failure::Failure;
use crate::output::{print_json, print_table, time, word};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the projects of all organisations, or of one.
    List {
        /// Only projects of this organisation: slug, id, or unique prefix of the id.
        #[arg(long)]
        organisation: Option<String>,
        /// Only projects in this state.
        #[arg(long, value_parser = STATES)]
        state: Option<String>,
        #[command(flatten)]
        selected: SelectedOf<ListProjectsRequest>,
    },
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    let Command::List {
        organisation,
        state,
        selected,
    } = command;
    let organisation_id = match organisation {
        Some(given) => organisations::resolve(session, &given).await?,
        None => String::new(),
    };
    let state = state.as_deref().and_then(TenantState::of_word);
    let request = IdentityAdminListProjects(ListProjectsRequest {
        organisation_id,
        state: state.unwrap_or_default().into(),
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListProjectsRequest::default()
    });
    let found = session.api.call_all_pages(&request, "projects").await?;
    if session.json() {
        print_json(&found.json);
        return Ok(());
    }
    let found = found.message.projects;
    if found.is_empty() {
        say!("No project matches.");
        return Ok(());
    }
    let rows = found.into_iter().map(|one| {
        let state = word(one.state());
        [
            one.slug,
            one.organisation,
            one.display_name,
            state,
            one.state_reason,
            time(one.create_time),
            one.id,
        ]
    });
    print_table(
        [
            "PROJECT",
            "ORGANISATION",
            "NAME",
            "STATE",
            "REASON",
            "CREATED",
            "ID",
        ],
        rows.collect(),
    );
    Ok(())
}
