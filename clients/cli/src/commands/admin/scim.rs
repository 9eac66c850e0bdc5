//! `admin scim`: which issuer the people of an organisation's SCIM come from.
use reqwest::Method;
use serde_json::json;

use super::{Session, done};
use crate::failure::Failure;
use crate::suggest;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Set up SCIM for an organisation.
    Set {
        /// Slug or id.
        organisation: String,
        /// Issuer of the users' tokens, exactly as in them.
        #[arg(long, value_name = "URL")]
        issuer: String,
        /// Which attribute of a SCIM user is the subject in the tokens.
        #[arg(long, default_value = "user-name", value_parser = ["user-name", "external-id"])]
        subject: String,
    },
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    let Command::Set {
        organisation,
        issuer,
        subject,
    } = command;
    let path = ["admin", "organisations"];
    let all = session.api.list(&path, &[], "organisations").await?;
    let found = all
        .iter()
        .find(|one| one["slug"] == organisation || one["id"] == organisation);
    let id = found.and_then(|one| one["id"].as_str()).ok_or_else(|| {
        let names = all.iter().filter_map(|one| one["slug"].as_str());
        let message = format!("no organisation is named {organisation:?}");
        Failure::NotFound(suggest::with_nearest(message, &organisation, names))
    })?;
    let body = json!({ "issuer": issuer, "subject_attribute": subject.replace('-', "_") });
    let path = ["admin", "organisations", id, "scim"];
    let answer = session
        .api
        .change(Method::PUT, &path, &body, &session.key)
        .await?;
    let sentence = format!("People whom the SCIM of {organisation} sends sign in with {issuer}.");
    done(session, &answer, &sentence);
    Ok(())
}
