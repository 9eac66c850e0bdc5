//! `admin scim`: which issuer the people of an organisation's SCIM come from.
use gpuaas_proto::gpuaas::identity::v1::{PutScimSettingsRequest, ScimSubjectAttribute};
use gpuaas_proto::json::Enumeration as _;

use super::organisations;
use crate::failure::Failure;
use crate::session::{Session, done};
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
    let all = organisations::all(session).await?;
    let found = all
        .iter()
        .find(|one| one.slug == organisation || one.id == organisation);
    let found = found.ok_or_else(|| {
        let names = all.iter().map(|one| one.slug.as_str());
        let message = format!("no organisation is named {organisation:?}");
        Failure::NotFound(suggest::with_nearest(message, &organisation, names))
    })?;
    let attribute = ScimSubjectAttribute::of_word(&subject.replace('-', "_"));
    let request = PutScimSettingsRequest {
        organisation_id: found.id.clone(),
        issuer: issuer.clone(),
        subject_attribute: attribute.unwrap_or_default().into(),
        ..PutScimSettingsRequest::default()
    };
    let answer = session.api.apply(&request, &session.key).await?;
    let sentence = format!("People whom the SCIM of {organisation} sends sign in with {issuer}.");
    done(session, &answer.json, &sentence);
    Ok(())
}
