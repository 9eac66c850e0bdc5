//! `organisation`: the organisations of the caller.
use gpuaas_proto::gpuaas::identity::v1::{
    ListOrganisationMembersRequest, ListOrganisationsRequest, UpdateOrganisationRequest,
};

use super::select::{Selected, SelectedOf};
use crate::failure::Failure;
use crate::organisation;
use crate::output::{print_json, print_table, time, word};
use crate::session::{Session, done};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List your organisations, with your role in each.
    List(SelectedOf<ListOrganisationsRequest>),
    /// Change the display name of an organisation that you own.
    Rename {
        /// Slug or id.
        organisation: String,
        /// New display name.
        name: String,
    },
    /// SCIM: groups and their project roles, and keys.
    #[command(subcommand)]
    Scim(super::scim::Command),
    /// Guardrails of the organisation: rules for all of its projects.
    #[command(subcommand)]
    Guardrail(super::guardrails::Command),
    /// Members of an organisation.
    #[command(subcommand)]
    Member(MemberCommand),
}

#[derive(Debug, clap::Subcommand)]
pub enum MemberCommand {
    /// List the members of an organisation. Each has the same role in all of its projects.
    List {
        /// Slug or id.
        organisation: String,
        #[command(flatten)]
        selected: SelectedOf<ListOrganisationMembersRequest>,
    },
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List(selected) => list(session, &selected).await,
        Command::Scim(command) => super::scim::run(session, command).await,
        Command::Guardrail(command) => super::guardrails::run(session, command).await,
        Command::Rename { organisation, name } => {
            let request = UpdateOrganisationRequest {
                organisation_id: organisation::id(&session.api, &organisation).await?,
                display_name: name.clone(),
                ..UpdateOrganisationRequest::default()
            };
            let answer = session.api.apply(&request, &session.key).await?;
            let sentence = format!("{organisation} is now called {name}.");
            done(session, &answer.json, &sentence);
            Ok(())
        }
        Command::Member(MemberCommand::List {
            organisation,
            selected,
        }) => {
            let request = ListOrganisationMembersRequest {
                organisation_id: organisation::id(&session.api, &organisation).await?,
                filter: selected.filter(),
                order_by: selected.order_by(),
                ..ListOrganisationMembersRequest::default()
            };
            let found = session.api.call_all_pages(&request, "members").await?;
            super::members::print(session, &found.json, found.message.members);
            Ok(())
        }
    }
}

async fn list(session: &Session, selected: &Selected) -> Result<(), Failure> {
    let request = ListOrganisationsRequest {
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListOrganisationsRequest::default()
    };
    let found = session.api.call_all_pages(&request, "organisations");
    let found = found.await?;
    if session.json() {
        print_json(&found.json);
        return Ok(());
    }
    let found = found.message.organisations;
    if found.is_empty() && selected.narrows() {
        say!("No organisation matches the filter.");
        return Ok(());
    }
    if found.is_empty() {
        say!("You belong to no organisation. Ask an owner of one for an invitation.");
        return Ok(());
    }
    let rows = found.into_iter().map(|one| {
        // who is in projects of it alone has no role in it
        let (role, state) = (word(one.role()), word(one.state()));
        [
            one.slug,
            role,
            state,
            one.state_reason,
            one.display_name,
            time(one.create_time),
            one.id,
        ]
    });
    print_table(
        [
            "ORGANISATION",
            "ROLE",
            "STATE",
            "REASON",
            "NAME",
            "CREATED",
            "ID",
        ],
        rows.collect(),
    );
    Ok(())
}
