//! The allocations of one project: first all, then every one that has events after the position.
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use gpuaas_common::Error;
use gpuaas_common::identity::Caller;
use gpuaas_common::watch::{Sink, Stop, Stream, Subscription, token};
use gpuaas_placement::model::Allocation;
use gpuaas_placement::{Scope, allocations, events};
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::allocation::v1::watch_allocations_response::Event;
use gpuaas_proto::gpuaas::common::v1::{WatchHeartbeat, WatchSynced};
use uuid::Uuid;

use super::pages::{Entry, Lane, Page};
use super::{Key, Watching, Woken, change, endure, expired, wait};
use crate::store::read::{self, Now};

/// Allocations of the first state, and events, read in one go.
const BATCH: i64 = 100;

/// One stream.
struct Follower {
    watching: Watching,
    lane: Arc<Lane>,
    sink: Sink<pb::WatchAllocationsResponse>,
    subscription: Subscription<Key>,
    /// When its first state was complete.
    since: Instant,
    /// When the last notification was taken: what was notified before has to be sent.
    heard: Instant,
    project: Uuid,
    include_ended: bool,
    /// Everything up to here has been sent.
    position: i64,
}

impl Watching {
    /// Watches a project of the caller.
    ///
    /// # Errors
    /// A project that is not the caller's, a token that is refused, the database.
    pub async fn project(
        &self,
        caller: &Caller,
        request: &pb::WatchAllocationsRequest,
    ) -> Result<Stream<pb::WatchAllocationsResponse>, Error> {
        let project = caller.project(&request.project_id)?.id();
        let include_ended = request.include_ended;
        let query = query(project, include_ended);
        let resumed: Option<i64> =
            token::decode(&request.resume_token, &query.each_ref().map(String::as_str))?;
        // before the position is taken: what comes after it notifies
        let subscription = self.notifier.subscribe(Key::Project(project));
        let kept = events::kept(&mut *self.deps.pool.acquire().await?).await?;
        if resumed.is_some_and(|position| !kept.reaches(position)) {
            return Err(expired());
        }
        let watching = self.clone();
        Ok(self.streams.open("WatchAllocations", move |sink| {
            let follower = Follower {
                lane: watching.lanes.of(project),
                watching,
                sink,
                subscription,
                since: Instant::now(),
                heard: Instant::now(),
                project,
                include_ended,
                position: resumed.unwrap_or(kept.head),
            };
            follower.run(resumed.is_none())
        }))
    }
}

fn query(project: Uuid, include_ended: bool) -> [String; 3] {
    [
        "allocations".to_owned(),
        project.to_string(),
        include_ended.to_string(),
    ]
}

impl Follower {
    async fn run(mut self, from_the_start: bool) -> Result<(), Stop> {
        if from_the_start {
            self.first_state().await?;
        }
        self.since = Instant::now();
        self.heard = self.since;
        let mut synced = false;
        loop {
            if let Err(error) = self.catch_up().await {
                endure(error, self.watching.poll()).await?;
                continue;
            }
            if !synced {
                self.send(Event::Synced(WatchSynced {})).await?;
                synced = true;
            }
            match wait(&mut self.subscription, self.watching.heartbeat()).await {
                Woken::Notified => self.heard = Instant::now(),
                Woken::Timeout => {
                    // in this order: an event that is sequenced after the position was read notifies
                    let notified_to = self.watching.notified_to.load(Ordering::SeqCst);
                    if !self.subscription.is_notified() {
                        self.position = self.position.max(notified_to);
                        self.send(Event::Heartbeat(WatchHeartbeat {})).await?;
                    }
                }
            }
        }
    }

    /// All allocations, newest first. They carry no token: a reader that leaves now has not received all.
    async fn first_state(&mut self) -> Result<(), Stop> {
        let mut before = None;
        loop {
            let (rows, mut now) = match self.page_of_all(before).await {
                Ok(page) => page,
                Err(error) => {
                    endure(error.into(), self.watching.poll()).await?;
                    continue;
                }
            };
            let Some(last) = rows.last() else {
                return Ok(());
            };
            before = Some((last.created_at, last.id));
            for row in rows {
                let now = now.remove(&row.id).unwrap_or_default();
                let message = pb::WatchAllocationsResponse {
                    event: Some(Event::Change(change(row, now, true))),
                    resume_token: String::new(),
                };
                self.sink.send(message).await?;
            }
        }
    }

    async fn page_of_all(
        &self,
        before: Option<(jiff_sqlx::Timestamp, Uuid)>,
    ) -> Result<(Vec<Allocation>, HashMap<Uuid, Now>), Error> {
        let mut conn = self.watching.connection().await?;
        let all = self.include_ended;
        let rows = allocations::list(&mut conn, self.project, all, before, BATCH).await?;
        let now = read::now(&mut conn, &rows).await?;
        Ok((rows, now))
    }

    /// Sends the present state of everything that has events after the position.
    async fn catch_up(&mut self) -> Result<(), Stop> {
        loop {
            let read = async || self.read().await;
            let page = self
                .lane
                .page(self.position, (self.since, self.heard), read)
                .await?;
            for entry in page.beyond(self.position) {
                let change = entry.change_after(self.position);
                self.position = entry.position;
                self.send(Event::Change(change)).await?;
            }
            if page.is_all_since(self.heard) {
                return Ok(());
            }
        }
    }

    async fn read(&self) -> Result<Page, Error> {
        let mut conn = self.watching.connection().await?;
        let begun = Instant::now();
        let touched = events::touched(&mut conn, self.project, self.position, BATCH).await?;
        let mut entries = Vec::with_capacity(touched.len());
        for touched in &touched {
            let scope = Scope::Project(self.project);
            let row = allocations::get(&mut conn, scope, touched.id).await?;
            let now = read::now_of(&mut conn, &row).await?;
            entries.push(Entry {
                position: touched.position,
                created: touched.created,
                change: change(row, now, false),
            });
        }
        Ok(Page {
            after: self.position,
            begun,
            full: touched.iter().map(|touched| touched.events).sum::<i64>() >= BATCH,
            entries,
        })
    }

    async fn send(&self, event: Event) -> Result<(), Stop> {
        let query = query(self.project, self.include_ended);
        let message = pb::WatchAllocationsResponse {
            event: Some(event),
            resume_token: token::encode(&self.position, &query.each_ref().map(String::as_str)),
        };
        self.sink.send(message).await
    }
}
