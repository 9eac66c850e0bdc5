//! `quota` and `admin quota`: how much a project may hold, and holds.
use gpuaas_proto::gpuaas::scheduler::v1::{GetQuotasRequest, ProjectQuotas};

use crate::api::Answer;
use crate::failure::Failure;
use crate::output::{print_json, print_table};
use crate::project;
use crate::session::Session;

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// The project [default: that of the context, else your only one].
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
}

/// Shows the quotas of a project of the caller.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: Flags) -> Result<(), Failure> {
    let project = project::chosen(&session.api, flags.project).await?;
    let request = GetQuotasRequest {
        project_id: project.unwrap_or_default(),
    };
    show(session, session.api.call(&request).await?);
    Ok(())
}

/// Prints a project's quotas.
pub fn show(session: &Session, answer: Answer<ProjectQuotas>) {
    if session.json() {
        print_json(&answer.json);
        return;
    }
    let found = answer.message;
    let row = |what: String, max: u32, used: u32| {
        let available = max.saturating_sub(used);
        [
            what,
            max.to_string(),
            used.to_string(),
            available.to_string(),
        ]
    };
    let mut rows = vec![row(
        "allocations".to_owned(),
        found.max_allocations,
        found.used_allocations,
    )];
    let gpus = found.quotas.into_iter();
    rows.extend(gpus.map(|one| row(format!("GPUs of {}", one.sku), one.max_gpus, one.used_gpus)));
    rows.push(row(
        "reserved GPUs".to_owned(),
        found.max_reserved_gpus,
        found.reserved_gpus,
    ));
    print_table(["RESOURCE", "LIMIT", "USED", "AVAILABLE"], rows);
    say!(
        "The limit of every other SKU is {} GPUs. Queued requests do not count.",
        found.default_max_gpus
    );
}
