//! `usage`: intervals and exact money.
use std::collections::HashMap;

use gpuaas_proto::gpuaas::allocation::v1::GetAllocationRequest;
use gpuaas_proto::gpuaas::billing::v1::{ListUsageRequest, ListUsageResponse, UsageTotal};
use serde_json::json;

use super::select::{Selected, SelectedOf};
use crate::allocation::{self, Among};
use crate::api::Answer;
use crate::failure::Failure;
use crate::output::{amount, amounts, print_json, print_table, span, time};
use crate::project::{self, Which};
use crate::session::Session;

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Only this allocation.
    #[arg(long, value_name = "ID")]
    allocation: Option<String>,
    #[command(flatten)]
    project: Which,
    #[command(flatten)]
    selected: SelectedOf<ListUsageRequest>,
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
    let mut request = match allocation {
        Some(reference) => of_allocation(session, &reference, project.project).await?,
        None => ListUsageRequest {
            project_id: project.id(&session.api).await?.unwrap_or_default(),
            ..ListUsageRequest::default()
        },
    };
    request.filter = selected.filter();
    request.order_by = selected.order_by();
    let found = session.api.call_all_pages(&request, "intervals").await?;
    let names = if session.json() || found.message.intervals.is_empty() {
        HashMap::new()
    } else {
        names(session, &request.project_id).await
    };
    print(session, found, &names, &selected);
    Ok(())
}

/// Prints what was found; `names` are those of allocations by their ids.
pub fn print(
    session: &Session,
    mut found: Answer<ListUsageResponse>,
    names: &HashMap<String, String>,
    selected: &Selected,
) {
    if session.json() {
        if found.json.get("totals").is_none() {
            found.json["totals"] = json!([]);
        }
        print_json(&found.json);
        return;
    }
    let intervals = found.message.intervals;
    if intervals.is_empty() && selected.narrows() {
        say!("No usage matches the filter.");
        return;
    }
    if intervals.is_empty() {
        say!("No usage yet. Billing starts when an allocation becomes active.");
        return;
    }
    let is_credited = intervals.iter().any(|one| one.credited_microseconds > 0);
    let prices = amounts(intervals.iter().map(|i| i.price_per_gpu_hour.as_ref()));
    let costs = amounts(intervals.iter().map(|i| i.amount.as_ref()));
    let money = prices.into_iter().zip(costs);
    let rows = intervals.into_iter().zip(money).map(|(i, (price, cost))| {
        let name = names.get(&i.allocation_id).cloned();
        let credited = match i.credited_microseconds {
            0 => String::new(),
            some => span(some),
        };
        let until = match i.end_time {
            Some(_) => time(i.end_time),
            None => "running".to_owned(),
        };
        [
            name.unwrap_or(i.allocation_id),
            i.sku,
            i.gpu_count.to_string(),
            span(i.microseconds),
            credited,
            price,
            cost,
            time(i.start_time),
            until,
        ]
    });
    let header = [
        "ALLOCATION",
        "SKU",
        "GPUS",
        "TIME",
        "CREDITED",
        "PER GPU-HOUR",
        "AMOUNT",
        "FROM",
        "TO",
    ];
    if is_credited {
        print_table(header, rows.collect());
    } else {
        print_table(uncredited(header), rows.map(uncredited).collect());
    }
    for total in &found.message.totals {
        say!(
            "Total: {} for {} of GPU time{}",
            amount(total.amount.as_ref()),
            span(total.gpu_microseconds),
            credit(total)
        );
    }
}

/// A row without the time that is credited.
fn uncredited<T>([name, sku, gpus, time, _, price, cost, from, to]: [T; 9]) -> [T; 8] {
    [name, sku, gpus, time, price, cost, from, to]
}

/// What of GPU time is credited, as the end of a sentence about that time; empty: nothing.
pub fn credit(total: &UsageTotal) -> String {
    match total.credited_gpu_microseconds {
        0 => String::new(),
        some => format!(", {} of it credited", span(some)),
    }
}

/// The names of the allocations of a project by their ids; what cannot be read is shown by its id.
async fn names(session: &Session, project: &str) -> HashMap<String, String> {
    let project = Some(project).filter(|project| !project.is_empty());
    let found = allocation::all(&session.api, project).await;
    let all = found.unwrap_or_default().into_iter();
    all.map(|one| (one.id.clone(), allocation::label_of(&one)))
        .collect()
}

/// The request for one allocation. Usage belongs to a project: without the flag that of the allocation.
async fn of_allocation(
    session: &Session,
    reference: &str,
    flag: Option<String>,
) -> Result<ListUsageRequest, Failure> {
    let given = project::given(&session.api, flag).await?;
    let among = given.as_deref().or(session.api.project());
    let id = allocation::resolve(&session.api, Among::Project(among), reference).await?;
    let project_id = match given {
        Some(project) => project,
        None => {
            let request = GetAllocationRequest {
                allocation_id: id.clone(),
            };
            let answer = session.api.call(&request).await?;
            answer.message.config.unwrap_or_default().project_id
        }
    };
    Ok(ListUsageRequest {
        allocation_id: id,
        project_id,
        ..ListUsageRequest::default()
    })
}
