//! `node compare`: ledger, host and hypervisor of a node side by side.
use serde::Deserialize;
use serde_json::Value;

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
    verdict: String,
    detail: String,
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
        match (slots, self.has_reservation) {
            (0, false) => none(),
            (0, true) => "address".to_owned(),
            (_, false) => format!("{slots} slot(s)"),
            (_, true) => format!("{slots} slot(s), address"),
        }
    }

    fn hypervisor(&self) -> String {
        match self.domain_state.as_str() {
            "" => none(),
            state => state.to_owned(),
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
        [
            row.allocation_id,
            ledger,
            host,
            hypervisor,
            row.verdict,
            row.detail,
        ]
    });
    let head = [
        "ALLOCATION",
        "LEDGER",
        "HOST",
        "HYPERVISOR",
        "VERDICT",
        "DETAIL",
    ];
    print_table(head, rows.collect());
    Ok(())
}
