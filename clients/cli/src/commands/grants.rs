//! `grant`: members of a project who have a grant for one allocation, whatever their role.
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::Session;
use super::launch::parse_deadline;
use super::members::Of;
use crate::allocation::{Among, resolve};
use crate::failure::Failure;
use crate::output::{print_json, print_table, time};

/// What a grant is for, as people write it.
const PERMISSIONS: [&str; 2] = ["terminal", "serial-log"];

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the grants of a project.
    List {
        /// Only those of this allocation.
        #[arg(long, value_name = "ALLOCATION")]
        allocation: Option<String>,
        #[command(flatten)]
        of: Of,
    },
    /// Grant a member of the project access to one allocation.
    #[command(visible_alias = "create")]
    Add {
        /// Id, unique prefix of it, or name.
        allocation: String,
        /// Principal, for example user:bob.
        principal: String,
        /// What it is for.
        #[arg(long, default_value = "terminal", value_parser = PERMISSIONS)]
        permission: String,
        /// End it after a duration or at a time: 8h, 3d, 2027-01-31T12:00:00Z [default: 7d].
        #[arg(long, value_name = "TIME", value_parser = parse_deadline)]
        until: Option<Timestamp>,
        #[command(flatten)]
        of: Of,
    },
    /// Revoke a grant. Terminals that were opened by it end.
    Delete {
        /// Id of the grant.
        grant: String,
        #[command(flatten)]
        of: Of,
    },
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    let api = &session.api;
    match command {
        Command::List { allocation, of } => {
            let project = of.id(session).await?;
            let mut query = Vec::new();
            if let Some(given) = allocation {
                let among = Among::Project(Some(&project));
                query.push(("allocation_id", resolve(api, among, &given).await?));
            }
            let path = ["projects", &project, "allocation-grants"];
            print(session, &api.list(&path, &query, "grants").await?);
        }
        Command::Add {
            allocation,
            principal,
            permission,
            until,
            of,
        } => {
            let project = of.id(session).await?;
            let id = resolve(api, Among::Project(Some(&project)), &allocation).await?;
            let mut body = json!({
                "allocation_id": id, "principal": principal, "permission": permission.replace('-', "_"),
            });
            if let Some(until) = until {
                body["expire_time"] = json!(until);
            }
            let path = ["projects", &project, "allocation-grants"];
            let answer = api.change(Method::POST, &path, &body, &session.key).await?;
            let end = time(text(&answer, "expire_time").parse::<jiff::Timestamp>().ok());
            let sentence =
                format!("{principal} has the {permission} of {allocation}, until {end}.");
            super::done(session, &answer, &sentence);
        }
        Command::Delete { grant, of } => {
            let project = of.id(session).await?;
            let path = ["projects", &project, "allocation-grants", &grant];
            let answer = api.delete(&path, &[], &session.key).await?;
            super::done(session, &answer, &format!("Deleted {grant}."));
        }
    }
    Ok(())
}

fn print(session: &Session, found: &[Value]) {
    if session.json() {
        print_json(&json!({ "grants": found }));
        return;
    }
    if found.is_empty() {
        say!("No grants. Grant access to one allocation: gpuaas grant add ALLOCATION PRINCIPAL");
        return;
    }
    let rows = found.iter().map(|one| {
        [
            text(one, "allocation_id"),
            text(one, "principal"),
            text(one, "permission").replace('_', "-"),
            time(text(one, "expire_time").parse::<jiff::Timestamp>().ok()),
            text(one, "creator"),
            text(one, "id"),
        ]
    });
    let head = ["ALLOCATION", "PRINCIPAL", "PERMISSION", "UNTIL", "BY", "ID"];
    print_table(head, rows.collect());
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}
