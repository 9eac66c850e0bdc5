//! Health of nodes: break-fix records, and findings of outside health agents.
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Session, done};
use crate::api::{number, parse};
use crate::failure::Failure;
use crate::node;
use crate::output::{print_json, print_table, time};

#[derive(Debug, clap::Subcommand)]
pub enum BreakFixCommand {
    /// Open a record: the node is broken and takes no new allocations.
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
    /// Note what was done.
    Note {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// Id of the record.
        record: String,
        /// What was done.
        #[arg(long)]
        action: String,
    },
    /// Close a record. With the last open one the node is cordoned.
    Close {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// Id of the record.
        record: String,
        /// How it ended.
        #[arg(long)]
        outcome: String,
    },
    /// List the records of a node.
    List {
        /// Id, unique prefix of it, or hostname.
        node: String,
    },
}

#[derive(Debug, clap::Subcommand)]
pub enum FindingCommand {
    /// Attach a finding of a health agent. A critical one disables its slot, or cordons the node.
    Report {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// The agent, for example dcgm.
        #[arg(long)]
        source: String,
        /// The agent's own name of the fault.
        #[arg(long)]
        code: String,
        /// How bad it is.
        #[arg(long, value_parser = ["info", "warning", "critical"])]
        severity: String,
        /// The device.
        #[arg(long, default_value = "")]
        device: String,
        /// The slot: id, unique prefix of it, or index [default: the whole host].
        #[arg(long)]
        slot: Option<String>,
        /// For operators.
        #[arg(long, default_value = "")]
        message: String,
    },
    /// Resolve a finding. What it took out of service stays out until you return it.
    Resolve {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// Id of the finding.
        finding: String,
        /// Why it is over.
        #[arg(long)]
        resolution: String,
    },
    /// List the findings of a node.
    List {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// Resolved ones too.
        #[arg(long)]
        all: bool,
    },
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Record {
    id: String,
    fault: String,
    open_time: Option<jiff::Timestamp>,
    close_time: Option<jiff::Timestamp>,
    outcome: String,
    actions: Vec<Value>,
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
            let body = json!({ "fault": fault, "slot_id": slot });
            let path = ["admin", "nodes", &node, "break-fixes"];
            let answer = post(session, &path, &body).await?;
            let id = answer["id"].as_str().unwrap_or_default().to_owned();
            done(
                session,
                &answer,
                &format!("Break-fix record {id} is open; the node is broken."),
            );
        }
        BreakFixCommand::Note {
            node,
            record,
            action,
        } => {
            let node = node::resolve(&session.api, &node).await?;
            let verb = format!("{record}:addAction");
            let path = ["admin", "nodes", &node, "break-fixes", &verb];
            let answer = post(session, &path, &json!({ "action": action })).await?;
            done(session, &answer, "The action is on record.");
        }
        BreakFixCommand::Close {
            node,
            record,
            outcome,
        } => {
            let node = node::resolve(&session.api, &node).await?;
            let verb = format!("{record}:close");
            let path = ["admin", "nodes", &node, "break-fixes", &verb];
            let answer = post(session, &path, &json!({ "outcome": outcome })).await?;
            let next = "The record is closed. When it was the last open one, the node is cordoned: check what its host proves, then uncordon it.";
            done(session, &answer, next);
        }
        BreakFixCommand::List { node } => {
            let node = node::resolve(&session.api, &node).await?;
            let path = ["admin", "nodes", &node, "break-fixes"];
            let answer = session.api.get(&path, &[]).await?;
            if session.json() {
                print_json(&answer);
                return Ok(());
            }
            let none = Value::Array(Vec::new());
            let records: Vec<Record> = parse(answer.get("break_fixes").unwrap_or(&none))?;
            let rows = records.into_iter().map(|one| {
                let closed = one
                    .close_time
                    .map_or("open".to_owned(), |at| time(Some(at)));
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

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Finding {
    id: String,
    source: String,
    code: String,
    device: String,
    severity: String,
    message: String,
    last_time: Option<jiff::Timestamp>,
    #[serde(deserialize_with = "number")]
    count: i64,
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
            let body = json!({
                "source": source, "code": code, "severity": severity, "device": device, "slot_id": slot,
                "message": message,
            });
            let path = ["admin", "nodes", &node, "findings"];
            let answer = post(session, &path, &body).await?;
            let id = answer["id"].as_str().unwrap_or_default().to_owned();
            done(session, &answer, &format!("Finding {id} is on record."));
        }
        FindingCommand::Resolve {
            node,
            finding,
            resolution,
        } => {
            let node = node::resolve(&session.api, &node).await?;
            let verb = format!("{finding}:resolve");
            let path = ["admin", "nodes", &node, "findings", &verb];
            let answer = post(session, &path, &json!({ "resolution": resolution })).await?;
            done(
                session,
                &answer,
                "The finding is resolved. Return what it took out of service yourself.",
            );
        }
        FindingCommand::List { node, all } => {
            let node = node::resolve(&session.api, &node).await?;
            let path = ["admin", "nodes", &node, "findings"];
            let query = [("include_resolved", all.to_string())];
            let answer = session.api.get(&path, &query).await?;
            if session.json() {
                print_json(&answer);
                return Ok(());
            }
            let none = Value::Array(Vec::new());
            let found: Vec<Finding> = parse(answer.get("findings").unwrap_or(&none))?;
            let rows = found.into_iter().map(|one| {
                let count = one.count.to_string();
                let about = format!("{} {}", one.code, one.device).trim_end().to_owned();
                [
                    one.id,
                    time(one.last_time),
                    one.source,
                    one.severity,
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

async fn post(session: &Session, path: &[&str], body: &Value) -> Result<Value, Failure> {
    session
        .api
        .change(Method::POST, path, body, &session.key)
        .await
}

/// Id of a slot as given, empty when none is.
async fn slot_of(session: &Session, node: &str, given: Option<String>) -> Result<String, Failure> {
    match given {
        None => Ok(String::new()),
        Some(given) => node::resolve_slot(&session.api, node, &given).await,
    }
}
