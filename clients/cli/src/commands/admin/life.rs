//! The life of nodes and slots: configuration, retirement, history.
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Session, done};
use crate::api::{number, parse};
use crate::failure::Failure;
use crate::node;
use crate::output::{print_json, print_table, time};

#[derive(Debug, clap::Args)]
pub struct UpdateFlags {
    /// Id, unique prefix of it, or hostname.
    node: String,
    /// Mode: slice (VMs) or baremetal. The node must be out of service and empty.
    #[arg(long, value_parser = ["slice", "baremetal"])]
    mode: Option<String>,
    /// Maximum VMs on the node; 0: no limit. The node must be out of service and empty.
    #[arg(long, value_name = "COUNT")]
    max_vms: Option<u32>,
    /// Rack of the node; empty: unknown.
    #[arg(long)]
    rack: Option<String>,
    /// Labels as KEY=VALUE; these replace all that the node has.
    #[arg(long = "label", value_name = "KEY=VALUE", conflicts_with = "no_labels")]
    labels: Vec<String>,
    /// Remove all labels.
    #[arg(long)]
    no_labels: bool,
    /// Reason.
    #[arg(long, default_value = "")]
    reason: String,
    /// Etag of the node that you read; a node that changed since is not changed.
    #[arg(long, default_value = "")]
    etag: String,
}

/// Changes labels, mode or VM limit.
///
/// # Errors
/// See [`Failure`].
pub async fn update(session: &Session, flags: UpdateFlags) -> Result<(), Failure> {
    let node = node::resolve(&session.api, &flags.node).await?;
    let mut body = json!({ "reason": flags.reason, "etag": flags.etag });
    if let Some(mode) = flags.mode {
        body["mode"] = json!(mode);
    }
    if let Some(limit) = flags.max_vms {
        body["max_vms_per_node"] = json!(limit);
    }
    if let Some(rack) = flags.rack {
        body["rack"] = json!(rack);
    }
    if flags.no_labels || !flags.labels.is_empty() {
        let mut labels = Map::new();
        for label in &flags.labels {
            let (key, value) = label.split_once('=').ok_or_else(|| {
                Failure::Usage(format!("label {label:?} must have the form KEY=VALUE"))
            })?;
            labels.insert(key.to_owned(), json!(value));
        }
        body["labels"] = json!({ "labels": labels });
    }
    let path = ["admin", "nodes", &node];
    let answer = session
        .api
        .change(Method::PATCH, &path, &body, &session.key)
        .await?;
    let name = &answer["config"]["hostname"];
    let name = name.as_str().unwrap_or(&node);
    done(session, &answer, &format!("Node {name} is updated."));
    Ok(())
}

/// Takes a node out of service for good.
///
/// # Errors
/// See [`Failure`].
pub async fn retire(session: &Session, given: &str, reason: &str) -> Result<(), Failure> {
    let node = node::resolve(&session.api, given).await?;
    let verb = format!("{node}:retire");
    let body = json!({ "reason": reason });
    let path = ["admin", "nodes", &verb];
    let answer = session
        .api
        .change(Method::POST, &path, &body, &session.key)
        .await?;
    done(session, &answer, &format!("Node {given} is retired."));
    Ok(())
}

/// Removes a node that was registered by mistake.
///
/// # Errors
/// See [`Failure`].
pub async fn delete(session: &Session, given: &str, reason: &str) -> Result<(), Failure> {
    let node = node::resolve(&session.api, given).await?;
    let query = [("reason", reason.to_owned())];
    let path = ["admin", "nodes", &node];
    let answer = session.api.delete(&path, &query, &session.key).await?;
    done(session, &answer, &format!("Node {given} is deleted."));
    Ok(())
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Entry {
    time: Option<jiff::Timestamp>,
    state: String,
    kind: String,
    reason: String,
    detail: String,
    #[serde(deserialize_with = "number")]
    generation: i64,
    allocation_id: String,
    principal: String,
}

/// What became of a node.
///
/// # Errors
/// See [`Failure`].
pub async fn history(session: &Session, given: &str) -> Result<(), Failure> {
    let node = node::resolve(&session.api, given).await?;
    let path = ["admin", "nodes", &node, "history"];
    let answer = session.api.get(&path, &[]).await?;
    show(session, &answer, ["TIME", "STATE", "BY", "REASON"], |one| {
        [
            time(one.time),
            one.state,
            by(&one.principal).to_owned(),
            node::blocker_text(&one.reason),
        ]
    })
}

/// What became of a slot.
///
/// # Errors
/// See [`Failure`].
pub async fn slot_history(session: &Session, node: &str, slot: &str) -> Result<(), Failure> {
    let path = ["admin", "nodes", node, "resource-slots", slot, "history"];
    let answer = session.api.get(&path, &[]).await?;
    let head = ["TIME", "WHAT", "BY", "DETAIL"];
    show(session, &answer, head, |one| {
        let detail = match one.allocation_id.as_str() {
            "" => one.detail,
            allocation => format!("allocation {allocation}, generation {}", one.generation),
        };
        [
            time(one.time),
            one.kind,
            by(&one.principal).to_owned(),
            detail,
        ]
    })
}

/// Who did it: a host, which speaks with a certificate that names the node, or a principal.
pub(super) fn by(principal: &str) -> &str {
    match principal {
        "" => "host",
        host if host.starts_with("node:") => "host",
        other => other,
    }
}

fn show(
    session: &Session,
    answer: &Value,
    head: [&'static str; 4],
    row: impl Fn(Entry) -> [String; 4],
) -> Result<(), Failure> {
    if session.json() {
        print_json(answer);
        return Ok(());
    }
    let none = Value::Array(Vec::new());
    let entries: Vec<Entry> = parse(answer.get("entries").unwrap_or(&none))?;
    print_table(head, entries.into_iter().map(row).collect());
    Ok(())
}

/// Takes a slot out of service for good.
///
/// # Errors
/// See [`Failure`].
pub async fn retire_slot(
    session: &Session,
    node: &str,
    slot: &str,
    reason: &str,
) -> Result<(), Failure> {
    let verb = format!("{slot}:retire");
    let path = ["admin", "nodes", node, "resource-slots", &verb];
    let body = json!({ "reason": reason });
    let answer = session
        .api
        .change(Method::POST, &path, &body, &session.key)
        .await?;
    done(session, &answer, &format!("Slot {slot} is retired."));
    Ok(())
}
