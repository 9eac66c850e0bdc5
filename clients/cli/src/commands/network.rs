//! `network`: what the VMs of a project reach of each other.
use clap::ValueEnum;
use reqwest::Method;
use serde_json::{Value, json};

use super::{Session, given};
use crate::failure::Failure;
use crate::output::{self, print_json};
use crate::project;

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Change whether VMs of the project that are on one host reach each other; without it the setting is shown.
    #[arg(long, value_name = "RULE")]
    between_vms: Option<Rule>,
    /// The project [default: your only one].
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Rule {
    Allow,
    Deny,
}

/// Shows or changes the setting.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: Flags) -> Result<(), Failure> {
    let path = ["project-network"];
    let project = project::given(&session.api, flags.project).await?;
    let answer = match flags.between_vms {
        None => {
            let query = given([("project_id", project)]);
            session.api.get(&path, &query).await?
        }
        Some(rule) => {
            let body = json!({
                "project_id": project.unwrap_or_default(),
                "vms_reach_each_other": matches!(rule, Rule::Allow),
            });
            let change = session.api.change(Method::PUT, &path, &body, &session.key);
            change.await?
        }
    };
    if session.json() {
        print_json(&answer);
    } else {
        output::answer(format_args!(
            "{}",
            sentence(&answer, flags.between_vms.is_some())
        ));
    }
    Ok(())
}

fn sentence(answer: &Value, changed: bool) -> String {
    let reach = answer["vms_reach_each_other"].as_bool() == Some(true);
    let not = if reach { "" } else { "do not " };
    let when = if changed {
        " VMs that run follow within about a minute."
    } else {
        ""
    };
    format!("VMs of the project on one host {not}reach each other.{when}")
}
