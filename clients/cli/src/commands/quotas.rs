//! `quota` and `admin quota`: how much a project may hold, and holds.
use super::{Session, given};
use crate::api::parse;
use crate::failure::Failure;
use crate::model::ProjectQuotas;
use crate::output::{print_json, print_table};

/// Shows the quotas of a project of the caller.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, project: Option<String>) -> Result<(), Failure> {
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
    print_table(["RESOURCE", "LIMIT", "USED", "AVAILABLE"], rows);
    say!(
        "The limit of every other SKU is {} GPUs. Queued requests do not count.",
        found.default_max_gpus
    );
    Ok(())
}
