//! `ssh-key`: public keys that the platform keeps by name, for launches.
use std::path::PathBuf;

use reqwest::Method;
use serde_json::{Value, json};

use super::Session;
use crate::failure::Failure;
use crate::keys;
use crate::output::{print_json, print_table, time};
use crate::{project, suggest};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List your keys, or those of a project.
    List {
        /// Keys that all members of this project can launch with.
        #[arg(long, value_name = "PROJECT")]
        project: Option<String>,
    },
    /// Store a public key under a name.
    #[command(visible_alias = "create")]
    Add {
        /// Name: letters, digits, dots, underscores and hyphens [default: the comment of the key].
        name: Option<String>,
        /// Public key file [default: ~/.ssh/id_ed25519.pub, then the others in ~/.ssh].
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Store it for all members of this project.
        #[arg(long, value_name = "PROJECT")]
        project: Option<String>,
    },
    /// Delete a stored key. Allocations that were launched with it keep it.
    Delete {
        /// Its name or id.
        key: String,
        /// The project of the key.
        #[arg(long, value_name = "PROJECT")]
        project: Option<String>,
    },
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { project } => {
            let project = project::given(&session.api, project).await?;
            list(session, project.as_deref()).await
        }
        Command::Add {
            name,
            file,
            project,
        } => {
            let found = keys::read(&file.into_iter().collect::<Vec<_>>(), "--file")?;
            let name = name.map_or_else(|| found[0].name(), Ok)?;
            let project = project::given(&session.api, project).await?;
            let path = path(project.as_deref());
            let body = json!({ "name": name, "public_key": found[0].own_line() });
            let answer = session
                .api
                .change(Method::POST, &path, &body, &session.key)
                .await?;
            super::done(
                session,
                &answer,
                &format!("Stored {name}. Launch with it: gpuaas launch … --ssh-key {name}"),
            );
            Ok(())
        }
        Command::Delete { key, project } => {
            let project = project::given(&session.api, project).await?;
            let found = kept(session, project.as_deref()).await?;
            let id = id_of(&found, &key)?;
            let mut path = path(project.as_deref());
            path.push(&id);
            let answer = session.api.delete(&path, &[], &session.key).await?;
            super::done(session, &answer, &format!("Deleted {key}."));
            Ok(())
        }
    }
}

fn path(project: Option<&str>) -> Vec<&str> {
    match project {
        Some(project) => vec!["projects", project, "ssh-keys"],
        None => vec!["ssh-keys"],
    }
}

/// The names of the caller's own keys.
///
/// # Errors
/// See [`Failure`].
pub async fn own_names(session: &Session) -> Result<Vec<String>, Failure> {
    let found = kept(session, None).await?;
    let names = found.iter().filter_map(|key| key["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

async fn kept(session: &Session, project: Option<&str>) -> Result<Vec<Value>, Failure> {
    session.api.list(&path(project), &[], "ssh_keys").await
}

fn id_of(keys: &[Value], given: &str) -> Result<String, Failure> {
    let text = |key: &Value, field: &str| key[field].as_str().unwrap_or_default().to_owned();
    let found = keys
        .iter()
        .find(|key| text(key, "name") == given || text(key, "id") == given);
    found.map(|key| text(key, "id")).ok_or_else(|| {
        let names = keys.iter().filter_map(|key| key["name"].as_str());
        let message = format!("no SSH key is named {given:?}; see: gpuaas ssh-key list");
        Failure::NotFound(suggest::with_nearest(message, given, names))
    })
}

async fn list(session: &Session, project: Option<&str>) -> Result<(), Failure> {
    let found = kept(session, project).await?;
    if session.json() {
        print_json(&json!({ "ssh_keys": found }));
        return Ok(());
    }
    if found.is_empty() {
        say!("No SSH keys yet. Keep yours: gpuaas ssh-key add");
        return Ok(());
    }
    let text = |key: &Value, field: &str| key[field].as_str().unwrap_or_default().to_owned();
    let rows = found.iter().map(|key| {
        [
            text(key, "name"),
            text(key, "fingerprint"),
            time(text(key, "create_time").parse::<jiff::Timestamp>().ok()),
            text(key, "id"),
        ]
    });
    print_table(["NAME", "FINGERPRINT", "ADDED", "ID"], rows.collect());
    Ok(())
}
