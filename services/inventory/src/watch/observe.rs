//! The observer: reads all hosts and slots, gives differences their positions, and shows the snapshot to the streams.
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::{StreamExt as _, TryStreamExt as _};
use gpuaas_common::{CancellationToken, Result, id};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1::ListSlotsResponse;
use gpuaas_proto::gpuaas::inventory::v1 as api;
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::api::wire;
use crate::state::State;
use crate::store::nodes::{self, NodeRow, Which};
use crate::store::watched::{self, Kind, Observed};

/// Hosts read in one go.
const PAGE: i64 = 200;
/// Hosts that the ledger is requested about at the same time.
const LEDGER_CALLS: usize = 8;

/// What a watcher is shown of one thing.
#[derive(Debug, Clone)]
pub(super) enum View {
    Node(api::Node),
    Slot(api::ResourceSlot),
}

/// One thing with its position in the order.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) first_position: i64,
    pub(super) view: View,
}

/// All there is at one moment.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    /// By position.
    pub(super) items: BTreeMap<i64, Item>,
    /// Everything up to here is among the items.
    pub(super) position: i64,
    /// The request it answers.
    pub(super) answers: u64,
}

/// Takes snapshots while anybody watches, until `shutdown`.
pub(crate) async fn run(state: State, shutdown: CancellationToken) {
    let watching = &state.watching;
    let mut slots = HashMap::new();
    while !shutdown.is_cancelled() {
        if watching.snapshot.receiver_count() > 0 {
            let answers = watching.requested.load(Ordering::SeqCst);
            match snapshot(&state, &mut slots, answers).await {
                Ok(snapshot) => {
                    watching.snapshot.send_replace(Arc::new(snapshot));
                }
                Err(error) => tracing::warn!("retry reading hosts for watches: {}", error.chain()),
            }
        } else {
            slots.clear();
        }
        let pause = tokio::time::timeout(state.config.watch_interval(), watching.due.notified());
        shutdown.run_until_cancelled(pause).await;
    }
}

/// Slots of each host, as the ledger last reported them: one whose ledger does not answer is shown as it was.
type Slots = HashMap<Uuid, Vec<api::ResourceSlot>>;

async fn snapshot(state: &State, slots: &mut Slots, answers: u64) -> Result<Snapshot> {
    let mut rows: Vec<NodeRow> = Vec::new();
    loop {
        let after = rows.last().map(|row| (row.hostname.clone(), row.id));
        let after = after.unwrap_or_default();
        let freshness = state.config.freshness();
        let page = nodes::list(&state.pool, Which::All, &after, PAGE, freshness).await?;
        let is_last = (page.len() as i64) < PAGE;
        rows.extend(page);
        if is_last {
            break;
        }
    }
    let observed: Vec<(api::Node, Option<Vec<api::ResourceSlot>>)> = futures::stream::iter(rows)
        .map(|row| one(state, row))
        .buffered(LEDGER_CALLS)
        .try_collect()
        .await?;
    let mut views: HashMap<(Kind, Uuid), View> = HashMap::new();
    for (node, slots_now) in observed {
        let node_id = id::parse("node_id", &node.id)?;
        if let Some(slots_now) = slots_now {
            slots.insert(node_id, slots_now);
        }
        for slot in slots.get(&node_id).into_iter().flatten() {
            let slot_id = id::parse("slot_id", &slot.id)?;
            views.insert((Kind::Slot, slot_id), View::Slot(slot.clone()));
        }
        views.insert((Kind::Node, node_id), View::Node(node));
    }
    arrange(state, views, answers).await
}

async fn one(state: &State, row: NodeRow) -> Result<(api::Node, Option<Vec<api::ResourceSlot>>)> {
    let slots_now = match state.ledger_slots(row.id).await {
        Ok(answer) => Some(answer),
        // no host has enrolled yet
        Err(error) if error.reason() == ErrorReason::NodeNotFound => {
            Some(ListSlotsResponse::default())
        }
        Err(error) => {
            tracing::warn!(node_id = %row.id, "watch node without slots: {}", error.chain());
            None
        }
    };
    let node = wire::node(row, slots_now.as_ref())?;
    let slots = slots_now.map(|now| now.slots.into_iter().map(wire::slot).collect());
    Ok((node, slots))
}

async fn arrange(
    state: &State,
    mut views: HashMap<(Kind, Uuid), View>,
    answers: u64,
) -> Result<Snapshot> {
    let observed: Vec<Observed> = views
        .iter()
        .map(|((kind, id), view)| Observed {
            kind: *kind,
            id: *id,
            digest: digest(view),
        })
        .collect();
    let (standings, head) = watched::settle(&state.pool, &observed).await?;
    let mut snapshot = Snapshot {
        items: BTreeMap::new(),
        position: head,
        answers,
    };
    for standing in standings {
        match views.remove(&(standing.kind, standing.id)) {
            Some(view) => {
                let item = Item {
                    first_position: standing.first_position,
                    view,
                };
                snapshot.items.insert(standing.position, item);
            }
            // another replica observed it before this one: no stream may go past it unobserved
            None => snapshot.position = snapshot.position.min(standing.position - 1),
        }
    }
    Ok(snapshot)
}

/// A digest of what makes a difference to a watcher: not when a host gave a sign of life, nor when and how much of
/// something its checks reported.
fn digest(view: &View) -> [u8; 32] {
    let bytes = match view {
        View::Slot(slot) => slot.encode_to_vec(),
        View::Node(node) => {
            let mut node = node.clone();
            if let Some(status) = &mut node.status {
                status.last_heartbeat_time = None;
                if let Some(life) = &mut status.life {
                    life.since = None;
                }
                for evidence in &mut status.evidence {
                    evidence.observed_at = None;
                    evidence.detail.clear();
                }
            }
            if let Some(metadata) = &mut node.metadata {
                metadata.update_time = None;
                metadata.revision = 0;
            }
            node.etag.clear();
            node.encode_to_vec()
        }
    };
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_of_life_alone_is_no_difference() {
        let node = |state: api::NodeState, seconds: i64| {
            View::Node(api::Node {
                status: Some(api::NodeStatus {
                    state: state.into(),
                    last_heartbeat_time: Some(prost_types::Timestamp { seconds, nanos: 0 }),
                    ..Default::default()
                }),
                ..Default::default()
            })
        };
        let enrolled = digest(&node(api::NodeState::Enrolled, 1));
        assert_eq!(enrolled, digest(&node(api::NodeState::Enrolled, 2)));
        assert_ne!(enrolled, digest(&node(api::NodeState::Lost, 1)));
    }
}
