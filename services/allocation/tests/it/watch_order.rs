//! What a stream tells of an allocation only goes forward, whatever other streams of the project have read before.
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::allocation::v1::watch_allocations_response::Event;
use sqlx::AssertSqlSafe;
use tonic::Streaming;
use uuid::Uuid;

use crate::platform::{Platform, good};
use crate::watch::{after, next};

/// Allocations that a stream tells of first; with their labels they are far more than a connection buffers.
const MANY: usize = 400;

type Changes = Streaming<pb::WatchAllocationsResponse>;

async fn watch(platform: &Platform) -> Changes {
    let request = pb::WatchAllocationsRequest {
        include_ended: true,
        ..after("")
    };
    let request = platform.user(request, None);
    let opened = platform.apart().watch_allocations(request).await;
    opened.expect("opened").into_inner()
}

/// Reads until the stream has told all that was there, and returns the revisions of one allocation in the order in
/// which it told them.
async fn until_synced(stream: &mut Changes, id: Uuid) -> Vec<i64> {
    let mut reported = Vec::new();
    loop {
        match next(stream).await.event.expect("an event") {
            Event::Change(change) => reported.extend(revision_of(change, id)),
            Event::Synced(_) => return reported,
            Event::Heartbeat(_) => {}
        }
    }
}

fn revision_of(change: pb::AllocationChange, id: Uuid) -> Option<i64> {
    let one = change.allocation.expect("an allocation");
    let revision = one.metadata.expect("metadata").revision;
    (one.id == id.to_string()).then_some(revision)
}

/// Past every guard: the test plays what happens to an allocation, one part at a time.
async fn run(platform: &Platform, sql: &str) {
    let superuser = platform.world.db.pool("postgres").await;
    let sql = format!(
        "BEGIN; SET LOCAL session_replication_role = replica; SET LOCAL search_path = placement; {sql}; COMMIT"
    );
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(&superuser)
        .await
        .expect("done");
}

/// One stream has read a state of an allocation into the page that all share; another one, which began before that and
/// comes late to the allocation, has told a newer state of it.
#[tokio::test]
async fn p8_a_new_stream_never_tells_an_older_state_after_a_newer_one() {
    let platform = Platform::start().await;
    let made = platform.create(good("old"), "k").await.expect("made");
    let id: Uuid = made.id.parse().expect("an id");
    platform.world.until_state(id, "active").await;
    platform.release(&made.id, "r").await.expect("released");
    platform.world.until_state(id, "released").await;
    platform.world.until_idle(id).await;
    let all_told =
        "SELECT NOT EXISTS (SELECT FROM outbox WHERE position IS NULL AND $1::uuid IS NOT NULL)";
    platform.world.until("sequenced", all_told, id).await;
    // others that are newer, so that it is told of last
    run(
        &platform,
        &format!(
            "INSERT INTO allocations SELECT (jsonb_populate_record(a, jsonb_build_object('id', gen_random_uuid(),
                    'name', 'new-' || n, 'created_at', clock_timestamp() + n * interval '1 second',
                    'labels', jsonb_build_object('padding', repeat('x', 4000))))).*
               FROM allocations a, generate_series(1, {MANY}) n WHERE a.id = '{id}'"
        ),
    )
    .await;
    let first = platform.get(&made.id).await;
    let revision = first.metadata.expect("metadata").revision;

    let mut reader = watch(&platform).await;
    assert_eq!(until_synced(&mut reader, id).await, [revision]);
    // it has its position, and waits for its reader before it comes to the oldest
    let mut late = watch(&platform).await;
    next(&mut late).await;

    let changed =
        |revision: i64| format!("UPDATE allocations SET revision = {revision} WHERE id = '{id}'");
    let event = |revision: i64| {
        format!(
            "INSERT INTO outbox (type, aggregate_id, revision, at, project_id, data)
             VALUES ('allocation.released', '{id}', {revision}, clock_timestamp(), '{}', '{{}}')",
            platform.world.project
        )
    };
    run(
        &platform,
        &format!("{}; {}", changed(revision + 1), event(revision + 1)),
    )
    .await;
    let reported = loop {
        if let Event::Change(change) = next(&mut reader).await.event.expect("an event") {
            break revision_of(change, id);
        }
    };
    assert_eq!(reported, Some(revision + 1));
    // it changes once more, and the event of that has no position yet
    run(&platform, &changed(revision + 2)).await;
    let reported = until_synced(&mut late, id).await;
    assert_eq!(
        reported.first(),
        Some(&(revision + 2)),
        "it came late: {reported:?}"
    );
    assert!(reported.is_sorted(), "{reported:?}");
    run(&platform, &event(revision + 2)).await;
    let reported = loop {
        if let Event::Change(change) = next(&mut late).await.event.expect("an event") {
            break revision_of(change, id);
        }
    };
    assert_eq!(reported, Some(revision + 2));
}
