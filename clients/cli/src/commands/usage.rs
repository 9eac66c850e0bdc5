//! `usage`: intervals and exact money.
use serde_json::{Value, json};

use super::{Session, given};
use crate::api::{parse, parse_all};
use crate::failure::Failure;
use crate::model::{Allocation, UsageInterval, UsageTotal};
use crate::output::{money, print_json, print_table, span, time};
use crate::resolve::{self, Among};

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(
    session: &Session,
    allocation: Option<String>,
    project: Option<String>,
) -> Result<(), Failure> {
    let query = match allocation {
        Some(reference) => of_allocation(session, &reference, project).await?,
        None => given([("project_id", project)]),
    };
    let (found, first) = session
        .api
        .list_page(&["usage"], &query, "intervals")
        .await?;
    let totals = first
        .get("totals")
        .cloned()
        .unwrap_or(Value::Array(Vec::new()));
    if session.json() {
        print_json(&json!({ "intervals": found, "totals": totals }));
        return Ok(());
    }
    let intervals: Vec<UsageInterval> = parse_all(&found)?;
    if intervals.is_empty() {
        say!("No usage yet. Billing starts when an allocation becomes active.");
        return Ok(());
    }
    let rows = intervals.into_iter().map(|i| {
        [
            i.allocation_id,
            i.sku,
            i.gpu_count.to_string(),
            time(i.start_time),
            if i.end_time.is_some() {
                time(i.end_time)
            } else {
                "running".to_owned()
            },
            span(i.microseconds),
            money(i.price_per_gpu_hour.as_ref()),
            money(i.amount.as_ref()),
        ]
    });
    print_table(
        [
            "ALLOCATION",
            "SKU",
            "GPUS",
            "FROM",
            "TO",
            "TIME",
            "PER GPU-HOUR",
            "AMOUNT",
        ],
        rows.collect(),
    );
    for total in parse::<Vec<UsageTotal>>(&totals)? {
        say!(
            "Total: {} for {} of GPU time",
            money(total.amount.as_ref()),
            span(total.gpu_microseconds)
        );
    }
    Ok(())
}

/// The query of one allocation. Usage belongs to a project: by default that of the allocation.
async fn of_allocation(
    session: &Session,
    reference: &str,
    project: Option<String>,
) -> Result<Vec<(&'static str, String)>, Failure> {
    let among = Among::Project(project.as_deref());
    let id = resolve::allocation(&session.api, among, reference).await?;
    let project = match project {
        Some(project) => project,
        None => {
            let answer = session.api.get(&["allocations", &id], &[]).await?;
            parse::<Allocation>(&answer)?.config.project_id
        }
    };
    Ok(vec![("allocation_id", id), ("project_id", project)])
}
