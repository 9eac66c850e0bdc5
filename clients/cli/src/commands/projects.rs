//! `project`: the projects of the caller, and their state.
use reqwest::Method;
use serde_json::{Value, json};

use super::Session;
use super::select::Selected;
use crate::failure::Failure;
use crate::output::{print_json, print_line, print_table, time};
use crate::project;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List your projects, with your role in each.
    List(Selected),
    /// Show a project.
    Show {
        /// Name or id.
        project: String,
    },
    /// Create a project in an organisation that you own.
    Create {
        /// Slug: lower-case letters, digits and hyphens.
        slug: String,
        /// Organisation: its slug or id.
        #[arg(long)]
        organisation: String,
        /// Display name [default: the slug].
        #[arg(long, default_value = "")]
        name: String,
    },
    /// Change the display name of a project.
    Rename {
        /// Name or id.
        project: String,
        /// New display name.
        name: String,
    },
    /// Suspend a project: nothing can be launched or started; what runs continues.
    Suspend(StateFlags),
    /// Resume a suspended project.
    Resume {
        /// Name or id.
        project: String,
    },
    /// Close a project for good, once nothing runs in it.
    Close(StateFlags),
}

#[derive(Debug, clap::Args)]
pub struct StateFlags {
    /// Name or id.
    project: String,
    /// Reason, shown to its members.
    #[arg(long, default_value = "")]
    reason: String,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List(selected) => list(session, &selected).await,
        Command::Show { project } => {
            let id = project::id(&session.api, &project).await?;
            let answer = session.api.get(&["projects", &id], &[]).await?;
            show(session, &answer);
            Ok(())
        }
        Command::Create {
            slug,
            organisation,
            name,
        } => {
            let organisation = organisation_id(session, &organisation).await?;
            let body =
                json!({ "organisation_id": organisation, "slug": slug, "display_name": name });
            let answer = session
                .api
                .change(Method::POST, &["projects"], &body, &session.key)
                .await?;
            let sentence =
                format!("Created {slug}. Add members: gpuaas member invite EMAIL --project {slug}");
            super::done(session, &answer, &sentence);
            Ok(())
        }
        Command::Rename { project, name } => {
            let id = project::id(&session.api, &project).await?;
            let body = json!({ "display_name": name });
            let answer = session
                .api
                .change(Method::PATCH, &["projects", &id], &body, &session.key)
                .await?;
            super::done(
                session,
                &answer,
                &format!("{project} is now called {name}."),
            );
            Ok(())
        }
        Command::Suspend(flags) => state(session, "suspend", &flags, "is suspended").await,
        Command::Close(flags) => state(session, "close", &flags, "is closed").await,
        Command::Resume { project } => {
            let flags = StateFlags {
                project,
                reason: String::new(),
            };
            state(session, "resume", &flags, "is active").await
        }
    }
}

async fn state(
    session: &Session,
    verb: &str,
    flags: &StateFlags,
    sentence: &str,
) -> Result<(), Failure> {
    let id = project::id(&session.api, &flags.project).await?;
    let mut body = json!({});
    if !flags.reason.is_empty() {
        body["reason"] = flags.reason.as_str().into();
    }
    let path = ["projects", &format!("{id}:{verb}")];
    let answer = session
        .api
        .change(Method::POST, &path, &body, &session.key)
        .await?;
    super::done(session, &answer, &format!("{} {sentence}.", flags.project));
    Ok(())
}

/// The id of an organisation of the caller by its slug; what is none of them is for the API to refuse.
async fn organisation_id(session: &Session, given: &str) -> Result<String, Failure> {
    let found = session
        .api
        .list(&["organisations"], &[], "organisations")
        .await?;
    let named = found.iter().find(|one| one["slug"] == given);
    let id = named.and_then(|one| one["id"].as_str());
    Ok(id.unwrap_or(given).to_owned())
}

async fn list(session: &Session, selected: &Selected) -> Result<(), Failure> {
    let query = selected.query();
    let found = session.api.list(&["projects"], &query, "projects").await?;
    if session.json() {
        print_json(&json!({ "projects": found }));
        return Ok(());
    }
    if found.is_empty() && selected.narrows() {
        say!("No project matches the filter.");
        return Ok(());
    }
    if found.is_empty() {
        say!("You belong to no project. Ask an owner of one for an invitation.");
        return Ok(());
    }
    let rows = found.iter().map(|one| {
        [
            text(one, "slug"),
            text(one, "organisation"),
            text(one, "role"),
            text(one, "state"),
            text(one, "display_name"),
            text(one, "id"),
        ]
    });
    print_table(
        ["PROJECT", "ORGANISATION", "ROLE", "STATE", "NAME", "ID"],
        rows.collect(),
    );
    Ok(())
}

fn show(session: &Session, project: &Value) {
    if session.json() {
        print_json(project);
        return;
    }
    print_line("Project", &text(project, "slug"));
    print_line("Name", &text(project, "display_name"));
    print_line("Organisation", &text(project, "organisation"));
    print_line("State", &text(project, "state"));
    print_line("Your role", &text(project, "role"));
    print_line(
        "Created",
        &time(text(project, "create_time").parse::<jiff::Timestamp>().ok()),
    );
    print_line("ID", &text(project, "id"));
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}
