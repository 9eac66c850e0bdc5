//! The loop that follows the log: it needs neither wake-ups nor a database that never restarts (P8).
use std::time::Duration;

use crate::common::{ROLE, World, eventually};
use gpuaas_billing::workflow::consumer::Consumer;
use gpuaas_common::CancellationToken;
use gpuaas_common::db::sized;
use gpuaas_common::wake::Wake;
use gpuaas_dev::postgres::Vanishing;
use gpuaas_dev::redis::TestRedis;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// Longer than any test: whoever waits for it was not woken.
const NEVER: Duration = Duration::from_secs(3600);

/// The running loop.
struct Loop {
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Loop {
    fn start(world: &World, wake: &Wake, poll_interval: Duration) -> Self {
        Self::of(world.consumer.clone(), wake, poll_interval)
    }

    fn of(consumer: Consumer, wake: &Wake, poll_interval: Duration) -> Self {
        let waiter = wake.subscribe("events");
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let task = tokio::spawn(async move { consumer.run(waiter, poll_interval, stop).await });
        Self { shutdown, task }
    }

    async fn end(self) {
        self.shutdown.cancel();
        self.task.await.expect("ends");
    }
}

#[tokio::test]
async fn without_redis_it_polls_says_that_it_stands_still_and_goes_on() {
    let world = World::new().await;
    let events = world.lifecycle(1, Uuid::now_v7(), Uuid::now_v7());
    world.ledger.set(events[..3].to_vec());
    let running = Loop::start(
        &world,
        &Wake::new(None).expect("no redis"),
        Duration::from_millis(20),
    );
    eventually("position 3", async || world.position().await == 3).await;

    // position 5 without 4
    world.ledger.push(events[4].clone());
    let stopped = "billing_stopped{";
    eventually("the metric", async || {
        world
            .metric(stopped)
            .is_some_and(|line| line.contains("reason=\"gap\"") && line.ends_with(" 1"))
    })
    .await;
    assert_eq!(world.position().await, 3);

    world.ledger.set(events);
    eventually("position 5", async || world.position().await == 5).await;
    eventually("the metric", async || {
        world
            .metric(stopped)
            .is_some_and(|line| line.ends_with(" 0"))
    })
    .await;
    running.end().await;
}

#[tokio::test]
async fn a_wake_up_is_enough() {
    let world = World::new().await;
    let redis = tokio::task::spawn_blocking(TestRedis::start)
        .await
        .expect("redis");
    let wake = Wake::new(Some(&redis.url())).expect("url");
    let running = Loop::start(&world, &wake, NEVER);
    world
        .ledger
        .set(world.lifecycle(1, Uuid::now_v7(), Uuid::now_v7()));
    // repeated, since nobody can see when the subscription has begun
    eventually("position 5", async || {
        wake.notify("events").await;
        world.position().await == 5
    })
    .await;
    running.end().await;
}

#[tokio::test]
async fn a_redis_that_dies_and_comes_back_empty_loses_nothing() {
    let world = World::new().await;
    let redis = tokio::task::spawn_blocking(TestRedis::start)
        .await
        .expect("redis");
    let wake = Wake::new(Some(&redis.url())).expect("url");
    let running = Loop::start(&world, &wake, Duration::from_millis(50));
    let redis = tokio::task::spawn_blocking(move || {
        redis.server().stop();
        redis
    })
    .await
    .expect("stopped");
    let mut events = world.lifecycle(1, Uuid::now_v7(), Uuid::now_v7());
    world.ledger.set(events.clone());
    eventually("position 5", async || world.position().await == 5).await;

    let redis = tokio::task::spawn_blocking(move || {
        redis.server().start().expect("starts again");
        redis.server().flush().expect("empties");
        redis
    })
    .await
    .expect("started");
    events.extend(world.lifecycle(6, Uuid::now_v7(), Uuid::now_v7()));
    world.ledger.set(events);
    eventually("position 10", async || world.position().await == 10).await;
    running.end().await;
    drop(redis);
}

#[tokio::test]
async fn a_database_that_cuts_every_connection_again_and_again_loses_nothing() {
    let world = World::new().await;
    let running = Loop::start(
        &world,
        &Wake::new(None).expect("no redis"),
        Duration::from_millis(5),
    );
    let mut superuser = world
        .db
        .server()
        .superuser("postgres")
        .await
        .expect("superuser");
    let project = Uuid::now_v7();
    let mut cuts = 0;
    for n in 0..60 {
        for event in world.lifecycle(n * 5 + 1, Uuid::now_v7(), project) {
            world.ledger.push(event);
        }
        let cut: i64 = sqlx::query_scalar(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
             WHERE datname = $1 AND usename = 'gpuaas_billing'",
        )
        .bind(world.db.name())
        .fetch_one(&mut superuser)
        .await
        .expect("cut");
        cuts += cut;
    }
    eventually("position 300", async || {
        let read = gpuaas_billing::store::position::read(&world.pool).await;
        read.is_ok_and(|position| position == 300)
    })
    .await;
    running.end().await;
    assert!(cuts > 0);
    assert_eq!(world.intervals().await.len(), 60);
    assert_eq!(world.reconciler.reconcile().await.expect("reconciled"), []);
}

/// The host of the database vanishes in the middle of a transaction and closes no connection.
#[tokio::test]
async fn p3_p8_a_vanished_host_of_the_database_loses_no_event_and_counts_none_twice() {
    let world = World::new().await;
    let folder = tempfile::tempdir().expect("a folder");
    let (host, options) = Vanishing::to(world.db.options(ROLE), folder.path()).expect("a way");
    let consumer = Consumer {
        pool: sized(2).connect_lazy_with(options),
        limit: Duration::from_secs(2),
        ..world.consumer.clone()
    };
    let wake = Wake::new(None).expect("no redis");
    let running = Loop::of(consumer, &wake, Duration::from_millis(20));
    let project = Uuid::now_v7();
    let mut events = world.lifecycle(1, Uuid::now_v7(), project);
    world.ledger.set(events.clone());
    eventually("position 5", async || world.position().await == 5).await;

    let owner = world.db.owner_pool().await;
    let mut held = owner.begin().await.expect("begin");
    sqlx::query("LOCK TABLE billing.usage_intervals IN SHARE MODE")
        .execute(&mut *held)
        .await
        .expect("locked");
    events.extend(world.lifecycle(6, Uuid::now_v7(), project));
    world.ledger.set(events.clone());
    eventually("an interval that is being opened", async || {
        let waiting: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
              WHERE NOT l.granted AND a.datname = current_database()",
        )
        .fetch_one(&owner)
        .await
        .expect("locks");
        waiting > 0
    })
    .await;
    host.vanish();
    held.rollback().await.expect("rollback");
    eventually("position 10", async || world.position().await == 10).await;

    events.extend(world.lifecycle(11, Uuid::now_v7(), project));
    world.ledger.set(events);
    eventually("position 15", async || world.position().await == 15).await;
    running.end().await;
    assert_eq!(world.intervals().await.len(), 3);
    assert_eq!(world.reconciler.reconcile().await.expect("reconciled"), []);
}

/// What does not answer proves nothing: an old time is what shows it.
#[tokio::test]
async fn the_time_of_the_last_reconciliation_is_that_of_one_that_ended() {
    let world = World::new().await;
    let mut events = world.lifecycle(1, Uuid::now_v7(), Uuid::now_v7());
    world.ledger.set(events.clone());
    world.consumer.catch_up().await.expect("applied");
    let reconciled = || world.metric("billing_reconciled_timestamp_seconds");
    assert_eq!(reconciled(), None);
    let before = jiff::Timestamp::now().as_second();
    assert_eq!(world.reconciler.reconcile().await.expect("reconciled"), []);
    let shown = reconciled().expect("a time");
    let time: f64 = shown
        .rsplit(' ')
        .next()
        .and_then(|text| text.parse().ok())
        .expect("a number");
    assert!(time >= before as f64, "{shown}");
    // an event that cannot be read
    events[2].data = None;
    world.ledger.set(events);
    let failed = world.reconciler.reconcile().await;
    assert!(failed.is_err(), "{failed:?}");
    assert_eq!(reconciled().as_ref(), Some(&shown));
}
