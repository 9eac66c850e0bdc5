//! `organisation scim`: the groups that an identity provider keeps here, and the roles in projects that owners map them on.
use gpuaas_proto::gpuaas::identity::v1::{
    CreateScimGroupMappingRequest, DeleteScimGroupMappingRequest, GetScimSettingsRequest,
    ListScimGroupsRequest, ListScimGroupsResponse, ScimGroup,
};

use super::Session;
use super::members::{self, ROLES};
use super::select::Selected;
use crate::api::Answer;
use crate::failure::Failure;
use crate::output::{print_json, print_table, time, word};
use crate::{organisation, project, suggest};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Show for which issuer SCIM is set up, and how many users and groups there are.
    Show {
        /// Slug or id.
        organisation: String,
    },
    /// List the groups with the projects that each is mapped to.
    Groups {
        /// Slug or id.
        organisation: String,
        #[command(flatten)]
        selected: Selected,
    },
    /// Give the members of a group a role in a project, now and from now on.
    Map {
        #[command(flatten)]
        mapping: Mapping,
        /// Role.
        #[arg(long, value_parser = ROLES)]
        role: String,
    },
    /// Remove a mapping. Open terminals and streams of people who have no other role there end.
    Unmap(Mapping),
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
        Command::Groups {
            organisation,
            selected,
        } => {
            let id = organisation::id(&session.api, &organisation).await?;
            print(session, groups(session, &id, &selected).await?, &selected);
            Ok(())
        }
        Command::Map { mapping, role } => {
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
            super::done(session, &answer.json, &sentence);
            Ok(())
        }
        Command::Unmap(mapping) => {
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
            super::done(session, &answer.json, &sentence);
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
            "no group is named {:?}; see: gpuaas organisation scim groups {}",
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
