//! `quota` and `admin quota`: how much a project may hold, and holds.
use serde::Deserialize;

use super::{Session, given};
use crate::api::parse;
use crate::failure::Failure;
use crate::output::{print_json, print_table};
use crate::project;

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// The project [default: your only one].
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
}

/// The quotas of a project and their use.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ProjectQuotas {
    max_allocations: u32,
    used_allocations: u32,
    quotas: Vec<ProjectQuota>,
    default_max_gpus: u32,
    max_reserved_gpus: u32,
    reserved_gpus: u32,
}

/// The GPU quota of a SKU and its use.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ProjectQuota {
    sku: String,
    max_gpus: u32,
    used_gpus: u32,
}

/// Shows the quotas of a project of the caller.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: Flags) -> Result<(), Failure> {
    let project = project::given(&session.api, flags.project).await?;
    show(session, &["quotas"], &given([("project_id", project)])).await
}

/// Prints what a path tells of a project's quotas.
///
/// # Errors
/// See [`Failure`].
pub async fn show(
    session: &Session,
    path: &[&str],
    query: &[(&str, String)],
) -> Result<(), Failure> {
    let answer = session.api.get(path, query).await?;
    if session.json() {
        print_json(&answer);
        return Ok(());
    }
    let found: ProjectQuotas = parse(&answer)?;
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
    Ok(())
}
