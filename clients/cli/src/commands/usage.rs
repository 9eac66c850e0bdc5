//! `usage`: intervals and exact money.
use std::collections::HashMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::select::Selected;
use super::{Session, given};
use crate::allocation::{self, Allocation, Among};
use crate::api::{number, parse, parse_all};
use crate::failure::Failure;
use crate::output::{Money, amount, amounts, print_json, print_table, span, time};
use crate::project;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct UsageInterval {
    pub allocation_id: String,
    pub sku: String,
    pub gpu_count: u32,
    pub start_time: Option<Timestamp>,
    pub end_time: Option<Timestamp>,
    #[serde(deserialize_with = "number")]
    pub microseconds: i64,
    pub price_per_gpu_hour: Option<Money>,
    pub amount: Option<Money>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct UsageTotal {
    #[serde(deserialize_with = "number")]
    pub gpu_microseconds: i64,
    pub amount: Option<Money>,
}

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Only this allocation.
    #[arg(long, value_name = "ID")]
    allocation: Option<String>,
    /// Only this project.
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    #[command(flatten)]
    selected: Selected,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: Flags) -> Result<(), Failure> {
    let Flags {
        allocation,
        project,
        selected,
    } = flags;
    let project = project::given(&session.api, project).await?;
    let mut query = match allocation {
        Some(reference) => of_allocation(session, &reference, project).await?,
        None => given([("project_id", project)]),
    };
    query.extend(selected.query());
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
    if intervals.is_empty() && selected.narrows() {
        say!("No usage matches the filter.");
        return Ok(());
    }
    if intervals.is_empty() {
        say!("No usage yet. Billing starts when an allocation becomes active.");
        return Ok(());
    }
    let names = names(session, query).await;
    let prices = amounts(intervals.iter().map(|i| i.price_per_gpu_hour.as_ref()));
    let costs = amounts(intervals.iter().map(|i| i.amount.as_ref()));
    let money = prices.into_iter().zip(costs);
    let rows = intervals.into_iter().zip(money).map(|(i, (price, cost))| {
        [
            names
                .get(&i.allocation_id)
                .cloned()
                .unwrap_or(i.allocation_id),
            i.sku,
            i.gpu_count.to_string(),
            span(i.microseconds),
            price,
            cost,
            time(i.start_time),
            if i.end_time.is_some() {
                time(i.end_time)
            } else {
                "running".to_owned()
            },
        ]
    });
    print_table(
        [
            "ALLOCATION",
            "SKU",
            "GPUS",
            "TIME",
            "PER GPU-HOUR",
            "AMOUNT",
            "FROM",
            "TO",
        ],
        rows.collect(),
    );
    for total in parse::<Vec<UsageTotal>>(&totals)? {
        say!(
            "Total: {} for {} of GPU time",
            amount(total.amount.as_ref()),
            span(total.gpu_microseconds)
        );
    }
    Ok(())
}

/// The names of the allocations of a project by their ids; what cannot be read is shown by its id.
async fn names(session: &Session, query: Vec<(&'static str, String)>) -> HashMap<String, String> {
    let mut query: Vec<_> = query
        .into_iter()
        .filter(|(key, _)| *key == "project_id")
        .collect();
    query.push(("include_ended", "true".to_owned()));
    let found = session
        .api
        .list(&["allocations"], &query, "allocations")
        .await;
    let all: Vec<Allocation> = found
        .and_then(|found| parse_all(&found))
        .unwrap_or_default();
    all.into_iter()
        .map(|one| (one.id, one.config.name))
        .collect()
}

/// The query of one allocation. Usage belongs to a project: by default that of the allocation.
async fn of_allocation(
    session: &Session,
    reference: &str,
    project: Option<String>,
) -> Result<Vec<(&'static str, String)>, Failure> {
    let among = Among::Project(project.as_deref());
    let id = allocation::resolve(&session.api, among, reference).await?;
    let project = match project {
        Some(project) => project,
        None => {
            let answer = session.api.get(&["allocations", &id], &[]).await?;
            parse::<Allocation>(&answer)?.config.project_id
        }
    };
    Ok(vec![("allocation_id", id), ("project_id", project)])
}
