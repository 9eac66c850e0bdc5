//! The audit trail, and the audit of the ledger.
use serde_json::Value;

use super::{Session, trail};
use crate::failure::Failure;
use crate::output::{print_json, print_table};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Check every invariant of the ledger on one snapshot. Exits with 1 if one is violated.
    Ledger,
    /// List audit records, newest first.
    List(trail::ListFlags),
    /// Write sealed audit records as JSON lines, each chain in its order.
    Export(trail::ExportFlags),
    /// Recompute the hash chains of the audit records, and print their heads. Exits with 1 if a record was changed, removed or
    /// moved, and names it.
    Verify(trail::VerifyFlags),
}

pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Ledger => ledger(session).await,
        Command::List(flags) => trail::list(session, flags).await,
        Command::Export(flags) => trail::export(session, flags).await,
        Command::Verify(flags) => trail::verify(session, flags).await,
    }
}

async fn ledger(session: &Session) -> Result<(), Failure> {
    let answer = session.api.get(&["admin", "ledger:audit"], &[]).await?;
    let invariants = answer["invariants"].as_array().cloned().unwrap_or_default();
    if session.json() {
        print_json(&answer);
    } else {
        let rows = invariants.iter().map(row).collect();
        print_table(["INVARIANT", "VIOLATIONS", "ROWS"], rows);
    }
    let broken: Vec<&str> = invariants
        .iter()
        .filter(|invariant| count(invariant) != "0")
        .filter_map(|invariant| invariant["rule"].as_str())
        .collect();
    // an answer without invariants is no proof
    if answer["sound"].as_bool() == Some(true) && broken.is_empty() && !invariants.is_empty() {
        if !session.json() {
            say!("All invariants hold.");
        }
        return Ok(());
    }
    Err(Failure::Local(format!(
        "the ledger violates its invariants. Disable the regions and check the rows named above. Violated: {}",
        broken.join("; ")
    )))
}

fn row(invariant: &Value) -> [String; 3] {
    let subjects = invariant["subjects"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let named: Vec<&str> = subjects.iter().filter_map(Value::as_str).collect();
    [
        invariant["name"].as_str().unwrap_or_default().to_owned(),
        count(invariant),
        named.join(" "),
    ]
}

/// Numbers of 64 bits travel as text.
fn count(invariant: &Value) -> String {
    match &invariant["broken"] {
        Value::String(text) => text.clone(),
        number => number.as_u64().unwrap_or_default().to_string(),
    }
}
