//! `node compare`, `node correct` and `node deactivate-partition`: ledger, host and hypervisor of a node side by side, and what
//! corrects a difference.
use gpuaas_proto::gpuaas::allocation::v1::{
    CompareNodeRequest, ComparisonCorrection, CorrectComparisonRequest, DeactivatePartitionRequest,
    NodeComparison, NodeComparisonRow as Row, NodeDifference,
};
use gpuaas_proto::gpuaas::common::v1::GuestMetricsState;

use crate::api::Answer;
use crate::commands::select::Selected;
use crate::failure::Failure;
use crate::node;
use crate::output::{print_json, print_table, time, word};
use crate::session::Session;

fn ledger(row: &Row) -> String {
    let claims = if row.has_claims { "" } else { ", no claims" };
    match row.ledger_state.as_str() {
        "" => none(),
        state => format!("{state}{claims}"),
    }
}

fn host(row: &Row) -> String {
    let slots = row.journal_slot_ids.len();
    let slots = (slots > 0).then(|| format!("{slots} slot(s)"));
    let parts = [
        (row.has_reservation, "address"),
        (row.has_port, "port"),
        (row.has_partition, "partition"),
        (row.has_seed, "seed"),
        (row.has_nvram, "NVRAM"),
    ];
    let there = parts.into_iter().filter(|(is_there, _)| *is_there);
    let there = there.map(|(_, name)| name.to_owned());
    let all: Vec<String> = slots.into_iter().chain(there).collect();
    if all.is_empty() {
        none()
    } else {
        all.join(", ")
    }
}

fn hypervisor(row: &Row) -> String {
    let mut text = match row.domain_state.as_str() {
        "" => return none(),
        state if row.missing_files.is_empty() => state.to_owned(),
        state => format!("{state}, without {}", row.missing_files.join(" and ")),
    };
    if let Some(guest) = guest(row.guest_state()) {
        text.push_str("; ");
        text.push_str(guest);
    }
    text
}

/// What is wrong with a guest that its host asks for its metrics (D-80).
fn guest(state: GuestMetricsState) -> Option<&'static str> {
    Some(match state {
        GuestMetricsState::NoGpuTool => "guest has no nvidia-smi",
        GuestMetricsState::GpuToolFailed => "nvidia-smi of the guest fails",
        GuestMetricsState::NoLogin => "guest is not reached, or refuses the login",
        GuestMetricsState::TooSlow => "guest did not answer in time",
        GuestMetricsState::Malformed => "answer of the guest is not understood",
        GuestMetricsState::Unspecified | GuestMetricsState::Complete | GuestMetricsState::Off => {
            return None;
        }
    })
}

fn none() -> String {
    "none".to_owned()
}

/// `node compare`.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, named: &str, selected: &Selected) -> Result<(), Failure> {
    let node = node::resolve(&session.api, named).await?;
    let request = CompareNodeRequest {
        node_id: node,
        filter: selected.filter(),
        order_by: selected.order_by(),
    };
    let answer = session.api.call(&request).await?;
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    let NodeComparison {
        rows, differences, ..
    } = answer.message;
    if rows.is_empty() && selected.narrows() {
        if differences.is_empty() {
            say!("Nothing of the comparison is as the filter says.");
        }
        print_differences(named, differences);
        return Ok(());
    }
    if rows.is_empty() {
        say!("Ledger, host and hypervisor have nothing of any allocation on this node.");
        print_differences(named, differences);
        return Ok(());
    }
    let rows = rows.into_iter().map(|row| {
        [
            row.allocation_id.clone(),
            ledger(&row),
            host(&row),
            hypervisor(&row),
            word(row.verdict()),
            word(row.correction()),
            row.detail,
        ]
    });
    let head = [
        "ALLOCATION",
        "LEDGER",
        "HOST",
        "HYPERVISOR",
        "VERDICT",
        "CORRECTION",
        "DETAIL",
    ];
    print_table(head, rows.collect());
    print_differences(named, differences);
    Ok(())
}

/// What of slots and partitions differs, each with what there is to do.
fn print_differences(node: &str, differences: Vec<NodeDifference>) {
    if differences.is_empty() {
        return;
    }
    let first = |correction| {
        differences
            .iter()
            .find(|one| one.correction() == correction)
    };
    let slot = first(ComparisonCorrection::RepairSlot).map(|one| one.slot_index);
    let partition =
        first(ComparisonCorrection::DeactivatePartition).map(|one| one.observed.clone());
    let rows = differences.into_iter().map(|one| {
        let slot = match one.slot_id.as_str() {
            "" => "-".to_owned(),
            _ => one.slot_index.to_string(),
        };
        [
            slot,
            word(one.subject()),
            match one.since {
                None => "just now".to_owned(),
                since => time(since),
            },
            word(one.verdict()),
            word(one.correction()),
            format!("{} {} ({})", one.message, one.remediation, one.detail),
        ]
    });
    say!("");
    print_table(
        ["SLOT", "OF", "SINCE", "VERDICT", "CORRECTION", "DETAIL"],
        rows.collect(),
    );
    if let Some(slot) = slot {
        say!("Repair a slot, for example: gpuaas admin slot repair {node} {slot} --reason WHY");
    }
    if let Some(id) = partition {
        say!(
            "Deactivate a partition, for example: gpuaas admin node deactivate-partition {node} {id} --reason WHY"
        );
    }
}

async fn comparison(session: &Session, node_id: String) -> Result<Answer<NodeComparison>, Failure> {
    let request = CompareNodeRequest {
        node_id,
        ..CompareNodeRequest::default()
    };
    session.api.call(&request).await
}

#[derive(Debug, clap::Args)]
pub struct CorrectFlags {
    /// Id, unique prefix of it, or hostname.
    node: String,
    /// Allocation of the row: its id, or a unique prefix or ending of it.
    allocation: String,
    /// Reason, for the audit trail.
    #[arg(long)]
    reason: String,
    /// Etag of the row that you read (`--output json` shows it): the correction is refused if the row has changed since.
    #[arg(long, default_value = "")]
    etag: String,
}

/// `node correct`: does what the row of an allocation offers.
///
/// # Errors
/// See [`Failure`].
pub async fn correct(session: &Session, flags: &CorrectFlags) -> Result<(), Failure> {
    let node = node::resolve(&session.api, &flags.node).await?;
    let rows = comparison(session, node.clone()).await?.message.rows;
    let given = flags.allocation.trim_start_matches('…').to_lowercase();
    let is_it =
        |row: &&Row| row.allocation_id.starts_with(&given) || row.allocation_id.ends_with(&given);
    let found: Vec<&Row> = rows.iter().filter(is_it).collect();
    let [row] = found[..] else {
        let (text, count) = (&flags.allocation, found.len());
        return Err(Failure::Local(format!(
            "{count} rows of the comparison are of an allocation {text:?}; see: gpuaas admin node compare {}",
            flags.node
        )));
    };
    if row.correction() == ComparisonCorrection::Unspecified {
        let detail = if row.detail.is_empty() {
            "ledger, host and hypervisor agree"
        } else {
            &row.detail
        };
        return Err(Failure::Local(format!(
            "there is nothing to correct: {detail}"
        )));
    }
    let etag = if flags.etag.is_empty() {
        &row.etag
    } else {
        &flags.etag
    };
    let request = CorrectComparisonRequest {
        node_id: node,
        allocation_id: row.allocation_id.clone(),
        correction: row.correction,
        etag: etag.clone(),
        reason: flags.reason.clone(),
    };
    let answer = session.api.apply(&request, &session.key).await?;
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    let now = answer.message;
    let detail = if now.detail.is_empty() {
        String::new()
    } else {
        format!(": {}", now.detail)
    };
    say!(
        "Correction \"{}\" of allocation {} is accepted. Verdict now: {}{detail}.",
        word(row.correction()),
        row.allocation_id,
        word(now.verdict())
    );
    Ok(())
}

#[derive(Debug, clap::Args)]
pub struct PartitionFlags {
    /// Id, unique prefix of it, or hostname.
    node: String,
    /// Fabric Manager's number of the partition.
    partition: u32,
    /// Reason, for the audit trail.
    #[arg(long)]
    reason: String,
}

/// `node deactivate-partition`: deactivates one without an owner.
///
/// # Errors
/// See [`Failure`].
pub async fn deactivate_partition(
    session: &Session,
    flags: &PartitionFlags,
) -> Result<(), Failure> {
    let request = DeactivatePartitionRequest {
        node_id: node::resolve(&session.api, &flags.node).await?,
        partition_id: flags.partition,
        reason: flags.reason.clone(),
    };
    let answer = session.api.apply(&request, &session.key).await?;
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    say!("Partition {} is deactivated.", flags.partition);
    Ok(())
}
