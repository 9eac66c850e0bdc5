//! `usage`: intervals and exact money.
use std::collections::HashMap;

use gpuaas_proto::google::r#type::Money;
use gpuaas_proto::gpuaas::allocation::v1::GetAllocationRequest;
use gpuaas_proto::gpuaas::billing::v1::{ListUsageRequest, ListUsageResponse, UsageTotal};
use serde_json::{Value, json};

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
    let mut request = ListUsageRequest {
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListUsageRequest::default()
    };
    let projects = match allocation {
        Some(reference) => {
            let (id, project) = of_allocation(session, &reference, project.project).await?;
            request.allocation_id = id;
            vec![project]
        }
        None => project.ids(&session.api).await?,
    };
    let (mut message, mut json) = (ListUsageResponse::default(), Value::Null);
    for project in &projects {
        request.project_id.clone_from(project);
        let listed = session.api.call_all_pages(&request, "intervals").await?;
        message.intervals.extend(listed.message.intervals);
        message.totals.extend(listed.message.totals);
        project::append(&mut json, listed.json, "intervals");
    }
    if projects.len() > 1 {
        message.totals = summed(message.totals);
        json["totals"] = message.totals.iter().map(json_of).collect();
    }
    let names = if session.json() || message.intervals.is_empty() {
        HashMap::new()
    } else {
        names(session, &projects).await
    };
    print(session, Answer { message, json }, &names, &selected);
    Ok(())
}

/// Prints what was found; `names` are those of allocations by their ids.
pub fn print(
    session: &Session,
    found: Answer<ListUsageResponse>,
    names: &HashMap<String, String>,
    selected: &Selected,
) {
    let Answer { message, mut json } = found;
    if session.json() {
        if json.get("totals").is_none() {
            json["totals"] = json!([]);
        }
        print_json(&json);
        return;
    }
    let ListUsageResponse {
        intervals, totals, ..
    } = message;
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
    for total in &totals {
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

/// The totals of several projects as those of all of them, one of each currency.
fn summed(totals: Vec<UsageTotal>) -> Vec<UsageTotal> {
    let currency = |total: &UsageTotal| total.amount.clone().unwrap_or_default().currency_code;
    let mut sums: Vec<UsageTotal> = Vec::new();
    for total in totals {
        let same = sums
            .iter()
            .position(|sum| currency(sum) == currency(&total));
        let Some(same) = same else {
            sums.push(total);
            continue;
        };
        let sum = &mut sums[same];
        sum.gpu_microseconds += total.gpu_microseconds;
        sum.credited_gpu_microseconds += total.credited_gpu_microseconds;
        sum.amount = match (sum.amount.take(), total.amount) {
            (Some(one), Some(other)) => Some(plus(&one, &other)),
            (one, other) => one.or(other),
        };
    }
    sums
}

/// The sum of two amounts of one currency.
fn plus(one: &Money, other: &Money) -> Money {
    const UNIT: i128 = 1_000_000_000;
    let nanos = |money: &Money| i128::from(money.units) * UNIT + i128::from(money.nanos);
    let sum = nanos(one) + nanos(other);
    Money {
        currency_code: one.currency_code.clone(),
        units: i64::try_from(sum / UNIT).unwrap_or(i64::MAX),
        nanos: i32::try_from(sum % UNIT).unwrap_or_default(),
    }
}

/// A total as the API answers it.
fn json_of(total: &UsageTotal) -> Value {
    let Money {
        currency_code,
        units,
        nanos,
    } = total.amount.clone().unwrap_or_default();
    json!({
        "gpu_microseconds": total.gpu_microseconds.to_string(),
        "amount": { "currency_code": currency_code, "units": units.to_string(), "nanos": nanos },
        "credited_gpu_microseconds": total.credited_gpu_microseconds.to_string(),
    })
}

/// The names of the allocations of projects by their ids; what cannot be read is shown by its id.
async fn names(session: &Session, projects: &[String]) -> HashMap<String, String> {
    let mut names = HashMap::new();
    for project in projects {
        let project = Some(project.as_str()).filter(|project| !project.is_empty());
        let found = allocation::all(&session.api, project).await;
        for one in found.unwrap_or_default() {
            names.insert(one.id.clone(), allocation::label_of(&one));
        }
    }
    names
}

/// An allocation and its project. Usage belongs to a project: without the flag that of the allocation.
async fn of_allocation(
    session: &Session,
    reference: &str,
    flag: Option<String>,
) -> Result<(String, String), Failure> {
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
    Ok((id, project_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_several_projects_are_one_of_each_currency() {
        let total = |currency_code: &str, units, nanos, gpu_microseconds| UsageTotal {
            gpu_microseconds,
            amount: Some(Money {
                currency_code: currency_code.to_owned(),
                units,
                nanos,
            }),
            ..UsageTotal::default()
        };
        let sums = summed(vec![
            total("EUR", 1, 600_000_000, 5),
            total("USD", 2, 0, 1),
            total("EUR", 0, 500_000_000, 7),
        ]);
        let shown = sums.iter();
        let shown: Vec<_> = shown
            .map(|sum| (amount(sum.amount.as_ref()), sum.gpu_microseconds))
            .collect();
        assert_eq!(
            shown,
            [("2.10 EUR".to_owned(), 12), ("2.00 USD".to_owned(), 1)]
        );
        assert_eq!(json_of(&sums[0])["amount"]["nanos"], 100_000_000);
    }
}
