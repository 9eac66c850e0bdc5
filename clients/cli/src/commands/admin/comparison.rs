//! `node compare` and `node repair`: ledger, host and hypervisor of a node side by side, and what repairs a difference.
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Session;
use crate::api::parse;
use crate::failure::Failure;
use crate::node;
use crate::output::{print_json, print_table};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Row {
    allocation_id: String,
    ledger_state: String,
    has_claims: bool,
    held_slot_ids: Vec<String>,
    has_reservation: bool,
    domain_state: String,
    has_seed: bool,
    has_nvram: bool,
    has_port: bool,
    has_partition: bool,
    missing_files: Vec<String>,
    verdict: String,
    detail: String,
    repair: String,
    etag: String,
}

impl Row {
    fn ledger(&self) -> String {
        let claims = if self.has_claims { "" } else { ", no claims" };
        match self.ledger_state.as_str() {
            "" => none(),
            state => format!("{state}{claims}"),
        }
    }

    fn host(&self) -> String {
        let slots = self.held_slot_ids.len();
        let slots = (slots > 0).then(|| format!("{slots} slot(s)"));
        let parts = [
            (self.has_reservation, "address"),
            (self.has_port, "port"),
            (self.has_partition, "partition"),
            (self.has_seed, "seed"),
            (self.has_nvram, "NVRAM"),
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

    /// What a repair of the row does; empty: nothing is to be done.
    fn repair(&self) -> &str {
        match self.repair.as_str() {
            "unspecified" => "",
            repair => repair,
        }
    }

    fn hypervisor(&self) -> String {
        match self.domain_state.as_str() {
            "" => none(),
            state if self.missing_files.is_empty() => state.to_owned(),
            state => format!("{state}, without {}", self.missing_files.join(" and ")),
        }
    }
}

fn none() -> String {
    "none".to_owned()
}

/// `node compare`.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, node: &str) -> Result<(), Failure> {
    let node = node::resolve(&session.api, node).await?;
    let path = ["admin", "nodes", &node, "comparison"];
    let answer = session.api.get(&path, &[]).await?;
    if session.json() {
        print_json(&answer);
        return Ok(());
    }
    let empty = Value::Array(Vec::new());
    let rows: Vec<Row> = parse(answer.get("rows").unwrap_or(&empty))?;
    if rows.is_empty() {
        say!("Ledger, host and hypervisor have nothing of any allocation on this node.");
        return Ok(());
    }
    let rows = rows.into_iter().map(|row| {
        let (ledger, host, hypervisor) = (row.ledger(), row.host(), row.hypervisor());
        let repair = row.repair().to_owned();
        [
            row.allocation_id,
            ledger,
            host,
            hypervisor,
            row.verdict,
            repair,
            row.detail,
        ]
    });
    let head = [
        "ALLOCATION",
        "LEDGER",
        "HOST",
        "HYPERVISOR",
        "VERDICT",
        "REPAIR",
        "DETAIL",
    ];
    print_table(head, rows.collect());
    Ok(())
}

#[derive(Debug, clap::Args)]
pub struct RepairFlags {
    /// Id, unique prefix of it, or hostname.
    node: String,
    /// Allocation of the row: its id, or a unique prefix or ending of it.
    allocation: String,
    /// Reason, for the audit trail.
    #[arg(long)]
    reason: String,
    /// Etag of the row that you have read (`--output json` shows it): the repair is refused when the row is another one by now.
    #[arg(long, default_value = "")]
    etag: String,
}

/// `node repair`: does what the row of an allocation offers.
///
/// # Errors
/// See [`Failure`].
pub async fn repair(session: &Session, flags: &RepairFlags) -> Result<(), Failure> {
    let node = node::resolve(&session.api, &flags.node).await?;
    let path = ["admin", "nodes", &node, "comparison"];
    let answer = session.api.get(&path, &[]).await?;
    let empty = Value::Array(Vec::new());
    let rows: Vec<Row> = parse(answer.get("rows").unwrap_or(&empty))?;
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
    if row.repair().is_empty() {
        let detail = if row.detail.is_empty() {
            "ledger, host and hypervisor agree"
        } else {
            &row.detail
        };
        return Err(Failure::Local(format!(
            "there is nothing to repair: {detail}"
        )));
    }
    let etag = if flags.etag.is_empty() {
        &row.etag
    } else {
        &flags.etag
    };
    let verb = format!("{}:repair", row.allocation_id);
    let body = json!({ "repair": row.repair(), "etag": etag, "reason": flags.reason });
    let path = ["admin", "nodes", &node, "comparison", &verb];
    let answer = session
        .api
        .change(Method::POST, &path, &body, &session.key)
        .await?;
    if session.json() {
        print_json(&answer);
        return Ok(());
    }
    let now: Row = parse(&answer)?;
    let detail = if now.detail.is_empty() {
        String::new()
    } else {
        format!(": {}", now.detail)
    };
    say!(
        "Repair \"{}\" of allocation {} is accepted. Verdict now: {}{detail}.",
        row.repair(),
        row.allocation_id,
        now.verdict
    );
    Ok(())
}
