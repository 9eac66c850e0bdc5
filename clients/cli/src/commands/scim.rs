//! `organisation scim`: the groups that an identity provider keeps here, and the roles in projects that owners map them on.
use reqwest::Method;
use serde_json::{Value, json};

use super::Session;
use super::members::ROLES;
use super::organisations::find;
use crate::failure::Failure;
use crate::output::{print_json, print_table, time};
use crate::{project, suggest};

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
            let id = find(session, &organisation).await?;
            show(session, &id).await
        }
        Command::Groups { organisation } => {
            let id = find(session, &organisation).await?;
            print(session, &groups(session, &id).await?);
            Ok(())
        }
        Command::Map { mapping, role } => {
            let (path, group) = mapping.group(session).await?;
            let project = project::id(&session.api, &mapping.project).await?;
            let body = json!({ "target_project_id": project, "role": role });
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let answer = session
                .api
                .change(Method::POST, &path, &body, &session.key)
                .await?;
            let sentence = format!(
                "Members of {} are {role} of {}.",
                text(&group, "display_name"),
                mapping.project
            );
            super::done(session, &answer, &sentence);
            Ok(())
        }
        Command::Unmap(mapping) => {
            let (mut path, group) = mapping.group(session).await?;
            let mappings = group["mappings"].as_array().cloned().unwrap_or_default();
            let found = mappings.iter().find(|one| {
                [&one["project"], &one["project_id"]].contains(&&json!(mapping.project))
            });
            let found = found.ok_or_else(|| {
                let message = format!(
                    "{} is not mapped on {}",
                    text(&group, "display_name"),
                    mapping.project
                );
                Failure::NotFound(message)
            })?;
            path.push(text(found, "id"));
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let answer = session.api.delete(&path, &[], &session.key).await?;
            let sentence = format!(
                "Members of {} have no role in {} by it any more.",
                text(&group, "display_name"),
                mapping.project
            );
            super::done(session, &answer, &sentence);
            Ok(())
        }
    }
}

impl Mapping {
    /// The path of the group's mappings, and the group.
    async fn group(&self, session: &Session) -> Result<(Vec<String>, Value), Failure> {
        let organisation = find(session, &self.organisation).await?;
        let all = groups(session, &organisation).await?;
        let found = all
            .iter()
            .find(|one| one["display_name"] == self.group || one["id"] == self.group);
        let names = all.iter().filter_map(|one| one["display_name"].as_str());
        let group = found.cloned().ok_or_else(|| {
            let message = format!(
                "no group is named {:?}; see: gpuaas organisation scim groups {}",
                self.group, self.organisation
            );
            Failure::NotFound(suggest::with_nearest(message, &self.group, names))
        })?;
        let id = text(&group, "id");
        let path = [
            "organisations",
            &organisation,
            "scim",
            "groups",
            &id,
            "mappings",
        ];
        Ok((path.map(str::to_owned).to_vec(), group))
    }
}

async fn groups(session: &Session, organisation: &str) -> Result<Vec<Value>, Failure> {
    let path = ["organisations", organisation, "scim", "groups"];
    session.api.list(&path, &[], "groups").await
}

async fn show(session: &Session, organisation: &str) -> Result<(), Failure> {
    let path = ["organisations", organisation, "scim"];
    let settings = session.api.get(&path, &[]).await?;
    if session.json() {
        print_json(&settings);
        return Ok(());
    }
    if text(&settings, "issuer").is_empty() {
        say!(
            "SCIM is not set up: an administrator of the platform says first which issuer the people come from."
        );
        return Ok(());
    }
    print_table(
        ["ISSUER", "SUBJECT", "USERS", "GROUPS"],
        vec![[
            text(&settings, "issuer"),
            text(&settings, "subject_attribute"),
            text(&settings, "user_count"),
            text(&settings, "group_count"),
        ]],
    );
    Ok(())
}

fn print(session: &Session, groups: &[Value]) {
    if session.json() {
        print_json(&json!({ "groups": groups }));
        return;
    }
    if groups.is_empty() {
        say!("The identity provider has sent no group.");
        return;
    }
    let rows = groups.iter().map(|one| {
        let mappings = one["mappings"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let roles: Vec<String> = mappings
            .iter()
            .map(|mapping| format!("{} of {}", text(mapping, "role"), text(mapping, "project")))
            .collect();
        [
            text(one, "display_name"),
            text(one, "member_count"),
            roles.join(", "),
            time(text(one, "update_time").parse::<jiff::Timestamp>().ok()),
            text(one, "id"),
        ]
    });
    print_table(
        ["GROUP", "MEMBERS", "GIVES", "CHANGED", "ID"],
        rows.collect(),
    );
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}
