//! `network`: what the VMs of a project reach of each other.
use clap::ValueEnum;
use gpuaas_proto::gpuaas::allocation::v1::{GetProjectNetworkRequest, PutProjectNetworkRequest};

use super::Session;
use super::select::Read;
use crate::failure::Failure;
use crate::project;

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Allow or deny connections between VMs of the project on the same host [default: show the setting].
    #[arg(long, value_name = "RULE")]
    between_vms: Option<Rule>,
    /// The project [default: that of the context, else your only one].
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    #[command(flatten)]
    read: Read,
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
    let project = project::chosen(&session.api, flags.project).await?;
    let project_id = project.unwrap_or_default();
    let answer = match flags.between_vms {
        None => {
            let request = GetProjectNetworkRequest { project_id };
            session.api.call(&request).await?
        }
        Some(rule) => {
            let request = PutProjectNetworkRequest {
                project_id,
                vms_reach_each_other: matches!(rule, Rule::Allow),
                etag: flags.read.etag,
            };
            session.api.apply(&request, &session.key).await?
        }
    };
    let reach = answer.message.vms_reach_each_other;
    let sentence = sentence(reach, flags.between_vms.is_some());
    super::done(session, &answer.json, &sentence);
    Ok(())
}

fn sentence(reach: bool, changed: bool) -> String {
    let can = if reach { "can" } else { "cannot" };
    let when = if changed {
        " Running VMs change within a minute."
    } else {
        ""
    };
    format!("VMs of the project on the same host {can} connect to each other.{when}")
}
