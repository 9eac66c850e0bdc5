//! The observer: reads all hosts and slots, gives differences their positions, and shows the snapshot to the streams.
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::StreamExt as _;
use gpuaas_common::{CancellationToken, Result, db, id};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1::ListSlotsResponse;
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::Watching;
use super::snapshot::{Item, Snapshot, View};
use crate::convert;
use crate::state::State;
use crate::store::nodes::{self, NodeRow, Which};
use crate::store::watched::{self, Kind, Observed};

/// Hosts read in one go.
const PAGE: i64 = 200;
/// Hosts that the ledger is requested about at the same time.
const LEDGER_CALLS: usize = 8;

/// Takes snapshots while anybody watches, until `shutdown`.
pub(crate) async fn run(watching: Arc<Watching>, shutdown: CancellationToken) {
    let state = &watching.state;
    let mut known = HashMap::new();
    while !shutdown.is_cancelled() {
        if watching.snapshot.receiver_count() > 0 {
            let answers = watching.requested.load(Ordering::SeqCst);
            match snapshot(state, &mut known, answers).await {
                Ok(snapshot) => {
                    watching.snapshot.send_replace(Arc::new(snapshot));
                }
                Err(error) => tracing::warn!("retry reading hosts for watches: {}", error.chain()),
            }
        } else {
            known.clear();
        }
        let pause = tokio::time::timeout(state.config.watch_interval(), watching.due.notified());
        shutdown.run_until_cancelled(pause).await;
    }
}

/// What the ledger last reported of a host: one whose ledger does not answer is shown as it was.
struct LastAnswer {
    answer: ListSlotsResponse,
    /// The host was gone by then: what the ledger has of it never changes.
    is_final: bool,
}

async fn snapshot(
    state: &State,
    known: &mut HashMap<Uuid, LastAnswer>,
    answers: u64,
) -> Result<Snapshot> {
    let mut rows: Vec<NodeRow> = Vec::new();
    loop {
        let after = rows.last().map(|row| (row.hostname.clone(), row.id));
        let after = after.unwrap_or_default();
        let freshness = state.config.freshness();
        let page = nodes::list(&state.pool, Which::All, &after, PAGE, freshness);
        let page = db::within(db::PASS, page).await?;
        let is_last = (page.len() as i64) < PAGE;
        rows.extend(page);
        if is_last {
            break;
        }
    }
    let requested: Vec<(Uuid, bool)> = rows
        .iter()
        .map(|row| (row.id, row.removed.is_some()))
        .filter(|(id, _)| !known.get(id).is_some_and(|known| known.is_final))
        .collect();
    let answered: Vec<Option<(Uuid, LastAnswer)>> = futures::stream::iter(requested)
        .map(|(id, is_final)| ask(state, id, is_final))
        .buffered(LEDGER_CALLS)
        .collect()
        .await;
    let (heard, now): (HashSet<Uuid>, Vec<(Uuid, LastAnswer)>) = answered
        .into_iter()
        .flatten()
        .map(|one| (one.0, one))
        .unzip();
    known.extend(now);
    let mut views: HashMap<(Kind, Uuid), View> = HashMap::new();
    for row in rows {
        let node_id = row.id;
        let of_ledger = known.get(&node_id);
        for slot in of_ledger.iter().flat_map(|known| &known.answer.slots) {
            let slot_id = id::parse("slot_id", &slot.id)?;
            views.insert(
                (Kind::Slot, slot_id),
                View::Slot(convert::slot(slot.clone())),
            );
        }
        let is_fresh = of_ledger.is_some_and(|known| known.is_final) || heard.contains(&node_id);
        let answer = of_ledger.filter(|_| is_fresh).map(|known| &known.answer);
        let node = convert::node(row, answer)?;
        views.insert((Kind::Node, node_id), View::Node(node));
    }
    arrange(state, views, answers).await
}

/// What the ledger has of a host; none: it does not answer.
async fn ask(state: &State, node_id: Uuid, is_final: bool) -> Option<(Uuid, LastAnswer)> {
    let answer = match state.ledger_slots(node_id).await {
        Ok(answer) => answer,
        // no host has enrolled yet
        Err(error) if error.reason() == ErrorReason::NodeNotFound => ListSlotsResponse::default(),
        Err(error) => {
            tracing::warn!(%node_id, "watch node without slots: {}", error.chain());
            return None;
        }
    };
    Some((node_id, LastAnswer { answer, is_final }))
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
    let recorded = watched::record(&state.pool, &observed);
    let (rows, head) = db::within(db::PASS, recorded).await?;
    let mut snapshot = Snapshot {
        items: BTreeMap::new(),
        position: head,
        answers,
    };
    for row in rows {
        match views.remove(&(row.kind, row.id)) {
            Some(view) => {
                let item = Item {
                    first_position: row.first_position,
                    view,
                };
                snapshot.items.insert(row.position, item);
            }
            // another replica observed it before this one: no stream may go past it unobserved
            None => snapshot.position = snapshot.position.min(row.position - 1),
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
    use gpuaas_proto::gpuaas::inventory::v1 as api;

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
