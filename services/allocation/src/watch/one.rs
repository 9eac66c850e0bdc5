//! One allocation with its timeline: no entry is passed over, and the stream ends when nothing more can happen.
use gpuaas_common::identity::{Caller, ProjectScope};
use gpuaas_common::watch::{Sink, Stop, Stream, Subscription, token};
use gpuaas_common::{Error, id};
use gpuaas_placement::model::{Allocation, AllocationState};
use gpuaas_placement::{Scope, allocations, timeline};
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::allocation::v1::watch_allocation_response::Event;
use gpuaas_proto::gpuaas::common::v1::{WatchEnd, WatchHeartbeat, WatchSynced};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Key, Watching, Woken, change, endure, expired, has_ended, wait};
use crate::convert;
use crate::store::owned::owned;
use crate::store::read::{self, Now};

/// Entries read in one go.
const BATCH: i64 = 100;

/// Where a stream is: the allocation's revision and the timeline's change that were sent last.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Place {
    r: i64,
    c: i64,
}

/// One stream.
struct Follower {
    watching: Watching,
    sink: Sink<pb::WatchAllocationResponse>,
    subscription: Subscription<Key>,
    scope: Scope,
    id: Uuid,
    place: Place,
    /// As last sent.
    now: Now,
}

/// The allocation at one moment.
struct Snapshot {
    row: Allocation,
    now: Now,
    /// Nothing more can happen: what the timeline holds now is all.
    is_over: bool,
}

impl Watching {
    /// Watches one allocation of the caller's projects.
    ///
    /// # Errors
    /// There is none, a token that is refused, the database.
    pub async fn allocation(
        &self,
        caller: &Caller,
        request: &pb::WatchAllocationRequest,
    ) -> Result<Stream<pb::WatchAllocationResponse>, Error> {
        let id = id::parse("allocation_id", &request.allocation_id)?;
        let query = query(id);
        let resumed: Option<Place> =
            token::decode(&request.resume_token, &query.each_ref().map(String::as_str))?;
        // before anything is read: what comes after it notifies
        let subscription = self.notifier.subscribe(Key::Allocation(id));
        let mut conn = self.deps.pool.acquire().await?;
        let (row, project): (Allocation, ProjectScope) = owned(&mut conn, caller, id).await?;
        if let Some(place) = resumed {
            let changes = timeline::last_changes(&mut conn, &[id]).await?;
            let last = changes.first().map_or(0, |(_, change)| *change);
            // a position ahead of the ledger is of another one, before a restore
            if place.r > row.revision || place.c > last {
                return Err(expired());
            }
        }
        drop(conn);
        let watching = self.clone();
        Ok(self.streams.open("WatchAllocation", move |sink| {
            let follower = Follower {
                watching,
                sink,
                subscription,
                scope: Scope::Project(project.id()),
                id,
                place: resumed.unwrap_or_default(),
                now: Now::default(),
            };
            follower.run()
        }))
    }
}

fn query(id: Uuid) -> [String; 2] {
    ["allocation".to_owned(), id.to_string()]
}

impl Follower {
    async fn run(mut self) -> Result<(), Stop> {
        let mut synced = false;
        loop {
            let snapshot = match self.catch_up().await {
                Ok(snapshot) => snapshot,
                Err(error) => {
                    endure(error, self.watching.poll()).await?;
                    continue;
                }
            };
            if !synced {
                self.send(Event::Synced(WatchSynced {})).await?;
                synced = true;
            }
            if snapshot.is_over {
                return self.send(Event::End(WatchEnd {})).await;
            }
            self.listen(snapshot.row.state).await?;
        }
    }

    /// Returns when there may be something new; meanwhile sends heartbeats of the stream.
    async fn listen(&mut self, state: AllocationState) -> Result<(), Stop> {
        if has_ended(state) {
            // the end of the work behind an ended allocation sends no notification
            wait(&mut self.subscription, self.watching.poll()).await;
            return Ok(());
        }
        while let Woken::Timeout = wait(&mut self.subscription, self.watching.heartbeat()).await {
            self.send(Event::Heartbeat(WatchHeartbeat {})).await?;
            if state == AllocationState::Requested {
                // others who leave the queue do not notify this one
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends what is new: the allocation first when it was never sent, otherwise after the entries that led to it.
    async fn catch_up(&mut self) -> Result<Snapshot, Stop> {
        let snapshot = self.snapshot().await?;
        if self.place.r == 0 {
            self.state(&snapshot, true).await?;
        }
        self.entries().await?;
        if snapshot.row.revision > self.place.r || snapshot.now != self.now {
            self.state(&snapshot, false).await?;
        }
        Ok(snapshot)
    }

    /// In this order: what the timeline holds after it was over is all that it will hold.
    async fn snapshot(&self) -> Result<Snapshot, Error> {
        let mut conn = self.watching.connection().await?;
        let row = allocations::get(&mut conn, self.scope, self.id).await?;
        let is_over = has_ended(row.state) && !read::at_work(&mut conn, self.id).await?;
        let now = read::now_of(&mut conn, &row).await?;
        Ok(Snapshot { row, now, is_over })
    }

    async fn state(&mut self, snapshot: &Snapshot, is_new: bool) -> Result<(), Stop> {
        self.place.r = snapshot.row.revision;
        self.now.clone_from(&snapshot.now);
        let change = change(snapshot.row.clone(), snapshot.now.clone(), is_new);
        self.send(Event::Change(change)).await
    }

    async fn entries(&mut self) -> Result<(), Stop> {
        loop {
            let mut conn = self.watching.connection().await?;
            let changed = timeline::changed(&mut conn, self.id, self.place.c, BATCH).await?;
            drop(conn);
            if changed.is_empty() {
                return Ok(());
            }
            for changed in changed {
                self.place.c = changed.change;
                self.send(Event::Entry(convert::timeline_entry(changed.entry)))
                    .await?;
            }
        }
    }

    async fn send(&self, event: Event) -> Result<(), Stop> {
        let query = query(self.id);
        let message = pb::WatchAllocationResponse {
            event: Some(event),
            resume_token: token::encode(&self.place, &query.each_ref().map(String::as_str)),
        };
        self.sink.send(message).await
    }
}
