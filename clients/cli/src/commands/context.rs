//! `context`: the APIs that this user has signed in to.
use clap::Subcommand;
use gpuaas_proto::call::ProjectListProjects;
use gpuaas_proto::gpuaas::identity::v1::ListProjectsRequest;
use serde_json::json;

use crate::api::Api;
use crate::failure::Failure;
use crate::formats::Format;
use crate::global::Global;
use crate::output::{print_json, print_table};
use crate::profile::Target;
use crate::sign_in::contexts::{Context, ContextFile, Contexts, DefaultProject};
use crate::sign_in::credential::{Credential, SignedIn};
use crate::suggest;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the contexts.
    List,
    /// Make a context the default.
    Use {
        /// Its name.
        name: String,
    },
    /// Set the default project of a context.
    Set {
        /// The context [default: the one in use].
        name: Option<String>,
        /// Project: its name or id.
        #[arg(long, value_name = "PROJECT", required_unless_present = "no_project")]
        project: Option<String>,
        /// Remove the default project.
        #[arg(long, conflicts_with = "project")]
        no_project: bool,
    },
    /// Delete a context with its tokens. To sign out at the identity provider too, run gpuaas logout first.
    Delete {
        /// Its name.
        name: String,
    },
}

/// Runs one of them.
///
/// # Errors
/// See [`Failure`].
pub async fn run(global: &Global, command: Command) -> Result<(), Failure> {
    let file = ContextFile::of_user()?;
    match command {
        Command::List => {
            list(&file.read()?, global.format());
            Ok(())
        }
        Command::Use { name } => {
            let locked = file.lock()?;
            let mut contexts = locked.read()?;
            contexts.find(&name)?;
            contexts.current = Some(name.clone());
            locked.write(&contexts)?;
            done(global, &name, "is used from now on")
        }
        Command::Set { name, project, .. } => {
            let known = file.read()?;
            let name = name
                .or_else(|| global.context.clone())
                .or_else(|| known.current.clone());
            let name = name.ok_or_else(|| {
                Failure::NotFound("no context is in use; sign in with gpuaas login".to_owned())
            })?;
            let chosen = match project {
                Some(given) => {
                    let context = (name.as_str(), known.find(&name)?);
                    Some(own(&file, context, &given).await?)
                }
                None => None,
            };
            let locked = file.lock()?;
            let mut contexts = locked.read()?;
            contexts.find(&name)?;
            let what = match &chosen {
                Some(chosen) => format!("is about the project {} from now on", chosen.name),
                None => "has no project any more".to_owned(),
            };
            if let Some(context) = contexts.contexts.get_mut(&name) {
                context.project = chosen;
            }
            locked.write(&contexts)?;
            done(global, &name, &what)
        }
        Command::Delete { name } => {
            let locked = file.lock()?;
            let mut contexts = locked.read()?;
            contexts.find(&name)?;
            contexts.contexts.remove(&name);
            contexts.current.take_if(|current| *current == name);
            locked.write(&contexts)?;
            done(global, &name, "is deleted")
        }
    }
}

/// A project of who is signed in there, by its name or id.
async fn own(
    file: &ContextFile,
    (name, context): (&str, &Context),
    given: &str,
) -> Result<DefaultProject, Failure> {
    let api = Api::new(Target {
        api: context.api.clone(),
        credential: Credential::Context(Box::new(SignedIn::new(
            file.clone(),
            name,
            context.clone(),
        ))),
        project: None,
        identity: None,
    })?;
    let request = ProjectListProjects(ListProjectsRequest::default());
    let listed = api.call_all_pages(&request, "projects").await?;
    let all = listed.message.projects;
    let found: Vec<_> = all
        .iter()
        .filter(|one| one.id == given || one.slug == given)
        .collect();
    match found.as_slice() {
        [one] => Ok(DefaultProject {
            id: one.id.clone(),
            name: one.slug.clone(),
        }),
        [] => {
            let slugs = all.iter().map(|one| one.slug.as_str());
            let message = format!("you belong to no project {given:?}; see: gpuaas project list");
            Err(Failure::NotFound(suggest::with_nearest(
                message, given, slugs,
            )))
        }
        _ => Err(Failure::Usage(format!(
            "several organisations have a project {given:?}; use its id"
        ))),
    }
}

fn done(global: &Global, name: &str, what: &str) -> Result<(), Failure> {
    match global.format() {
        Format::Table => say!("Context {name} {what}."),
        _ => print_json(&json!({ "context": name })),
    }
    Ok(())
}

fn list(contexts: &Contexts, format: Format) {
    let is_used = |name: &str| contexts.current.as_deref() == Some(name);
    if format.is_data() {
        let all = contexts.contexts.iter().map(|(name, one)| {
            let Context {
                api,
                issuer,
                principal,
                tokens,
                project,
                ..
            } = one;
            let (id, project) = project.as_ref().map(|one| (&one.id, &one.name)).unzip();
            json!({ "name": name, "api": api, "issuer": issuer, "principal": principal, "project": project, "project_id": id,
                    "signed_in": tokens.is_some(), "in_use": is_used(name) })
        });
        print_json(&json!({ "contexts": all.collect::<Vec<_>>() }));
        return;
    }
    let rows = contexts.contexts.iter().map(|(name, one)| {
        let used = if is_used(name) { "yes" } else { "" };
        let who = match one.tokens {
            Some(_) => one.principal.clone(),
            None => "signed out".to_owned(),
        };
        let project = one.project.as_ref().map(|one| one.name.clone());
        let (api, issuer) = (one.api.to_string(), one.issuer.clone());
        let project = project.unwrap_or_default();
        [name.clone(), used.to_owned(), who, project, api, issuer]
    });
    print_table(
        ["NAME", "IN USE", "SIGNED IN AS", "PROJECT", "API", "ISSUER"],
        rows.collect(),
    );
    if contexts.contexts.is_empty() {
        note!("You are not signed in anywhere: gpuaas login --api URL");
    }
}
