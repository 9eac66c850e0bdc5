//! `context`: the APIs that this user has signed in to.
use clap::Subcommand;
use serde_json::json;

use crate::failure::Failure;
use crate::formats::Format;
use crate::global::Global;
use crate::output::{print_json, print_table};
use crate::sign_in::contexts::{Context, ContextFile, Contexts};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the contexts.
    List,
    /// Use a context from now on.
    Use {
        /// Its name.
        name: String,
    },
    /// Delete a context with its tokens. To end the sign-in at the identity provider too, run gpuaas logout before.
    Delete {
        /// Its name.
        name: String,
    },
}

/// Runs one of them.
///
/// # Errors
/// See [`Failure`].
pub fn run(global: &Global, command: Command) -> Result<(), Failure> {
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
                ..
            } = one;
            json!({ "name": name, "api": api, "issuer": issuer, "principal": principal,
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
        let (api, issuer) = (one.api.to_string(), one.issuer.clone());
        [name.clone(), used.to_owned(), who, api, issuer]
    });
    print_table(
        ["NAME", "IN USE", "SIGNED IN AS", "API", "ISSUER"],
        rows.collect(),
    );
    if contexts.contexts.is_empty() {
        note!("You are not signed in anywhere: gpuaas login --api URL");
    }
}
