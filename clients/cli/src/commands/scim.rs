//! `organisation scim`: the groups that an identity provider keeps here, the roles in projects that owners map them on, and the
//! keys that it calls with.
use gpuaas_proto::gpuaas::identity::v1::{
    CreateScimGroupMappingRequest, DeleteScimGroupMappingRequest, DisableApiKeyRequest,
    GetScimSettingsRequest, ListScimGroupsRequest, ListScimGroupsResponse, ListScimKeysRequest,
    ListScimKeysResponse, ScimGroup, ScimKey,
};

use super::api_keys;
use super::members::{self, ROLES};
use super::select::{Selected, SelectedOf};
use crate::api::Answer;
use crate::failure::Failure;
use crate::output::{print_json, print_table, time, word};
use crate::session::{Session, done};
use crate::{organisation, project, suggest};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Show the issuer of SCIM, and the number of users and groups.
    Show {
        /// Slug or id.
        organisation: String,
    },
    /// Groups of the identity provider, and their roles in projects.
    #[command(subcommand)]
    Group(GroupCommand),
    /// API keys with the scope scim.
    #[command(subcommand)]
    Key(KeyCommand),
}

#[derive(Debug, clap::Subcommand)]
pub enum GroupCommand {
    /// List the groups and their roles in projects.
    List {
        /// Slug or id.
        organisation: String,
        #[command(flatten)]
        selected: SelectedOf<ListScimGroupsRequest>,
    },
    /// Map a group to a role in a project, for its present and future members.
    Map {
        #[command(flatten)]
        mapping: Mapping,
        /// Role.
        #[arg(long, value_parser = ROLES)]
        role: String,
    },
    /// Remove a mapping. Open terminals and streams of people without another role in the project end.
    Unmap(Mapping),
}

#[derive(Debug, clap::Subcommand)]
pub enum KeyCommand {
    /// List the API keys with the scope scim, of all projects of the organisation.
    List {
        /// Slug or id.
        organisation: String,
        #[command(flatten)]
        selected: SelectedOf<ListScimKeysRequest>,
    },
    /// Disable a key permanently. The identity provider then needs a new key.
    Disable {
        /// Slug or id of the organisation.
        organisation: String,
        /// Id or prefix of the key, as listed.
        key: String,
    },
}

/// A group and a project.
#[derive(Debug, clap::Args)]
pub struct Mapping {
    /// Slug or id of the organisation.
    organisation: String,
    /// Name or id of the group.
    group: String,
    /// Project, by name or id.
    #[arg(long, value_name = "PROJECT")]
    project: String,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Show { organisation } => {
            let id = organisation::id(&session.api, &organisation).await?;
            show(session, id).await
        }
        Command::Group(command) => group(session, command).await,
        Command::Key(command) => key(session, command).await,
    }
}

async fn group(session: &Session, command: GroupCommand) -> Result<(), Failure> {
    match command {
        GroupCommand::List {
            organisation,
            selected,
        } => {
            let id = organisation::id(&session.api, &organisation).await?;
            print(session, groups(session, &id, &selected).await?, &selected);
            Ok(())
        }
        GroupCommand::Map { mapping, role } => {
            let (organisation_id, group) = mapping.group(session).await?;
            let request = CreateScimGroupMappingRequest {
                organisation_id,
                group_id: group.id,
                target_project_id: project::id(&session.api, &mapping.project).await?,
                role: members::role(&role),
            };
            let answer = session.api.apply(&request, &session.key).await?;
            let sentence = format!(
                "Members of {} are {role} of {}.",
                group.display_name, mapping.project
            );
            done(session, &answer.json, &sentence);
            Ok(())
        }
        GroupCommand::Unmap(mapping) => {
            let (organisation_id, group) = mapping.group(session).await?;
            let (name, project) = (&group.display_name, &mapping.project);
            let mut mappings = group.mappings.into_iter();
            let found = mappings.find(|one| [&one.project, &one.project_id].contains(&project));
            let found = found
                .ok_or_else(|| Failure::NotFound(format!("{name} is not mapped on {project}")))?;
            let request = DeleteScimGroupMappingRequest {
                organisation_id,
                group_id: group.id,
                mapping_id: found.id,
            };
            let answer = session.api.apply(&request, &session.key).await?;
            let sentence = format!("Members of {name} have no role in {project} by it any more.");
            done(session, &answer.json, &sentence);
            Ok(())
        }
    }
}

async fn key(session: &Session, command: KeyCommand) -> Result<(), Failure> {
    match command {
        KeyCommand::List {
            organisation,
            selected,
        } => {
            let id = organisation::id(&session.api, &organisation).await?;
            let listed = keys(session, id, &selected).await?;
            print_keys(session, listed, &selected);
            Ok(())
        }
        KeyCommand::Disable { organisation, key } => {
            let id = organisation::id(&session.api, &organisation).await?;
            let all = keys(session, id, &Selected::default()).await?.message.keys;
            let is_meant = |one: &ScimKey| {
                let own = one.api_key.as_ref();
                own.is_some_and(|own| own.id == key || own.prefix == key)
            };
            let found = all.into_iter().find(is_meant).ok_or_else(|| {
                Failure::NotFound(format!(
                    "no key is {key:?}; see: gpuaas organisation scim key list {organisation}"
                ))
            })?;
            let own = found.api_key.unwrap_or_default();
            let request = DisableApiKeyRequest {
                project_id: found.project_id,
                service_account_id: own.service_account_id,
                api_key_id: own.id,
            };
            let answer = session.api.apply(&request, &session.key).await?;
            done(
                session,
                &answer.json,
                &format!("{} is disabled.", own.prefix),
            );
            Ok(())
        }
    }
}

impl Mapping {
    /// The id of the organisation, and the group.
    async fn group(&self, session: &Session) -> Result<(String, ScimGroup), Failure> {
        let organisation = organisation::id(&session.api, &self.organisation).await?;
        let everything = Selected::default();
        let all = groups(session, &organisation, &everything).await?;
        let all = all.message.groups;
        let names = all.iter().map(|one| one.display_name.as_str());
        let message = format!(
            "no group is named {:?}; see: gpuaas organisation scim group list {}",
            self.group, self.organisation
        );
        let missing = suggest::with_nearest(message, &self.group, names);
        let mut all = all.into_iter();
        let group = all.find(|one| one.display_name == self.group || one.id == self.group);
        Ok((organisation, group.ok_or(Failure::NotFound(missing))?))
    }
}

async fn groups(
    session: &Session,
    organisation: &str,
    selected: &Selected,
) -> Result<Answer<ListScimGroupsResponse>, Failure> {
    let request = ListScimGroupsRequest {
        organisation_id: organisation.to_owned(),
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListScimGroupsRequest::default()
    };
    session.api.call_all_pages(&request, "groups").await
}

async fn keys(
    session: &Session,
    organisation_id: String,
    selected: &Selected,
) -> Result<Answer<ListScimKeysResponse>, Failure> {
    let request = ListScimKeysRequest {
        organisation_id,
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListScimKeysRequest::default()
    };
    session.api.call_all_pages(&request, "keys").await
}

fn print_keys(session: &Session, listed: Answer<ListScimKeysResponse>, selected: &Selected) {
    if session.json() {
        print_json(&listed.json);
        return;
    }
    let keys = listed.message.keys;
    if keys.is_empty() {
        say!(
            "{}",
            match selected.narrows() {
                true => "No key matches the filter.",
                false => "No key has the scope scim.",
            }
        );
        return;
    }
    let or_never = |at: Option<prost_types::Timestamp>| match at {
        None => "never".to_owned(),
        at => time(at),
    };
    let rows = keys.into_iter().map(|one| {
        let own = one.api_key.unwrap_or_default();
        let state = match one.account_disabled {
            true => "account disabled",
            false => api_keys::state(&own),
        };
        [
            own.prefix,
            format!("{}/{}", one.project, one.service_account),
            state.to_owned(),
            or_never(own.last_used_time),
            or_never(own.expire_time),
            own.creator,
            time(own.create_time),
            own.id,
        ]
    });
    print_table(
        [
            "KEY",
            "SERVICE ACCOUNT",
            "STATE",
            "LAST USED",
            "EXPIRES",
            "CREATED BY",
            "CREATED",
            "ID",
        ],
        rows.collect(),
    );
}

async fn show(session: &Session, organisation_id: String) -> Result<(), Failure> {
    let request = GetScimSettingsRequest { organisation_id };
    let answer = session.api.call(&request).await?;
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    let settings = answer.message;
    if settings.issuer.is_empty() {
        say!(
            "SCIM is not set up: an administrator of the platform says first which issuer the people come from."
        );
        return Ok(());
    }
    let subject = word(settings.subject_attribute());
    print_table(
        ["ISSUER", "SUBJECT", "USERS", "GROUPS"],
        vec![[
            settings.issuer,
            subject,
            settings.user_count.to_string(),
            settings.group_count.to_string(),
        ]],
    );
    Ok(())
}

fn print(session: &Session, listed: Answer<ListScimGroupsResponse>, selected: &Selected) {
    if session.json() {
        print_json(&listed.json);
        return;
    }
    let groups = listed.message.groups;
    if groups.is_empty() && selected.narrows() {
        say!("No group matches the filter.");
        return;
    }
    if groups.is_empty() {
        say!("The identity provider has sent no group.");
        return;
    }
    let rows = groups.into_iter().map(|one| {
        let mappings = one.mappings.iter();
        let roles: Vec<String> = mappings
            .map(|mapping| format!("{} of {}", word(mapping.role()), mapping.project))
            .collect();
        [
            one.display_name,
            one.member_count.to_string(),
            roles.join(", "),
            time(one.update_time),
            one.id,
        ]
    });
    print_table(
        ["GROUP", "MEMBERS", "ROLES", "CHANGED", "ID"],
        rows.collect(),
    );
}
