//! `ssh-key`: public keys that the platform keeps by name, for launches.
use std::path::PathBuf;

use gpuaas_proto::gpuaas::identity::v1::{
    CreateProjectSshKeyRequest, CreateSshKeyRequest, DeleteProjectSshKeyRequest,
    DeleteSshKeyRequest, ListProjectSshKeysRequest, ListSshKeysRequest, SshKey,
};
use serde_json::Value;

use super::select::{Selected, SelectedOf};
use crate::failure::Failure;
use crate::keys;
use crate::output::{print_json, print_table, time};
use crate::session::{Session, done};
use crate::{project, suggest};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List your keys, or those of a project.
    List {
        /// Keys of this project, for all of its members.
        #[arg(long, value_name = "PROJECT")]
        project: Option<String>,
        #[command(flatten)]
        selected: SelectedOf<ListSshKeysRequest>,
    },
    /// Store a public key under a name.
    #[command(visible_alias = "add")]
    Create {
        /// Name: letters, digits, dots, underscores and hyphens [default: the comment of the key].
        name: Option<String>,
        /// Public key file [default: ~/.ssh/id_ed25519.pub, then the others in ~/.ssh].
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Store the key for all members of this project.
        #[arg(long, value_name = "PROJECT")]
        project: Option<String>,
    },
    /// Delete a stored key. Existing allocations keep it.
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
        Command::List { project, selected } => {
            let project = project::given(&session.api, project).await?;
            list(session, project, &selected).await
        }
        Command::Create {
            name,
            file,
            project,
        } => {
            let found = keys::read(&file.into_iter().collect::<Vec<_>>(), "--file")?;
            let name = name.map_or_else(|| found[0].name(), Ok)?;
            let project = project::given(&session.api, project).await?;
            let (api, key) = (&session.api, &session.key);
            let sentence =
                format!("Stored {name}. Launch with it: gpuaas launch … --ssh-key {name}");
            let public_key = found[0].own_line().to_owned();
            let json = match project {
                Some(project_id) => {
                    let request = CreateProjectSshKeyRequest {
                        project_id,
                        name,
                        public_key,
                    };
                    api.apply(&request, key).await?.json
                }
                None => {
                    let request = CreateSshKeyRequest { name, public_key };
                    api.apply(&request, key).await?.json
                }
            };
            done(session, &json, &sentence);
            Ok(())
        }
        Command::Delete { key, project } => {
            let project = project::given(&session.api, project).await?;
            let (found, _) = kept(session, project.clone(), &Selected::default()).await?;
            let ssh_key_id = id_of(&found, &key)?;
            let json = match project {
                Some(project_id) => {
                    let request = DeleteProjectSshKeyRequest {
                        project_id,
                        ssh_key_id,
                    };
                    session.api.apply(&request, &session.key).await?.json
                }
                None => {
                    let request = DeleteSshKeyRequest { ssh_key_id };
                    session.api.apply(&request, &session.key).await?.json
                }
            };
            done(session, &json, &format!("Deleted {key}."));
            Ok(())
        }
    }
}

/// The names of the caller's own keys.
///
/// # Errors
/// See [`Failure`].
pub async fn own_names(session: &Session) -> Result<Vec<String>, Failure> {
    let (found, _) = kept(session, None, &Selected::default()).await?;
    Ok(found.into_iter().map(|key| key.name).collect())
}

/// The keys, also as they were sent.
async fn kept(
    session: &Session,
    project: Option<String>,
    selected: &Selected,
) -> Result<(Vec<SshKey>, Value), Failure> {
    let (filter, order_by) = (selected.filter(), selected.order_by());
    match project {
        Some(project_id) => {
            let request = ListProjectSshKeysRequest {
                project_id,
                filter,
                order_by,
                ..ListProjectSshKeysRequest::default()
            };
            let listed = session.api.call_all_pages(&request, "ssh_keys").await?;
            Ok((listed.message.ssh_keys, listed.json))
        }
        None => {
            let request = ListSshKeysRequest {
                filter,
                order_by,
                ..ListSshKeysRequest::default()
            };
            let listed = session.api.call_all_pages(&request, "ssh_keys").await?;
            Ok((listed.message.ssh_keys, listed.json))
        }
    }
}

fn id_of(keys: &[SshKey], given: &str) -> Result<String, Failure> {
    let found = keys.iter().find(|key| key.name == given || key.id == given);
    found.map(|key| key.id.clone()).ok_or_else(|| {
        let names = keys.iter().map(|key| key.name.as_str());
        let message = format!("no SSH key is named {given:?}; see: gpuaas ssh-key list");
        Failure::NotFound(suggest::with_nearest(message, given, names))
    })
}

async fn list(
    session: &Session,
    project: Option<String>,
    selected: &Selected,
) -> Result<(), Failure> {
    let (found, json) = kept(session, project, selected).await?;
    if session.json() {
        print_json(&json);
        return Ok(());
    }
    if found.is_empty() && selected.narrows() {
        say!("No SSH key matches the filter.");
        return Ok(());
    }
    if found.is_empty() {
        say!("No SSH keys yet. Keep yours: gpuaas ssh-key create");
        return Ok(());
    }
    let rows = found
        .into_iter()
        .map(|key| [key.name, key.fingerprint, time(key.create_time), key.id]);
    print_table(["NAME", "FINGERPRINT", "ADDED", "ID"], rows.collect());
    Ok(())
}
