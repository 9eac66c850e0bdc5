//! Health of nodes: break-fix records, and findings of outside health agents.
use gpuaas_proto::gpuaas::scheduler::v1::{
    AddBreakFixActionRequest, CloseBreakFixRequest, FindingSeverity, ListBreakFixesRequest,
    ListNodeFindingsRequest, OpenBreakFixRequest, ReportNodeFindingRequest,
    ResolveNodeFindingRequest,
};
use gpuaas_proto::json::Enumeration as _;

use super::{Session, done};
use crate::commands::select::SelectedOf;
use crate::failure::Failure;
use crate::node;
use crate::output::{print_json, print_table, time, word};

#[derive(Debug, clap::Subcommand)]
pub enum BreakFixCommand {
    /// Open a break-fix record: the node is broken and takes no new allocations.
    Open {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// What broke.
        #[arg(long)]
        fault: String,
        /// The slot that broke: id, unique prefix of it, or index [default: the whole host].
        #[arg(long)]
        slot: Option<String>,
    },
    /// Add an action to a record.
    Note {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// Id of the record.
        record: String,
        /// What was done.
        #[arg(long)]
        action: String,
    },
    /// Close a record. Closing the last open record cordons the node.
    Close {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// Id of the record.
        record: String,
        /// Outcome.
        #[arg(long)]
        outcome: String,
    },
    /// List the records of a node.
    List {
        /// Id, unique prefix of it, or hostname.
        node: String,
        #[command(flatten)]
        selected: SelectedOf<ListBreakFixesRequest>,
    },
}

#[derive(Debug, clap::Subcommand)]
pub enum FindingCommand {
    /// Report a finding of a health agent. A critical finding disables its slot, or cordons the node.
    Report {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// Name of the health agent, for example dcgm.
        #[arg(long)]
        source: String,
        /// Fault code of the health agent.
        #[arg(long)]
        code: String,
        /// Severity.
        #[arg(long, value_parser = ["info", "warning", "critical"])]
        severity: String,
        /// The device.
        #[arg(long, default_value = "")]
        device: String,
        /// The slot: id, unique prefix of it, or index [default: the whole host].
        #[arg(long)]
        slot: Option<String>,
        /// Message for operators.
        #[arg(long, default_value = "")]
        message: String,
    },
    /// Resolve a finding. Its slot or node stays out of service until you enable or uncordon it.
    Resolve {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// Id of the finding.
        finding: String,
        /// Resolution.
        #[arg(long)]
        resolution: String,
    },
    /// List the findings of a node.
    List {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// Include resolved findings.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        selected: SelectedOf<ListNodeFindingsRequest>,
    },
}

/// `break-fix`.
///
/// # Errors
/// See [`Failure`].
pub async fn break_fix(session: &Session, command: BreakFixCommand) -> Result<(), Failure> {
    match command {
        BreakFixCommand::Open { node, fault, slot } => {
            let node = node::resolve(&session.api, &node).await?;
            let slot = slot_of(session, &node, slot).await?;
            let request = OpenBreakFixRequest {
                node_id: node,
                slot_id: slot,
                fault,
            };
            let answer = session.api.apply(&request, &session.key).await?;
            let id = &answer.message.id;
            let sentence = format!("Break-fix record {id} is open; the node is broken.");
            done(session, &answer.json, &sentence);
        }
        BreakFixCommand::Note {
            node,
            record,
            action,
        } => {
            let request = AddBreakFixActionRequest {
                node_id: node::resolve(&session.api, &node).await?,
                break_fix_id: record,
                action,
            };
            let answer = session.api.apply(&request, &session.key).await?;
            done(session, &answer.json, "The action is on record.");
        }
        BreakFixCommand::Close {
            node,
            record,
            outcome,
        } => {
            let request = CloseBreakFixRequest {
                node_id: node::resolve(&session.api, &node).await?,
                break_fix_id: record,
                outcome,
            };
            let answer = session.api.apply(&request, &session.key).await?;
            let next = "The record is closed. If it was the last open record, the node is now cordoned: check its readiness, then uncordon it.";
            done(session, &answer.json, next);
        }
        BreakFixCommand::List { node, selected } => {
            let request = ListBreakFixesRequest {
                node_id: node::resolve(&session.api, &node).await?,
                filter: selected.filter(),
                order_by: selected.order_by(),
                ..ListBreakFixesRequest::default()
            };
            let answer = session.api.call_all_pages(&request, "break_fixes").await?;
            if session.json() {
                print_json(&answer.json);
                return Ok(());
            }
            let records = answer.message.break_fixes;
            if records.is_empty() && selected.narrows() {
                say!("No record matches the filter.");
                return Ok(());
            }
            let rows = records.into_iter().map(|one| {
                let closed = match one.close_time {
                    None => "open".to_owned(),
                    at => time(at),
                };
                let done = one.actions.len().to_string();
                [
                    one.id,
                    time(one.open_time),
                    closed,
                    done,
                    one.fault,
                    one.outcome,
                ]
            });
            let head = ["ID", "OPENED", "CLOSED", "ACTIONS", "FAULT", "OUTCOME"];
            print_table(head, rows.collect());
        }
    }
    Ok(())
}

/// `finding`.
///
/// # Errors
/// See [`Failure`].
pub async fn finding(session: &Session, command: FindingCommand) -> Result<(), Failure> {
    match command {
        FindingCommand::Report {
            node,
            source,
            code,
            severity,
            device,
            slot,
            message,
        } => {
            let node = node::resolve(&session.api, &node).await?;
            let slot = slot_of(session, &node, slot).await?;
            let severity = FindingSeverity::of_word(&severity).unwrap_or_default();
            let request = ReportNodeFindingRequest {
                node_id: node,
                slot_id: slot,
                source,
                code,
                device,
                severity: severity.into(),
                message,
            };
            let answer = session.api.apply(&request, &session.key).await?;
            let sentence = format!("Finding {} is on record.", answer.message.id);
            done(session, &answer.json, &sentence);
        }
        FindingCommand::Resolve {
            node,
            finding,
            resolution,
        } => {
            let request = ResolveNodeFindingRequest {
                node_id: node::resolve(&session.api, &node).await?,
                finding_id: finding,
                resolution,
            };
            let answer = session.api.apply(&request, &session.key).await?;
            done(
                session,
                &answer.json,
                "The finding is resolved. Its slot or node stays out of service until you enable or uncordon it.",
            );
        }
        FindingCommand::List {
            node,
            all,
            selected,
        } => {
            let request = ListNodeFindingsRequest {
                node_id: node::resolve(&session.api, &node).await?,
                include_resolved: all,
                filter: selected.filter(),
                order_by: selected.order_by(),
                ..ListNodeFindingsRequest::default()
            };
            let answer = session.api.call_all_pages(&request, "findings").await?;
            if session.json() {
                print_json(&answer.json);
                return Ok(());
            }
            let found = answer.message.findings;
            if found.is_empty() && selected.narrows() {
                say!("No finding matches the filter.");
                return Ok(());
            }
            let rows = found.into_iter().map(|one| {
                let (count, severity) = (one.count.to_string(), word(one.severity()));
                let about = format!("{} {}", one.code, one.device).trim_end().to_owned();
                [
                    one.id,
                    time(one.last_time),
                    one.source,
                    severity,
                    about,
                    count,
                    one.message,
                ]
            });
            let head = [
                "ID",
                "LAST SEEN",
                "SOURCE",
                "SEVERITY",
                "FAULT",
                "COUNT",
                "MESSAGE",
            ];
            print_table(head, rows.collect());
        }
    }
    Ok(())
}

/// Id of a slot as given, empty when none is.
async fn slot_of(session: &Session, node: &str, given: Option<String>) -> Result<String, Failure> {
    match given {
        None => Ok(String::new()),
        Some(given) => node::resolve_slot(&session.api, node, &given).await,
    }
}
