//! Watching: the first state, every change, and going on after a loss. There is no Redis here: what wakes the streams
//! is the poll alone (P8).
use std::collections::BTreeMap;
use std::time::Duration;

use gpuaas_common::Error;
use gpuaas_dev::until::{until, until_ok};
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::allocation::v1::watch_allocation_response::Event as One;
use gpuaas_proto::gpuaas::allocation::v1::watch_allocations_response::Event as All;
use gpuaas_proto::gpuaas::common::v1::ChangeKind;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sqlx::Connection as _;
use tonic::{Code, Streaming};
use uuid::Uuid;

use crate::platform::{Platform, good};

const TIMEOUT: Duration = Duration::from_secs(60);

pub async fn next<T>(stream: &mut Streaming<T>) -> T {
    tokio::time::timeout(TIMEOUT, stream.message())
        .await
        .expect("a message in time")
        .expect("no error")
        .expect("not the end")
}

impl Platform {
    async fn watch_all(
        &self,
        request: pb::WatchAllocationsRequest,
    ) -> Result<Streaming<pb::WatchAllocationsResponse>, Error> {
        let request = self.user(request, None);
        let answer = self.users.clone().watch_allocations(request).await;
        Ok(answer.map_err(Error::from)?.into_inner())
    }

    async fn watch_one(
        &self,
        id: &str,
        token: &str,
    ) -> Result<Streaming<pb::WatchAllocationResponse>, Error> {
        let request = pb::WatchAllocationRequest {
            allocation_id: id.to_owned(),
            resume_token: token.to_owned(),
        };
        let request = self.user(request, None);
        let answer = self.users.clone().watch_allocation(request).await;
        Ok(answer.map_err(Error::from)?.into_inner())
    }

    async fn release_it(&self, id: &str) {
        let request = pb::ReleaseAllocationRequest {
            allocation_id: id.to_owned(),
        };
        let request = self.user(request, Some("end"));
        let released = self.users.clone().release_allocation(request).await;
        released.expect("released");
    }
}

pub fn after(token: &str) -> pb::WatchAllocationsRequest {
    pb::WatchAllocationsRequest {
        resume_token: token.to_owned(),
        ..Default::default()
    }
}

/// A change as (name, kind, state).
fn reported(change: &pb::AllocationChange) -> (String, ChangeKind, pb::AllocationState) {
    let allocation = change.allocation.as_ref().expect("an allocation");
    let config = allocation.config.as_ref().expect("a config");
    let status = allocation.status.as_ref().expect("a status");
    (config.name.clone(), change.kind(), status.state())
}

/// Reads until an allocation is told to be in a state; returns the token of that message and its kind.
async fn until_told(
    stream: &mut Streaming<pb::WatchAllocationsResponse>,
    name: &str,
    state: pb::AllocationState,
) -> (String, ChangeKind) {
    loop {
        let message = next(stream).await;
        if let Some(All::Change(change)) = &message.event {
            let (told_name, kind, told_state) = reported(change);
            if told_name == name && told_state == state {
                return (message.resume_token, kind);
            }
        }
    }
}

#[tokio::test]
async fn p8_a_project_is_watched_from_its_first_state_to_the_end_of_what_it_holds() {
    let platform = Platform::start().await;
    let first = platform
        .create(good("first"), "key-1")
        .await
        .expect("created");
    let id: Uuid = first.id.parse().expect("a uuid");
    platform.world.until_state(id, "active").await;

    let mut stream = platform.watch_all(after("")).await.expect("opened");
    let message = next(&mut stream).await;
    assert_eq!(message.resume_token, "", "the first state is not complete");
    let Some(All::Change(change)) = message.event else {
        panic!("{message:?}")
    };
    let active = pb::AllocationState::Active;
    assert_eq!(
        reported(&change),
        ("first".into(), ChangeKind::Added, active)
    );
    // an event that had no position yet may come once more before
    loop {
        let message = next(&mut stream).await;
        assert_ne!(message.resume_token, "");
        if matches!(message.event, Some(All::Synced(_))) {
            break;
        }
    }

    platform
        .create(good("second"), "key-2")
        .await
        .expect("created");
    until_told(&mut stream, "second", active).await;
    platform.release_it(&first.id).await;
    let (_, kind) = until_told(&mut stream, "first", pb::AllocationState::Released).await;
    assert_eq!(kind, ChangeKind::Ended);

    // nothing more happens: the stream says that it lives, by a token that is as good
    let quiet = async {
        loop {
            let message = next(&mut stream).await;
            if matches!(message.event, Some(All::Heartbeat(_))) {
                return message.resume_token;
            }
        }
    };
    let token = quiet.await;
    let mut resumed = platform.watch_all(after(&token)).await.expect("resumed");
    let message = next(&mut resumed).await;
    assert!(matches!(message.event, Some(All::Synced(_))), "{message:?}");

    // with those that ended
    let request = pb::WatchAllocationsRequest {
        include_ended: true,
        ..Default::default()
    };
    let mut stream = platform.watch_all(request).await.expect("opened");
    let mut seen = BTreeMap::new();
    while let Some(All::Change(change)) = next(&mut stream).await.event {
        let (name, kind, _) = reported(&change);
        seen.insert(name, kind);
    }
    let wanted = [
        ("first".to_owned(), ChangeKind::Ended),
        ("second".to_owned(), ChangeKind::Added),
    ];
    assert_eq!(seen, wanted.into());
}

#[tokio::test]
async fn p8_a_resumed_watch_gets_what_happened_meanwhile() {
    let platform = Platform::start().await;
    let first = platform
        .create(good("first"), "key-1")
        .await
        .expect("created");
    let mut stream = platform.watch_all(after("")).await.expect("opened");
    let (token, _) = until_told(&mut stream, "first", pb::AllocationState::Active).await;
    drop(stream);

    platform.release_it(&first.id).await;
    let id: Uuid = first.id.parse().expect("a uuid");
    platform.world.until_state(id, "released").await;
    let second = platform
        .create(good("second"), "key-2")
        .await
        .expect("created");
    let id: Uuid = second.id.parse().expect("a uuid");
    platform.world.until_state(id, "active").await;

    let mut stream = platform.watch_all(after(&token)).await.expect("resumed");
    let mut last = BTreeMap::new();
    loop {
        match next(&mut stream).await.event {
            Some(All::Change(change)) => {
                let (name, kind, state) = reported(&change);
                last.insert((name, state), kind);
            }
            Some(All::Synced(_)) => break,
            other => panic!("{other:?}"),
        }
    }
    let released = ("first".to_owned(), pb::AllocationState::Released);
    assert_eq!(last.get(&released), Some(&ChangeKind::Ended), "{last:?}");
    until_known(&mut last, &mut stream).await;
}

/// The sequencer may be behind the ledger: what was not told by then comes after.
async fn until_known(
    last: &mut BTreeMap<(String, pb::AllocationState), ChangeKind>,
    stream: &mut Streaming<pb::WatchAllocationsResponse>,
) {
    let active = ("second".to_owned(), pb::AllocationState::Active);
    if !last.contains_key(&active) {
        until_told(stream, "second", active.1).await;
    }
}

#[tokio::test]
async fn another_projects_allocations_are_not_there() {
    let platform = Platform::start().await;
    let mine = platform
        .create(good("mine"), "key-1")
        .await
        .expect("created");
    let other = Uuid::now_v7();
    let request = pb::WatchAllocationRequest {
        allocation_id: mine.id.clone(),
        ..Default::default()
    };
    let request = platform.as_person(request, "user:other", other, false, None);
    let refused = platform.users.clone().watch_allocation(request).await;
    let refused = Error::from(refused.expect_err("refused"));
    assert_eq!(refused.reason(), ErrorReason::AllocationNotFound);

    let request = pb::WatchAllocationsRequest {
        project_id: platform.world.project.to_string(),
        ..Default::default()
    };
    let request = platform.as_person(request, "user:other", other, false, None);
    let refused = platform.users.clone().watch_allocations(request).await;
    let refused = Error::from(refused.expect_err("refused"));
    assert_eq!(refused.reason(), ErrorReason::ProjectUnknown);

    let request = pb::WatchAllocationsRequest::default();
    let request = platform.as_person(request, "user:other", other, false, None);
    let opened = platform.users.clone().watch_allocations(request).await;
    let mut stream = opened.expect("its own project").into_inner();
    let id: Uuid = mine.id.parse().expect("a uuid");
    platform.world.until_state(id, "active").await;
    let message = next(&mut stream).await;
    assert!(matches!(message.event, Some(All::Synced(_))), "{message:?}");
    let message = next(&mut stream).await;
    assert!(
        matches!(message.event, Some(All::Heartbeat(_))),
        "{message:?}"
    );
}

#[tokio::test]
async fn a_token_of_another_watch_or_of_a_forgotten_time_is_refused() {
    let platform = Platform::start().await;
    let mut stream = platform.watch_all(after("")).await.expect("opened");
    let token = next(&mut stream).await.resume_token;
    let created = platform
        .create(good("web"), "key-1")
        .await
        .expect("created");
    until_told(&mut stream, "web", pb::AllocationState::Active).await;

    let other = pb::WatchAllocationsRequest {
        include_ended: true,
        ..after(&token)
    };
    for (request, what) in [(other, "another watch"), (after("?"), "no token")] {
        let error = platform.watch_all(request).await.expect_err(what);
        assert_eq!(error.reason(), ErrorReason::ResumeTokenInvalid, "{what}");
        assert_eq!(error.fields()[0].0, "resume_token", "{what}");
    }
    let error = platform.watch_one(&created.id, &token).await;
    let error = error.expect_err("another watch");
    assert_eq!(error.reason(), ErrorReason::ResumeTokenInvalid);

    // all but the last event: those of the launch came after the token
    sqlx::query(
        "DELETE FROM placement.outbox WHERE position < (SELECT max(position) FROM placement.outbox)",
    )
        .execute(&platform.world.owner)
        .await
        .expect("forgotten");
    let error = platform.watch_all(after(&token)).await.expect_err("old");
    assert_eq!(
        (error.code(), error.reason()),
        (Code::OutOfRange, ErrorReason::ResumeTokenExpired)
    );
    assert!(error.message().contains("without it"), "{error:?}");
}

/// What one allocation's stream told.
#[derive(Default)]
struct Heard {
    /// (sequence, state, percent, message) of every entry, as it came.
    entries: Vec<(i64, pb::TimelineState, u32, String)>,
    states: Vec<pb::AllocationState>,
    token: String,
    is_over: bool,
}

impl Heard {
    /// Takes a message.
    fn take(&mut self, message: pb::WatchAllocationResponse) {
        assert_ne!(message.resume_token, "");
        self.token = message.resume_token;
        match message.event.expect("an event") {
            One::Entry(entry) => {
                let state = entry.state();
                self.entries
                    .push((entry.sequence, state, entry.percent, entry.message));
            }
            One::Change(change) => self.states.push(reported(&change).2),
            One::End(_) => self.is_over = true,
            One::Synced(_) | One::Heartbeat(_) => {}
        }
    }
}

#[tokio::test]
async fn c_39_every_entry_of_a_timeline_comes_once_however_often_the_reader_leaves() {
    let platform = Platform::start().await;
    let created = platform
        .create(good("web"), "key-1")
        .await
        .expect("created");
    let mut heard = Heard::default();
    let mut is_released = false;
    while !heard.is_over {
        let opened = platform.watch_one(&created.id, &heard.token).await;
        let mut stream = opened.expect("opened");
        // the reader leaves after every third message
        for _ in 0..3 {
            if heard.is_over {
                break;
            }
            heard.take(next(&mut stream).await);
        }
        if !is_released && heard.states.last() == Some(&pb::AllocationState::Active) {
            platform.release_it(&created.id).await;
            is_released = true;
        }
    }
    assert_eq!(
        heard.states.last(),
        Some(&pb::AllocationState::Released),
        "{:?}",
        heard.states
    );
    let mut once = heard.entries.clone();
    once.sort_by_key(|entry| (entry.0, entry.1 as i32, entry.2));
    once.dedup();
    assert_eq!(once.len(), heard.entries.len(), "{:?}", heard.entries);
    let id: Uuid = created.id.parse().expect("a uuid");
    let mut last = BTreeMap::new();
    for (sequence, state, ..) in heard.entries {
        last.insert(sequence, state);
    }
    let stored = crate::expect::timeline(&platform.world, id).await;
    let stored: BTreeMap<i64, pb::TimelineState> = stored
        .into_iter()
        .map(|(sequence, _, state)| {
            let state = match state.as_str() {
                "running" => pb::TimelineState::Running,
                "failed" => pb::TimelineState::Failed,
                _ => pb::TimelineState::Done,
            };
            (sequence, state)
        })
        .collect();
    assert_eq!(last, stored);

    // watched again, it tells all from the start and ends at once
    let mut stream = platform.watch_one(&created.id, "").await.expect("opened");
    let mut again = Heard::default();
    while !again.is_over {
        again.take(next(&mut stream).await);
    }
    assert_eq!(again.entries.len(), stored.len());
    let end = tokio::time::timeout(TIMEOUT, stream.message()).await;
    assert!(end.expect("in time").expect("no error").is_none());
}

#[tokio::test]
async fn two_hundred_streams_all_see_the_last_state() {
    let platform = Platform::start().await;
    let created = platform
        .create(good("web"), "key-1")
        .await
        .expect("created");
    let mut readers = tokio::task::JoinSet::new();
    for n in 0..200 {
        if n % 2 == 0 {
            let mut stream = platform.watch_all(after("")).await.expect("opened");
            readers.spawn(async move {
                until_told(&mut stream, "web", pb::AllocationState::Active).await;
            });
        } else {
            let mut stream = platform.watch_one(&created.id, "").await.expect("opened");
            readers.spawn(async move {
                let mut heard = Heard::default();
                while heard.states.last() != Some(&pb::AllocationState::Active) {
                    heard.take(next(&mut stream).await);
                }
            });
        }
    }
    while let Some(ended) = readers.join_next().await {
        ended.expect("it saw the last state");
    }
}

#[tokio::test]
async fn p8_a_stream_outlives_a_connection_lost_while_it_reads_the_first_state() {
    let platform = Platform::start().await;
    let created = platform
        .create(good("web"), "key-1")
        .await
        .expect("created");
    let id: Uuid = created.id.parse().expect("a uuid");
    platform.world.until_state(id, "active").await;

    let db = &platform.world.db;
    let mut superuser = db.server().superuser(db.name()).await.expect("superuser");
    // a session of its own: a transaction sees the activity as it was when it first looked
    let mut watcher = db.server().superuser(db.name()).await.expect("superuser");
    let mut lock = superuser.begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE placement.allocations IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *lock)
        .await
        .expect("locked");
    let mut stream = platform.watch_all(after("")).await.expect("opened");
    until("a reader of the first state", TIMEOUT, async || {
        // the statement that reads a page of the project's allocations, and no other
        let ended: i64 = sqlx::query_scalar(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock'
               AND query LIKE '%state NOT IN%ORDER BY created_at DESC, id DESC LIMIT%'
               AND pid <> pg_backend_pid()",
        )
        .fetch_one(&mut watcher)
        .await
        .expect("backends");
        (ended > 0).then_some(())
    })
    .await;
    lock.rollback().await.expect("unlocked");
    until_told(&mut stream, "web", pb::AllocationState::Active).await;
}

#[tokio::test]
async fn p8_streams_that_wait_for_the_database_leave_connections_to_requests() {
    let platform = Platform::start().await;
    let created = platform
        .create(good("web"), "key-1")
        .await
        .expect("created");
    let id: Uuid = created.id.parse().expect("a uuid");
    platform.world.until_state(id, "active").await;

    // whoever reads a timeline waits from now on
    let mut lock = platform.world.owner.begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE placement.timeline IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *lock)
        .await
        .expect("locked");
    let mut streams = Vec::new();
    for _ in 0..40 {
        streams.push(platform.watch_one(&created.id, "").await.expect("opened"));
    }
    until_ok("streams that wait", TIMEOUT, async || {
        let waiting: i64 = sqlx::query_scalar(
            "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted AND relation = 'placement.timeline'::regclass",
        )
        .fetch_one(&mut *lock)
        .await
        .expect("locks");
        (waiting >= 4)
            .then_some(())
            .ok_or_else(|| format!("{waiting} streams read"))
    })
    .await;
    for _ in 0..16 {
        let request = pb::GetAllocationRequest {
            allocation_id: created.id.clone(),
        };
        let request = platform.user(request, None);
        let got = platform.users.clone().get_allocation(request).await;
        assert_eq!(got.expect("answered").into_inner().id, created.id);
    }
    lock.rollback().await.expect("unlocked");
    for mut stream in streams {
        while !matches!(next(&mut stream).await.event, Some(One::Synced(_))) {}
    }
}
