//! The audit trail, and the audit of the ledger.
use gpuaas_proto::gpuaas::scheduler::v1::{AuditLedgerRequest, LedgerInvariant};

use super::{Session, trail};
use crate::failure::Failure;
use crate::output::{print_json, print_table};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Check every invariant of the ledger on one snapshot. Exits with 1 if one is violated.
    Ledger,
    /// List audit records, newest first.
    List(trail::ListFlags),
    /// Write audit records that are in the hash chain as JSON lines, in the order of each chain.
    Export(trail::ExportFlags),
    /// Recompute the hash chains of the audit records, and print the latest digest of each chain (a checkpoint). Exits with 1
    /// if a record was changed, removed or moved, and names the record.
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
    let answer = session.api.call(&AuditLedgerRequest {}).await?;
    let invariants = &answer.message.invariants;
    if session.json() {
        print_json(&answer.json);
    } else {
        let rows = invariants.iter().map(row).collect();
        print_table(["INVARIANT", "VIOLATIONS", "ROWS"], rows);
    }
    let broken = invariants.iter().filter(|invariant| invariant.broken != 0);
    let broken: Vec<&str> = broken.map(|invariant| invariant.rule.as_str()).collect();
    // an answer without invariants is no proof
    if answer.message.sound && broken.is_empty() && !invariants.is_empty() {
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

fn row(invariant: &LedgerInvariant) -> [String; 3] {
    [
        invariant.name.clone(),
        invariant.broken.to_string(),
        invariant.subjects.join(" "),
    ]
}
