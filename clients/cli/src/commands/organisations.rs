//! `organisation`: the organisations of the caller.
use reqwest::Method;
use serde_json::{Value, json};

use super::Session;
use super::select::Selected;
use crate::failure::Failure;
use crate::output::{print_json, print_table, time};
use crate::suggest;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List your organisations, with your role in each.
    List(Selected),
    /// Change the display name of an organisation that you own.
    Rename {
        /// Slug or id.
        organisation: String,
        /// New display name.
        name: String,
    },
    /// Groups of the organisation's identity provider, and what they are good for.
    #[command(subcommand)]
    Scim(super::scim::Command),
    /// List the members of an organisation. They have their role in all of its projects.
    Members {
        /// Slug or id.
        organisation: String,
        #[command(flatten)]
        selected: Selected,
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
        Command::Rename { organisation, name } => {
            let id = find(session, &organisation).await?;
            let body = json!({ "display_name": name });
            let answer = session
                .api
                .change(Method::PATCH, &["organisations", &id], &body, &session.key)
                .await?;
            let sentence = format!("{organisation} is now called {name}.");
            super::done(session, &answer, &sentence);
            Ok(())
        }
        Command::Members {
            organisation,
            selected,
        } => {
            let id = find(session, &organisation).await?;
            let path = ["organisations", &id, "members"];
            let query = selected.query();
            let found = session.api.list(&path, &query, "members").await?;
            super::members::print(session, &found);
            Ok(())
        }
    }
}

async fn all(session: &Session, selected: &Selected) -> Result<Vec<Value>, Failure> {
    let query = selected.query();
    session
        .api
        .list(&["organisations"], &query, "organisations")
        .await
}

/// The id of one of the caller's organisations.
///
/// # Errors
/// There is none of this name.
pub async fn find(session: &Session, given: &str) -> Result<String, Failure> {
    let all = all(session, &Selected::default()).await?;
    let found = all
        .iter()
        .find(|one| one["slug"] == given || one["id"] == given);
    found.map(|one| text(one, "id")).ok_or_else(|| {
        let names = all.iter().filter_map(|one| one["slug"].as_str());
        let message = format!("no organisation is named {given:?}; see: gpuaas organisation list");
        Failure::NotFound(suggest::with_nearest(message, given, names))
    })
}

async fn list(session: &Session, selected: &Selected) -> Result<(), Failure> {
    let found = all(session, selected).await?;
    if session.json() {
        print_json(&json!({ "organisations": found }));
        return Ok(());
    }
    if found.is_empty() && selected.narrows() {
        say!("No organisation matches the filter.");
        return Ok(());
    }
    if found.is_empty() {
        say!("You belong to no organisation. Ask an owner of one for an invitation.");
        return Ok(());
    }
    let rows = found.iter().map(|one| {
        [
            text(one, "slug"),
            // who is in projects of it alone has no role in it
            Some(text(one, "role"))
                .filter(|role| role != "unspecified")
                .unwrap_or_default(),
            text(one, "state"),
            text(one, "display_name"),
            time(text(one, "create_time").parse::<jiff::Timestamp>().ok()),
            text(one, "id"),
        ]
    });
    print_table(
        ["ORGANISATION", "ROLE", "STATE", "NAME", "CREATED", "ID"],
        rows.collect(),
    );
    Ok(())
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}
