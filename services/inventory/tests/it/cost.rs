//! What a report costs: one that says what is known writes one small row, and is believed for as long as it may be.
use gpuaas_proto::gpuaas::agent::v1::ReadinessReport;
use gpuaas_proto::gpuaas::common::v1::{Evidence, EvidenceStatus};
use sqlx::{AssertSqlSafe, Executor as _};

use crate::host::{Host, evidence, good, seconds_ago};
use crate::ready::Ready;
use crate::world::{World, until};

/// Versions of rows that the schema's tables got since a transaction, as "table: bytes".
async fn written_since(world: &World, xid: i64) -> Vec<(String, i64)> {
    let owner = world.owner().await;
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT table_name::text FROM information_schema.tables
          WHERE table_schema = 'inventory' AND table_type = 'BASE TABLE' ORDER BY 1",
    )
    .fetch_all(&owner)
    .await
    .expect("tables");
    let mut written = Vec::new();
    for table in tables {
        let rows: Vec<i64> = sqlx::query_scalar(AssertSqlSafe(format!(
            "SELECT pg_column_size(t.*)::bigint FROM inventory.{table} t WHERE t.xmin::text::bigint > $1"
        )))
        .bind(xid)
        .fetch_all(&owner)
        .await
        .expect("rows");
        written.extend(rows.into_iter().map(|bytes| (table.clone(), bytes)));
    }
    written
}

/// A transaction after which nothing has been written yet.
async fn now(world: &World) -> i64 {
    sqlx::query_scalar("SELECT pg_current_xact_id()::text::bigint")
        .fetch_one(&world.owner().await)
        .await
        .expect("a transaction")
}

async fn known(world: &World) -> bool {
    sqlx::query_scalar("SELECT known_digest IS NOT NULL FROM inventory.host_beats")
        .fetch_one(&world.owner().await)
        .await
        .expect("one host")
}

async fn set(world: &World, sql: &str) {
    let owner = world.owner().await;
    owner
        .execute(AssertSqlSafe(sql.to_owned()))
        .await
        .expect(sql);
}

/// A report as large as a real one.
fn large() -> ReadinessReport {
    let mut report = good();
    report.evidence = (0..40)
        .map(|number| {
            let mut one = evidence(&format!("check_{number}"), EvidenceStatus::Pass);
            one.detail = format!("what was observed by check {number}, in a sentence or two");
            one.observed_at = report.observed_time;
            one
        })
        .collect();
    report
}

#[tokio::test]
async fn a_report_that_says_what_is_known_writes_one_small_row() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    host.heartbeat(large()).await.expect("taken in full");
    until("the ledger has the node", || async {
        world.status(&node.id).await.schedulable
    })
    .await;
    // what made the node is not of the report
    until("nothing is left to push or to seal", || async {
        let left = "SELECT (SELECT count(*) FROM inventory.ledger_sync WHERE pushed_version < version OR lease_until IS NOT NULL)
                         + (SELECT count(*) FROM inventory.audit WHERE position IS NULL)";
        let left: i64 = sqlx::query_scalar(left).fetch_one(&world.owner().await).await.expect("rows");
        left == 0
    })
    .await;
    let first = world.status(&node.id).await;
    for _ in 0..5 {
        let before = now(&world).await;
        host.heartbeat(large()).await.expect("taken");
        let written = written_since(&world, before).await;
        assert!(
            matches!(written.as_slice(), [(table, bytes)] if table == "host_beats" && *bytes <= 160),
            "{written:?}"
        );
    }
    let last = world.status(&node.id).await;
    let nanos = |at: &Option<prost_types::Timestamp>| {
        let at = at.as_ref().expect("a time");
        i128::from(at.seconds) * 1_000_000_000 + i128::from(at.nanos)
    };
    assert!(last.schedulable, "{last:?}");
    assert!(nanos(&last.last_heartbeat_time) > nanos(&first.last_heartbeat_time));
    let made = nanos(&first.evidence[0].observed_at);
    let repeated = |one: &Evidence| nanos(&one.observed_at) >= made;
    assert!(
        last.evidence.iter().all(repeated),
        "each check is as old as its last repetition"
    );
    // the same in full, as now and then: still the one row
    set(
        &world,
        "UPDATE inventory.host_beats SET known_time = known_time - interval '1 day'",
    )
    .await;
    let before = now(&world).await;
    host.heartbeat(large()).await.expect("taken in full");
    let written = written_since(&world, before).await;
    assert!(
        matches!(written.as_slice(), [(table, _)] if table == "host_beats"),
        "{written:?}"
    );
    assert!(known(&world).await);
}

#[tokio::test]
async fn a_report_that_says_anything_else_is_taken_in_at_once() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    for _ in 0..2 {
        host.send_heartbeat().await;
        host.send_heartbeat().await;
        assert!(world.status(&node.id).await.schedulable);
        let mut broken = good();
        broken.evidence[0].set_status(EvidenceStatus::Fail);
        for _ in 0..2 {
            host.heartbeat(broken.clone()).await.expect("taken");
            assert_eq!(world.status(&node.id).await.blockers, ["ovs_bridge"]);
        }
    }
}

#[tokio::test]
async fn inc_04_a_known_report_keeps_evidence_fresh_and_an_old_one_does_not() {
    let world = World::start_with(|config| config.evidence_max_age_seconds = 60).await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    let old = ReadinessReport {
        observed_time: Some(seconds_ago(3600)),
        ..good()
    };
    for _ in 0..2 {
        host.heartbeat(old.clone()).await.expect("taken");
        assert_eq!(world.status(&node.id).await.blockers, ["evidence_stale"]);
        assert!(
            !known(&world).await,
            "what an old report led to is not what a fresh one leads to"
        );
    }
    host.send_heartbeat().await;
    assert!(world.status(&node.id).await.schedulable);
    // the host repeats itself for longer than its evidence lives
    set(
        &world,
        "UPDATE inventory.node_evidence SET observed_time = observed_time - interval '1 hour'",
    )
    .await;
    host.send_heartbeat().await;
    assert!(world.status(&node.id).await.schedulable && known(&world).await);
    // and then its inspection hangs: what it repeats grows old
    host.heartbeat(old).await.expect("taken");
    assert_eq!(world.status(&node.id).await.blockers, ["evidence_stale"]);
    host.send_heartbeat().await;
    assert!(
        world.status(&node.id).await.schedulable,
        "the same report, fresh again"
    );
}

#[tokio::test]
async fn inc_04_a_host_that_was_lost_or_distrusted_comes_back_with_the_report_it_left_with() {
    // silence is judged once inventory has listened for as long
    let world = World::start_with(|config| config.heartbeat_timeout_seconds = 10).await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    let long_ago = "- interval '1 hour'";
    let distrusted = format!(
        "UPDATE inventory.node_evidence SET observed_time = observed_time {long_ago};
         UPDATE inventory.host_beats SET observed_time = observed_time {long_ago}"
    );
    let lost = format!(
        "UPDATE inventory.nodes SET last_heartbeat_time = last_heartbeat_time {long_ago};
         UPDATE inventory.host_beats SET beat_time = beat_time {long_ago}"
    );
    for (aged, blocker) in [(distrusted, "evidence_stale"), (lost, "host_lost")] {
        host.send_heartbeat().await;
        assert!(known(&world).await);
        sqlx::raw_sql(AssertSqlSafe(aged))
            .execute(&world.owner().await)
            .await
            .expect("aged");
        until(blocker, || async { !known(&world).await }).await;
        assert_eq!(world.status(&node.id).await.blockers, [blocker]);
        host.send_heartbeat().await;
        let back = world.status(&node.id).await;
        assert!(back.schedulable && known(&world).await, "{back:?}");
    }
}

#[tokio::test]
async fn after_an_approval_or_an_inspection_the_next_report_is_taken_in_full() {
    let (ready, _) = Ready::start(|_| {}).await;
    ready.host.send_heartbeat().await;
    assert!(known(&ready.world).await);
    let discovery = ready.inspect("again").await;
    assert!(!known(&ready.world).await, "after an inspection");
    ready.host.send_heartbeat().await;
    assert!(known(&ready.world).await);
    ready
        .approve("a1", &discovery, &[0])
        .await
        .expect("approved");
    assert!(!known(&ready.world).await, "after an approval");
}

#[tokio::test]
async fn a_09_what_an_earlier_instance_reported_is_not_known_of_the_next() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let earlier = Host::enrol(&world, &node.id).await;
    earlier.send_heartbeat().await;
    let host = Host::enrol(&world, &node.id).await;
    assert_eq!(world.status(&node.id).await.blockers, ["no_evidence"]);
    earlier
        .heartbeat(good())
        .await
        .expect_err("it is not the current instance");
    assert_eq!(world.status(&node.id).await.blockers, ["no_evidence"]);
    host.send_heartbeat().await;
    assert!(world.status(&node.id).await.schedulable);
}
