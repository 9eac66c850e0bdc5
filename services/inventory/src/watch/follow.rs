//! One stream: everything after its position, then what changes.
use gpuaas_common::watch::{Sink, Stop, Stream, token};
use gpuaas_common::{Error, Result};
use gpuaas_proto::gpuaas::common::v1::{ChangeKind, SlotStatus, WatchHeartbeat, WatchSynced};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::inventory::v1 as api;
use gpuaas_proto::gpuaas::inventory::v1::NodeLifeState;
use gpuaas_proto::gpuaas::inventory::v1::watch_nodes_response::Event;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::Code;

use super::Watching;
use super::snapshot::{Item, Snapshot, View};

const QUERY: [&str; 1] = ["nodes"];

struct Follower {
    sink: Sink<api::WatchNodesResponse>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    heartbeat: Duration,
    /// When the reader was last sent something. Snapshots come more often than heartbeats.
    last_sent: Instant,
    /// Everything up to here has been sent.
    position: i64,
}

impl Watching {
    /// Opens a stream.
    ///
    /// # Errors
    /// A token that is refused, or the hosts could not be read.
    pub(crate) async fn watch_nodes(
        &self,
        request: &api::WatchNodesRequest,
    ) -> Result<Stream<api::WatchNodesResponse>> {
        let resumed: Option<i64> = token::decode(&request.resume_token, &QUERY)?;
        let snapshots = self.fresh().await.ok_or_else(unavailable)?;
        // positions are stored for ever; one that was never assigned is of another database, before a restore
        let last = snapshots.borrow().position;
        if resumed.is_some_and(|position| position < 0 || position > last) {
            return Err(token::expired());
        }
        let heartbeat = self.state.config.watch_heartbeat();
        Ok(self.streams.open("WatchNodes", move |sink| {
            let follower = Follower {
                sink,
                snapshots,
                heartbeat,
                last_sent: Instant::now(),
                position: resumed.unwrap_or(0),
            };
            follower.run(resumed.is_none())
        }))
    }
}

fn unavailable() -> Error {
    Error::new(
        Code::Unavailable,
        ErrorReason::DependencyUnavailable,
        "The nodes cannot be read right now. Try again in a moment.",
    )
}

impl Follower {
    async fn run(mut self, from_the_start: bool) -> Result<(), Stop> {
        self.catch_up(from_the_start).await?;
        self.send(Event::Synced(WatchSynced {})).await?;
        loop {
            let heartbeat = tokio::time::sleep_until(self.last_sent + self.heartbeat);
            tokio::select! {
                changed = self.snapshots.changed() => match changed {
                    Ok(()) => self.catch_up(false).await?,
                    // the sender lives as long as the service
                    Err(_) => return Ok(()),
                },
                () = heartbeat => self.send(Event::Heartbeat(WatchHeartbeat {})).await?,
            }
        }
    }

    /// Sends what stands after the position; the snapshot that is shown now, however many were missed.
    async fn catch_up(&mut self, from_the_start: bool) -> Result<(), Stop> {
        let snapshot = self.snapshots.borrow_and_update().clone();
        for (position, item) in snapshot.items.range(self.position + 1..) {
            if from_the_start && is_deleted(item) {
                // a reader who has not seen it has nothing to forget
                continue;
            }
            let is_new = item.first_position > self.position;
            let event = change(item, is_new);
            let token = if from_the_start {
                // a reader that leaves now has not observed all
                String::new()
            } else {
                token::encode(&(*position).min(snapshot.position), &QUERY)
            };
            self.sink.send(message(event, token)).await?;
            self.last_sent = Instant::now();
        }
        self.position = self.position.max(snapshot.position);
        Ok(())
    }

    async fn send(&mut self, event: Event) -> Result<(), Stop> {
        let token = token::encode(&self.position, &QUERY);
        self.sink.send(message(event, token)).await?;
        self.last_sent = Instant::now();
        Ok(())
    }
}

fn message(event: Event, resume_token: String) -> api::WatchNodesResponse {
    api::WatchNodesResponse {
        event: Some(event),
        resume_token,
    }
}

fn lifecycle(node: &api::Node) -> NodeLifeState {
    let status = node.status.as_ref();
    status
        .and_then(|status| status.life.as_ref())
        .map_or(NodeLifeState::Unspecified, api::NodeLife::state)
}

fn is_deleted(item: &Item) -> bool {
    matches!(&item.view, View::Node(node) if lifecycle(node) == NodeLifeState::Deleted)
}

fn change(item: &Item, is_new: bool) -> Event {
    let kind_of_change = if is_new {
        ChangeKind::Added
    } else {
        ChangeKind::Modified
    };
    match &item.view {
        View::Node(node) => Event::Node(api::NodeChange {
            kind: match lifecycle(node) {
                NodeLifeState::Retired | NodeLifeState::Deleted => ChangeKind::Ended.into(),
                _ => kind_of_change.into(),
            },
            node: Some(node.clone()),
        }),
        View::Slot(slot) => {
            let kind = match slot.status() {
                SlotStatus::Retired => ChangeKind::Ended,
                _ => kind_of_change,
            };
            Event::Slot(api::SlotChange {
                kind: kind.into(),
                slot: Some(slot.clone()),
            })
        }
    }
}
