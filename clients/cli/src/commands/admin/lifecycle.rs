//! The lifecycle of nodes and slots: configuration, retirement, history.
use gpuaas_proto::gpuaas::inventory::v1::{
    DeleteNodeRequest, ListNodeHistoryRequest, ListResourceSlotHistoryRequest, NodeLabels,
    RetireNodeRequest, RetireResourceSlotRequest, UpdateNodeRequest,
};

use crate::commands::select::Selected;
use crate::failure::Failure;
use crate::node;
use crate::output::{print_json, print_table, time};
use crate::session::{Session, done};

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
    /// Labels as KEY=VALUE; they replace all labels of the node.
    #[arg(long = "label", value_name = "KEY=VALUE", conflicts_with = "no_labels")]
    labels: Vec<String>,
    /// Remove all labels.
    #[arg(long)]
    no_labels: bool,
    /// Reason.
    #[arg(long, default_value = "")]
    reason: String,
    /// Etag of the node that you read: the change is refused if the node has changed since.
    #[arg(long, default_value = "")]
    etag: String,
}

/// Changes labels, mode or VM limit.
///
/// # Errors
/// See [`Failure`].
pub async fn update(session: &Session, flags: UpdateFlags) -> Result<(), Failure> {
    let node = node::resolve(&session.api, &flags.node).await?;
    let mut request = UpdateNodeRequest {
        node_id: node.clone(),
        etag: flags.etag,
        mode: flags.mode.unwrap_or_default(),
        max_vms_per_node: flags.max_vms,
        reason: flags.reason,
        rack: flags.rack,
        ..UpdateNodeRequest::default()
    };
    if flags.no_labels || !flags.labels.is_empty() {
        let mut labels = NodeLabels::default();
        for label in &flags.labels {
            let (key, value) = label.split_once('=').ok_or_else(|| {
                Failure::Usage(format!("label {label:?} must have the form KEY=VALUE"))
            })?;
            labels.labels.insert(key.to_owned(), value.to_owned());
        }
        request.labels = Some(labels);
    }
    let answer = session.api.apply(&request, &session.key).await?;
    let name = match node::hostname_of(&answer.message) {
        "" => &node,
        name => name,
    };
    done(session, &answer.json, &format!("Node {name} is updated."));
    Ok(())
}

/// Takes a node out of service for good.
///
/// # Errors
/// See [`Failure`].
pub async fn retire(session: &Session, given: &str, reason: &str) -> Result<(), Failure> {
    let node = node::resolve(&session.api, given).await?;
    let request = RetireNodeRequest {
        node_id: node,
        reason: reason.to_owned(),
        ..RetireNodeRequest::default()
    };
    let answer = session.api.apply(&request, &session.key).await?;
    done(session, &answer.json, &format!("Node {given} is retired."));
    Ok(())
}

/// Removes a node that was registered by mistake.
///
/// # Errors
/// See [`Failure`].
pub async fn delete(session: &Session, given: &str, reason: &str) -> Result<(), Failure> {
    let node = node::resolve(&session.api, given).await?;
    let request = DeleteNodeRequest {
        node_id: node,
        reason: reason.to_owned(),
        ..DeleteNodeRequest::default()
    };
    let answer = session.api.apply(&request, &session.key).await?;
    done(session, &answer.json, &format!("Node {given} is deleted."));
    Ok(())
}

/// What became of a node.
///
/// # Errors
/// See [`Failure`].
pub async fn history(session: &Session, given: &str, selected: &Selected) -> Result<(), Failure> {
    let node = node::resolve(&session.api, given).await?;
    let request = ListNodeHistoryRequest {
        node_id: node,
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListNodeHistoryRequest::default()
    };
    let answer = session.api.call_all_pages(&request, "entries").await?;
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    if answer.message.entries.is_empty() && selected.narrows() {
        say!("No entry matches the filter.");
        return Ok(());
    }
    let rows = answer.message.entries.into_iter().map(|one| {
        [
            time(one.time),
            one.state,
            by(&one.principal).to_owned(),
            node::blocker_text(&one.reason),
        ]
    });
    print_table(["TIME", "STATE", "ACTOR", "REASON"], rows.collect());
    Ok(())
}

/// What became of a slot.
///
/// # Errors
/// See [`Failure`].
pub async fn slot_history(
    session: &Session,
    (node, slot): (&str, &str),
    selected: &Selected,
) -> Result<(), Failure> {
    let request = ListResourceSlotHistoryRequest {
        node_id: node.to_owned(),
        slot_id: slot.to_owned(),
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListResourceSlotHistoryRequest::default()
    };
    let answer = session.api.call_all_pages(&request, "entries").await?;
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    if answer.message.entries.is_empty() && selected.narrows() {
        say!("No entry matches the filter.");
        return Ok(());
    }
    let rows = answer.message.entries.into_iter().map(|one| {
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
    });
    print_table(["TIME", "EVENT", "ACTOR", "DETAIL"], rows.collect());
    Ok(())
}

/// Who did it: a host, which speaks with a certificate that names the node, or a principal.
pub(super) fn by(principal: &str) -> &str {
    match principal {
        "" => "host",
        host if host.starts_with("node:") => "host",
        other => other,
    }
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
    let request = RetireResourceSlotRequest {
        node_id: node.to_owned(),
        slot_id: slot.to_owned(),
        reason: reason.to_owned(),
        ..RetireResourceSlotRequest::default()
    };
    let answer = session.api.apply(&request, &session.key).await?;
    done(session, &answer.json, &format!("Slot {slot} is retired."));
    Ok(())
}
